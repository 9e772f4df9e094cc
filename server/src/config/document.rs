//! A TOML document as sections and fields that know their position. Knows no
//! setting by name, and not what a position stands for.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::faults::Collector;

/// Most characters of the file's own text in a message.
const SHOWN_CHARACTERS: usize = 64;
/// A table of the document. Remembers which keys were asked for: all others
/// are unknown, so that a key cannot be read and yet be refused.
#[derive(Debug)]
pub(super) struct Section<'doc> {
    /// As people write it: `[server]`.
    title: String,
    table: &'doc DeTable<'doc>,
    at: usize,
    asked: Vec<&'static str>,
}

impl<'doc> Section<'doc> {
    pub(super) fn new(title: impl Into<String>, table: &'doc DeTable<'doc>, at: usize) -> Self {
        Self { title: title.into(), table, at, asked: Vec::new() }
    }

    pub(super) fn title(&self) -> &str {
        &self.title
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The field under a key.
    pub(super) fn get(&mut self, key: &'static str) -> Option<Field<'doc>> {
        self.asked.push(key);
        let (key_found, value) = self.table.get_key_value(key)?;
        Some(Field {
            title: format!("`{key}` in {}", self.title),
            value: value.get_ref(),
            key_at: key_found.span().start,
            at: value.span().start,
        })
    }

    /// The position of a field, without asking for it.
    pub(super) fn peek(&self, key: &str) -> Option<usize> {
        self.table.get_key_value(key).map(|(key, _)| key.span().start)
    }

    /// Every key with its table, for sections whose keys are names.
    pub(super) fn tables(&self, faults: &mut Collector<'_>) -> Vec<(&'doc str, Section<'doc>)> {
        let mut sections = Vec::new();
        for (key, value) in self.table {
            let at = key.span().start;
            let title = format!("[{}.{}]", self.title.trim_matches(['[', ']']), shown(key.get_ref()));
            if let Some(table) = value.get_ref().as_table() {
                sections.push((key.get_ref().as_ref(), Section::new(title, table, at)));
            } else {
                let (key, kind) = (shown(key.get_ref()), kind(value.get_ref()));
                faults.add(at, format!("`{key}` in {} must be a section {title}, not {kind}", self.title));
            }
        }
        sections
    }

    /// Refuses every key that was never asked for.
    pub(super) fn refuse_others(&self, faults: &mut Collector<'_>) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !self.asked.contains(&name) {
                let hint = suggest(name, &self.asked);
                faults.add(
                    key.span().start,
                    format!("unknown key `{}` in {}; {hint}", shown(name), self.title),
                );
            }
        }
    }
}

/// A value of the document with its place and its name for messages. The
/// readers note a fault and return `None` when the value is not what they want.
#[derive(Debug)]
pub(super) struct Field<'doc> {
    title: String,
    value: &'doc DeValue<'doc>,
    key_at: usize,
    at: usize,
}

