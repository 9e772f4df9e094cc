//! An `AdminService` whose answers a test chooses, served on a free port. Knows
//! nothing of the command that calls it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use leasehold_proto::v1::admin_service_server::{AdminService, AdminServiceServer};
use leasehold_proto::v1::{
    Database, DrainReply, DrainRequest, EvictReply, EvictRequest, Explanation, Lease, ListDatabasesReply,
    ListDatabasesRequest, ListSessionsReply, ListSessionsRequest, ResumeReply, ResumeRequest, Session,
    SetOverrideReply, SetOverrideRequest, StatusReply, StatusRequest, WhyReply, WhyRequest,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// Sessions of a large fleet.
pub(crate) const LARGE_FLEET: usize = 5_000;

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// One database, one session.
    Healthy,
    /// No databases, no sessions.
    Empty,
    /// [`LARGE_FLEET`] sessions.
    Large,
    /// The store refuses commits.
    StoreBroken,
    /// Refuses every change.
    Refusing,
}

/// A server; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    last_call: Arc<Mutex<String>>,
    _runtime: Runtime,
}

impl Server {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        Self::start_on("127.0.0.1:0", behaviour).expect("loopback has a free port")
    }

    /// Nothing when the address cannot be bound.
    pub(crate) fn start_on(address: &str, behaviour: Behaviour) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime starts");
        let listener = runtime.block_on(TcpListener::bind(address)).ok()?;
        let address = listener.local_addr().expect("it is bound");
        let last_call = Arc::default();
        let admin = Admin { behaviour, last_call: Arc::clone(&last_call) };
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(AdminServiceServer::new(admin))
                .serve_with_incoming(TcpIncoming::from(listener)),
        );
        Some(Server { address, last_call, _runtime: runtime })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The last call that arrived, and its arguments.
    pub(crate) fn last_call(&self) -> String {
        self.last_call.lock().expect("no holder panics").clone()
    }
}

struct Admin {
    behaviour: Behaviour,
    last_call: Arc<Mutex<String>>,
}

impl Admin {
    fn note(&self, call: &str) {
        call.trim_end().clone_into(&mut self.last_call.lock().expect("no holder panics"));
    }

    fn databases(&self) -> Vec<Database> {
        if self.behaviour == Behaviour::Empty { vec![] } else { vec![database()] }
    }

    fn sessions(&self) -> Vec<Session> {
        match self.behaviour {
            Behaviour::Empty => vec![],
            Behaviour::Large => (0..LARGE_FLEET).map(one_of_many).collect(),
            Behaviour::Healthy | Behaviour::StoreBroken | Behaviour::Refusing => vec![session()],
        }
    }

    fn changed<R>(&self, reply: R) -> Result<Response<R>, Status> {
        match self.behaviour {
            Behaviour::Refusing => Err(Status::not_found("no database `orders`\x1b[31m")),
            Behaviour::Healthy | Behaviour::Empty | Behaviour::Large | Behaviour::StoreBroken => {
                Ok(Response::new(reply))
            }
        }
    }
}

fn database() -> Database {
    Database { name: "orders".to_owned(), cap: 100, admission: "fair".to_owned(), ..Database::default() }
}

fn session() -> Session {
    let lease = |database: &str| Lease { database: database.to_owned(), held: 3, ..Lease::default() };
    Session {
        id: "3f9a2c51d0b47e8896a1c2d3e4f50617".to_owned(),
        node: "ノード-1".to_owned(),
        workload: "default".to_owned(),
        state: "attached".to_owned(),
        leases: vec![lease("billing"), lease("orders")],
        ..Session::default()
    }
}

fn one_of_many(number: usize) -> Session {
    let mut session = session();
    session.id = format!("{number:032x}");
    session.node = format!("node-{number}");
    session.leases.truncate(1);
    session
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        self.note("status");
        let healthy = self.behaviour != Behaviour::StoreBroken;
        Ok(Response::new(StatusReply {
            generation: 3,
            version: "0.1.0".to_owned(),
            uptime_ms: 1_000,
            store_healthy: healthy,
            store_error: if healthy { String::new() } else { "no space left on device".to_owned() },
            databases: self.databases(),
        }))
    }

    async fn list_databases(
        &self,
        request: Request<ListDatabasesRequest>,
    ) -> Result<Response<ListDatabasesReply>, Status> {
        self.note(&format!("databases {}", request.into_inner().database));
        Ok(Response::new(ListDatabasesReply { databases: self.databases() }))
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsReply>, Status> {
        self.note(&format!("sessions {}", request.into_inner().database));
        Ok(Response::new(ListSessionsReply { sessions: self.sessions() }))
    }

    async fn why(&self, request: Request<WhyRequest>) -> Result<Response<WhyReply>, Status> {
        let WhyRequest { subject, database } = request.into_inner();
        self.note(&format!("why {subject} {database}"));
        Ok(Response::new(WhyReply { explanations: vec![Explanation::default()], left_out: 0 }))
    }

    async fn set_override(
        &self,
        request: Request<SetOverrideRequest>,
    ) -> Result<Response<SetOverrideReply>, Status> {
        let request = request.into_inner();
        let cap = request.cap.map(|cap| format!(" cap={cap}")).unwrap_or_default();
        let duration = request.duration_ms.map(|duration| format!(" for={duration}")).unwrap_or_default();
        self.note(&format!("set {}{cap}{duration}", request.database));
        self.changed(SetOverrideReply { database: Some(database()) })
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<DrainReply>, Status> {
        self.note(&format!("drain {}", request.into_inner().database));
        self.changed(DrainReply { database: Some(Database { draining: true, ..database() }) })
    }

    async fn resume(&self, request: Request<ResumeRequest>) -> Result<Response<ResumeReply>, Status> {
        self.note(&format!("resume {}", request.into_inner().database));
        self.changed(ResumeReply { database: Some(database()) })
    }

    async fn evict(&self, request: Request<EvictRequest>) -> Result<Response<EvictReply>, Status> {
        self.note(&format!("evict {}", request.into_inner().session));
        self.changed(EvictReply { session: Some(session()) })
    }
}
