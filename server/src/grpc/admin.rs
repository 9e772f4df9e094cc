//! `AdminService`: looks at the server and steers it. Knows nothing of how a
//! change is made durable; the driver answers when it is.

use leasehold_admission::DatabaseId;
use leasehold_proto::v1::{self, admin_service_server::AdminService};
use tonic::{Request, Response, Status};

use super::{from_proto, to_proto, why};
use crate::driver::{AdminAction, AdminReply, DriverHandle, Unanswered};

/// Serves operators.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    pub(super) handle: DriverHandle,
}

/// The whole state in one message.
///
/// # Errors
///
/// The driver does not answer.
pub async fn status(handle: &DriverHandle) -> Result<v1::StatusReply, Unanswered> {
    let snapshot = handle.status().await?;
    let health = handle.health().borrow().clone();
    Ok(to_proto::status(snapshot, &health))
}

impl Admin {
    fn database(&self, name: &str) -> Result<DatabaseId, Status> {
        from_proto::database(name, &|name: &str| self.handle.database(name)).map_err(to_proto::refused)
    }

    fn database_or_all(&self, name: &str) -> Result<Option<DatabaseId>, Status> {
        let names = |name: &str| self.handle.database(name);
        from_proto::database_or_all(name, &names).map_err(to_proto::refused)
    }

    async fn change<T>(&self, request: &Request<T>, action: AdminAction) -> Result<AdminReply, Status> {
        let who = request.remote_addr().map_or_else(|| "unknown".to_owned(), |address| address.to_string());
        let done = self.handle.admin(action, who).await.map_err(to_proto::unanswered)?;
        done.map_err(to_proto::not_done)
    }

    async fn change_database<T>(
        &self,
        request: &Request<T>,
        action: AdminAction,
    ) -> Result<Option<v1::Database>, Status> {
        Ok(match self.change(request, action).await? {
            AdminReply::Database(status) => Some(to_proto::database(*status)),
            AdminReply::Session(_) => None,
        })
    }
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusReply>, Status> {
        status(&self.handle).await.map(Response::new).map_err(to_proto::unanswered)
    }

    async fn list_databases(
        &self,
        request: Request<v1::ListDatabasesRequest>,
    ) -> Result<Response<v1::ListDatabasesReply>, Status> {
        let only = self.database_or_all(&request.get_ref().database)?;
        let mut snapshot = self.handle.status().await.map_err(to_proto::unanswered)?;
        snapshot.databases.retain(|status| only.is_none_or(|only| status.view.id == only));
        Ok(Response::new(v1::ListDatabasesReply { databases: to_proto::databases(snapshot) }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsReply>, Status> {
        let only = self.database_or_all(&request.get_ref().database)?;
        let mut sessions = self.handle.sessions().await.map_err(to_proto::unanswered)?;
        sessions.retain(|session| {
            only.is_none_or(|only| session.leases.iter().any(|lease| lease.database == only))
        });
        let sessions = to_proto::sessions(&sessions, &self.handle);
        Ok(Response::new(v1::ListSessionsReply { sessions }))
    }

    async fn why(&self, request: Request<v1::WhyRequest>) -> Result<Response<v1::WhyReply>, Status> {
        let v1::WhyRequest { subject, database } = request.get_ref();
        let database = self.database_or_all(database)?;
        let asked = from_proto::subject(subject, database).map_err(to_proto::refused)?;
        let (found, left_out) = self.handle.why(asked).await.map_err(to_proto::unanswered)?;
        if found.is_empty() {
            return Err(to_proto::nobody_is(subject));
        }
        Ok(Response::new(why::reply(&found, left_out, &self.handle)))
    }

    async fn set_override(
        &self,
        request: Request<v1::SetOverrideRequest>,
    ) -> Result<Response<v1::SetOverrideReply>, Status> {
        let parsed = from_proto::override_request(request.get_ref()).map_err(to_proto::refused)?;
        let database = self.database(&request.get_ref().database)?;
        let action = AdminAction::SetOverride { database, request: parsed };
        let database = self.change_database(&request, action).await?;
        Ok(Response::new(v1::SetOverrideReply { database }))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainReply>, Status> {
        let database = self.database(&request.get_ref().database)?;
        let action = AdminAction::SetDraining { database, draining: true };
        let database = self.change_database(&request, action).await?;
        Ok(Response::new(v1::DrainReply { database }))
    }

    async fn resume(&self, request: Request<v1::ResumeRequest>) -> Result<Response<v1::ResumeReply>, Status> {
        let database = self.database(&request.get_ref().database)?;
        let action = AdminAction::SetDraining { database, draining: false };
        let database = self.change_database(&request, action).await?;
        Ok(Response::new(v1::ResumeReply { database }))
    }

    async fn evict(&self, request: Request<v1::EvictRequest>) -> Result<Response<v1::EvictReply>, Status> {
        let prefix = from_proto::session_prefix(&request.get_ref().session).map_err(to_proto::refused)?;
        let session = match self.change(&request, AdminAction::Evict { prefix }).await? {
            AdminReply::Session(session) => Some(to_proto::session(&session, &self.handle)),
            AdminReply::Database(_) => None,
        };
        Ok(Response::new(v1::EvictReply { session }))
    }
}
