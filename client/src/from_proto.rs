//! The server's words, checked: after this file nothing is missing, zero where
//! it must not be, or out of bounds. Knows nothing of what they lead to.

use std::time::Duration;

use leasehold_proto::v1;

use crate::governed::Recall;
use crate::session::message::{
    Allotment, DatabaseName, DatabaseTerms, FromServer, Generation, InvalidName, KeepAliveId, LossPolicy,
    MAX_DATABASES, Sequence, Terms, Welcome,
};

/// Longest TTL and quantum that are believed.
const LONGEST_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// What is wrong with a message of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadMessage {
    /// The message says nothing that this version knows.
    #[error("a message of a kind that this version does not know")]
    UnknownKind,
    /// A database's name is empty or too long.
    #[error("a message about no valid database: {0}")]
    Database(#[from] InvalidName),
    /// A number is out of its bounds.
    #[error("{field} is {value}, which is not from {low} to {high}")]
    OutOfBounds {
        /// The field, as the protocol names it.
        field: &'static str,
        /// What it was.
        value: u64,
        /// The lowest that is allowed.
        low: u64,
        /// The highest that is allowed.
        high: u64,
    },
    /// A value of an enumeration is not known.
    #[error("{field} has the value {value}, which this version does not know")]
    UnknownValue {
        /// The field, as the protocol names it.
        field: &'static str,
        /// What it was.
        value: i32,
    },
}

/// Checks one message of the server.
pub(crate) fn message(message: v1::ServerMessage) -> Result<FromServer, BadMessage> {
    use v1::server_message::Kind;
    match message.kind.ok_or(BadMessage::UnknownKind)? {
        Kind::Welcome(from) => welcome(&from).map(FromServer::Welcome),
        Kind::Allotment(from) => allotment(&from).map(FromServer::Allotment),
        Kind::KeepAlive(from) => Ok(FromServer::KeepAliveReply(KeepAliveId(from.id))),
        Kind::Gone(from) => Ok(FromServer::Gone(from.reason)),
    }
}

fn welcome(from: &v1::Welcome) -> Result<Welcome, BadMessage> {
    let longest = milliseconds(LONGEST_DURATION);
    let generation = bounded("generation", from.generation, 1, u64::MAX)?;
    let ttl = bounded("ttl_ms", from.ttl_ms, 2, longest)?;
    let keep_alive = bounded("keep_alive_ms", from.keep_alive_ms, 1, ttl - 1)?;
    bounded("the number of databases", from.databases.len() as u64, 0, MAX_DATABASES as u64)?;
    Ok(Welcome {
        generation: Generation(generation),
        ttl: Duration::from_millis(ttl),
        keep_alive: Duration::from_millis(keep_alive),
        databases: from.databases.iter().map(database_terms).collect::<Result<_, _>>()?,
    })
}

fn database_terms(from: &v1::DatabaseTerms) -> Result<DatabaseTerms, BadMessage> {
    let database = DatabaseName::new(&from.database)?;
    let terms = if from.known { Some(terms(from)?) } else { None };
    Ok(DatabaseTerms { database, terms })
}

fn terms(from: &v1::DatabaseTerms) -> Result<Terms, BadMessage> {
    let on_loss = match v1::LossPolicy::try_from(from.on_loss) {
        Ok(v1::LossPolicy::Keep) => LossPolicy::Keep,
        Ok(v1::LossPolicy::Fence) => LossPolicy::Fence,
        Ok(v1::LossPolicy::Unspecified) | Err(_) => {
            return Err(BadMessage::UnknownValue { field: "on_loss", value: from.on_loss });
        }
    };
    Ok(Terms {
        // Zero would acknowledge nothing, so the Welcome would stay unanswered.
        sequence: Sequence(bounded("sequence", from.sequence, 1, u64::MAX)?),
        on_loss,
        quantum: quantum(from.quantum_us)?,
    })
}

fn quantum(microseconds: u64) -> Result<Duration, BadMessage> {
    let longest = milliseconds(LONGEST_DURATION).saturating_mul(1_000);
    bounded("quantum_us", microseconds, 0, longest).map(Duration::from_micros)
}

fn allotment(from: &v1::Allotment) -> Result<Allotment, BadMessage> {
    let recall = match v1::Recall::try_from(from.recall) {
        Ok(v1::Recall::None) => Recall::None,
        Ok(v1::Recall::Idle) => Recall::Idle,
        Ok(v1::Recall::NextReturn) => Recall::NextReturn,
        Err(_) => return Err(BadMessage::UnknownValue { field: "recall", value: from.recall }),
    };
    Ok(Allotment {
        database: DatabaseName::new(&from.database)?,
        sequence: Sequence(bounded("sequence", from.sequence, 1, u64::MAX)?),
        tokens: from.tokens,
        recall,
        quantum: from.quantum_us.map(quantum).transpose()?,
        max_waiting: from.max_waiting,
    })
}

