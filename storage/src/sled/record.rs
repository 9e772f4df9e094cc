//! How one record looks: its key, and a value with version and checksum.
//!
//! ```text
//! key    kind (1 byte), then what tells the record from others of its kind
//! value  version (1) | CRC-32 of key, version and payload (4, little endian) | payload
//! ```
//!
//! The payload is postcard. The key is in the checksum, so that a value that
//! ends up under another key is noticed. Numbers in keys are big endian, so that
//! they sort. Knows nothing of the tree that the records are in.

use std::sync::Arc;

use leasehold_admission::{
    SessionId,
    durable::{Audit, Change, Lease, Operator, Session, State},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version that this code writes, and the newest that it reads.
pub(super) const VERSION: u8 = 1;

const META: u8 = b'm';
const GENERATION: u8 = b'g';
const SESSION: u8 = b's';
const LEASE: u8 = b'l';
const CAP: u8 = b'c';
const OPERATOR: u8 = b'o';
const AUDIT: u8 = b'a';

const CHECKSUM_AT: usize = 1;
const PAYLOAD_AT: usize = 5;

/// Key of the one [`Meta`] record.
pub(super) const META_KEY: &[u8] = &[META];

/// Describes the other records, and is written with each commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    /// Number of the last commit.
    pub(super) commits: u64,
    /// How many other records there are.
    pub(super) records: u64,
}

/// What is wrong with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its version is newer than [`VERSION`].
    Version(u8),
    /// It is not what was written.
    Damaged(String),
}

/// What one change does to records.
pub(super) enum Edit {
    /// Puts a value.
    Put(Vec<u8>, Vec<u8>),
    /// Removes one record, if there is one.
    Remove(Vec<u8>),
    /// Removes one record, if there is one, and all whose keys start like this.
    RemoveWithPrefix(Vec<u8>, Vec<u8>),
    /// Removes all records from the first key to the last, both included.
    RemoveRange(Vec<u8>, Vec<u8>),
}

/// Turns a change into an edit of records.
pub(super) fn edit(change: &Change) -> Edit {
    match change {
        Change::Generation(generation) => put(vec![GENERATION], generation),
        Change::PutSession(id, session) => put(session_key(SESSION, *id), session),
        Change::RemoveSession(id) => {
            Edit::RemoveWithPrefix(session_key(SESSION, *id), session_key(LEASE, *id))
        }
        Change::PutLease(id, database, lease) => put(lease_key(*id, database), lease),
        Change::RemoveLease(id, database) => Edit::Remove(lease_key(*id, database)),
        Change::PutCap(database, cap) => put(named_key(CAP, database), cap),
        Change::PutOperator(database, operator) => put(named_key(OPERATOR, database), operator),
        Change::PutAudit(sequence, audit) => put(audit_key(*sequence), audit),
        Change::TrimAudit(through) => Edit::RemoveRange(audit_key(0), audit_key(*through)),
    }
}

