//! The trace of a waiting task goes on in the server.

use std::future::{Future, ready};

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};

use super::*;

#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        self.0.lock().expect("nobody panicked").extend(batch);
        ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_a_span_below_the_task_that_waited() {
    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let traces = Traces::new(Some(provider.tracer("test")));
    let store = Flaky::default();
    let (handle, task) = start(Box::new(store.clone()), &[orders(1)], traces).await.expect("it starts");
    let running = Running { handle, task, store };
    let mut node = running.attach(1, 0).await;
    node.demand.waiting = 1;
    node.demand.wanted = 1;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let reported = node.guard.demand(ORDERS, node.demand, Some(parent.into())).await;
    reported.expect("the driver runs");
    node.take(1).await;
    running.stop().await;

    let spans = kept.0.lock().expect("nobody panicked");
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.name, "leasehold.admission");
    assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
}
