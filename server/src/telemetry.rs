//! What the process tells of itself while it runs: a log for people on standard
//! error, and traces for a collector if the environment names one.
//!
//! A collector that is absent or dead costs nothing but dropped spans. Knows
//! nothing of what is logged.

use std::env::{self, VarError};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{Subscriber, warn};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

mod traces;

pub use traces::{Admission, Contention, Traces};

/// Longest time that a shutdown waits for the last spans to leave.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Of that, what the exporter itself may take, so that it gives up first.
const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(4);
/// Longest export of one batch of spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(4);
/// The name under which traces show the server, unless the environment names another.
const SERVICE_NAME: &str = "leasehold-server";

const LOG_FILTER: &str = "RUST_LOG";
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const DISABLED: &str = "OTEL_SDK_DISABLED";
const NAMES: [&str; 2] = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"];

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter in the environment cannot be read.
    #[error("cannot read {LOG_FILTER}: write levels such as `info` or `leasehold_server=debug`")]
    Filter(#[source] tracing_subscriber::filter::FromEnvError),
    /// Another subscriber was there first.
    #[error("cannot start the log")]
    Started(#[from] tracing_subscriber::util::TryInitError),
}

/// The running log and traces.
#[derive(Debug)]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Starts the log at level `info`, or as `RUST_LOG` says, and sends traces
    /// over gRPC to where `OTEL_EXPORTER_OTLP_ENDPOINT` says, unless
    /// `OTEL_SDK_DISABLED` is true. Must be called inside a tokio runtime.
    ///
    /// Errors: `RUST_LOG` cannot be read, or there is a log already. A collector
    /// that cannot be used is a warning in the log.
    pub fn start() -> Result<Self, Error> {
        let level = LevelFilter::INFO.into();
        let filter = EnvFilter::builder().with_default_directive(level).with_env_var(LOG_FILTER);
        let filter = filter.from_env().map_err(Error::Filter)?;
        let collector = collector();
        let tracer = match &collector {
            Ok(Some(provider)) => Some(provider.tracer(SERVICE_NAME)),
            Ok(None) | Err(_) => None,
        };
        let log = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal());
        Registry::default().with(log.with_filter(filter)).with(tracer.map(spans)).try_init()?;

        let provider = collector.unwrap_or_else(|error| {
            warn!(%error, "traces are off: the collector in the environment cannot be used");
            None
        });
        if provider.is_some()
            && let Some(protocol) = PROTOCOLS.into_iter().find_map(set).filter(|protocol| protocol != "grpc")
        {
            warn!(protocol, "traces are sent over gRPC; the environment asks for another protocol");
        }
        Ok(Self { provider })
    }

    /// Where to record spans whose times are known only afterwards.
    pub fn traces(&self) -> Traces {
        Traces::new(self.provider.as_ref().map(|provider| provider.tracer(SERVICE_NAME)))
    }

    /// Sends what is left, for at most [`SHUTDOWN_TIMEOUT`].
    pub async fn shutdown(self) {
        let Some(provider) = self.provider else { return };
        // Blocks until the exporter's own thread is done, which needs this runtime.
        let last_export = spawn_blocking(move || provider.shutdown_with_timeout(LAST_EXPORT_TIMEOUT));
        let lost = match timeout(SHUTDOWN_TIMEOUT, last_export).await {
            Ok(Ok(result)) => result.is_err(),
            Ok(Err(_)) | Err(_) => true,
        };
        if lost {
            warn!("the last spans did not reach the collector");
        }
    }
}

/// Spans of the server's own code alone: those of the gRPC stack would drown them,
/// and the export of spans would make new ones.
fn spans<S>(tracer: SdkTracer) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let own = Targets::new().with_target("leasehold_server", LevelFilter::INFO);
    tracing_opentelemetry::layer().with_tracer(tracer).with_filter(own)
}

/// The way to the collector that the environment names; `None` if it names none.
fn collector() -> Result<Option<SdkTracerProvider>, ExporterBuildError> {
    let disabled = set(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if disabled || !ENDPOINTS.into_iter().any(|name| set(name).is_some()) {
        return Ok(None);
    }
    // The exporter reads the endpoint and the headers from the environment itself.
    let exporter = SpanExporter::builder().with_tonic().with_timeout(EXPORT_TIMEOUT).build()?;
    Ok(Some(provider(exporter)))
}

fn provider(exporter: SpanExporter) -> SdkTracerProvider {
    let mut resource = Resource::builder();
    if !NAMES.into_iter().any(|name| set(name).is_some_and(|value| names_service(name, &value))) {
        resource = resource.with_service_name(SERVICE_NAME);
    }
    SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build()
}

fn names_service(variable: &str, value: &str) -> bool {
    variable != "OTEL_RESOURCE_ATTRIBUTES" || value.contains("service.name=")
}

/// A variable of the environment. As OpenTelemetry has it, empty means unset.
fn set(name: &str) -> Option<String> {
    match env::var(name) {
        Ok(value) => Some(value).filter(|value| !value.is_empty()),
        Err(VarError::NotPresent | VarError::NotUnicode(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::SystemTime;

    use tokio::time::Instant;

    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Records a span for a collector at this address and shuts down.
    async fn shutdown_takes(address: &str) -> Duration {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(format!("http://{address}"));
        let exporter = exporter.with_timeout(EXPORT_TIMEOUT).build().unwrap();
        let telemetry = Telemetry { provider: Some(provider(exporter)) };
        let admission = Admission { database: "a", node: "n", workload: "w", tokens: 1, contention: None };
        telemetry.traces().admission(SAMPLED, SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH, admission);
        let start = Instant::now();
        telemetry.shutdown().await;
        start.elapsed()
    }

    #[tokio::test]
    async fn no_collector_delays_a_shutdown_beyond_its_bound() {
        // Nobody ever answers here, although connects succeed.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        assert!(shutdown_takes(&address).await <= SHUTDOWN_TIMEOUT + Duration::from_millis(500));
        // And here there is nobody.
        drop(silent);
        assert!(shutdown_takes(&address).await <= Duration::from_secs(2));
    }
}