impl<'doc> Field<'doc> {
    pub(super) fn value(&self) -> &'doc DeValue<'doc> {
        self.value
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether this overrides what says the other one.
    pub(super) fn overrides(&self, other: &Field<'_>, faults: &Collector<'_>) -> bool {
        faults.layer(self.key_at) > faults.layer(other.key_at)
    }

    /// Notes a fault: the field's name, then the message.
    pub(super) fn refuse(&self, faults: &mut Collector<'_>, message: impl fmt::Display) {
        faults.add(self.at, format!("{} {message}", self.title));
    }

    /// Notes a fault of this and another setting, for whoever says the one at `at`.
    pub(super) fn refuse_at(&self, at: usize, faults: &mut Collector<'_>, message: impl fmt::Display) {
        faults.add(at, format!("{} {message}", self.title));
    }

    /// Notes a fault of the whole setting, as opposed to its value.
    pub(super) fn refuse_key(&self, faults: &mut Collector<'_>, message: impl fmt::Display) {
        faults.add(self.key_at, format!("{} {message}", self.title));
    }

    pub(super) fn section(&self, title: &str, faults: &mut Collector<'_>) -> Option<Section<'doc>> {
        if let Some(table) = self.value.as_table() {
            return Some(Section::new(title, table, self.key_at));
        }
        self.refuse_key(faults, format_args!("must be a section {title}, not {}", kind(self.value)));
        None
    }

    pub(super) fn text(&self, example: &str, faults: &mut Collector<'_>) -> Option<&'doc str> {
        if let DeValue::String(text) = self.value {
            return Some(text);
        }
        self.refuse(faults, format_args!("must be a string such as {example}, not {}", kind(self.value)));
        None
    }

    pub(super) fn texts(&self, example: &str, faults: &mut Collector<'_>) -> Option<Vec<&'doc str>> {
        let DeValue::Array(values) = self.value else {
            self.refuse(faults, format_args!("must be a list such as {example}, not {}", kind(self.value)));
            return None;
        };
        let mut texts = Vec::new();
        for value in values {
            let Some(text) = value.get_ref().as_str() else {
                let (title, kind) = (&self.title, kind(value.get_ref()));
                let message = format!("{title} must be a list of strings such as {example}; here is {kind}");
                faults.add(value.span().start, message);
                return None;
            };
            texts.push(text);
        }
        Some(texts)
    }

    pub(super) fn count(&self, range: &RangeInclusive<u32>, faults: &mut Collector<'_>) -> Option<u32> {
        let (low, high) = (range.start(), range.end());
        let DeValue::Integer(integer) = self.value else {
            self.refuse(
                faults,
                format_args!("must be a whole number from {low} to {high}, not {}", kind(self.value)),
            );
            return None;
        };
        let count =
            u32::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|count| range.contains(count));
        if count.is_none() {
            self.refuse(
                faults,
                format_args!("must be from {low} to {high}, not {}", shown(&integer.to_string())),
            );
        }
        count
    }

    pub(super) fn truth(&self, faults: &mut Collector<'_>) -> Option<bool> {
        if let DeValue::Boolean(truth) = self.value {
            return Some(*truth);
        }
        self.refuse(faults, format_args!("must be true or false, not {}", kind(self.value)));
        None
    }

    /// A duration with its unit, in whatever range.
    pub(super) fn any_duration(&self, faults: &mut Collector<'_>) -> Option<Duration> {
        let text = self.text(DURATION_EXAMPLE, faults)?;
        let duration = humantime::parse_duration(text).ok();
        if duration.is_none() {
            let text = shown(text);
            self.refuse(
                faults,
                format_args!("must be a number with its unit such as {DURATION_EXAMPLE}, not \"{text}\""),
            );
        }
        duration
    }

    pub(super) fn duration(
        &self,
        range: &RangeInclusive<Duration>,
        faults: &mut Collector<'_>,
    ) -> Option<Duration> {
        let duration = self.any_duration(faults)?;
        if range.contains(&duration) {
            return Some(duration);
        }
        self.refuse(faults, format_args!("must be from {}, not {}", spell_range(range), spell(duration)));
        None
    }

    pub(super) fn choice<T: Copy>(
        &self,
        choices: &[(&'static str, T)],
        faults: &mut Collector<'_>,
    ) -> Option<T> {
        let names: Vec<&'static str> = choices.iter().map(|(name, _)| *name).collect();
        let text = self.text(&format!("\"{}\"", names[0]), faults)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let hint = suggest(text, &names);
            self.refuse(faults, format_args!("cannot be \"{}\"; {hint}", shown(text)));
        }
        found
    }
}

const DURATION_EXAMPLE: &str = "\"100ms\" or \"10s\"";

/// A duration as people write it.
pub(super) fn spell(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// A range of durations as people write it.
pub(super) fn spell_range(range: &RangeInclusive<Duration>) -> String {
    format!("{} to {}", spell(*range.start()), spell(*range.end()))
}

/// Text of the file, fit for a line of a message.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

/// What a value is, in words.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

/// The nearest right word when one is near, and otherwise all of them.
fn suggest(wrong: &str, right: &[&'static str]) -> String {
    // Comparing costs the product of the lengths, and nothing this long is a slip.
    let comparable = wrong.len() <= SHOWN_CHARACTERS;
    let nearest = right
        .iter()
        .filter(|_| comparable)
        .map(|word| (strsim::damerau_levenshtein(&wrong.to_lowercase(), word), *word))
        .min()
        .filter(|(distance, word)| *distance <= word.len().div_ceil(3));
    match nearest {
        Some((_, word)) => format!("did you mean `{word}`?"),
        None => format!(
            "known are {}",
            right.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}
