//! Counts, durations and session ids, as they are typed. Knows nothing of which argument
//! they belong to.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::RangedI64ValueParser;

/// A session's id has this many hexadecimal digits.
const SESSION_DIGITS: usize = 32;
/// The server accepts no shorter beginning of an id.
const SESSION_DIGITS_MIN: usize = 8;

/// Most tokens or connections that the server takes for a setting.
const MOST_TOKENS: i64 = 1_000_000;
/// The greatest weight of a workload.
const HEAVIEST: i64 = 1_000;
/// Most tasks that the server takes for a bound of those that wait.
const MOST_TASKS: i64 = 10_000_000;

/// Reads a count of tokens or connections, within the server's own bounds.
pub(crate) fn tokens() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=MOST_TOKENS)
}

/// As [`tokens`]; zero is a count too.
pub(crate) fn tokens_or_none() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(0..=MOST_TOKENS)
}

/// Reads the weight of a workload, within the server's own bounds.
pub(crate) fn weight() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=HEAVIEST)
}

/// Reads a count of tasks, within the server's own bounds.
pub(crate) fn tasks() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=MOST_TASKS)
}

/// A duration in whole milliseconds, the unit of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Milliseconds(pub(crate) u64);

/// Reads "100ms", "2m 10s" or "1h".
pub(crate) fn milliseconds(text: &str) -> Result<Milliseconds, String> {
    let duration = humantime::parse_duration(text).map_err(|problem| problem.to_string())?;
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err("finer than a millisecond".to_owned());
    }
    u64::try_from(duration.as_millis()).map(Milliseconds).map_err(|_| "too long".to_owned())
}

/// As [`milliseconds`]; refuses zero, which the API would take for "no limit".
pub(crate) fn positive_milliseconds(text: &str) -> Result<Milliseconds, String> {
    match milliseconds(text)? {
        Milliseconds(0) => Err("must be longer than zero".to_owned()),
        positive @ Milliseconds(_) => Ok(positive),
    }
}

/// As [`positive_milliseconds`], for a wait on this side.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    positive_milliseconds(text).map(|Milliseconds(count)| Duration::from_millis(count))
}

/// A session's id, or enough of its beginning to tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionPrefix(String);

impl fmt::Display for SessionPrefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for SessionPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(wrong) = text.chars().find(|character| !character.is_ascii_hexdigit()) {
            return Err(format!("`{}` is not a hexadecimal digit", wrong.escape_debug()));
        }
        let length = text.len();
        if !(SESSION_DIGITS_MIN..=SESSION_DIGITS).contains(&length) {
            return Err(format!("has {length} digits; give {SESSION_DIGITS_MIN} to {SESSION_DIGITS}"));
        }
        Ok(SessionPrefix(text.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Milliseconds, SessionPrefix, milliseconds, positive_milliseconds};

    #[test]
    fn durations_are_read_in_whole_milliseconds() {
        assert_eq!(milliseconds("100ms"), Ok(Milliseconds(100)));
        assert_eq!(milliseconds("2m10s"), Ok(Milliseconds(130_000)));
        assert_eq!(milliseconds("1.5s"), Ok(Milliseconds(1_500)));
        assert_eq!(milliseconds("0ms"), Ok(Milliseconds(0)));
        assert_eq!(milliseconds("100us"), Err("finer than a millisecond".to_owned()));
        assert_eq!(milliseconds("900000000y"), Err("too long".to_owned()));
        assert!(milliseconds("10").is_err(), "a number without a unit is ambiguous");
        assert!(milliseconds("-1s").is_err());
        assert_eq!(positive_milliseconds("0s"), Err("must be longer than zero".to_owned()));
    }

    #[test]
    fn session_ids_are_checked_before_they_are_sent() {
        let parse = |text: &str| text.parse::<SessionPrefix>().map(|prefix| prefix.to_string());
        assert_eq!(parse("3F9A2C51"), Ok("3f9a2c51".to_owned()));
        assert_eq!(parse("3f9a2c5"), Err("has 7 digits; give 8 to 32".to_owned()));
        assert_eq!(parse(&"a".repeat(33)), Err("has 33 digits; give 8 to 32".to_owned()));
        assert_eq!(parse("3f9a…"), Err("`…` is not a hexadecimal digit".to_owned()));
        assert_eq!(parse(""), Err("has 0 digits; give 8 to 32".to_owned()));
    }
}
