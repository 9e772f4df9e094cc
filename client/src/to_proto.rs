//! The session's words as the wire has them. Decides nothing.

use std::time::Duration;

use leasehold_proto::v1;

use crate::session::message::{Demand, Hello, ToServer};

/// Longest trace context that is sent, in bytes. A W3C `traceparent` of the
/// current version has 55.
const MAX_TRACEPARENT_BYTES: usize = 128;

/// One message to the server.
pub(crate) fn message(message: ToServer) -> v1::NodeMessage {
    use v1::node_message::Kind;
    let kind = match message {
        ToServer::Hello(from) => Kind::Hello(hello(from)),
        ToServer::Demand(from) => Kind::Demand(demand(from)),
        ToServer::KeepAlive(id) => Kind::KeepAlive(v1::KeepAlive { id: id.0 }),
        ToServer::Goodbye => Kind::Goodbye(v1::Goodbye {}),
    };
    v1::NodeMessage { kind: Some(kind) }
}

fn hello(from: Hello) -> v1::Hello {
    v1::Hello {
        session: from.session.as_bytes().to_vec(),
        node: from.node,
        workload: from.workload,
        claims: from.claims.into_iter().map(claim).collect(),
        generation: from.generation.0,
        client: from.client,
    }
}

fn claim(from: Demand) -> v1::Claim {
    v1::Claim { database: from.database.to_string(), demand: Some(demand(from)) }
}

fn demand(from: Demand) -> v1::Demand {
    let levels = from.levels;
    v1::Demand {
        database: from.database.to_string(),
        acknowledged: from.acknowledged.0,
        holding: levels.holding,
        established: levels.established,
        opening: levels.opening,
        closing: levels.closing,
        in_use: levels.in_use,
        idle: levels.idle,
        waiting: levels.waiting,
        wanted: levels.wanted,
        oldest_wait_us: microseconds(levels.oldest_wait),
        mean_hold_us: microseconds(levels.mean_hold),
        mean_connect_us: microseconds(levels.mean_connect),
        traceparent: Some(from.traceparent)
            .filter(|context| context.len() <= MAX_TRACEPARENT_BYTES)
            .unwrap_or_default(),
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::governed::Levels;
    use crate::session::message::{DatabaseName, Generation, Sequence, SessionId};

    #[test]
    fn a_hello_carries_its_claims_with_units() {
        let levels = Levels { holding: 3, oldest_wait: Duration::from_millis(2), ..Levels::default() };
        let hello = Hello {
            session: SessionId::from_bytes([7; 16]),
            node: "node".into(),
            workload: String::new(),
            generation: Generation(4),
            client: "test".into(),
            claims: vec![Demand {
                database: DatabaseName::new("orders").unwrap(),
                acknowledged: Sequence(0),
                levels,
                traceparent: "x".repeat(MAX_TRACEPARENT_BYTES + 1),
            }],
        };
        let Some(v1::node_message::Kind::Hello(sent)) = message(ToServer::Hello(hello)).kind else {
            panic!("not a Hello")
        };
        assert_eq!((sent.session, sent.generation), (vec![7; 16], 4));
        let demand = sent.claims[0].demand.clone().unwrap();
        assert_eq!((demand.holding, demand.oldest_wait_us), (3, 2_000));
        assert_eq!(demand.traceparent, "", "a context beyond all bounds is left out");
    }
}
