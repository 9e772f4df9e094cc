//! The document that an experiment writes: paragraphs, tables and pictures, in
//! Markdown. Knows nothing of what is in them.

use std::{fmt::Write as _, fs, io, path::PathBuf};

use plotters::{
    coord::Shift,
    prelude::{DrawingArea, IntoDrawingArea as _, SVGBackend},
};

/// Width and height of a picture.
const SIZE: (u32, u32) = (900, 420);

/// Where a picture is drawn.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Whether it could be.
pub(crate) type Drawn<'a> = Result<(), Box<dyn std::error::Error + 'a>>;

/// A document under way.
pub(crate) struct Report {
    directory: PathBuf,
    text: String,
}

/// A table of text.
pub(crate) struct Table {
    text: String,
}

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        let mut text = format!("| {} |\n", heads.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(heads.len()));
        Self { text }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }
}

impl Report {
    pub(crate) fn new(directory: PathBuf, title: &str) -> Self {
        Self { directory, text: format!("# {title}\n") }
    }

    pub(crate) fn section(&mut self, title: &str) {
        let _ = writeln!(self.text, "\n## {title}");
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let _ = writeln!(self.text, "\n{}", words.join(" "));
    }

    pub(crate) fn table(&mut self, table: &Table) {
        let _ = write!(self.text, "\n{}", table.text);
    }

    /// Draws a picture beside the document, and shows it.
    pub(crate) fn picture(
        &mut self,
        name: &str,
        title: &str,
        draw: impl for<'a> FnOnce(&Area<'a>) -> Drawn<'a>,
    ) {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            draw(&area).expect("a picture can be drawn");
            area.present().expect("a picture can be drawn");
        }
        fs::create_dir_all(&self.directory).expect("the directory of the document");
        fs::write(self.directory.join(name), svg).expect("the picture can be written");
        let _ = writeln!(self.text, "\n![{title}]({name})");
    }

    /// Writes the document.
    pub(crate) fn write(&self, name: &str) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        fs::write(self.directory.join(name), &self.text)
    }
}

/// What a table says of waits, if anybody was served at all.
pub(crate) fn if_served(served: bool, waits: String) -> String {
    if served { waits } else { "none was served".to_owned() }
}
