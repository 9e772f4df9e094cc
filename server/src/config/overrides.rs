//! Settings from outside the file: variables of the environment and `--set` on
//! the command line. Puts each where the file would have it, so that whatever
//! checks the file checks them too. Knows no setting by name.
//!
//! `--set` spells a key as the file does. A variable cannot: shells allow
//! capitals, digits and `_` in its name. So a level of its name stands for the
//! key that is the same but for case and for what is no letter or digit.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{kind, shown};
use super::faults::{Collector, Layer, Origin, Place};
use super::limits;

#[cfg(test)]
mod tests;

/// What the name of a variable that is a setting begins with.
const PREFIX: &str = "LEASEHOLD__";
/// What stands between the levels of its name.
const SEPARATOR: &str = "__";

/// One setting from outside the file.
#[derive(Debug)]
pub(super) struct Override {
    origin: Origin,
    /// What it says, or why that cannot be known.
    setting: Result<Setting, String>,
}

#[derive(Debug)]
struct Setting {
    /// The levels of its key; of a variable, as its name spells them.
    path: Vec<String>,
    value: String,
}

/// All overrides in the order in which they apply: variables by name, since the
/// environment has no order, then the command line.
pub(super) fn gather(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    set: &[String],
) -> Vec<Override> {
    let mut overrides: Vec<Override> =
        variables.into_iter().filter_map(|(name, value)| variable(&name, &value)).collect();
    overrides.sort_by(|one, other| one.origin.name.cmp(&other.origin.name));
    overrides.extend(set.iter().map(|text| option(text)));
    overrides
}

/// Where each comes from, in the same order.
pub(super) fn origins(overrides: &[Override]) -> Vec<Origin> {
    overrides.iter().map(|one| one.origin.clone()).collect()
}

fn variable(name: &OsStr, value: &OsStr) -> Option<Override> {
    if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
        return None;
    }
    let setting = || {
        let levels = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).unwrap_or_default();
        let path: Vec<String> = levels.split(SEPARATOR).map(str::to_owned).collect();
        if levels.len() > limits::KEY_BYTES || !levels.is_ascii() || path.iter().any(String::is_empty) {
            return Err("the name of this variable names no setting: write the levels of one, each behind \
                        two underscores, such as LEASEHOLD__DATABASES__ORDERS__CAP"
                .to_owned());
        }
        let value = value.to_str().ok_or("the value of this variable is not UTF-8 text")?;
        Ok(Setting { path, value: value.to_owned() })
    };
    let origin = Origin { layer: Layer::Environment, name: shown(&name.to_string_lossy()) };
    Some(Override { origin, setting: setting() })
}

fn option(text: &str) -> Override {
    let (key, value) = split(text);
    let path = read_key(key);
    let name = match &path {
        Ok(_) => key.trim().to_owned(),
        // Whoever forgets the `=` before a url must not find it in the log.
        Err(_) => match key.find(|c: char| !(c.is_ascii_alphanumeric() || "_-. ".contains(c))) {
            Some(end) => format!("{}…", shown(&key[..end])),
            None => shown(key),
        },
    };
    let setting = value
        .ok_or_else(|| "a setting needs a value: write --set KEY=VALUE".to_owned())
        .and_then(|value| Ok(Setting { path: path?, value: value.to_owned() }));
    let name = if name.is_empty() { "--set".to_owned() } else { format!("--set {name}") };
    Override { origin: Origin { layer: Layer::CommandLine, name }, setting }
}

/// Key and value, at the first `=` that is not in quotes.
fn split(text: &str) -> (&str, Option<&str>) {
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '=') => return (&text[..at], Some(&text[at + 1..])),
            (None, '"' | '\'') => quote = Some(character),
            (Some('"'), '\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(open), _) if open == character && !escaped => quote = None,
            (None | Some(_), _) => {}
        }
        escaped = false;
    }
    (text, None)
}

