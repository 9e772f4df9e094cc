//! What is wrong with a configuration, and where: in the text of the file, or
//! in a variable or an option that overrides it. Knows no setting by name.

use std::fmt;
use std::path::{Path, PathBuf};

/// Most messages for one configuration: behind these there is a deeper misunderstanding.
const MOST_FAULTS: usize = 50;

/// What a setting can come from; what comes later here overrides what comes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// The file, or the built-in text in its stead.
    File,
    /// A variable of the environment.
    Environment,
    /// `--set` on the command line.
    CommandLine,
}

/// One variable or option that overrides the file.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) layer: Layer,
    /// As people find it again: the variable's name, or `--set KEY`.
    pub(super) name: String,
}

/// Where something stands that a configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the file.
    File {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
    },
    /// Outside of it: the variable's name, or `--set KEY`.
    Override(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Override(name) => f.write_str(name),
        }
    }
}

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it is said.
    pub place: Place,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// Everything that is wrong with one configuration: what the file says in its
/// order, then the environment, then the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// At least one.
    pub list: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Fault { place, message }) in self.list.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{place}: {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Collects faults by position, so that one run shows them all. A position is
/// a byte of the file's text, or behind its end the number of an override: so
/// the checks need not know where a setting comes from.
#[derive(Debug)]
pub(super) struct Collector<'text> {
    path: &'text Path,
    text: &'text str,
    overrides: Vec<Origin>,
    found: Vec<(usize, String)>,
}

impl<'text> Collector<'text> {
    pub(super) fn new(path: &'text Path, text: &'text str, overrides: Vec<Origin>) -> Self {
        Self { path, text, overrides, found: Vec::new() }
    }

    /// Notes what is wrong at a position.
    pub(super) fn add(&mut self, at: usize, message: impl Into<String>) {
        if self.found.len() < MOST_FAULTS {
            self.found.push((at, message.into()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The position of an override, by its number.
    pub(super) fn position(&self, number: usize) -> usize {
        self.text.len() + 1 + number
    }

    pub(super) fn layer(&self, at: usize) -> Layer {
        self.override_at(at).map_or(Layer::File, |origin| origin.layer)
    }

    /// Whom to tell of a contradiction between several settings: whoever
    /// overrode, since that made it; otherwise the place that comes first here.
    pub(super) fn latest(&self, first: usize, others: impl IntoIterator<Item = usize>) -> usize {
        let later = |one, other| if self.layer(other) > self.layer(one) { other } else { one };
        others.into_iter().fold(first, later)
    }

    pub(super) fn place(&self, at: usize) -> Place {
        if let Some(origin) = self.override_at(at) {
            return Place::Override(origin.name.clone());
        }
        // Not sliced as text: nothing promises that a fault begins at a whole character.
        let before = String::from_utf8_lossy(&self.text.as_bytes()[..at.min(self.text.len())]);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        Place::File { path: self.path.to_owned(), line, column }
    }

    /// What was found, ordered by place. `None`: the configuration is fine.
    pub(super) fn into_faults(mut self) -> Option<Faults> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(at, _)| *at);
        let list: Vec<Fault> =
            found.into_iter().map(|(at, message)| Fault { place: self.place(at), message }).collect();
        (!list.is_empty()).then_some(Faults { list })
    }

    fn override_at(&self, at: usize) -> Option<&Origin> {
        self.overrides.get(at.checked_sub(self.text.len() + 1)?)
    }
}
