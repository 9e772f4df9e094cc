//! The records as JSON, one a line: a header, the records, and an end that tells
//! how many they were, so that a text that was cut short is noticed. Knows
//! nothing of stores.

use std::io::{self, BufRead, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;

use leasehold_admission::SessionId;
use leasehold_admission::durable::{
    Audit, Kind, Lease, Operator, OverrideValue, Session, State, Unary, WorkloadValue,
};
use serde::{Deserialize, Serialize};

use crate::config::limits;

/// The format that is written, and the only one that is read.
const FORMAT: u32 = 1;
/// Highest generation that is read: numbers up to it are exact in every reader
/// of JSON, and no server comes to its end.
const GENERATION: u64 = 1 << 53;
/// Longest time to live, in milliseconds: a day, far more than may be configured.
const TTL_MS: u64 = 24 * 60 * 60 * 1_000;
/// Longest silence, in milliseconds: a hundred years.
const SILENT_MS: u64 = 100 * 366 * 24 * 60 * 60 * 1_000;
/// Most tokens of one lease: more than any server leases, and so few that those of
/// a session that uses as many databases as there may be can be added up.
const TOKENS: u32 = 4_000_000;
/// Length of a text, in bytes of UTF-8.
const TEXT_BYTES: usize = 4_096;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Leasehold { format: u32, generation: u64 },
    Session { id: String, session: Session },
    Lease { session: String, database: Arc<str>, lease: Lease },
    Cap { database: Arc<str>, cap: u32 },
    Operator { database: Arc<str>, operator: Operator },
    Audit { sequence: u64, entry: Audit },
    End { records: u64 },
}

/// Why a text is no export.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It cannot be read.
    #[error("line {line} cannot be read")]
    Read {
        /// Counted from 1.
        line: usize,
        /// Why.
        source: io::Error,
    },
    /// A line is no record.
    #[error("line {line} is no record ({reason})")]
    Line {
        /// Counted from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// It does not begin as it should.
    #[error(
        "the first line must be {{\"leasehold\":{{\"format\":{FORMAT},…}}}}, as `leasehold-server export` writes it"
    )]
    Header,
    /// Another version wrote it.
    #[error("it has format {0}, this version reads format {FORMAT}")]
    Format(u32),
    /// It has no end.
    #[error("it was cut short: its last line must tell how many records it has")]
    CutShort,
    /// Its end does not fit.
    #[error("its end tells of {told} records, and it has {found}")]
    Count {
        /// As told.
        told: u64,
        /// As counted.
        found: u64,
    },
}

/// Writes everything.
pub(super) fn write(state: &State, output: &mut impl Write) -> io::Result<()> {
    let State { generation, sessions, leases, caps, operators, audit } = state.clone();
    let sessions = sessions.into_iter().map(|(id, session)| Line::Session { id: id.to_string(), session });
    let leases = leases.into_iter().map(|((session, database), lease)| Line::Lease {
        session: session.to_string(),
        database,
        lease,
    });
    let caps = caps.into_iter().map(|(database, cap)| Line::Cap { database, cap });
    let operators = operators.into_iter().map(|(database, operator)| Line::Operator { database, operator });
    let audit = audit.into_iter().map(|(sequence, entry)| Line::Audit { sequence, entry });

    write_line(&Line::Leasehold { format: FORMAT, generation }, output)?;
    let mut records = 0;
    for line in sessions.chain(leases).chain(caps).chain(operators).chain(audit) {
        write_line(&line, output)?;
        records += 1;
    }
    write_line(&Line::End { records }, output)
}

fn write_line(line: &Line, output: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *output, line)?;
    output.write_all(b"\n")
}

