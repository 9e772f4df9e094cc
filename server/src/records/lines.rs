//! The records as JSON, one a line: a header, the records, and an end that tells
//! how many they were, so that a text that was cut short is noticed. Knows
//! nothing of stores.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use leasehold_admission::SessionId;
use leasehold_admission::durable::{Audit, Lease, Operator, Session, State};
use serde::{Deserialize, Serialize};

/// The format that is written, and the only one that is read.
const FORMAT: u32 = 1;

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
        let fresh = match record.map_err(|error| refused(error.to_string()))? {
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

/// 32 hexadecimal digits, as people see ids elsewhere.
fn session_id(text: &str) -> Option<SessionId> {
    let well_formed = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if well_formed { u128::from_str_radix(text, 16).ok().map(SessionId) } else { None }
}

#[cfg(test)]
mod tests {
    use leasehold_storage::conformance;
    use proptest::prelude::*;

    use super::*;

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

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}") {
            let _ = read(text.as_bytes());
            let _ = read(format!("{{\"leasehold\":{{\"format\":1,\"generation\":1}}}}\n{text}").as_bytes());
        }
    }
}
