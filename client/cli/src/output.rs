//! Puts a report on standard output, as a table or as JSON, through one writer.
//! Knows nothing of commands.

pub(crate) mod human;
mod json;
pub(crate) mod table;

use std::io::{self, Write};

use serde::Serialize;

use crate::args::Format;
use crate::error::{self, Error};

/// Something to show: JSON through `Serialize`, text for people through this.
pub(crate) trait Report: Serialize {
    /// What people read; ends without a line break. Empty when there is nothing to list.
    fn text(&self) -> String;
}

/// Where reports go, and in which form.
#[derive(Debug)]
pub(crate) struct Output<W> {
    format: Format,
    writer: W,
}

impl<W: Write> Output<W> {
    /// Writes to `writer`.
    pub(crate) fn new(format: Format, writer: W) -> Self {
        Output { format, writer }
    }

    /// Tells people what an empty list means; on standard error, so that a pipe counts
    /// no line.
    pub(crate) fn remark(&self, text: &str) {
        match self.format {
            Format::Table => eprintln!("{}: {text}", error::PREFIX),
            Format::Json => {}
        }
    }

    /// Shows a report. A reader that has seen enough (`leasehold sessions | head`) is
    /// no failure.
    pub(crate) fn show(&mut self, report: &impl Report) -> Result<(), Error> {
        let text = match self.format {
            Format::Table => report.text(),
            Format::Json => json::line(report).map_err(|problem| Error::Write(problem.into()))?,
        };
        if text.is_empty() {
            return Ok(());
        }
        match writeln!(self.writer, "{text}").and_then(|()| self.writer.flush()) {
            Err(problem) if problem.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(Error::Write),
        }
    }
}