/// Reads everything, and refuses what is not whole.
pub(super) fn read(input: impl BufRead) -> Result<State, LineError> {
    let mut state = State::default();
    let mut found = 0;
    let mut begun = false;
    let mut lines = (1..).zip(input.lines());
    while let Some((line, text)) = lines.next() {
        let text = text.map_err(|source| LineError::Read { line, source })?;
        let refused = |reason: String| LineError::Line { line, reason };
        let record = serde_json::from_str(&text);
        if !begun && !matches!(record, Ok(Line::Leasehold { .. })) {
            return Err(LineError::Header);
        }
        found += 1;
        let record = record.map_err(|error| refused(error.to_string()))?;
        within_bounds(&record).map_err(refused)?;
        let fresh = match record {
            Line::Leasehold { format, generation } => {
                if format != FORMAT {
                    return Err(LineError::Format(format));
                }
                let first = !std::mem::replace(&mut begun, true);
                (state.generation, found) = (generation, 0);
                first
            }
            Line::Session { id, session } => {
                let id = session_id(&id).ok_or_else(|| refused(format!("`{id}` is no session id")))?;
                state.sessions.insert(id, session).is_none()
            }
            Line::Lease { session, database, lease } => {
                let id = session_id(&session);
                let known = id.filter(|id| state.sessions.contains_key(id));
                let id = known.ok_or_else(|| refused(format!("session `{session}` is not above it")))?;
                state.leases.insert((id, database), lease).is_none()
            }
            Line::Cap { database, cap } => state.caps.insert(database, cap).is_none(),
            Line::Operator { database, operator } => state.operators.insert(database, operator).is_none(),
            Line::Audit { sequence, entry } => state.audit.insert(sequence, entry).is_none(),
            Line::End { records: told } => {
                found -= 1;
                if told != found {
                    return Err(LineError::Count { told, found });
                }
                return match lines.next() {
                    None => Ok(state),
                    Some((line, _)) => {
                        Err(LineError::Line { line, reason: "nothing follows the end".to_owned() })
                    }
                };
            }
        };
        if !fresh {
            return Err(refused("it is there twice".to_owned()));
        }
    }
    Err(if begun { LineError::CutShort } else { LineError::Header })
}

/// Whoever wrote a line may have meant well: a server that starts on it must not
/// fail for a number that is out of all bounds.
fn within_bounds(line: &Line) -> Result<(), String> {
    match line {
        Line::Leasehold { format: _, generation } => at_most("generation", *generation, GENERATION),
        Line::Session { id: _, session } => {
            let Session { node, workload, kind, ttl_ms, silent_ms } = session;
            text("node", node)?;
            text("workload", workload)?;
            match kind {
                Kind::Node | Kind::Quarantined => {}
                Kind::Unary(Unary { database, tokens, outcome: _ }) => {
                    text("database", database)?;
                    at_most("tokens", (*tokens).into(), TOKENS.into())?;
                }
            }
            at_most("ttl_ms", *ttl_ms, TTL_MS)?;
            at_most("silent_ms", *silent_ms, SILENT_MS)
        }
        Line::Lease { session: _, database, lease: Lease { ceiling, on_loss: _ } } => {
            text("database", database)?;
            at_most("ceiling", (*ceiling).into(), TOKENS.into())
        }
        Line::Cap { database, cap: _ } => text("database", database),
        Line::Operator { database, operator: Operator { overrides, draining: _ } } => {
            text("database", database)?;
            overrides.iter().try_for_each(|kept| match &kept.value {
                OverrideValue::Cap(_)
                | OverrideValue::Reserve(_)
                | OverrideValue::QuantumMs(_)
                | OverrideValue::Shadow(_) => Ok(()),
                OverrideValue::Admission(name) => text("admission", name),
                OverrideValue::Workload { name, value } => {
                    text("name", name)?;
                    override_of_a_workload(value)
                }
            })
        }
        Line::Audit { sequence: _, entry: Audit { unix_ms: _, who, what } } => {
            text("who", who)?;
            text("what", what)
        }
        Line::End { records: _ } => Ok(()),
    }
}

