//! The documentation names tests and metrics: they exist, so that it cannot go
//! stale in silence. Knows nothing of what they do.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// What an example of all metrics looks like.
const METRICS: &str =
    "server/src/http/snapshots/leasehold_server__http__metrics__tests__a_server_reads_like_this.snap";
/// Directories that hold no source of ours.
const NOT_OURS: [&str; 2] = ["target", ".git"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// All Rust files below a directory, one after the other.
fn sources(directory: &Path, text: &mut String) {
    for entry in fs::read_dir(directory).expect("a directory of the project") {
        let path = entry.expect("its entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !NOT_OURS.contains(&name) {
                sources(&path, text);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("a source file is text"));
        }
    }
}

#[test]
fn the_pages_name_tests_that_exist() {
    let mut source = String::new();
    sources(&root(), &mut source);
    for page in ["docs/protocol.md", "docs/guarantees.md"] {
        let text = read(page);
        let paragraphs = text.split("\n\n").filter_map(|paragraph| paragraph.trim().strip_prefix("Held by:"));
        let mut named = 0;
        for test in paragraphs.flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2)) {
            assert!(source.contains(&format!("fn {test}(")), "{page} names `{test}`, which is no test");
            named += 1;
        }
        assert!(named > 0, "{page} names no test");
    }
}

#[test]
fn every_guarantee_names_what_holds_it() {
    let guarantees = read("docs/guarantees.md");
    for promise in guarantees.split("\n### ").skip(1) {
        let title = promise.lines().next().unwrap_or_default();
        assert!(promise.contains("\nHeld by:"), "docs/guarantees.md promises without a test: {title}");
    }
}

#[test]
fn the_operators_page_lists_every_metric() {
    let (operations, metrics) = (read("docs/operations.md"), read(METRICS));
    let rows = operations.lines().filter_map(|line| line.strip_prefix("| `leasehold_"));
    let documented: BTreeSet<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE leasehold_"));
    let exist: BTreeSet<&str> = types.filter_map(|kind| kind.split(' ').next()).collect();
    assert_eq!(documented, exist);
}
