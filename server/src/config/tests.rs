//! What people read when a configuration is wrong, and that nothing in it can
//! make the server panic or give a secret away.

use std::env::VarError;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn environment(name: &str) -> Result<String, VarError> {
    match name {
        "ORDERS_URL" => Ok("mysql://probe:s3cret@db:3306/".to_owned()),
        "EMPTY_URL" => Ok(String::new()),
        "BROKEN_URL" => Ok("postgres://probe:s3cret@db:5432/".to_owned()),
        _ => Err(VarError::NotPresent),
    }
}

fn read(text: &str) -> Result<Config, Faults> {
    parse(Path::new("a.toml"), text, &environment)
}

/// The one database of a text that only says what is in its section.
fn database(settings: &str) -> DatabaseConfig {
    read(&format!("[databases.a]\n{settings}")).unwrap().databases.remove(0)
}

/// What people read about a text, one line for each fault.
fn faults(text: &str) -> String {
    let message = read(text).expect_err("must be refused").to_string();
    assert!(!message.contains("s3cret"), "a secret is shown: {message}");
    message
}

/// What people read about a database, whose settings begin in line 2.
fn database_faults(settings: &str) -> String {
    faults(&format!("[databases.a]\n{settings}"))
}

#[test]
fn the_defaults_need_no_file() {
    let config = load(None, &[]).unwrap().config;
    insta::assert_snapshot!(config.summary(), @"
    gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
    database default: a fixed cap of 100; fair admission within 100ms; nodes close their connections when the server is silent for 30s, and have 30s for it
    ");
    // Leaving out [server] is the same as writing what the defaults write.
    assert_eq!(config.server, read("[databases.a]\ncap = 1").unwrap().server);
}

const EXAMPLE: &str = include_str!("../../leasehold.example.toml");

#[test]
fn the_example_is_right() {
    let config = read(EXAMPLE).unwrap();
    insta::assert_snapshot!(config.summary(), @"
    gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
    database orders: what 127.0.0.1:3306 admits less 10; the fleet's accounts are app; fair admission within 100ms; nodes keep their connections when the server is silent for 10s; workloads batch (weight 1, at most 100, at most 10000 waiting)
    database reports: a fixed cap of 50; fair admission within 100ms; nodes close their connections when the server is silent for 30s, and have 30s for it
    ");
    // What it shows as a default is the default.
    let written_out: String = EXAMPLE.lines().map(|line| uncomment(line) + "\n").collect();
    let expected = {
        let mut config = config;
        // The one setting that has none.
        let Source::Watched(orders) = &mut config.databases[0].source else { panic!("not watched") };
        orders.cap = Some(200);
        config
    };
    assert_eq!(read(&written_out).unwrap(), expected);
}

/// A setting that is commented out, put in force; other lines as they are.
fn uncomment(line: &str) -> String {
    let setting = line.strip_prefix("# ").filter(|rest| {
        let key = rest.split(" = ").next().unwrap_or_default();
        rest.contains(" = ") && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    });
    setting.unwrap_or(line).to_owned()
}

#[test]
fn every_setting_is_read() {
    let config = read(
        r#"
        [server]
        listen = "[::1]:17420"
        http = "0.0.0.0:17421"
        data = "/var/lib/leasehold"

        [databases.orders]
        url = { env = "ORDERS_URL" }
        accounts = ["app", "worker"]
        reserve = 12
        cap = 200
        admission = "fair"
        quantum = "50ms"
        ttl = "20s"
        on_loss = "fence"
        fence_grace = "1m"

        [databases."a.b-c_9"]
        cap = 1_000
        quantum = 0
        "#,
    )
    .unwrap();
    insta::assert_snapshot!(config.summary(), @"
    gRPC on [::1]:17420, HTTP on 0.0.0.0:17421, records in /var/lib/leasehold
    database a.b-c_9: a fixed cap of 1000; strict order; nodes close their connections when the server is silent for 30s, and have 30s for it
    database orders: what db:3306 admits less 12, at most 200; the fleet's accounts are app, worker; fair admission within 50ms; nodes close their connections when the server is silent for 20s, and have 1m for it
    ");
    assert_eq!(config.databases[1].quantum, Duration::from_millis(50));
}

#[test]
fn the_loss_policy_follows_from_the_probe_and_the_ttl_from_the_policy() {
    let policy = |settings: &str| {
        let database = database(settings);
        (database.on_loss, database.ttl.as_secs())
    };
    assert_eq!(policy("url = 'mysql://h/'"), (LossPolicy::Keep, 10));
    assert_eq!(policy("cap = 5"), (LossPolicy::Fence, 30));
    assert_eq!(policy("url = 'mysql://h/'\non_loss = 'fence'"), (LossPolicy::Fence, 30));
    assert_eq!(policy("cap = 5\non_loss = 'keep'"), (LossPolicy::Keep, 10));
    assert_eq!(policy("cap = 5\nttl = '45s'"), (LossPolicy::Fence, 45));
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_right_one() {
    insta::assert_snapshot!(
        faults("[sever]\n[server]\nlisten_on = '127.0.0.1:1'\nhtpp = ''\n[databases.a]\ncap = 1\nTTL = '1s'\npassword = 's3cret'"),
        @"
    a.toml:1:2: unknown key `sever` in the configuration; did you mean `server`?
    a.toml:3:1: unknown key `listen_on` in [server]; known are `listen`, `http`, `data`
    a.toml:4:1: unknown key `htpp` in [server]; did you mean `http`?
    a.toml:7:1: unknown key `TTL` in [databases.a]; did you mean `ttl`?
    a.toml:8:1: unknown key `password` in [databases.a]; known are `url`, `accounts`, `reserve`, `cap`, `admission`, `quantum`, `on_loss`, `ttl`, `fence_grace`, `shadow`, `workloads`
    "
    );
}

#[test]
fn values_are_refused_with_what_to_write() {
    insta::assert_snapshot!(
        faults("[server]\nlisten = 'localhost:7420'\nhttp = 7421\ndata = ''\n[databases.a]\ncap = 1"),
        @r#"
    a.toml:2:10: `listen` in [server] must be an IP address with a port such as "127.0.0.1:7420" or "[::1]:7420", not "localhost:7420"
    a.toml:3:8: `http` in [server] must be a string such as "127.0.0.1:7420", not a whole number
    a.toml:4:8: `data` in [server] must be the path of a directory such as "leasehold-data"
    "#
    );
    insta::assert_snapshot!(
        database_faults(
            "url = 'mysql://h/'\ncap = 0\nreserve = 0\naccounts = ['a', 1]\nadmission = 'fare'\n\
             quantum = '5ms'\nttl = 10\non_loss = 'drop'\nfence_grace = '5 parsecs'"
        ),
        @r#"
    a.toml:3:7: `cap` in [databases.a] must be from 1 to 1000000, not 0
    a.toml:4:11: `reserve` in [databases.a] must be from 1 to 1000000, not 0
    a.toml:5:18: `accounts` in [databases.a] must be a list of strings such as ["app"]; here is a whole number
    a.toml:6:13: `admission` in [databases.a] cannot be "fare"; did you mean `fair`?
    a.toml:7:11: `quantum` in [databases.a] must be from 20ms to 1m, or 0 for strict order at the price of throughput
    a.toml:8:7: `ttl` in [databases.a] must be a string such as "100ms" or "10s", not a whole number
    a.toml:9:11: `on_loss` in [databases.a] cannot be "drop"; known are `keep`, `fence`
    a.toml:10:1: `fence_grace` in [databases.a] does nothing with `on_loss = "keep"`: take it out, or set `on_loss = "fence"`
    a.toml:10:15: `fence_grace` in [databases.a] must be a number with its unit such as "100ms" or "10s", not "5 parsecs"
    "#
    );
    insta::assert_snapshot!(
        database_faults("cap = 5\nttl = '11m'\nquantum = 0\nadmission = 'unfair'\naccounts = []\nreserve = 3"),
        @r#"
    a.toml:3:7: `ttl` in [databases.a] must be from 1s to 10m, not 11m
    a.toml:4:11: `quantum` in [databases.a] of 0 means strict order, but `admission` is "unfair": take one of them out
    a.toml:6:1: `accounts` in [databases.a] does nothing without `url`: nobody asks the database; take it out, or add `url`
    a.toml:7:1: `reserve` in [databases.a] does nothing without `url`: nobody asks the database; take it out, or add `url`
    "#
    );
}

#[test]
fn what_would_do_nothing_is_refused() {
    insta::assert_snapshot!(
        database_faults("cap = 5\nadmission = 'unfair'\nquantum = '50ms'"),
        @r#"a.toml:4:1: `quantum` in [databases.a] does nothing unless `admission` is "fair": take one of them out"#
    );
    insta::assert_snapshot!(
        database_faults("cap = 5\nadmission = 'strict'\nquantum = '50ms'"),
        @r#"a.toml:4:1: `quantum` in [databases.a] does nothing unless `admission` is "fair": take one of them out"#
    );
    insta::assert_snapshot!(
        database_faults("url = 'mysql://h/'\naccounts = ['app', 'worker', 'app']"),
        @"a.toml:3:12: `accounts` in [databases.a] names `app` twice: is another one meant?"
    );
    assert_eq!(database("cap = 5\nadmission = 'strict'\nquantum = 0").admission, Admission::Strict);
}

#[test]
fn a_file_without_a_database_is_refused() {
    insta::assert_snapshot!(faults(""), @"a.toml:1:1: no database to lease: add a section such as [databases.orders] with `url` or `cap`");
    insta::assert_snapshot!(faults("[databases]"), @"a.toml:1:1: no database to lease: add a section such as [databases.orders] with `url` or `cap`");
    insta::assert_snapshot!(faults("databases = 3"), @"a.toml:1:1: `databases` in the configuration must be a section [databases], not a whole number");
    insta::assert_snapshot!(faults("[databases]\norders = 'x'"), @"a.toml:2:1: `orders` in [databases] must be a section [databases.orders], not a string");
}

#[test]
fn a_database_needs_a_name_and_a_source() {
    insta::assert_snapshot!(
        faults("[databases.Orders]\ncap = 1\n[databases.'']\ncap = 1\n[databases.b]"),
        @"
    a.toml:1:12: the name in [databases.Orders] must be 1 to 64 characters out of a-z, 0-9, `_`, `-` and `.`
    a.toml:3:12: the name in [databases.] must be 1 to 64 characters out of a-z, 0-9, `_`, `-` and `.`
    a.toml:5:12: [databases.b] needs `url` to watch the database, or `cap` for a fixed number
    "
    );
}

#[test]
fn one_server_is_one_database() {
    insta::assert_snapshot!(
        faults("[databases.a]\nurl = 'mysql://x:s3cret@db/'\n[databases.b]\nurl = { env = 'ORDERS_URL' }"),
        @"a.toml:3:12: [databases.b] watches the same server as [databases.a] (db:3306): its limit is one number, so it is one database here"
    );
}

#[test]
fn both_addresses_must_differ() {
    insta::assert_snapshot!(
        faults("[server]\nhttp = '127.0.0.1:7420'\n[databases.a]\ncap = 1"),
        @"a.toml:1:2: [server] uses 127.0.0.1:7420 for both `listen` and `http`: give each its own port"
    );
    assert!(read("[server]\nlisten = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\n[databases.a]\ncap = 1").is_ok());
}

#[test]
fn a_url_is_refused_without_showing_it() {
    let refusals = [
        "url = 'postgres://u:s3cret@h/'",
        "url = 'u:s3cret@h'",
        "url = 'mysql://u:s3/cret@h/'",
        "url = mysql://u:s3cret@h",
        "url = ['mysql://u:s3cret@h/']",
        "url = { env = 'NOWHERE' }",
        "url = { env = 'EMPTY_URL' }",
        "url = { env = 'BROKEN_URL' }",
        "url = { env = 'mysql://u:s3cret@h/' }",
        "url = { evn = 'ORDERS_URL' }",
    ]
    .map(database_faults);
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    a.toml:2:7: `url` in [databases.a] cannot be used: it must begin with `mysql://`
    a.toml:2:7: `url` in [databases.a] cannot be used: it must have the form `mysql://user:password@host:port/`
    a.toml:2:7: `url` in [databases.a] cannot be used: a user name or password holds one of `/ ? # @`: write it as %2F %3F %23 %40
    a.toml:2:7: this is not TOML: string values must be quoted, expected literal string
    a.toml:2:7: `url` in [databases.a] must be a string such as "mysql://user@host:3306/", or { env = "NAME" }
    a.toml:2:7: `url` in [databases.a] names the environment variable NOWHERE, which is not set
    a.toml:2:7: `url` in [databases.a] names the environment variable EMPTY_URL, which is empty: set it to the url
    a.toml:2:7: `url` in [databases.a] in the environment variable BROKEN_URL cannot be used: it must begin with `mysql://`
    a.toml:2:15: `env` in `url` must be the name of a variable: letters, digits and `_`
    a.toml:2:7: `url` in [databases.a] must name a variable: { env = "NAME" }
    a.toml:2:9: unknown key `evn` in `url`; did you mean `env`?
    "#);
}

#[test]
fn broken_toml_is_shown_with_its_place() {
    insta::assert_snapshot!(
        faults("[databases.a]\ncap = 1\ncap = 2\nttl = 10s\n[x"),
        @"
    a.toml:3:1: this is not TOML: duplicate key
    a.toml:4:7: this is not TOML: string values must be quoted, expected literal string
    a.toml:5:3: this is not TOML: unclosed table, expected `]`
    "
    );
}

#[test]
fn files_that_are_no_configuration_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.toml");
    let message = |path: &Path| {
        let error = load(Some(path), &[]).unwrap_err();
        error.to_string().replace(&directory.path().display().to_string(), "DIR")
    };

    insta::assert_snapshot!(message(&path), @"cannot read the configuration file DIR/a.toml");
    insta::assert_snapshot!(message(directory.path()), @"the configuration file DIR is a directory: name a file in it");
    std::fs::write(&path, b"[databases.a]\n\xff").unwrap();
    insta::assert_snapshot!(message(&path), @"the configuration file DIR/a.toml is not UTF-8 text (byte 14)");
    std::fs::write(&path, vec![b' '; limits::FILE_BYTES as usize + 1]).unwrap();
    insta::assert_snapshot!(message(&path), @"the configuration file DIR/a.toml is longer than 1048576 bytes");
    std::fs::write(&path, "[databases.a]\ncap = 1").unwrap();
    assert_eq!(load(Some(&path), &[]).unwrap().config.databases.len(), 1);
}

/// Pieces that make a text reach the checks more often than chance would.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("[server]\n".to_owned()),
        Just("[databases.a]\n".to_owned()),
        Just("[databases.b]\n".to_owned()),
        "(listen|http|data|url|accounts|reserve|cap|admission|quantum|ttl|on_loss|fence_grace|x) = ",
        "[0-9]{1,20}(ms|s|h)?\n",
        "'[ -~]{0,20}'\n",
        "\"[0-9]{1,25}(ms|s|years)\"\n",
        Just("'mysql://u:p@h/'\n".to_owned()),
        Just("{ env = 'ORDERS_URL' }\n".to_owned()),
        Just("['a']\n".to_owned()),
        "\\PC{0,8}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn fuzz_any_text(text in "(?s).{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn fuzz_an_example_with_changes(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), "[ -~]"), 1..6),
    ) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        for (at, to) in changes {
            *at.get_mut(&mut bytes) = to.as_bytes()[0];
        }
        // It has characters of several bytes.
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(config) = read(&text) {
            prop_assert!(!config.databases.is_empty() && !config.summary().to_string().is_empty());
        }
    }

    #[test]
    fn fuzz_a_document_and_every_refusal_has_a_place(text in pieces()) {
        if let Err(faults) = read(&text) {
            prop_assert!(!faults.list.is_empty());
            let lines = text.split('\n').count();
            let within = |fault: &Fault| matches!(&fault.place, Place::File { line, .. } if (1..=lines).contains(line));
            prop_assert!(faults.list.iter().all(within));
        }
    }

    #[test]
    fn fuzz_a_url_and_it_shows_no_password(password in "[a-zA-Z0-9/?#@:%\\[\\] ]{8,20}", rest in "\\PC{0,20}") {
        let secret = format!("Zz{password}zZ");
        let text = format!("mysql://u:{secret}@h/{rest}");
        match DatabaseUrl::parse(&text) {
            Ok(url) => {
                let shown = format!("{url} {url:?}");
                prop_assert!(!shown.contains(&secret));
            }
            Err(message) => prop_assert!(!message.contains(&secret)),
        }
    }
}

