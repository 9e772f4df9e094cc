//! What a test tells whoever runs it, in every run and not only when it fails:
//! figures that it measured, and what it could not try. Knows nothing of the tests.

use std::{fmt::Display, io::Write, process::Output};

use crate::full;

/// Shows a figure on standard error.
pub fn measured(figure: impl Display) {
    show("measured", figure);
}

/// Whether the system refused a command to this user, or in this container.
/// Then that is shown, and the test has nothing to try. With `LEASEHOLD_FULL=1`
/// nothing is left out.
///
/// # Panics
///
/// The command failed otherwise, or nothing may be left out.
pub(crate) fn not_permitted(what: &str, output: &Output) -> bool {
    if output.status.success() {
        return false;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let refused = ["not permitted", "ermission denied", "must be superuser"];
    assert!(
        refused.iter().any(|words| said.contains(words)) && !full::is_asked_for(),
        "{what} cannot be made: {said}\nrun this as root, in a container that has CAP_NET_ADMIN and CAP_SYS_ADMIN"
    );
    show("not tested", format_args!("{what} cannot be made by this user or in this container: {said}"));
    true
}

fn show(kind: &str, what: impl Display) {
    // The test runner keeps back what `eprintln!` writes; this goes past it. What
    // nobody can read is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{kind}: {what}");
}
