//! One trace runs from the application's span through the checkout to the
//! server's admission, and arrives at a collector.

use std::time::Duration;

use leasehold_integration_tests::{
    fleet::{Fleet, Terms},
    node::{Load, Node},
    otlp::{Collector, Span},
    wait::find,
};

/// Longest wait for spans; their senders gather them for some seconds.
const BOUND: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_from_the_application_to_the_servers_admission() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let fleet = Fleet::start_with(Terms::default(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;
    let environment = vec![("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint)];
    let node = Node::start(&Load { environment, ..fleet.load(4, 1) });
    assert_eq!(node.report().await.failures(), 0);

    let (path, _) = find(BOUND, "a span of the server below one of the application", async || {
        let spans = collector.spans();
        spans
            .iter()
            .find_map(|span| (span.service == "leasehold-server").then(|| path(span, &spans)).flatten())
    })
    .await;
    for span in &path {
        eprintln!("{} {} of {}: {:?}", span.trace, span.name, span.service, span.attributes);
    }
    assert!(path.iter().all(|span| span.trace == path[0].trace), "more than one trace");
}

/// The spans from the application's root down to this one; nothing if they are
/// not all there.
fn path(last: &Span, spans: &[Span]) -> Option<Vec<Span>> {
    let mut path = vec![last.clone()];
    while let Some(parent) = path.last().map(|span| span.parent.clone()).filter(|parent| !parent.is_empty()) {
        path.push(spans.iter().find(|span| span.id == parent)?.clone());
    }
    path.reverse();
    (path[0].service == "app_node").then_some(path)
}
