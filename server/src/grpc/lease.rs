//! `LeaseService`: streams for nodes, unary calls for everybody else. A call
//! whose client goes away is dropped, and with it what it asked for. Knows
//! nothing of how tokens are shared out.

use leasehold_proto::v1::{self, lease_service_server::LeaseService};
use tonic::{Request, Response, Status, Streaming};

use super::{
    from_proto,
    session::{self, Answers},
    to_proto,
};
use crate::driver::DriverHandle;

/// Serves leases.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    pub(super) handle: DriverHandle,
}

#[tonic::async_trait]
impl LeaseService for Leases {
    type SessionStream = Answers;

    async fn session(
        &self,
        request: Request<Streaming<v1::NodeMessage>>,
    ) -> Result<Response<Answers>, Status> {
        Ok(Response::new(session::open(self.handle.clone(), request.into_inner())))
    }

    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireReply>, Status> {
        let names = |name: &str| self.handle.database(name);
        let parsed = from_proto::acquire(request.into_inner(), &names);
        let (call, max_wait) = parsed.map_err(to_proto::refused)?;
        let reply = self.handle.acquire(call, max_wait).await.map_err(to_proto::unanswered)?;
        to_proto::acquired(&reply, self.handle.generation()).map(Response::new)
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewReply>, Status> {
        let (lease, node) = from_proto::renew(request.get_ref()).map_err(to_proto::refused)?;
        let reply = self.handle.renew(lease, node).await.map_err(to_proto::unanswered)?;
        to_proto::renewed(&reply, self.handle.generation()).map(Response::new)
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseReply>, Status> {
        let (target, node) = from_proto::release(request.get_ref()).map_err(to_proto::refused)?;
        let reply = self.handle.release(target, node).await.map_err(to_proto::unanswered)?;
        to_proto::released(&reply).map(Response::new)
    }
}
