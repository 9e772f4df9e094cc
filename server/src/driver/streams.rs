//! The open streams and their queues. A stream that does not take its messages
//! is let go, never waited for. Knows nothing of what the messages mean.

use std::{collections::HashMap, sync::Arc};

use leasehold_admission::{Close, Hello, SessionId, StreamId, Welcome};
use tokio::sync::mpsc;

use super::input::{Outgoing, Place};

/// All streams that the core may speak to.
#[derive(Default)]
pub(super) struct Streams {
    open: HashMap<StreamId, Stream>,
    /// Let go since the core was last told.
    lost: Vec<StreamId>,
}

/// Who is at the other end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) node: Arc<str>,
    pub(super) workload: Arc<str>,
}

struct Stream {
    session: SessionId,
    node: Node,
    /// Until the Welcome takes them along.
    places: Vec<Place>,
    outgoing: mpsc::Sender<Outgoing>,
}

impl Streams {
    pub(super) fn open(&mut self, hello: &Hello, places: Vec<Place>, outgoing: mpsc::Sender<Outgoing>) {
        let node = Node { node: Arc::clone(&hello.node), workload: Arc::clone(&hello.workload) };
        self.open.insert(hello.stream, Stream { session: hello.session, node, places, outgoing });
    }

    /// The session that an open stream speaks for.
    pub(super) fn session(&self, stream: StreamId) -> Option<(SessionId, &Node)> {
        self.open.get(&stream).map(|stream| (stream.session, &stream.node))
    }

    /// The node ended the stream, or went away. The session, if it was open.
    pub(super) fn ended(&mut self, stream: StreamId) -> Option<SessionId> {
        self.open.remove(&stream).map(|stream| stream.session)
    }

    pub(super) fn welcome(&mut self, stream: StreamId, generation: u64, welcome: Welcome) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        let places = std::mem::take(&mut open.places);
        self.send(stream, Outgoing::Welcome { generation, welcome, places });
    }

    /// Queues a message for an open stream. One whose queue is full, or whose
    /// node is gone, is lost.
    pub(super) fn send(&mut self, stream: StreamId, message: Outgoing) {
        let Some(open) = self.open.get(&stream) else { return };
        if open.outgoing.try_send(message).is_err() {
            self.open.remove(&stream);
            self.lost.push(stream);
        }
    }

    /// Ends a stream of which the core knows no more.
    pub(super) fn close(&mut self, stream: StreamId, reason: Close) -> Option<SessionId> {
        let open = self.open.remove(&stream)?;
        // If the queue is full, dropping it ends the stream all the same.
        drop(open.outgoing.try_send(Outgoing::End(reason)));
        Some(open.session)
    }

    /// Streams lost since the last call: the core has to be told.
    pub(super) fn take_lost(&mut self) -> Vec<StreamId> {
        std::mem::take(&mut self.lost)
    }
}