/// Puts one record, other than the meta record, where it belongs in the state.
pub(super) fn read_into(state: &mut State, key: &[u8], value: &[u8]) -> Result<(), Fault> {
    let unknown = || Fault::Damaged(format!("it holds a record of no known kind, {}", show(key)));
    let (kind, rest) = key.split_first().ok_or_else(unknown)?;
    match *kind {
        GENERATION if rest.is_empty() => state.generation = decode(key, value)?,
        SESSION => {
            state.sessions.insert(session_id(rest).ok_or_else(unknown)?, decode::<Session>(key, value)?);
        }
        LEASE => {
            let (id, name) = rest.split_at_checked(size_of::<u128>()).ok_or_else(unknown)?;
            let id = session_id(id).ok_or_else(unknown)?;
            let name = database_name(name).ok_or_else(unknown)?;
            state.leases.insert((id, name), decode::<Lease>(key, value)?);
        }
        CAP => {
            state.caps.insert(database_name(rest).ok_or_else(unknown)?, decode(key, value)?);
        }
        OPERATOR => {
            state.operators.insert(database_name(rest).ok_or_else(unknown)?, decode::<Operator>(key, value)?);
        }
        AUDIT => {
            let sequence = rest.try_into().map(u64::from_be_bytes).map_err(|_| unknown())?;
            state.audit.insert(sequence, decode::<Audit>(key, value)?);
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

/// Makes the stored form of a value.
pub(super) fn encode<T: Serialize>(key: &[u8], value: &T) -> Vec<u8> {
    let head = vec![VERSION, 0, 0, 0, 0];
    let mut record = postcard::to_extend(value, head).expect("a growing buffer takes every value");
    let checksum = checksum(key, &record).to_le_bytes();
    record[CHECKSUM_AT..PAYLOAD_AT].copy_from_slice(&checksum);
    record
}

/// Reads a value from its stored form.
pub(super) fn decode<T: DeserializeOwned>(key: &[u8], record: &[u8]) -> Result<T, Fault> {
    let damaged = |what: &str| Fault::Damaged(format!("its record {} {what}", show(key)));
    if record.len() < PAYLOAD_AT {
        return Err(damaged("is cut short"));
    }
    let stored: [u8; 4] = record[CHECKSUM_AT..PAYLOAD_AT].try_into().expect("the slice has four bytes");
    if u32::from_le_bytes(stored) != checksum(key, record) {
        return Err(damaged("does not have its checksum"));
    }
    // After the checksum: a damaged version byte is damage, not a newer version.
    if record[0] != VERSION {
        return Err(Fault::Version(record[0]));
    }
    match postcard::take_from_bytes(&record[PAYLOAD_AT..]) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged("is too long")),
        Err(error) => Err(damaged(&format!("cannot be read ({error})"))),
    }
}

fn put<T: Serialize>(key: Vec<u8>, value: &T) -> Edit {
    let record = encode(&key, value);
    Edit::Put(key, record)
}

fn checksum(key: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(&record[..CHECKSUM_AT]);
    hasher.update(&record[PAYLOAD_AT..]);
    hasher.finalize()
}

fn session_key(kind: u8, id: SessionId) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&id.0.to_be_bytes());
    key
}

fn lease_key(id: SessionId, database: &str) -> Vec<u8> {
    let mut key = session_key(LEASE, id);
    key.extend_from_slice(database.as_bytes());
    key
}

fn named_key(kind: u8, database: &str) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(database.as_bytes());
    key
}

