//! One gRPC stream as a task: connect, call, read. What it finds becomes events
//! that name the stream. Knows nothing of what they mean.

use std::error::Error;
use std::time::Duration;

use leasehold_proto::v1;
use leasehold_proto::v1::lease_service_client::LeaseServiceClient;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::endpoint::Endpoint;
use crate::session::message::{FromServer, ToServer};
use crate::session::{CONNECT_PATIENCE, StreamId};
use crate::{from_proto, to_proto};

/// How often an HTTP/2 ping looks for a dead connection, and how long it waits.
/// The session's keep-alives find it first; these also end the socket.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_PATIENCE: Duration = Duration::from_secs(5);

/// What happened on a stream.
#[derive(Debug)]
pub(super) enum FromStream {
    Connected { stream: StreamId, endpoint: usize, channel: Channel },
    Received(StreamId, FromServer),
    Ended(StreamId, String),
}

/// A running stream. Dropping it resets the stream.
#[derive(Debug)]
pub(super) struct StreamTask {
    id: StreamId,
    outgoing: mpsc::Sender<v1::NodeMessage>,
    /// A message was sent and the transport has not been seen to take it.
    sending: bool,
    task: AbortHandle,
}

impl StreamTask {
    /// Starts a stream, over `channel` if there is one.
    pub(super) fn spawn(
        id: StreamId,
        endpoint: usize,
        address: Endpoint,
        channel: Option<Channel>,
        events: mpsc::Sender<FromStream>,
    ) -> Self {
        let (outgoing, messages) = mpsc::channel(1);
        let work = async move {
            let reason = match converse(id, endpoint, &address, channel, messages, &events).await {
                Ok(()) => "the server ended the stream".to_owned(),
                Err(reason) => reason,
            };
            // Nobody listens any more when the session has ended.
            let _ = events.send(FromStream::Ended(id, reason)).await;
        };
        Self { id, outgoing, sending: false, task: tokio::spawn(work).abort_handle() }
    }

    pub(super) fn id(&self) -> StreamId {
        self.id
    }

    /// Puts a message into the stream's only slot, which the session knows to
    /// be free. If the stream has ended instead, its event is on the way.
    pub(super) fn send(&mut self, message: ToServer) {
        self.sending = self.outgoing.try_send(to_proto::message(message)).is_ok();
    }

    /// Waits until the transport has taken the last message of `stream`.
    pub(super) async fn sent(stream: &mut Option<Self>) -> StreamId {
        let Some(open) = stream.as_mut().filter(|open| open.sending) else {
            return std::future::pending().await;
        };
        let taken = open.outgoing.reserve().await.is_ok();
        open.sending = false;
        if !taken {
            return std::future::pending().await;
        }
        open.id
    }
}

impl Drop for StreamTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(
    id: StreamId,
    endpoint: usize,
    address: &Endpoint,
    channel: Option<Channel>,
    messages: mpsc::Receiver<v1::NodeMessage>,
    events: &mpsc::Sender<FromStream>,
) -> Result<(), String> {
    let channel = match channel {
        Some(channel) => channel,
        None => connect(address).await?,
    };
    let mut client = LeaseServiceClient::new(channel.clone());
    if events.send(FromStream::Connected { stream: id, endpoint, channel }).await.is_err() {
        return Ok(());
    }
    let call = client.session(ReceiverStream::new(messages)).await;
    let mut incoming = call.map_err(|status| refusal(&status))?.into_inner();
    while let Some(message) = incoming.message().await.map_err(|status| refusal(&status))? {
        let message = from_proto::message(message)
            .map_err(|error| format!("the server sent a message that is not valid: {error}"))?;
        if events.send(FromStream::Received(id, message)).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn connect(address: &Endpoint) -> Result<Channel, String> {
    let endpoint = Channel::builder(address.uri().clone())
        .connect_timeout(CONNECT_PATIENCE)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_PATIENCE)
        .keep_alive_while_idle(true);
    endpoint.connect().await.map_err(|error| format!("cannot connect: {}", innermost(&error)))
}

fn refusal(status: &tonic::Status) -> String {
    match status.source() {
        Some(source) => format!("the stream broke: {}", innermost(source)),
        None => format!("the server said {:?}: {}", status.code(), status.message()),
    }
}

/// The error below which there is no other: transport errors hide what
/// happened under layers that say nothing.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