/// The levels of a key as a file spells them, quotes included.
fn read_key(key: &str) -> Result<Vec<String>, String> {
    let wrong = || {
        "this is not the key of a setting: write its levels as in the file, such as \
         databases.orders.cap, and in quotes what is not a letter, a digit, `_` or `-`"
            .to_owned()
    };
    if key.len() > limits::KEY_BYTES || key.contains(char::is_control) {
        return Err(wrong());
    }
    let document = format!("{key} = 0");
    let mut table = DeTable::parse(&document).map_err(|_| wrong())?.into_inner();
    let mut path = Vec::new();
    loop {
        let mut entries = table.into_iter();
        let (Some((level, value)), None) = (entries.next(), entries.next()) else { return Err(wrong()) };
        path.push(level.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            DeValue::Integer(_) => return Ok(path),
            DeValue::String(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => return Err(wrong()),
        }
    }
}

/// A TOML value, or else the text itself. What opens a quote or a bracket is
/// meant as TOML. No message shows the value: it may hold a password.
fn read_value(text: &str) -> Result<DeValue<'_>, String> {
    if text.len() > limits::VALUE_BYTES {
        return Err(format!("the value is longer than {} bytes", limits::VALUE_BYTES));
    }
    match DeValue::parse(text.trim()) {
        Ok(value) => Ok(value.into_inner()),
        Err(error) if text.trim_start().starts_with(['"', '\'', '[', '{']) => {
            Err(format!("the value is not TOML: {}", error.message()))
        }
        Err(_) => Ok(DeValue::String(text.into())),
    }
}

/// A value all of which stands at one position.
fn moved(value: DeValue<'_>, at: usize) -> Spanned<DeValue<'_>> {
    let value = match value {
        DeValue::Array(values) => {
            DeValue::Array(values.into_iter().map(|value| moved(value.into_inner(), at)).collect())
        }
        DeValue::Table(table) => DeValue::Table(
            table
                .into_iter()
                .map(|(key, value)| (Spanned::new(at..at, key.into_inner()), moved(value.into_inner(), at)))
                .collect(),
        ),
        plain @ (DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)) => plain,
    };
    Spanned::new(at..at, value)
}

/// Every setting that an override says, with what said it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overridden {
    /// By key: who says it, the one that counts last.
    settings: BTreeMap<Vec<String>, Vec<Place>>,
}

impl Overridden {
    /// Whether one is at a key, or below it.
    pub(super) fn touches(&self, path: &[&str]) -> bool {
        self.settings
            .keys()
            .any(|key| key.iter().map(String::as_str).take(path.len()).eq(path.iter().copied()))
    }

    fn note(&mut self, path: Vec<String>, replaced: Option<Place>, by: Place) {
        // Of what a whole section replaced nothing is left.
        self.settings.retain(|key, _| key.len() <= path.len() || !key.starts_with(&path));
        let places = self.settings.entry(path).or_default();
        if places.is_empty() {
            places.extend(replaced);
        }
        places.push(by);
    }
}

