//! The signals that end the server in order. Knows nothing of how it ends.

use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

use super::Error;

/// Completes at SIGTERM or SIGINT. From this call on neither ends the process
/// by itself.
pub fn stop_signal() -> Result<impl Future<Output = &'static str> + Send, Error> {
    let refused = |source| Error::System { operation: "listen to signals", source };
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}
