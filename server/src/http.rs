//! The pages for health checks, scrapers and the curious. Everything on them
//! comes from one answer of the driver; knows nothing of how it comes about.

use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use leasehold_proto::v1::StatusReply;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::connections::{Bounds, Connections};

mod metrics;
mod status;

/// How long the driver may take to answer before it counts as stuck.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(2);

/// A scraper keeps its connection from one minute's scrape to the next.
const CONNECTIONS: Bounds = Bounds { port: "http", connections: 1_000, silence: Duration::from_secs(90) };

const FRONT_PAGE: &str = "\
Leasehold leases the connections of databases to a fleet of nodes.

/healthz  200 while the process works
/readyz   200 while it can lease; otherwise why not
/metrics  numbers for Prometheus

To look at it and steer it: leasehold status
";

/// Whoever knows the state of the server.
pub trait StatusSource: Clone + Send + Sync + 'static {
    /// The whole state; `None` when the driver has ended.
    fn status(&self) -> impl Future<Output = Option<StatusReply>> + Send;
}

/// Serves the pages until `stop` completes, and then what was asked before.
/// That has no bound: a caller who stops needs a deadline of its own.
pub async fn serve(
    listener: TcpListener,
    source: impl StatusSource,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(Connections::new(listener, CONNECTIONS), pages(source)).with_graceful_shutdown(stop).await
}

fn pages<S: StatusSource>(source: S) -> Router {
    Router::new()
        .route("/", get(|| async { FRONT_PAGE }))
        .route("/healthz", get(healthz::<S>))
        .route("/readyz", get(readyz::<S>))
        .route("/metrics", get(metrics_page::<S>))
        .with_state(source)
}

/// Red only when a restart could help: while the store fails it stays green.
async fn healthz<S: StatusSource>(State(source): State<S>) -> (StatusCode, String) {
    match ask(&source).await {
        Ok(_) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn readyz<S: StatusSource>(State(source): State<S>) -> (StatusCode, String) {
    match ask(&source).await {
        Ok(status) => readiness(&status),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

async fn metrics_page<S: StatusSource>(State(source): State<S>) -> impl IntoResponse {
    match ask(&source).await {
        Ok(status) => (StatusCode::OK, [(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::encode(&status))
            .into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn ask(source: &impl StatusSource) -> Result<StatusReply, &'static str> {
    match timeout(DRIVER_TIMEOUT, source.status()).await {
        Ok(Some(status)) => Ok(status),
        Ok(None) => Err("the driver has ended"),
        Err(_) => Err("the driver does not answer"),
    }
}

/// A database that is down does not make the server unready: it leases on.
fn readiness(status: &StatusReply) -> (StatusCode, String) {
    let (code, mut page) = if status.store_healthy {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: the store fails: {}\n", status.store_error))
    };
    for (name, probe) in
        status.databases.iter().filter_map(|database| Some((&database.name, database.probe.as_ref()?)))
    {
        if probe.state == "down" {
            let _ = writeln!(page, "database {name} is not seen: {}", probe.error);
        } else if !probe.warning.is_empty() {
            let _ = writeln!(page, "database {name} is seen in part: {}", probe.warning);
        }
    }
    (code, page)
}

#[cfg(test)]
mod tests {
    use leasehold_proto::v1::{Database, Probe};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// What the driver would say: `Err` is a driver that is stuck.
    #[derive(Clone)]
    struct Says(Result<Option<StatusReply>, ()>);

    impl StatusSource for Says {
        async fn status(&self) -> Option<StatusReply> {
            match self.0.clone() {
                Ok(status) => status,
                Err(()) => std::future::pending().await,
            }
        }
    }

    fn healthy() -> StatusReply {
        let down = Probe { state: "down".to_owned(), error: "cannot connect".to_owned(), ..Probe::default() };
        let partly = Probe { state: "ok".to_owned(), warning: "it is blind".to_owned(), ..Probe::default() };
        let database = |name: &str, probe| Database {
            name: name.to_owned(),
            cap: 30,
            probe: Some(probe),
            ..Database::default()
        };
        let databases = vec![database("orders", down), database("shop", partly)];
        StatusReply { store_healthy: true, databases, ..StatusReply::default() }
    }

    /// Serves on a free port and fetches a page: its status code and its text.
    async fn fetch(says: Says, path: &str) -> (u16, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(serve(listener, says, async { drop(stopped.await) }));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        drop(stop);
        server.await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[tokio::test]
    async fn a_working_server_is_healthy_and_ready() {
        let says = Says(Ok(Some(healthy())));
        assert_eq!(fetch(says.clone(), "/healthz").await, (200, "ok\n".to_owned()));
        let ready = "ready\ndatabase orders is not seen: cannot connect\n\
                     database shop is seen in part: it is blind\n"
            .to_owned();
        assert_eq!(fetch(says.clone(), "/readyz").await, (200, ready));
        assert_eq!(fetch(says.clone(), "/").await.0, 200);
        assert_eq!(fetch(says.clone(), "/nowhere").await.0, 404);
        assert!(fetch(says, "/metrics").await.1.contains("leasehold_cap{database=\"orders\"} 30\n"));
    }

    #[tokio::test]
    async fn a_store_that_refuses_is_alive_but_not_ready() {
        let status =
            StatusReply { store_healthy: false, store_error: "no space left".to_owned(), ..healthy() };
        let says = Says(Ok(Some(status)));
        assert_eq!(fetch(says.clone(), "/healthz").await.0, 200);
        let (code, page) = fetch(says, "/readyz").await;
        assert_eq!(code, 503);
        assert!(page.starts_with("not ready: the store fails: no space left\n"), "{page}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_ended_or_hangs_is_not_alive() {
        for (says, why) in [(Ok(None), "the driver has ended"), (Err(()), "the driver does not answer")] {
            for path in ["/healthz", "/readyz", "/metrics"] {
                let (code, page) = fetch(Says(says.clone()), path).await;
                assert_eq!(code, 503, "{path}");
                assert!(page.contains(why), "{path}: {page}");
            }
        }
    }
}
