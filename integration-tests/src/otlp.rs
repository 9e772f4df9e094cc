//! A collector for traces: receives OTLP over gRPC in the test's own process
//! and keeps every span. Knows nothing of who sends them.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport};

/// One span as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// `service.name` of the process that sent it.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Id of its trace, in hexadecimal digits.
    pub trace: String,
    /// Its own id, in hexadecimal digits.
    pub id: String,
    /// Id of its parent; empty for a root.
    pub parent: String,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
}

/// A running collector; it ends when dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
    server: JoinHandle<()>,
}

impl Collector {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the collector's address");
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let service = TraceServiceServer::new(Spans(Arc::clone(&spans)));
        let serving = transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async { serving.await.expect("the collector serves") });
        Self { address, spans, server }
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every span received so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Spans(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let received = spans(request.into_inner());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(received);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn spans(request: ExportTraceServiceRequest) -> Vec<Span> {
    let mut spans = Vec::new();
    for process in request.resource_spans {
        let resource = attributes(process.resource.unwrap_or_default().attributes);
        let service = resource.get("service.name").cloned().unwrap_or_default();
        for span in process.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Span {
                service: service.clone(),
                name: span.name,
                trace: hexadecimal(&span.trace_id),
                id: hexadecimal(&span.span_id),
                parent: hexadecimal(&span.parent_span_id),
                attributes: attributes(span.attributes),
            });
        }
    }
    spans
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, text(pair.value.and_then(|value| value.value)))).collect()
}

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