#[test]
fn workloads_are_read() {
    let config = database(
        r#"
        cap = 100
        [databases.a.workloads.web]
        weight = 3
        floor = 20
        keep = true
        [databases.a.workloads."night jobs"]
        limit = 30
        max_waiting = 500
        "#,
    );
    let config = Config { databases: vec![config], ..load(None, &[]).unwrap().config };
    insta::assert_snapshot!(config.summary(), @"
    gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
    database a: a fixed cap of 100; fair admission within 100ms; nodes close their connections when the server is silent for 30s, and have 30s for it; workloads night jobs (weight 1, at most 30, at most 500 waiting), web (weight 3, floor 20 kept free)
    ");
}

#[test]
fn workloads_that_contradict_themselves_are_refused() {
    let text = r#"cap = 100
[databases.a.workloads.web]
floor = 80
limit = 60
[databases.a.workloads.batch]
floor = 30
wieght = 2
[databases.a.workloads.idle]
keep = true
weight = 0
[databases.a.workloads.""]
"#;
    insta::assert_snapshot!(database_faults(text), @r#"
    a.toml:3:14: the floors in [databases.a.workloads] are 110 together, above the cap of 100
    a.toml:4:9: `floor` in [databases.a.workloads.web] of 80 is above `limit`, which is 60
    a.toml:8:1: unknown key `wieght` in [databases.a.workloads.batch]; did you mean `weight`?
    a.toml:10:1: `keep` in [databases.a.workloads.idle] does nothing without a `floor`: take it out, or add one
    a.toml:11:10: `weight` in [databases.a.workloads.idle] must be from 1 to 1000, not 0
    a.toml:12:24: the name "" in [databases.a.workloads.] must be 1 to 128 bytes without control characters
    "#);
}
