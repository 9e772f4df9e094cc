//! How a client is put together, and its settings checked. Knows nothing of how
//! it works.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Client, ConnectError, Inner};
use crate::clock::Clock;
use crate::connection::{self, Mailbox};
use crate::endpoint::Endpoint;
use crate::session::message::{MAX_NAME_BYTES, SessionId, check_name};
use crate::session::{Identity, Session};

/// Longest wait of [`Client::connect`] for a server's welcome.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time that the end of a session takes.
pub const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The most that `connect_timeout` and `shutdown_timeout` can be set to.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Builds a [`Client`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `connect`"]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    node: Option<String>,
    workload: String,
    connect_timeout: Duration,
    shutdown_timeout: Duration,
    clock: Clock,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            node: None,
            workload: String::new(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            shutdown_timeout: DEFAULT_SHUTDOWN_TIMEOUT,
            clock: Clock::system(),
        }
    }
}

impl ClientBuilder {
    /// Adds the address of a server: `host:port` or `http://host:port`, with an
    /// IPv6 address in brackets.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoints.push(endpoint.into());
        self
    }

    /// Adds several addresses, which are tried in turn.
    pub fn endpoints<I>(mut self, endpoints: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.endpoints.extend(endpoints.into_iter().map(Into::into));
        self
    }

    /// Name of this node, for people; at most 128 bytes. Default: the host's
    /// name and the process's number.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Workload of this node, which has its own share of each database; at most
    /// 128 bytes. Default: `default`.
    pub fn workload(mut self, name: impl Into<String>) -> Self {
        self.workload = name.into();
        self
    }

    /// Longest wait for a server's welcome, here and in [`Client::ready`].
    /// Default [`DEFAULT_CONNECT_TIMEOUT`], at most an hour.
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Longest time that [`Client::shutdown`] takes. Default
    /// [`DEFAULT_SHUTDOWN_TIMEOUT`], at most an hour.
    pub const fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = limit;
        self
    }

    /// Another clock than the system's, for tests; timers are tokio's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the client and waits for a server's welcome.
    ///
    /// Errors: a setting is wrong, there is no tokio runtime, or no server
    /// answered within `connect_timeout`; the error says of each endpoint why.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let client = self.connect_lazy()?;
        let mut status = client.inner.status.clone();
        let waited = client.inner.connect_timeout;
        let welcome = status.wait_for(|status| status.endpoint.is_some());
        match timeout(waited, welcome).await {
            Ok(Ok(_)) => Ok(client),
            Ok(Err(_)) | Err(_) => Err(ConnectError::Unreachable { waited, attempts: client.attempts() }),
        }
    }

    /// Makes the client and lets it connect on its own. Pools wait for tokens
    /// until it has.
    ///
    /// Errors: a setting is wrong, or there is no tokio runtime.
    pub fn connect_lazy(self) -> Result<Client, ConnectError> {
        let endpoints = self.endpoints.iter().map(|address| address.parse());
        let endpoints = endpoints.collect::<Result<Vec<Endpoint>, _>>()?;
        if endpoints.is_empty() {
            return Err(ConnectError::NoEndpoint);
        }
        check_timeout("connect_timeout", self.connect_timeout)?;
        check_timeout("shutdown_timeout", self.shutdown_timeout)?;
        let identity = identity(self.node, self.workload)?;
        let runtime = Runtime::try_current().map_err(|_| ConnectError::NoRuntime)?;

        let session = Session::new(identity, endpoints.len(), fastrand::u64(..));
        let (shown, status) = watch::channel(session.status());
        let mailbox = Arc::new(Mailbox::default());
        runtime.spawn(connection::run(
            session,
            endpoints.clone(),
            self.clock.clone(),
            Arc::clone(&mailbox),
            shown,
            self.shutdown_timeout,
        ));
        let inner = Inner {
            endpoints,
            clock: self.clock,
            mailbox,
            status,
            pools: Mutex::default(),
            connect_timeout: self.connect_timeout,
            shutdown_timeout: self.shutdown_timeout,
        };
        Ok(Client { inner: Arc::new(inner) })
    }
}

fn identity(node: Option<String>, workload: String) -> Result<Identity, ConnectError> {
    let node = node.unwrap_or_else(default_node);
    check_name("node", &node)?;
    if !workload.is_empty() {
        check_name("workload", &workload)?;
    }
    let client = concat!("leasehold-client/", env!("CARGO_PKG_VERSION")).to_owned();
    Ok(Identity { session: SessionId::random(), node, workload, client })
}

fn check_timeout(setting: &'static str, value: Duration) -> Result<(), ConnectError> {
    let longest = LONGEST_TIMEOUT;
    if (Duration::from_millis(1)..=longest).contains(&value) {
        Ok(())
    } else {
        Err(ConnectError::OutOfBounds { setting, value, longest })
    }
}

/// `host-1234`. The host's name is cut so that the number always fits.
fn default_node() -> String {
    const LONGEST_HOST_BYTES: usize = MAX_NAME_BYTES - 16;
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let end = name.char_indices().map(|(start, _)| start).take_while(|start| *start < LONGEST_HOST_BYTES);
    let end = end.last().map_or(0, |start| start + name[start..].chars().next().map_or(0, char::len_utf8));
    format!("{}-{}", &name[..end], std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(builder: ClientBuilder) -> String {
        builder.connect_lazy().unwrap_err().to_string()
    }

    #[test]
    fn wrong_settings_say_what_is_wrong() {
        let good = || Client::builder().endpoint("127.0.0.1:1");
        assert_eq!(refusal(Client::builder()), "no endpoint of a server was given");
        assert_eq!(
            refusal(good().endpoint("host")),
            "`host` is not the address of a server: it has no port; write host:port or http://host:port"
        );
        assert_eq!(refusal(good().node("")), "a node's name has 1 to 128 bytes of UTF-8, not 0");
        assert_eq!(
            refusal(good().node("a\nb")),
            "a node's name has no control characters, but \"a\\nb\" has one"
        );
        assert_eq!(
            refusal(good().workload("w".repeat(129))),
            "a workload's name has 1 to 128 bytes of UTF-8, not 129"
        );
        assert_eq!(
            refusal(good().connect_timeout(Duration::ZERO)),
            "connect_timeout is 0ns; set it to between 1 ms and 3600s"
        );
        assert_eq!(
            refusal(good()),
            "a client is made inside a tokio runtime, for its session runs in a task"
        );
    }

    #[test]
    fn the_default_name_of_a_node_is_valid() {
        let name = default_node();
        assert!(name.ends_with(&format!("-{}", std::process::id())), "{name}");
        check_name("node", &name).unwrap();
    }
}
