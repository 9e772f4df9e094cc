//! Which of file, environment and command line counts, how each is spelled,
//! and what people read when it is wrong.

use std::env::VarError;
use std::path::Path;

use proptest::prelude::*;

use super::super::load::settle;
use super::super::{Admission, Faults, Loaded};
use super::*;

fn nothing(_: &str) -> Result<String, VarError> {
    Err(VarError::NotPresent)
}

fn read(file: Option<&str>, variables: &[(&str, &str)], set: &[&str]) -> Result<Loaded, Faults> {
    let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let overrides = gather(variables, &set);
    match file {
        Some(text) => settle(Some(Path::new("a.toml")), text, &overrides, &nothing),
        None => settle(None, include_str!("../default.toml"), &overrides, &nothing),
    }
}

/// What it means, and what of it is not from the file.
fn told(file: Option<&str>, variables: &[(&str, &str)], set: &[&str]) -> String {
    let Loaded { config, overridden } =
        read(file, variables, set).unwrap_or_else(|faults| panic!("{faults}"));
    format!("{}{overridden}", config.summary())
}

fn faults(file: &str, variables: &[(&str, &str)], set: &[&str]) -> String {
    let message = read(Some(file), variables, set).expect_err("must be refused").to_string();
    assert!(!message.contains("s3cret"), "a secret is shown: {message}");
    message
}

/// Mode and quantum of the first database.
fn mode(file: &str, variables: &[(&str, &str)], set: &[&str]) -> (Admission, u128) {
    let loaded = read(Some(file), variables, set).unwrap_or_else(|faults| panic!("{faults}"));
    let database = &loaded.config.databases[0];
    (database.admission, database.quantum.as_millis())
}

const FILE: &str = "[databases.orders]\ncap = 5\nadmission = 'fair'\n";

#[test]
fn the_command_line_is_above_the_environment_above_the_file() {
    insta::assert_snapshot!(
        told(
            Some(FILE),
            &[
                ("LEASEHOLD__DATABASES__ORDERS__ADMISSION", "strict"),
                ("LEASEHOLD__DATABASES__ORDERS__CAP", "7"),
                ("LEASEHOLD_SERVER", "http://elsewhere"),
            ],
            &["databases.orders.admission=unfair", "server.listen=0.0.0.0:7420"],
        ),
        @"
    gRPC on 0.0.0.0:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
    database orders: a fixed cap of 7; unfair admission; nodes close their connections when the server is silent for 30s, and have 30s for it
    databases.orders.admission is set by --set databases.orders.admission, over LEASEHOLD__DATABASES__ORDERS__ADMISSION and a.toml:3:1
    databases.orders.cap is set by LEASEHOLD__DATABASES__ORDERS__CAP, over a.toml:2:1
    server.listen is set by --set server.listen
    "
    );
}

#[test]
fn values_need_no_quotes_but_may_have_them() {
    let text = "[databases.a]\nurl = 'mysql://h/'\n";
    insta::assert_snapshot!(
        told(
            Some(text),
            &[("LEASEHOLD__DATABASES__A__ACCOUNTS", "[\"app\", 'worker']"), ("LEASEHOLD__DATABASES__A__SHADOW", "true")],
            &[
                "databases.a.quantum=50ms",
                "databases.a.cap=1_000",
                "databases.a.on_loss = \"fence\"",
                "databases.a.url=mysql://u:a=b@other:3307/",
                "databases.a.workloads.\"night=jobs\".weight=3",
                "databases.a.workloads.web={ floor = 2, keep = true }",
                "server.data='1234'",
            ],
        ),
        @r#"
    gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in 1234
    database a: what other:3307 admits less 10, at most 1000; the fleet's accounts are app, worker; fair admission within 50ms; nodes close their connections when the server is silent for 30s, and have 30s for it; workloads night=jobs (weight 3), web (weight 1, floor 2 kept free); shadow mode: everything is granted
    databases.a.accounts is set by LEASEHOLD__DATABASES__A__ACCOUNTS
    databases.a.cap is set by --set databases.a.cap
    databases.a.on_loss is set by --set databases.a.on_loss
    databases.a.quantum is set by --set databases.a.quantum
    databases.a.shadow is set by LEASEHOLD__DATABASES__A__SHADOW
    databases.a.url is set by --set databases.a.url, over a.toml:2:1
    databases.a.workloads."night=jobs".weight is set by --set databases.a.workloads."night=jobs".weight
    databases.a.workloads.web is set by --set databases.a.workloads.web
    server.data is set by --set server.data
    "#
    );
}

