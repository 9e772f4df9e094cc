//! The program on records that are damaged or that move: what the start says,
//! what `recover`, `export` and `import` do and say.

#![expect(clippy::unwrap_used, reason = "a test whose surroundings fail fails")]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use leasehold_storage::{Sled, State, Store as _, conformance};
use tempfile::TempDir;

/// A directory with a store in `data`, and what it holds.
struct Place {
    directory: TempDir,
    state: State,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Sled::open(directory.path().join("data")).unwrap();
        store.commit(&conformance::one_of_each()).unwrap();
        let state = store.load().unwrap();
        let config =
            "[server]\nlisten = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\ndata = 'data'\n[databases.a]\ncap = 5\n";
        fs::write(directory.path().join("leasehold.toml"), config).unwrap();
        Self { directory, state }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-server"));
        command.current_dir(self.directory.path()).env_remove("RUST_LOG").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // One that refuses at once does not read it.
        let _ = child.stdin.take().unwrap().write_all(input);
        Said::from(child.wait_with_output().unwrap())
    }

    fn load(&self, name: &str) -> State {
        Sled::open(self.path(name)).unwrap().load().unwrap()
    }
}

struct Said {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let (said, errors) =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into();
        Self { code: output.status.code(), output: said, errors }
    }
}

/// What differs from run to run.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        words.push(if digits >= 10 {
            word.replace(|c: char| c.is_ascii_digit(), "#")
        } else {
            word.to_owned()
        });
    }
    words.join(" ")
}

#[test]
fn a_damaged_store_stops_the_start_and_can_be_recovered() {
    let place = Place::new();
    fs::remove_file(place.path("data/leasehold.store")).unwrap();
    let start = place.run(&["--config", "leasehold.toml"], b"");
    assert_eq!(start.code, Some(1));
    insta::assert_snapshot!(start.errors, @"error: cannot keep records in data (`data` in [server]): store `data` is damaged, its file `leasehold.store` is missing: run `leasehold-server recover`, which keeps what can be read, sets the damaged store aside and says what it did");

    let recovered = place.run(&["recover", "--config", "leasehold.toml"], b"");
    assert_eq!((recovered.code, recovered.errors.as_str()), (Some(0), ""));
    insta::assert_snapshot!(without_times(&recovered.output), @"
    damage: data, its file `leasehold.store` is missing
    kept: sessions 3, leases 2 (of at most 12 tokens), caps 1, databases with settings by operators 1, audit entries 2
    set aside: the damaged store is in data/set-aside-##########
    generation: ##########, above all before
    next: start the server; it grants nothing for a TTL (without a probe also the fence_grace), until
          nodes whose records may be missing have come back with what they hold, or have lapsed
    ");
    let state = place.load("data");
    assert_eq!(state.leases, place.state.leases);
    assert!(state.generation > place.state.generation);

    let again = place.run(&["recover", "--data", "data"], b"");
    assert_eq!(again.code, Some(0));
    insta::assert_snapshot!(again.output, @"
    whole: data opens, there is nothing to recover
    kept: sessions 3, leases 2 (of at most 12 tokens), caps 1, databases with settings by operators 1, audit entries 2
    ");
}

#[test]
fn there_must_be_something_to_recover() {
    let place = Place::new();
    let said = place.run(&["recover", "--data", "nowhere"], b"");
    assert_eq!(said.code, Some(1));
    insta::assert_snapshot!(said.errors, @"error: there is no store in `nowhere`");
    assert!(!place.path("nowhere").exists());
    assert_eq!(place.run(&["recover", "--data", "a", "--config", "b"], b"").code, Some(2));
}

#[test]
fn records_move_as_lines() {
    let place = Place::new();
    let exported = place.run(&["export", "--data", "data"], b"");
    assert_eq!((exported.code, exported.errors.as_str()), (Some(0), ""));
    assert!(exported.output.starts_with("{\"leasehold\":{\"format\":1,\"generation\":7}}\n"));

    let imported = place.run(&["import", "--data", "moved"], exported.output.as_bytes());
    assert_eq!((imported.code, imported.errors.as_str()), (Some(0), ""));
    insta::assert_snapshot!(without_times(&imported.output), @"
    imported into moved: sessions 3, leases 2 (of at most 12 tokens), caps 1, databases with settings by operators 1, audit entries 2
    generation: ##########, above all before
    next: start the server; it grants nothing for a TTL (without a probe also the fence_grace), until
          nodes whose records may be missing have come back with what they hold, or have lapsed
    ");
    let moved = place.load("moved");
    assert!(moved.generation > 7, "no node has seen a higher one");
    let mut expected = place.state.clone();
    expected.generation = moved.generation;
    expected.miss_records();
    assert_eq!(moved, expected);
}

#[test]
fn an_import_replaces_nothing_unless_told_to() {
    let place = Place::new();
    let exported = place.run(&["export", "--data", "data"], b"").output;
    let refused = place.run(&["import", "--data", "data"], exported.as_bytes());
    assert_eq!(refused.code, Some(1));
    insta::assert_snapshot!(refused.errors, @"error: `data` holds records already: name another directory, or set them aside with --replace; nothing was changed");
    assert_eq!(place.load("data"), place.state);

    let half = &exported.as_bytes()[..exported.len() / 2];
    let cut = place.run(&["import", "--data", "data", "--replace"], half);
    assert_eq!(cut.code, Some(1));
    assert_eq!(place.load("data"), place.state, "nothing was changed");

    let replaced = place.run(&["import", "--data", "data", "--replace"], exported.as_bytes());
    assert_eq!((replaced.code, replaced.errors.as_str()), (Some(0), ""));
    insta::assert_snapshot!(without_times(&replaced.output), @"
    imported into data: sessions 3, leases 2 (of at most 12 tokens), caps 1, databases with settings by operators 1, audit entries 2
    set aside: what was there is in data/set-aside-##########
    generation: ##########, above all before
    next: start the server; it grants nothing for a TTL (without a probe also the fence_grace), until
          nodes whose records may be missing have come back with what they hold, or have lapsed
    ");
}