fn bounded(field: &'static str, value: u64, low: u64, high: u64) -> Result<u64, BadMessage> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(BadMessage::OutOfBounds { field, value, low, high })
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::Index};
    use prost::Message as _;
    use v1::server_message::Kind;

    use super::*;

    /// What a server says, as bytes.
    fn good_messages() -> Vec<Vec<u8>> {
        let allotment = v1::Allotment {
            database: "orders".into(),
            sequence: 7,
            tokens: 300,
            recall: 2,
            quantum_us: Some(100_000),
            max_waiting: Some(500),
        };
        let kinds = [Kind::Welcome(good_welcome()), Kind::Allotment(allotment)];
        kinds.into_iter().map(|kind| v1::ServerMessage { kind: Some(kind) }.encode_to_vec()).collect()
    }

    proptest! {
        #[test]
        fn fuzz_messages_of_any_bytes(
            any in vec(any::<u8>(), 0..60),
            mut good in prop::sample::select(good_messages()),
            changes in vec((any::<Index>(), any::<u8>()), 0..4),
        ) {
            for (at, to) in changes {
                *at.get_mut(&mut good) = to;
            }
            for bytes in [any, good] {
                let read = v1::ServerMessage::decode(&bytes[..]).map(message);
                if let Ok(Ok(FromServer::Welcome(welcome))) = read {
                    prop_assert!(welcome.keep_alive < welcome.ttl && !welcome.keep_alive.is_zero());
                    prop_assert!(welcome.generation.0 > 0 && welcome.ttl <= LONGEST_DURATION);
                }
            }
        }
    }

    fn check(kind: Kind, refusal: &str) {
        let refused = message(v1::ServerMessage { kind: Some(kind) }).unwrap_err();
        assert_eq!(refused.to_string(), refusal);
    }

    fn good_welcome() -> v1::Welcome {
        v1::Welcome {
            generation: 3,
            ttl_ms: 10_000,
            keep_alive_ms: 2_000,
            databases: vec![
                v1::DatabaseTerms {
                    database: "orders".into(),
                    known: true,
                    sequence: 1,
                    on_loss: v1::LossPolicy::Fence.into(),
                    quantum_us: 100_000,
                },
                v1::DatabaseTerms { database: "typo".into(), ..Default::default() },
            ],
        }
    }

    #[test]
    fn a_welcome_is_read() {
        let read = message(v1::ServerMessage { kind: Some(Kind::Welcome(good_welcome())) }).unwrap();
        let FromServer::Welcome(welcome) = read else { panic!("{read:?}") };
        assert_eq!(welcome.ttl, Duration::from_secs(10));
        assert_eq!(welcome.databases[0].terms.unwrap().quantum, Duration::from_millis(100));
        assert_eq!(welcome.databases[0].terms.unwrap().on_loss, LossPolicy::Fence);
        assert_eq!(welcome.databases[1].terms, None);
    }

    #[test]
    fn bad_messages_say_what_is_wrong() {
        let welcome = good_welcome();
        check(
            Kind::Welcome(v1::Welcome { generation: 0, ..welcome.clone() }),
            "generation is 0, which is not from 1 to 18446744073709551615",
        );
        check(
            Kind::Welcome(v1::Welcome { ttl_ms: 0, ..welcome.clone() }),
            "ttl_ms is 0, which is not from 2 to 86400000",
        );
        check(
            Kind::Welcome(v1::Welcome { keep_alive_ms: 10_000, ..welcome.clone() }),
            "keep_alive_ms is 10000, which is not from 1 to 9999",
        );
        let mut unspecified = welcome;
        unspecified.databases[0].on_loss = 0;
        check(Kind::Welcome(unspecified), "on_loss has the value 0, which this version does not know");
        check(
            Kind::Allotment(v1::Allotment { sequence: 1, ..Default::default() }),
            "a message about no valid database: a database's name has 1 to 128 bytes of UTF-8, not 0",
        );
        let endless = v1::Allotment {
            database: "orders".into(),
            sequence: 1,
            quantum_us: Some(u64::MAX),
            ..Default::default()
        };
        check(
            Kind::Allotment(endless),
            "quantum_us is 18446744073709551615, which is not from 0 to 86400000000",
        );
        let strange =
            v1::Allotment { database: "orders".into(), recall: 9, sequence: 1, ..Default::default() };
        check(Kind::Allotment(strange), "recall has the value 9, which this version does not know");
        assert_eq!(message(v1::ServerMessage { kind: None }), Err(BadMessage::UnknownKind));
    }
}
