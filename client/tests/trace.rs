//! The trace of an application's request goes on in its checkout, and the
//! server is told of the one who waits for longest.

mod support;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use leasehold_client::governed::Recall;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use support::Scene;

/// Keeps the spans that ended.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().expect("nobody panics").extend(spans);
        Ok(())
    }
}

#[tokio::test]
async fn a_waiting_checkout_carries_the_trace() {
    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let scene = Scene::new(0);
    assert_eq!(scene.session.traceparent(), "");
    let request = tracing::info_span!("request");
    let trace = request.context().span().span_context().trace_id();
    let get = async { scene.pool.get().await.map(drop) };
    let mut get = Box::pin(get.instrument(request.clone()));
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut get).await.is_err());

    let traceparent = scene.session.traceparent();
    let parts: Vec<_> = traceparent.split('-').collect();
    let [version, told, span, flags] = parts[..] else { panic!("four parts: {traceparent}") };
    assert_eq!((version, told, flags), ("00", trace.to_string().as_str(), "01"));

    scene.session.allot(1, Recall::None);
    get.await.expect("it connects");
    assert_eq!(scene.session.traceparent(), "");
    // A checkout that finds an idle connection makes no span.
    drop(scene.pool.get().instrument(request.clone()).await.expect("it is idle"));
    drop(request);
    let spans = kept.0.lock().expect("nobody panics");
    let names: Vec<_> = spans.iter().map(|span| span.name.to_string()).collect();
    assert_eq!(names, ["leasehold.connect", "leasehold.checkout", "request"]);
    assert_eq!(spans[1].span_context.span_id().to_string(), span, "the checkout's span is what travels");
    assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
    assert_eq!(spans[1].parent_span_id, spans[2].span_context.span_id());
    for span in &spans[..2] {
        let outcome = span.attributes.iter().find(|attribute| attribute.key.as_str() == "outcome");
        assert_eq!(outcome.expect("it has an outcome").value.to_string(), "connection");
    }
}
