//! Where the node's spans go: to the OTLP receiver that the environment names,
//! else nowhere. The standard variables hold: `OTEL_EXPORTER_OTLP_ENDPOINT`,
//! `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`. Knows nothing of pools.

use std::{env, time::Duration};

use opentelemetry::{global, trace::TracerProvider as _};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// The service's name in the traces.
const SERVICE: &str = "app_node";
/// The receiver. Empty or absent: no traces.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Longest time that the last spans may take at the end.
const SHUTDOWN_BOUND: Duration = Duration::from_secs(5);

/// Exports spans until it is shut down.
pub(crate) struct Traces {
    provider: Option<SdkTracerProvider>,
}

impl Traces {
    /// Sends log lines to standard error as `RUST_LOG` says, and spans to the
    /// receiver, if there is one. Called within a tokio runtime.
    pub(crate) fn start() -> Result<Self, opentelemetry_otlp::ExporterBuildError> {
        let provider = provider()?;
        let spans = provider.as_ref().map(|provider| {
            global::set_text_map_propagator(TraceContextPropagator::new());
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer(SERVICE))
                // The exporter's own connection is not traced.
                .with_filter(EnvFilter::new("info,h2=off,hyper=off,tonic=off,tower=off,opentelemetry=off"))
        });
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter);
        tracing_subscriber::registry().with(spans).with(lines).init();
        Ok(Self { provider })
    }

    /// Sends the last spans. A receiver that is gone delays the end by at most
    /// `SHUTDOWN_BOUND`.
    pub(crate) async fn stop(self) {
        let Some(provider) = self.provider else { return };
        // It blocks, and needs the runtime's other threads to get done.
        let shutdown = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN_BOUND));
        match tokio::time::timeout(SHUTDOWN_BOUND, shutdown).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the last spans were not sent"),
            Ok(Err(error)) => tracing::warn!(%error, "the last spans were not sent"),
            Err(_elapsed) => tracing::warn!("the last spans were not sent in time"),
        }
    }
}

fn provider() -> Result<Option<SdkTracerProvider>, opentelemetry_otlp::ExporterBuildError> {
    if env::var(ENDPOINT).unwrap_or_default().is_empty() {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_tonic().build()?;
    let resource = Resource::builder().with_service_name(SERVICE).build();
    Ok(Some(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
}