fn override_of_a_workload(value: &WorkloadValue) -> Result<(), String> {
    let within = |field: &str, value: u32, bounds: RangeInclusive<u32>| {
        let (least, most) = (bounds.start(), bounds.end());
        let problem = || format!("`{field}` is {value}, and must be {least} to {most}");
        bounds.contains(&value).then_some(()).ok_or_else(problem)
    };
    match value {
        WorkloadValue::Weight(weight) => within("weight", *weight, limits::WEIGHT),
        WorkloadValue::Floor(floor) => within("floor", *floor, limits::FLOOR),
        WorkloadValue::Keep(_) => Ok(()),
        WorkloadValue::Limit(limit) => within("limit", *limit, limits::LIMIT),
        WorkloadValue::MaxWaiting(most) => within("max_waiting", *most, limits::MAX_WAITING),
    }
}

fn at_most(field: &str, value: u64, most: u64) -> Result<(), String> {
    if value <= most { Ok(()) } else { Err(format!("`{field}` is {value}, at most {most} is allowed")) }
}

/// Texts end up in logs and on terminals.
fn text(field: &str, value: &str) -> Result<(), String> {
    if value.len() > TEXT_BYTES {
        return Err(format!("`{field}` has {} bytes, at most {TEXT_BYTES} are allowed", value.len()));
    }
    if value.chars().any(char::is_control) {
        return Err(format!("`{field}` has a control character"));
    }
    Ok(())
}

/// 32 hexadecimal digits, as people see ids elsewhere.
fn session_id(text: &str) -> Option<SessionId> {
    let well_formed = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if well_formed { u128::from_str_radix(text, 16).ok().map(SessionId) } else { None }
}

#[cfg(test)]
mod tests {
    use std::{env::VarError, path::Path, time::Duration};

    use leasehold_storage::{Memory, Store as _, conformance};
    use proptest::{prelude::*, sample::Index};
    use tokio::runtime::Builder;

    use super::*;
    use crate::{config, driver, telemetry::Traces};

    fn state() -> State {
        let mut state = State::default();
        for change in conformance::one_of_each() {
            state.apply(change);
        }
        state
    }

    fn text() -> String {
        let mut bytes = Vec::new();
        write(&state(), &mut bytes).expect("a vector takes everything");
        String::from_utf8(bytes).expect("JSON is text")
    }

