//! JSON for programs: one document on one line. Knows nothing of what it holds; the
//! field names are those of `report`.

use crate::output::Report;

/// The report as one line, without its end.
pub(super) fn line(report: &impl Report) -> Result<String, serde_json::Error> {
    serde_json::to_string(report)
}