impl fmt::Display for Overridden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, places) in &self.settings {
            let mut places = places.iter().rev();
            let Some(by) = places.next() else { continue };
            write!(f, "{} is set by {by}", dotted(path))?;
            for (index, over) in places.enumerate() {
                write!(f, "{} {over}", if index == 0 { ", over" } else { " and" })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Puts every override into the document, the later above the earlier.
pub(super) fn apply<'doc>(
    overrides: &'doc [Override],
    document: &mut DeTable<'doc>,
    faults: &mut Collector<'_>,
) -> Overridden {
    let mut overridden = Overridden::default();
    if overrides.len() > limits::OVERRIDES {
        let (count, most) = (overrides.len(), limits::OVERRIDES);
        let message = format!("there are {count} settings outside the file; the most is {most}: use a file");
        faults.add(faults.position(0), message);
        return overridden;
    }
    let mut before: Vec<(Layer, Vec<String>, String)> = Vec::new();
    for (number, Override { origin, setting }) in overrides.iter().enumerate() {
        let at = faults.position(number);
        let put = setting.as_ref().map_err(String::clone).and_then(|Setting { path, value }| {
            let value = read_value(value)?;
            let path = match origin.layer {
                Layer::Environment => resolve(path, document)?,
                Layer::File | Layer::CommandLine => path.clone(),
            };
            refuse_clash(origin, &path, &before)?;
            let replaced = put(document, &path, moved(value, at), at)?;
            Ok((path, replaced))
        });
        match put {
            Ok((path, replaced)) => {
                let replaced = replaced.map(|at| faults.place(at));
                overridden.note(path.clone(), replaced, faults.place(at));
                before.push((origin.layer, path, origin.name.clone()));
            }
            Err(message) => faults.add(at, message),
        }
    }
    overridden
}

/// The key that the levels of a variable's name stand for.
fn resolve(levels: &[String], document: &DeTable<'_>) -> Result<Vec<String>, String> {
    let mut table = Some(document);
    let mut path: Vec<String> = Vec::new();
    for level in levels {
        let spelled = spelled(level);
        let keys = table.into_iter().flat_map(DeTable::keys).map(|key| key.get_ref().as_ref());
        let meant: Vec<&str> = keys.filter(|key: &&str| self::spelled(key) == spelled).collect();
        let key = match meant[..] {
            [] => level.to_lowercase(),
            [one] => one.to_owned(),
            [one, other, ..] => {
                let (one, other) = (shown(one), shown(other));
                return Err(format!(
                    "this variable may mean `{one}` or `{other}`: say which with --set, or in the file"
                ));
            }
        };
        table = table.and_then(|table| table.get(key.as_str())).and_then(|value| value.get_ref().as_table());
        path.push(key);
    }
    Ok(path)
}

/// What is left of a key in the name of a variable.
fn spelled(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// Refuses what another of the same layer says too: which of them counts would
/// hang on an order that nobody sees.
fn refuse_clash(
    origin: &Origin,
    path: &[String],
    before: &[(Layer, Vec<String>, String)],
) -> Result<(), String> {
    for (_, other, name) in before.iter().filter(|(layer, ..)| *layer == origin.layer) {
        if path == other {
            return Err(format!("`{}` is set twice, by {name} too: take one of them out", dotted(path)));
        }
        if path.starts_with(other) || other.starts_with(path) {
            return Err(format!(
                "this is set twice, as a whole or in part by {name} too: take one of them out"
            ));
        }
    }
    Ok(())
}

/// Puts a value at a path; the position of the key that it replaces, if any.
fn put<'doc>(
    document: &mut DeTable<'doc>,
    path: &[String],
    value: Spanned<DeValue<'doc>>,
    at: usize,
) -> Result<Option<usize>, String> {
    let Some((last, above)) = path.split_last() else { return Ok(None) };
    let mut table: &mut DeTable<'doc> = document;
    for (depth, level) in above.iter().enumerate() {
        let key = Spanned::new(at..at, level.clone().into());
        let empty = || Spanned::new(at..at, DeValue::Table(DeTable::new()));
        let there = table.entry(key).or_insert_with(empty);
        let kind = kind(there.get_ref());
        let DeValue::Table(inner) = there.get_mut() else {
            let key = dotted(&path[..=depth]);
            return Err(format!("`{key}` is {kind}, so nothing can be set below it: set `{key}` as a whole"));
        };
        table = inner;
    }
    let replaced = table.remove_entry(last.as_str()).map(|(key, _)| key.span().start);
    table.insert(Spanned::new(at..at, last.clone().into()), value);
    Ok(replaced)
}

/// A path as `--set` would have it.
fn dotted(path: &[String]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let level = |level: &String| {
        let quoted = level.is_empty() || !level.chars().all(bare);
        if quoted { format!("\"{}\"", shown(level)) } else { shown(level) }
    };
    path.iter().map(level).collect::<Vec<_>>().join(".")
}
