//! Figures that a test measured, shown in every run and not only when the test
//! fails. Knows nothing of the tests.

use std::{fmt::Display, io::Write};

/// Shows a figure on standard error.
pub fn measured(figure: impl Display) {
    // The test runner keeps back what `eprintln!` writes; this goes past it. A
    // figure that nobody can read is no reason to fail.
    let _ = writeln!(std::io::stderr(), "measured: {figure}");
}
