//! Values as people say them. Knows nothing of tables.

use std::borrow::Cow;
use std::time::Duration;

/// Enough of a session's id to tell it from all others in practice.
const SHORT_ID_DIGITS: usize = 12;

const SECOND: u64 = 1_000;
const TEN_SECONDS: u64 = 10 * SECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// An age, to the precision that matters: "350ms", "4.2s", "58s", "2m10s", "3h5m", "4d".
/// Rounded down.
pub(crate) fn age(milliseconds: u64) -> String {
    match milliseconds {
        0 => "0s".to_owned(),
        1..SECOND => format!("{milliseconds}ms"),
        SECOND..TEN_SECONDS => match milliseconds % SECOND / 100 {
            0 => format!("{}s", milliseconds / SECOND),
            tenths => format!("{}.{tenths}s", milliseconds / SECOND),
        },
        TEN_SECONDS..MINUTE => format!("{}s", milliseconds / SECOND),
        MINUTE..HOUR => two_units(milliseconds, (MINUTE, 'm'), (SECOND, 's')),
        HOUR..DAY => two_units(milliseconds, (HOUR, 'h'), (MINUTE, 'm')),
        DAY.. => two_units(milliseconds, (DAY, 'd'), (HOUR, 'h')),
    }
}

fn two_units(
    milliseconds: u64,
    (large, large_name): (u64, char),
    (small, small_name): (u64, char),
) -> String {
    let whole = milliseconds / large;
    match milliseconds % large / small {
        0 => format!("{whole}{large_name}"),
        rest => format!("{whole}{large_name}{rest}{small_name}"),
    }
}

/// A setting, exactly: "100ms", "1m30s".
pub(crate) fn exact_duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

/// As [`exact_duration`], of milliseconds.
pub(crate) fn exact_milliseconds(milliseconds: u64) -> String {
    exact_duration(Duration::from_millis(milliseconds))
}

/// A mean time, to two digits or so: "350us", "1.2ms", "48ms", "2.5s".
pub(crate) fn mean(microseconds: u64) -> String {
    match microseconds {
        ..1_000 => format!("{microseconds}us"),
        1_000..10_000 => format!("{}.{}ms", microseconds / 1_000, microseconds % 1_000 / 100),
        10_000.. => age(microseconds / 1_000),
    }
}

/// A part of tokens, to a tenth: "12", "7.5".
pub(crate) fn thousandths(thousandths: u64) -> String {
    match thousandths % 1_000 / 100 {
        0 => (thousandths / 1_000).to_string(),
        tenths => format!("{}.{tenths}", thousandths / 1_000),
    }
}

/// The beginning of a session's id, for tables.
pub(crate) fn short_id(id: &str) -> &str {
    match id.char_indices().nth(SHORT_ID_DIGITS) {
        Some((end, _)) => &id[..end],
        None => id,
    }
}

/// "1 token", "2 tokens".
pub(crate) fn count(number: u32, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Text of others that is safe on a terminal: what would move the cursor, end the
/// line or turn the direction of writing is shown as its number.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) {
            safe.extend(character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{age, count, exact_milliseconds, mean, plain, short_id, thousandths};

    #[test]
    fn ages_are_short() {
        let cases = [
            (0, "0s"),
            (7, "7ms"),
            (999, "999ms"),
            (4_000, "4s"),
            (4_290, "4.2s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (130_000, "2m10s"),
            (7_260_000, "2h1m"),
            (86_400_000, "1d"),
            (183_600_000, "2d3h"),
            (u64::MAX, "213503982334d14h"),
        ];
        for (milliseconds, expected) in cases {
            assert_eq!(age(milliseconds), expected);
        }
    }

    #[test]
    fn settings_are_exact() {
        assert_eq!(exact_milliseconds(100), "100ms");
        assert_eq!(exact_milliseconds(90_000), "1m30s");
        assert_eq!(exact_milliseconds(1_550), "1s550ms");
    }

    #[test]
    fn means_keep_two_digits() {
        assert_eq!(mean(350), "350us");
        assert_eq!(mean(1_250), "1.2ms");
        assert_eq!(mean(48_300), "48ms");
        assert_eq!(mean(2_500_000), "2.5s");
    }

    #[test]
    fn parts_are_told_to_a_tenth() {
        assert_eq!([0, 999, 12_000, 7_550].map(thousandths), ["0", "0.9", "12", "7.5"]);
    }

    #[test]
    fn ids_are_cut_between_characters() {
        assert_eq!(short_id("0123456789abcdef0123456789abcdef"), "0123456789ab");
        assert_eq!(short_id("ééééééééééééé"), "éééééééééééé");
        assert_eq!(short_id("short"), "short");
    }

    #[test]
    fn nouns_agree() {
        assert_eq!(count(1, "token"), "1 token");
        assert_eq!(count(0, "token"), "0 tokens");
    }

    #[test]
    fn what_would_steer_a_terminal_is_shown_as_numbers() {
        assert_eq!(plain("ノード-1"), "ノード-1");
        assert_eq!(plain("a\x1b[31mb\u{202e}c\u{9b}"), "a\\u{1b}[31mb\\u{202e}c\\u{9b}");
    }
}
