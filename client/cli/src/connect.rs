//! Reaches the server and calls it, with a bound on every wait. Knows nothing of
//! what the calls mean.

use std::error::Error as _;
use std::time::Duration;

use leasehold_proto::v1::admin_service_client::AdminServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::args::ServerUrl;
use crate::error::Error;

/// The generated client.
pub(crate) type Client = AdminServiceClient<Channel>;

/// Largest answer accepted, in bytes: some 100,000 leases. tonic's own 4 MiB would
/// refuse to list a large fleet.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    server: ServerUrl,
    timeout: Duration,
}

/// Whether a call that got no answer leaves a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Reads,
    Changes,
}

impl Connection {
    /// Connects, within `timeout`. Names are resolved within it too.
    pub(crate) async fn open(server: &ServerUrl, timeout: Duration) -> Result<Self, Error> {
        let unreachable = |source| Error::Unreachable { server: server.clone(), source };
        let endpoint = Endpoint::from_shared(server.to_string()).map_err(unreachable)?;
        match tokio::time::timeout(timeout, endpoint.connect()).await {
            Ok(Ok(channel)) => {
                let client = AdminServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX);
                Ok(Connection { client, server: server.clone(), timeout })
            }
            Ok(Err(source)) => Err(unreachable(source)),
            Err(_elapsed) => Err(Error::ConnectTimeout { server: server.clone(), timeout }),
        }
    }

    /// Makes a call that changes nothing.
    pub(crate) async fn read<R>(
        &mut self,
        call: impl AsyncFnOnce(&mut Client) -> Result<Response<R>, Status>,
    ) -> Result<R, Error> {
        self.call(Call::Reads, call).await
    }

    /// Makes a call that changes the server's state.
    pub(crate) async fn change<R>(
        &mut self,
        call: impl AsyncFnOnce(&mut Client) -> Result<Response<R>, Status>,
    ) -> Result<R, Error> {
        self.call(Call::Changes, call).await
    }

    async fn call<R>(
        &mut self,
        kind: Call,
        call: impl AsyncFnOnce(&mut Client) -> Result<Response<R>, Status>,
    ) -> Result<R, Error> {
        let changes = kind == Call::Changes;
        match tokio::time::timeout(self.timeout, call(&mut self.client)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            // A status with a source was made on this side, from a broken connection.
            Ok(Err(status)) if status.source().is_some() => {
                Err(Error::Lost { server: self.server.clone(), source: Box::new(status), changes })
            }
            Ok(Err(status)) => Err(Error::Refused { source: Box::new(status) }),
            Err(_elapsed) => {
                Err(Error::AnswerTimeout { server: self.server.clone(), timeout: self.timeout, changes })
            }
        }
    }
}