#[test]
fn a_variable_finds_names_that_no_variable_can_have() {
    let text = "[databases.orders-eu]\ncap = 5\n[databases.orders-eu.workloads.'Night jobs']\nweight = 2\n";
    insta::assert_snapshot!(
        told(
            Some(text),
            &[
                ("LEASEHOLD__DATABASES__ORDERS_EU__CAP", "7"),
                ("LEASEHOLD__DATABASES__ORDERS_EU__WORKLOADS__NIGHT_JOBS__WEIGHT", "4"),
                ("LEASEHOLD__databases__new__CAP", "1"),
            ],
            &[],
        ),
        @r#"
    gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
    database new: a fixed cap of 1; fair admission within 100ms; nodes close their connections when the server is silent for 30s, and have 30s for it
    database orders-eu: a fixed cap of 7; fair admission within 100ms; nodes close their connections when the server is silent for 30s, and have 30s for it; workloads Night jobs (weight 4)
    databases.new.cap is set by LEASEHOLD__databases__new__CAP
    databases.orders-eu.cap is set by LEASEHOLD__DATABASES__ORDERS_EU__CAP, over a.toml:2:1
    databases.orders-eu.workloads."Night jobs".weight is set by LEASEHOLD__DATABASES__ORDERS_EU__WORKLOADS__NIGHT_JOBS__WEIGHT, over a.toml:4:1
    "#
    );
    insta::assert_snapshot!(
        faults("[databases.a-b]\ncap = 1\n[databases.a_b]\ncap = 1", &[("LEASEHOLD__DATABASES__A_B__CAP", "2")], &[]),
        @"LEASEHOLD__DATABASES__A_B__CAP: this variable may mean `a-b` or `a_b`: say which with --set, or in the file"
    );
}

#[test]
fn without_a_file_the_built_in_database_gives_way_to_named_ones() {
    let names = |set: &[&str]| {
        let databases = read(None, &[], set).unwrap().config.databases;
        databases.iter().map(|database| database.name.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[]), "default");
    assert_eq!(names(&["server.data=x"]), "default");
    assert_eq!(names(&["databases.default.admission=unfair"]), "default");
    assert_eq!(names(&["databases.orders.cap=5"]), "orders");
    assert_eq!(names(&["databases.orders.cap=5", "databases.default.cap=5"]), "default orders");
    assert_eq!(names(&["databases={ orders = { cap = 5 } }"]), "orders");
}

#[test]
fn whoever_overrides_a_mode_overrides_what_only_the_other_mode_uses() {
    let fifty = "[databases.a]\ncap = 5\nquantum = '50ms'";
    // The quantum waits for fair admission to come back.
    assert_eq!(mode(fifty, &[], &["databases.a.admission=unfair"]), (Admission::Unfair, 50));
    let strict = "[databases.a]\ncap = 5\nquantum = 0";
    assert_eq!(mode(strict, &[], &["databases.a.admission=fair"]), (Admission::Fair, 100));
    assert_eq!(mode(strict, &[], &["databases.a.admission=unfair"]), (Admission::Unfair, 100));
    let unfair = "[databases.a]\ncap = 5\nadmission = 'unfair'";
    assert_eq!(mode(unfair, &[], &["databases.a.quantum=0"]), (Admission::Strict, 100));
    let admission = [("LEASEHOLD__DATABASES__A__ADMISSION", "strict")];
    assert_eq!(mode(fifty, &admission, &["databases.a.admission=fair"]), (Admission::Fair, 50));

    let kept =
        "[databases.a]\ncap = 5\nfence_grace = '1m'\n[databases.a.workloads.w]\nfloor = 2\nkeep = true";
    assert!(read(Some(kept), &[], &["databases.a.on_loss=keep", "databases.a.workloads.w.floor=0"]).is_ok());
    assert!(read(Some(kept), &[], &["databases.a.url=mysql://h/"]).is_ok());
    // But nobody says on top what does nothing.
    insta::assert_snapshot!(
        faults(unfair, &[("LEASEHOLD__DATABASES__A__ON_LOSS", "keep")], &["databases.a.quantum=50ms", "databases.a.fence_grace=1m"]),
        @r#"
    --set databases.a.quantum: `quantum` in [databases.a] does nothing unless `admission` is "fair": take one of them out
    --set databases.a.fence_grace: `fence_grace` in [databases.a] does nothing with `on_loss = "keep"`: take it out, or set `on_loss = "fence"`
    "#
    );
}