    fn refusal(text: &str) -> String {
        read(text.as_bytes()).expect_err("it is refused").to_string()
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(text().as_bytes()).expect("it is read"), state());
        insta::assert_snapshot!(text());
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let text = text();
        let lines: Vec<&str> = text.lines().collect();
        for without in 0..lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(without);
            read(fewer.join("\n").as_bytes()).expect_err("a line is missing");
            let twice = [&lines[..=without], &lines[without..]].concat();
            read(twice.join("\n").as_bytes()).expect_err("a line is there twice");
            read(lines[..without].join("\n").as_bytes()).expect_err("it was cut short");
        }
        assert!(refusal(&lines[..3].join("\n")).starts_with("it was cut short"));
        assert!(refusal("").contains("the first line must be"));
        assert!(refusal("hello").contains("the first line must be"));
        assert!(refusal(r#"{"leasehold":{"format":2,"generation":1}}"#).contains("it has format 2"));
        let unknown =
            "{\"leasehold\":{\"format\":1,\"generation\":1}}\n{\"cap\":{\"database\":\"a\",\"tokens\":1}}";
        insta::assert_snapshot!(refusal(unknown), @"line 2 is no record (unknown field `tokens`, expected `database` or `cap` at line 1 column 31)");
    }

    #[test]
    fn what_no_server_could_start_on_is_refused() {
        let header = |generation: u64| Line::Leasehold { format: FORMAT, generation };
        assert_eq!(within_bounds(&header(GENERATION)), Ok(()));
        let high = "`generation` is 9007199254740993, at most 9007199254740992 is allowed";
        assert_eq!(within_bounds(&header(GENERATION + 1)), Err(high.to_owned()));
        let named = |node: &str| {
            let session = Session {
                node: node.into(),
                workload: "default".into(),
                kind: Kind::Node,
                ttl_ms: 10_000,
                silent_ms: 0,
            };
            within_bounds(&Line::Session { id: String::new(), session })
        };
        assert_eq!(named("web-1"), Ok(()));
        assert_eq!(named("web\u{1b}[2J"), Err("`node` has a control character".to_owned()));
    }

    /// Small and huge numbers, and those at the bounds.
    fn number() -> impl Strategy<Value = u64> {
        let bounds = [TOKENS.into(), u32::MAX.into(), TTL_MS, SILENT_MS, GENERATION, u64::MAX];
        prop_oneof![0..3_u64, prop::sample::select(bounds.to_vec()), any::<u64>()]
    }

    /// A good export in which numbers, letters and whole lines were changed.
    fn changed_export() -> impl Strategy<Value = String> {
        let changes = proptest::collection::vec((any::<Index>(), number(), "[ -~]", 0..4_u8), 0..4);
        changes.prop_map(|changes| {
            let mut lines: Vec<String> = text().lines().map(str::to_owned).collect();
            for (at, number, letter, what) in changes {
                let count = lines.len();
                let line = &mut lines[at.index(count)];
                let place = at.index(line.len());
                match what {
                    0 => line.replace_range(place..=place, &letter),
                    1 => *line = with_number(line, place, number),
                    2 => line.truncate(place),
                    _ => drop(lines.remove(at.index(count))),
                }
                if lines.is_empty() {
                    lines.push(String::new());
                }
                lines.iter_mut().filter(|line| line.is_empty()).for_each(|line| line.push('0'));
            }
            lines.join("\n")
        })
    }

    /// The line with the first number after a place, if any, replaced.
    fn with_number(line: &str, place: usize, number: u64) -> String {
        let (before, after) = line.split_at(place);
        let Some(start) = after.find(|character: char| character.is_ascii_digit()) else {
            return line.to_owned();
        };
        let rest = after[start..].trim_start_matches(|character: char| character.is_ascii_digit());
        format!("{before}{}{number}{rest}", &after[..start])
    }

    proptest! {
        #[test]
        fn fuzz_any_text(text in ".{0,200}") {
            let _ = read(text.as_bytes());
            let _ = read(format!("{{\"leasehold\":{{\"format\":1,\"generation\":1}}}}\n{text}").as_bytes());
        }

        #[test]
        fn fuzz_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes[..]);
        }

        /// Whatever is taken is written the same again, and a server starts on it.
        #[test]
        fn fuzz_a_changed_export(text in changed_export()) {
            let Ok(mut state) = read(text.as_bytes()) else { return Ok(()) };
            let mut bytes = Vec::new();
            write(&state, &mut bytes).expect("a vector takes everything");
            prop_assert_eq!(&read(&bytes[..]).expect("what was written is read"), &state);
            state.miss_records();
            starts_on(&state);
        }
    }

    /// Runs a server's driver for a while on what was imported.
    fn starts_on(state: &State) {
        let config = config::parse(
            Path::new("a.toml"),
            "[databases.orders]\ncap = 1000000\n[databases.reports]\ncap = 1\non_loss = 'keep'",
            &|_| Err(VarError::NotPresent),
        );
        let databases = config.expect("it is right").databases;
        let mut store = Memory::default();
        store.commit(&state.changes()).expect("memory takes everything");
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let started = driver::start(Box::new(store), &databases, Traces::default()).await;
            let (handle, driver) = started.expect("it starts");
            tokio::time::sleep(Duration::from_secs(120)).await;
            handle.status().await.expect("it answers");
            handle.stop().await;
            driver.await.expect("no invariant is broken");
        });
    }
}