fn audit_key(sequence: u64) -> Vec<u8> {
    let mut key = vec![AUDIT];
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

fn session_id(bytes: &[u8]) -> Option<SessionId> {
    bytes.try_into().ok().map(u128::from_be_bytes).map(SessionId)
}

fn database_name(bytes: &[u8]) -> Option<Arc<str>> {
    std::str::from_utf8(bytes).ok().map(Arc::from)
}

fn show(key: &[u8]) -> String {
    format!("`{}`", key.escape_ascii())
}

#[cfg(test)]
mod tests {
    use leasehold_admission::durable::{Override, OverrideValue};
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;
    use crate::conformance;

    /// The key and the value that a change puts.
    fn stored(change: &Change) -> Option<(Vec<u8>, Vec<u8>)> {
        match edit(change) {
            Edit::Put(key, value) => Some((key, value)),
            Edit::Remove(_) | Edit::RemoveWithPrefix(..) | Edit::RemoveRange(..) => None,
        }
    }

    fn good_record() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let records: Vec<_> = conformance::one_of_each().iter().filter_map(stored).collect();
        prop::sample::select(records)
    }

    /// Whatever the payload is, it passes for one that was written.
    fn sealed(key: &[u8], version: u8, payload: &[u8]) -> Vec<u8> {
        let mut record = [&[version, 0, 0, 0, 0], payload].concat();
        let checksum = checksum(key, &record).to_le_bytes();
        record[CHECKSUM_AT..PAYLOAD_AT].copy_from_slice(&checksum);
        record
    }

    proptest! {
        #[test]
        fn fuzz_a_record_of_any_bytes_is_read_or_refused(
            key in vec(any::<u8>(), 0..40),
            kind in prop::sample::select(vec![META, GENERATION, SESSION, LEASE, CAP, OPERATOR, AUDIT]),
            value in vec(any::<u8>(), 0..80),
        ) {
            let _ = read_into(&mut State::default(), &key, &value);
            let key = [&[kind], &key[..]].concat();
            let _ = read_into(&mut State::default(), &key, &value);
            let _ = read_into(&mut State::default(), &key, &sealed(&key, VERSION, &value));
            let _ = decode::<Meta>(&key, &sealed(&key, VERSION, &value));
        }

        #[test]
        fn fuzz_a_changed_record_is_refused((key, value) in good_record(), at in any::<Index>(), to in any::<u8>()) {
            let mut changed = value.clone();
            *at.get_mut(&mut changed) = to;
            let read = read_into(&mut State::default(), &key, &changed);
            prop_assert_eq!(read.is_ok(), changed == value, "{:?}", read);
        }

        /// What has its checksum is taken only if it would be written so: no bytes
        /// are left over or read twice.
        #[test]
        fn fuzz_what_is_read_is_written_the_same_again(
            (key, value) in good_record(),
            at in any::<Index>(),
            to in any::<u8>(),
        ) {
            let mut payload = value[PAYLOAD_AT..].to_vec();
            *at.get_mut(&mut payload) = to;
            let mut state = State::default();
            if read_into(&mut state, &key, &sealed(&key, VERSION, &payload)).is_ok() {
                let mut again = State::default();
                for change in state.changes() {
                    let (key, value) = stored(&change).expect("a state is made of what is put");
                    read_into(&mut again, &key, &value).expect("what was written is read");
                }
                prop_assert_eq!(again, state);
            }
        }
    }

    #[test]
    fn every_changed_byte_of_a_record_is_noticed() {
        let key = named_key(CAP, "orders");
        let record = encode(&key, &70_000_u32);
        assert_eq!(decode::<u32>(&key, &record), Ok(70_000));
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut changed = record.clone();
                changed[at] ^= 1 << bit;
                assert!(
                    matches!(decode::<u32>(&key, &changed), Err(Fault::Damaged(_))),
                    "byte {at} bit {bit}"
                );
            }
        }
        for length in 0..record.len() {
            assert!(
                matches!(decode::<u32>(&key, &record[..length]), Err(Fault::Damaged(_))),
                "{length} bytes"
            );
        }
        let elsewhere = named_key(CAP, "others");
        assert!(matches!(decode::<u32>(&elsewhere, &record), Err(Fault::Damaged(_))));
    }

    /// As it was written before workloads could be overridden.
    #[test]
    fn an_operators_record_of_before_is_read() {
        let key = named_key(OPERATOR, "orders");
        let overrides: [&[u8]; 5] = [
            &[0, 80, 0],
            &[1, 5, 0],
            &[2, 6, b'u', b'n', b'f', b'a', b'i', b'r', 1, 7],
            &[3, 20, 0],
            &[4, 1, 0],
        ];
        let payload = [&[5], &overrides.concat()[..], &[1]].concat();
        let mut state = State::default();
        read_into(&mut state, &key, &sealed(&key, 1, &payload)).expect("it is read");
        let value = |value, until_unix_ms| Override { value, until_unix_ms };
        let overrides = vec![
            value(OverrideValue::Cap(80), None),
            value(OverrideValue::Reserve(5), None),
            value(OverrideValue::Admission("unfair".to_owned()), Some(7)),
            value(OverrideValue::QuantumMs(20), None),
            value(OverrideValue::Shadow(true), None),
        ];
        assert_eq!(state.operators["orders"], Operator { overrides, draining: true });
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let key = named_key(CAP, "orders");
        let mut record = encode(&key, &7_u32);
        record[0] = 2;
        let checksum = checksum(&key, &record).to_le_bytes();
        record[CHECKSUM_AT..PAYLOAD_AT].copy_from_slice(&checksum);
        assert_eq!(decode::<u32>(&key, &record), Err(Fault::Version(2)));
    }

    #[test]
    fn keys_that_are_no_keys_are_refused() {
        for key in [&b""[..], b"x", b"gg", b"s123", b"l12345", b"a1", b"c\xff"] {
            let value = encode(key, &1_u64);
            assert!(
                matches!(read_into(&mut State::default(), key, &value), Err(Fault::Damaged(_))),
                "{key:?}"
            );
        }
    }
}
