//! Spans that continue a trace which began in a node. Knows nothing of where
//! they are sent.

use std::collections::HashMap;
use std::time::SystemTime;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Span, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;

/// The header that carries a trace from one process to the next.
const TRACEPARENT: &str = "traceparent";
/// Length of its value, in bytes; later versions of the standard may append to it.
const SHORTEST_TRACEPARENT: usize = 55;
/// Name of the span of one admission.
const ADMISSION: &str = "leasehold.admission";

/// Records spans whose beginning lies in the past. Cheap to clone; does nothing
/// when there is no collector.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    tracer: Option<SdkTracer>,
}

/// What an admission was about.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    /// Name of the database.
    pub database: &'a str,
    /// Name of the node that asked.
    pub node: &'a str,
    /// Workload of the node.
    pub workload: &'a str,
    /// Tokens granted.
    pub tokens: u32,
    /// How it stood before it was granted them. None: they were free.
    pub contention: Option<Contention>,
}

/// How somebody stood who was not served at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contention {
    /// Tokens that the node had use for.
    pub demand: u32,
    /// Its share, in tokens.
    pub share: f64,
    /// Nodes and calls of its workload that needed something.
    pub in_line: u32,
    /// What it waited for, in a word.
    pub waited_for: &'static str,
    /// The rule of admission behind that, if it is one.
    pub rule: Option<u32>,
}

impl Contention {
    fn attributes(&self) -> impl Iterator<Item = KeyValue> + use<> {
        let Contention { demand, share, in_line, waited_for, rule } = *self;
        let rule = rule.map(|rule| KeyValue::new("leasehold.rule", i64::from(rule)));
        let always = [
            KeyValue::new("leasehold.demand", i64::from(demand)),
            KeyValue::new("leasehold.share", share),
            KeyValue::new("leasehold.in_line", i64::from(in_line)),
            KeyValue::new("leasehold.waited_for", waited_for),
        ];
        always.into_iter().chain(rule)
    }
}

impl Traces {
    pub(crate) fn new(tracer: Option<SdkTracer>) -> Self {
        Self { tracer }
    }

    /// Whether anybody will see what is recorded.
    pub fn is_on(&self) -> bool {
        self.tracer.is_some()
    }

    /// Records the time from when the server knew of a need to when it met it,
    /// as a child of the span that waits in the node. `traceparent` is the W3C
    /// header's value; without a valid one there is no trace to continue, and
    /// nothing is recorded.
    pub fn admission(
        &self,
        traceparent: &str,
        started: SystemTime,
        ended: SystemTime,
        admission: Admission<'_>,
    ) {
        let Some(tracer) = &self.tracer else { return };
        let Some(parent) = remote_parent(traceparent) else { return };
        let mut span = tracer
            .span_builder(ADMISSION)
            // A clock that was set back in between must not make a span end before it starts.
            .with_start_time(started.min(ended))
            .with_attributes(
                [
                    KeyValue::new("leasehold.database", admission.database.to_owned()),
                    KeyValue::new("leasehold.node", admission.node.to_owned()),
                    KeyValue::new("leasehold.workload", admission.workload.to_owned()),
                    KeyValue::new("leasehold.tokens", i64::from(admission.tokens)),
                ]
                .into_iter()
                .chain(admission.contention.iter().flat_map(Contention::attributes)),
            )
            .start_with_context(tracer, &parent);
        span.end_with_timestamp(ended);
    }
}

fn remote_parent(traceparent: &str) -> Option<Context> {
    // The propagator fills up shortened ids, and a made-up parent is worse than none.
    if traceparent.len() < SHORTEST_TRACEPARENT {
        return None;
    }
    let headers = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    context.span().span_context().is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use std::future::{Future, ready};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fuzz_trace_contexts(any in ".{0,80}", like in "[0-9a-fA-Fg]{2}-[0-9a-f]{31,33}-[0-9a-f]{15,17}-[0-9a-f-]{1,5}") {
            for traceparent in [any, like] {
                if let Some(parent) = remote_parent(&traceparent) {
                    prop_assert!(parent.span().span_context().is_valid());
                }
            }
        }
    }

    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
            self.0.lock().unwrap().extend(batch);
            ready(Ok(()))
        }
    }

    const CONTENTION: Contention =
        Contention { demand: 9, share: 4.5, in_line: 2, waited_for: "lag", rule: Some(5) };
    const ADMITTED: Admission<'_> = Admission {
        database: "orders",
        node: "web-1",
        workload: "web",
        tokens: 3,
        contention: Some(CONTENTION),
    };

    fn record(traceparent: &str, started: u64, ended: u64) -> Vec<SpanData> {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        Traces::new(Some(provider.tracer("test"))).admission(traceparent, at(started), at(ended), ADMITTED);
        kept.0.lock().unwrap().clone()
    }

    #[test]
    fn an_admission_continues_the_nodes_trace() {
        let spans = record("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 10, 12);
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(span.name, ADMISSION);
        assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
        assert!(span.parent_span_is_remote);
        assert_eq!(span.end_time.duration_since(span.start_time).unwrap(), Duration::from_secs(2));
        for told in [
            KeyValue::new("leasehold.database", "orders"),
            KeyValue::new("leasehold.demand", 9),
            KeyValue::new("leasehold.share", 4.5),
            KeyValue::new("leasehold.in_line", 2),
            KeyValue::new("leasehold.waited_for", "lag"),
            KeyValue::new("leasehold.rule", 5),
        ] {
            assert!(span.attributes.contains(&told), "{told:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_not_recorded() {
        let not_sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let zero = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        for traceparent in ["", "nonsense", "00-1-2-3", not_sampled, zero, &"é".repeat(55)] {
            assert!(record(traceparent, 10, 12).is_empty(), "{traceparent}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_an_empty_span() {
        let spans = record("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 12, 10);
        assert_eq!(spans[0].start_time, spans[0].end_time);
    }
}
