//! The gRPC API: parses what comes, asks the driver, and turns its answers into
//! messages. Knows nothing of the core, the store or the databases.
//!
//! | file | what it is |
//! |---|---|
//! | `lease` | `LeaseService` |
//! | `session` | a node's stream |
//! | `admin` | `AdminService` |
//! | `from_proto` | the only parser |
//! | `to_proto` | messages, and the one table of statuses |

mod admin;
mod from_proto;
mod lease;
mod session;
#[cfg(test)]
mod tests;
mod to_proto;
mod why;

use std::{future::Future, time::Duration};

use leasehold_proto::{
    FILE_DESCRIPTOR_SET,
    v1::{admin_service_server::AdminServiceServer, lease_service_server::LeaseServiceServer},
};
use tokio::net::TcpListener;
use tonic::{
    server::NamedService,
    transport::{Error, Server},
};
use tonic_health::{ServingStatus, server::HealthReporter};
use tonic_reflection::server::Builder as Reflection;

use self::{admin::Admin, lease::Leases};
pub use self::{admin::status, session::HELLO_TIMEOUT};
use crate::{
    connections::{Bounds, Connections},
    driver::DriverHandle,
};

/// Longest message that is read, in bytes. The longest Hello has some 40,000.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// Most calls and streams at a time on one connection.
pub const CALLS_A_CONNECTION: u32 = 4_096;
/// How often the server asks a silent connection whether it is still there.
pub const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long the answer may take. Then every stream on the connection ends.
pub const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Whoever speaks HTTP/2 answers pings; this is for those who never begin to.
const CONNECTIONS: Bounds = Bounds { port: "grpc", connections: 20_000, silence: Duration::from_secs(30) };

/// Serves until `stop` completes; then stops the driver, so that every stream
/// ends, and waits for the last answers. That has no bound: a caller who stops
/// needs a deadline of its own.
///
/// # Errors
///
/// The listener fails.
///
/// # Panics
///
/// Never: the descriptor set is the one that was generated.
pub async fn serve(
    listener: TcpListener,
    handle: DriverHandle,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    serve_with(listener, handle, stop, PING_INTERVAL, PING_TIMEOUT).await
}

async fn serve_with(
    listener: TcpListener,
    handle: DriverHandle,
    stop: impl Future<Output = ()> + Send,
    ping_interval: Duration,
    ping_timeout: Duration,
) -> Result<(), Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let reflection = || {
        Reflection::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let leases = LeaseServiceServer::new(Leases { handle: handle.clone() });
    let admin = AdminServiceServer::new(Admin { handle: handle.clone() });
    let server = Server::builder()
        .http2_keepalive_interval(Some(ping_interval))
        .http2_keepalive_timeout(Some(ping_timeout))
        .max_concurrent_streams(CALLS_A_CONNECTION)
        // The default is 20, and beyond it the whole connection ends: a client
        // whose tasks give up together would lose all its other calls.
        .http2_max_pending_accept_reset_streams(Some(CALLS_A_CONNECTION as usize))
        .add_service(leases.max_decoding_message_size(MESSAGE_BYTES))
        .add_service(admin.max_decoding_message_size(MESSAGE_BYTES))
        .add_service(health_service)
        .add_service(reflection().build_v1().expect("the descriptor set is whole"))
        // Python's library and older tools know only this version.
        .add_service(reflection().build_v1alpha().expect("the descriptor set is whole"))
        .serve_with_incoming_shutdown(Connections::new(listener, CONNECTIONS).into_stream(), {
            let handle = handle.clone();
            async move {
                stop.await;
                handle.stop().await;
            }
        });
    tokio::select! {
        outcome = server => outcome,
        never = tell_health(health, handle) => match never {},
    }
}

/// Reports that the server serves exactly while it can lease.
async fn tell_health(reporter: HealthReporter, handle: DriverHandle) -> std::convert::Infallible {
    let mut health = handle.health();
    loop {
        let ready = health.borrow_and_update().store.is_ok();
        tell(&reporter, if ready { ServingStatus::Serving } else { ServingStatus::NotServing }).await;
        if health.changed().await.is_err() {
            // The driver has ended.
            tell(&reporter, ServingStatus::NotServing).await;
            return std::future::pending().await;
        }
    }
}

async fn tell(reporter: &HealthReporter, status: ServingStatus) {
    let services = ["", LeaseServiceServer::<Leases>::NAME, AdminServiceServer::<Admin>::NAME];
    for service in services {
        reporter.set_service_status(service, status).await;
    }
}