#[test]
fn faults_of_all_three_are_told_at_once() {
    insta::assert_snapshot!(
        faults(
            "[databases.orders]\ncap = 0\n",
            &[
                ("LEASEHOLD__DATABASES__ORDERS__QUANTUM", "5ms"),
                ("LEASEHOLD__DATABASES__ORDRES__ADMISSION", "fair"),
                ("LEASEHOLD__SERVER__DATA", ""),
                ("LEASEHOLD__SERVER__HTPP", "127.0.0.1:1"),
                ("LEASEHOLD__SEVER__DATA", "x"),
            ],
            &["databases.orders.admission=fare", "databases.orders.ttl=10", "server.listen=localhost"],
        ),
        @r#"
    a.toml:2:7: `cap` in [databases.orders] must be from 1 to 1000000, not 0
    LEASEHOLD__DATABASES__ORDERS__QUANTUM: `quantum` in [databases.orders] must be from 20ms to 1m, or 0 for strict order at the price of throughput
    LEASEHOLD__DATABASES__ORDRES__ADMISSION: [databases.ordres] needs `url` to watch the database, or `cap` for a fixed number
    LEASEHOLD__SERVER__DATA: `data` in [server] must be the path of a directory such as "leasehold-data"
    LEASEHOLD__SERVER__HTPP: unknown key `htpp` in [server]; did you mean `http`?
    LEASEHOLD__SEVER__DATA: unknown key `sever` in the configuration; did you mean `server`?
    --set databases.orders.admission: `admission` in [databases.orders] cannot be "fare"; did you mean `fair`?
    --set databases.orders.ttl: `ttl` in [databases.orders] must be a string such as "100ms" or "10s", not a whole number
    --set server.listen: `listen` in [server] must be an IP address with a port such as "127.0.0.1:7420" or "[::1]:7420", not "localhost"
    "#
    );
}

#[test]
fn a_contradiction_is_told_to_whoever_overrode() {
    let text = "[server]\nhttp = '127.0.0.1:1'\n[databases.a]\nurl = 'mysql://u:s3cret@h/'\n[databases.b]\ncap = 9\n\
                [databases.b.workloads.w]\nfloor = 8\nlimit = 8";
    insta::assert_snapshot!(
        faults(text, &[("LEASEHOLD__SERVER__LISTEN", "127.0.0.1:1")], &[
            "databases.b.url=mysql://u:s3cret@h/", "databases.b.cap=7", "databases.b.workloads.w.limit=6"
        ]),
        @"
    LEASEHOLD__SERVER__LISTEN: [server] uses 127.0.0.1:1 for both `listen` and `http`: give each its own port
    --set databases.b.url: [databases.b] watches the same server as [databases.a] (h:3306): its limit is one number, so it is one database here
    --set databases.b.cap: the floors in [databases.b.workloads] are 8 together, above the cap of 7
    --set databases.b.workloads.w.limit: `floor` in [databases.b.workloads.w] of 8 is above `limit`, which is 6
    "
    );
}

