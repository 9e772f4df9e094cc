//! A node's stream. One task reads what the node sends and passes it on; the
//! stream of answers takes what the driver has queued. Knows nothing of leases.

use std::{
    collections::HashMap,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use leasehold_admission::DatabaseId;
use leasehold_proto::v1::{self, node_message::Kind};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::{
    from_proto::{self, invalid},
    to_proto::{self, Said},
};
use crate::driver::{DriverHandle, OUTGOING, Outgoing, StreamGuard};

/// Longest time from the opening of a stream to its Hello.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts to read a stream, and returns what is sent on it.
pub(super) fn open(handle: DriverHandle, incoming: Streaming<v1::NodeMessage>) -> Answers {
    let (outgoing, queued) = mpsc::channel(OUTGOING);
    let (verdict, reader) = oneshot::channel();
    let answers = Answers { handle: handle.clone(), queued, reader, ended: false };
    tokio::spawn(read(handle, incoming, outgoing, verdict));
    answers
}

/// Reads until the node ends the stream, sends what it must not, or the answers
/// are dropped.
async fn read(
    handle: DriverHandle,
    mut incoming: Streaming<v1::NodeMessage>,
    outgoing: mpsc::Sender<Outgoing>,
    mut verdict: oneshot::Sender<Status>,
) {
    let mut reader = Reader { handle, outgoing: Some(outgoing), stream: None, places: HashMap::new() };
    let outcome = tokio::select! {
        outcome = reader.run(&mut incoming) => outcome,
        () = verdict.closed() => return,
    };
    if let Err(status) = outcome {
        // Whoever would hear it may be gone.
        drop(verdict.send(status));
    }
    // Only now may the driver let go of the answers: they would end without the
    // verdict otherwise.
    drop(reader);
}

struct Reader {
    handle: DriverHandle,
    /// Until the Hello.
    outgoing: Option<mpsc::Sender<Outgoing>>,
    /// Since the Hello.
    stream: Option<StreamGuard>,
    /// What the Hello named; `None`: the server does not know it.
    places: HashMap<Box<str>, Option<DatabaseId>>,
}

impl Reader {
    async fn run(&mut self, incoming: &mut Streaming<v1::NodeMessage>) -> Result<(), Status> {
        let first = timeout(HELLO_TIMEOUT, incoming.message()).await;
        let Some(message) = first.map_err(|_| to_proto::no_hello(HELLO_TIMEOUT))?? else { return Ok(()) };
        self.hello(message).await?;
        while let Some(message) = incoming.message().await? {
            self.take(message).await?;
        }
        Ok(())
    }

    async fn hello(&mut self, message: v1::NodeMessage) -> Result<(), Status> {
        let (Some(Kind::Hello(hello)), Some(outgoing)) = (message.kind, self.outgoing.clone()) else {
            return Err(to_proto::refused(invalid("kind", "must be hello in the first message")));
        };
        let (generation, seen) = (self.handle.generation(), hello.generation);
        let names = |name: &str| self.handle.database(name);
        let hello = from_proto::hello(hello, &names).map_err(to_proto::refused)?;
        if seen > generation {
            return Err(to_proto::older_than_seen(generation, seen));
        }
        self.places = hello.places.iter().map(|place| (Box::from(&*place.name), place.database)).collect();
        let opened = self.handle.open_stream(hello, outgoing).await;
        self.stream = Some(opened.map_err(to_proto::unanswered)?);
        // Kept until here: without it the answers end, before a refusal is told.
        self.outgoing = None;
        Ok(())
    }

    async fn take(&self, message: v1::NodeMessage) -> Result<(), Status> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let passed = match message.kind {
            Some(Kind::Demand(demand)) => {
                let report = from_proto::demand(demand).map_err(to_proto::refused)?;
                match self.places.get(&*report.database) {
                    Some(Some(database)) => stream.demand(*database, report.demand, report.traceparent).await,
                    // The Welcome has said that the server does not know it.
                    Some(None) => Ok(()),
                    None => {
                        let problem = "names a database that the Hello did not claim";
                        return Err(to_proto::refused(invalid("demand.database", problem)));
                    }
                }
            }
            Some(Kind::KeepAlive(keep_alive)) => stream.keep_alive(keep_alive.id).await,
            Some(Kind::Goodbye(v1::Goodbye {})) => stream.goodbye().await,
            Some(Kind::Hello(_)) => {
                return Err(to_proto::refused(invalid("hello", "came again: a stream has one")));
            }
            None => return Err(to_proto::refused(invalid("kind", "is missing, or newer than this server"))),
        };
        passed.map_err(to_proto::unanswered)
    }
}

/// What is sent on one stream.
#[derive(Debug)]
pub(super) struct Answers {
    handle: DriverHandle,
    queued: mpsc::Receiver<Outgoing>,
    /// Completes when the reader ends, with a status if there is one to give.
    reader: oneshot::Receiver<Status>,
    ended: bool,
}

impl Stream for Answers {
    type Item = Result<v1::ServerMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let said = match Pin::new(&mut self.reader).poll(context) {
            Poll::Ready(Ok(status)) => Said::Failed(status),
            // The node has ended the stream.
            Poll::Ready(Err(_)) => Said::End,
            Poll::Pending => match self.queued.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(outgoing)) => to_proto::said(outgoing, &self.handle),
                Poll::Ready(None) => Said::Failed(to_proto::let_go()),
            },
        };
        self.ended = !matches!(said, Said::Message(_));
        Poll::Ready(match said {
            Said::Message(message) | Said::Last(message) => Some(Ok(message)),
            Said::Failed(status) => Some(Err(status)),
            Said::End => None,
        })
    }
}
