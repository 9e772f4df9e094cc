//! The spans of a checkout, and the trace context that travels with a waiting
//! task to the server. Knows nothing of tokens.

use std::fmt;

use opentelemetry::trace::TraceContextExt;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The W3C trace context of a span; displays as a `traceparent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: opentelemetry::trace::TraceId,
    span: opentelemetry::trace::SpanId,
    flags: opentelemetry::trace::TraceFlags,
}

impl TraceContext {
    /// The context of a span, if OpenTelemetry knows the span.
    pub(crate) fn of(span: &Span) -> Option<Self> {
        if span.is_disabled() {
            return None;
        }
        let context = span.context();
        let context = context.span().span_context().clone();
        context.is_valid().then(|| Self {
            trace: context.trace_id(),
            span: context.span_id(),
            flags: context.trace_flags(),
        })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// The span of a checkout that has to wait or to connect. One that finds an
/// idle connection has none, and so costs nothing.
pub(crate) fn checkout_span(database: &str) -> Span {
    tracing::info_span!("leasehold.checkout", database, outcome = tracing::field::Empty)
}

/// The span of a connect.
pub(crate) fn connect_span(database: &str) -> Span {
    tracing::info_span!("leasehold.connect", database, outcome = tracing::field::Empty)
}
