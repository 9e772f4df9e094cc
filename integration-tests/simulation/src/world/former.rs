//! A server of an earlier generation that somebody forgot to end: it welcomes
//! every node that reaches it and grants whatever there is. Knows nothing of the
//! true one.

use std::time::Duration;

use leasehold_client::{
    governed::Recall,
    session::message::{
        Allotment, DatabaseTerms, FromServer, Generation, Hello, LossPolicy, Sequence, Terms, ToServer,
        Welcome,
    },
};

use super::{World, network::Parcel};

/// What it grants of each database.
const GENEROUS: u32 = 9;

/// Its time to live.
const TTL: Duration = Duration::from_secs(3);

impl World {
    /// A node's message reaches it.
    pub(crate) fn former_receives(&mut self, stream: usize, parcel: Parcel<ToServer>) {
        let answers = match parcel {
            Parcel::Message(ToServer::Hello(hello)) => welcome(&hello),
            Parcel::Message(ToServer::KeepAlive(id)) => vec![FromServer::KeepAliveReply(id)],
            Parcel::Message(ToServer::Demand(_) | ToServer::Goodbye) | Parcel::End(_) => Vec::new(),
        };
        for answer in answers {
            self.send_down(stream, Parcel::Message(answer));
        }
    }
}

fn welcome(hello: &Hello) -> Vec<FromServer> {
    let databases = || hello.claims.iter().map(|claim| claim.database.clone());
    let terms = Terms { sequence: Sequence(1), on_loss: LossPolicy::Keep, quantum: Duration::ZERO };
    let welcome = FromServer::Welcome(Welcome {
        generation: Generation(hello.generation.0.saturating_sub(1)),
        ttl: TTL,
        keep_alive: TTL / 4,
        databases: databases().map(|database| DatabaseTerms { database, terms: Some(terms) }).collect(),
    });
    let grant = |database| {
        let (sequence, tokens) = (Sequence(2), GENEROUS);
        FromServer::Allotment(Allotment {
            database,
            sequence,
            tokens,
            recall: Recall::None,
            quantum: None,
            max_waiting: None,
        })
    };
    std::iter::once(welcome).chain(databases().map(grant)).collect()
}