#[test]
fn what_cannot_be_a_setting_is_refused() {
    let long = format!("databases.orders.url={}", "s3cret".repeat(20_000));
    insta::assert_snapshot!(
        faults(
            FILE,
            &[
                ("LEASEHOLD__", "1"),
                ("LEASEHOLD__DATABASES____CAP", "1"),
                ("LEASEHOLD__DATABASES__ORDERS__CAP__X", "1"),
                ("LEASEHOLD__SERVER__DÄTA", "1"),
                ("LEASEHOLD__SERVER__HTTP", "'127.0.0.1"),
                ("LEASEHOLD__Server__http", "127.0.0.1:1"),
                ("LEASEHOLD__server__http", "127.0.0.1:2"),
            ],
            &[
                "databases.orders.quantum=50ms",
                "databases . 'orders' . \"quantum\" = 60ms",
                "databases.orders={ cap = 5 }",
                "databases.orders.url:mysql://u:s3cret@h/",
                "databases.orders.url:mysql://u:s3cret@h/?a=1",
                "databases..cap=1",
                "=1",
                "",
                "[x]=1",
                "x\n[y]\nz=1",
                "däta=1",
                "databases.orders.accounts=['s3cret'",
                long.as_str(),
            ],
        ),
        @r#"
    LEASEHOLD__: the name of this variable names no setting: write the levels of one, each behind two underscores, such as LEASEHOLD__DATABASES__ORDERS__CAP
    LEASEHOLD__DATABASES__ORDERS__CAP__X: `databases.orders.cap` is a whole number, so nothing can be set below it: set `databases.orders.cap` as a whole
    LEASEHOLD__DATABASES____CAP: the name of this variable names no setting: write the levels of one, each behind two underscores, such as LEASEHOLD__DATABASES__ORDERS__CAP
    LEASEHOLD__SERVER__DÄTA: the name of this variable names no setting: write the levels of one, each behind two underscores, such as LEASEHOLD__DATABASES__ORDERS__CAP
    LEASEHOLD__SERVER__HTTP: the value is not TOML: invalid literal string, expected `'`
    LEASEHOLD__server__http: `server.http` is set twice, by LEASEHOLD__Server__http too: take one of them out
    --set databases . 'orders' . "quantum": `databases.orders.quantum` is set twice, by --set databases.orders.quantum too: take one of them out
    --set databases.orders: this is set twice, as a whole or in part by --set databases.orders.quantum too: take one of them out
    --set databases.orders.url…: a setting needs a value: write --set KEY=VALUE
    --set databases.orders.url…: this is not the key of a setting: write its levels as in the file, such as databases.orders.cap, and in quotes what is not a letter, a digit, `_` or `-`
    --set databases..cap: this is not the key of a setting: write its levels as in the file, such as databases.orders.cap, and in quotes what is not a letter, a digit, `_` or `-`
    --set: this is not the key of a setting: write its levels as in the file, such as databases.orders.cap, and in quotes what is not a letter, a digit, `_` or `-`
    --set: a setting needs a value: write --set KEY=VALUE
    --set …: this is not the key of a setting: write its levels as in the file, such as databases.orders.cap, and in quotes what is not a letter, a digit, `_` or `-`
    --set x…: this is not the key of a setting: write its levels as in the file, such as databases.orders.cap, and in quotes what is not a letter, a digit, `_` or `-`
    --set d…: this is not the key of a setting: write its levels as in the file, such as databases.orders.cap, and in quotes what is not a letter, a digit, `_` or `-`
    --set databases.orders.accounts: the value is not TOML: unclosed array, expected `]`
    --set databases.orders.url: the value is longer than 65536 bytes
    "#
    );
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;

    let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let variables =
        [(bytes(b"LEASEHOLD__\xff"), bytes(b"1")), (bytes(b"LEASEHOLD__SERVER__DATA"), bytes(b"\xff"))];
    let overrides = gather(variables, &[]);
    let message = settle(Some(Path::new("a.toml")), FILE, &overrides, &nothing).unwrap_err().to_string();
    insta::assert_snapshot!(message, @"
    LEASEHOLD__SERVER__DATA: the value of this variable is not UTF-8 text
    LEASEHOLD__�: the name of this variable names no setting: write the levels of one, each behind two underscores, such as LEASEHOLD__DATABASES__ORDERS__CAP
    ");
}

#[test]
fn too_many_are_refused() {
    let set: Vec<String> =
        (0..=limits::OVERRIDES).map(|number| format!("databases.d{number}.cap=1")).collect();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    insta::assert_snapshot!(faults(FILE, &[], &set), @"--set databases.d0.cap: there are 2001 settings outside the file; the most is 2000: use a file");
}

proptest! {
    #[test]
    fn fuzz_any_override(
        name in "(DATABASES__ORDERS__CAP|SERVER__HTTP|(DATABASES|ORDERS|__|_|\\PC){0,4})",
        value in "(\\PC{0,12}|[0-9]{1,3}|'mysql://h/')",
        key in "((databases|orders|cap|\\.|\"|'|=|\\PC){0,6})",
        above in "\\PC{0,12}",
    ) {
        let _ = read(Some(FILE), &[(&format!("LEASEHOLD__{name}"), &value)], &[&format!("{key}={above}")]);
    }

    /// Whoever says a value in the file, in a variable or on the command line
    /// says the same.
    #[test]
    fn a_setting_means_the_same_wherever_it_is_said(cap in 1u32..1000, ttl in 1u32..600, fair in any::<bool>()) {
        let admission = if fair { "fair" } else { "strict" };
        let file = format!("[databases.orders]\ncap = {cap}\nttl = '{ttl}s'\nadmission = '{admission}'");
        let settings = [("cap", cap.to_string()), ("ttl", format!("{ttl}s")), ("admission", admission.to_owned())];
        let names = settings.clone().map(|(key, value)| {
            (format!("LEASEHOLD__DATABASES__ORDERS__{}", key.to_uppercase()), value)
        });
        let names: Vec<(&str, &str)> = names.iter().map(|(name, value)| (&**name, &**value)).collect();
        let set = settings.map(|(key, value)| format!("databases.orders.{key}={value}"));
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let config = read(Some(&file), &[], &[]).unwrap().config;
        prop_assert_eq!(&config, &read(Some(""), &names, &[]).unwrap().config);
        prop_assert_eq!(&config, &read(None, &[], &set).unwrap().config);
    }
}
