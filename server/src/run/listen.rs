//! The two sockets of the server. Knows nothing of what is served on them.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::config::ServerConfig;

/// Sockets that already listen, so that a client may come as soon as they exist.
#[derive(Debug)]
pub struct Listeners {
    /// For the gRPC API.
    pub grpc: TcpListener,
    /// For the pages.
    pub http: TcpListener,
}

impl Listeners {
    /// Listens where the configuration says.
    ///
    /// Errors: an address is taken, not of this machine, or not allowed.
    pub async fn bind(server: &ServerConfig) -> Result<Self, Error> {
        let grpc = bind("gRPC", "listen", server.listen).await?;
        let http = bind("HTTP", "http", server.http).await?;
        Ok(Self { grpc, http })
    }

    /// Where they really listen: port 0 in the configuration means any.
    pub fn addresses(&self) -> io::Result<Addresses> {
        Ok(Addresses { grpc: self.grpc.local_addr()?, http: self.http.local_addr()? })
    }
}

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// For the gRPC API.
    pub grpc: SocketAddr,
    /// For the pages.
    pub http: SocketAddr,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {what} ({})", advice(.source, .setting))]
pub struct Error {
    what: &'static str,
    setting: &'static str,
    address: SocketAddr,
    source: io::Error,
}

async fn bind(what: &'static str, setting: &'static str, address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error { what, setting, address, source })
}

fn advice(error: &io::Error, setting: &str) -> String {
    let change = format!("set `{setting}` in [server]");
    if error.kind() == io::ErrorKind::AddrInUse {
        format!(
            "another process has the port, perhaps another leasehold-server: stop it, or {change} to another port"
        )
    } else if error.kind() == io::ErrorKind::AddrNotAvailable {
        format!("this machine does not have the address: {change} to one that it has")
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        format!("ports below 1024 need a privilege: {change} to a higher port")
    } else {
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::chain;

    async fn refusal(listen: SocketAddr) -> String {
        let http = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = ServerConfig { listen, http, data: "unused".into() };
        chain(&Listeners::bind(&server).await.unwrap_err())
    }

    #[tokio::test]
    async fn a_port_in_use_is_told_with_the_way_out() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let message = refusal(address).await.replace(&address.to_string(), "ADDRESS");
        insta::assert_snapshot!(message, @"cannot listen on ADDRESS for gRPC (another process has the port, perhaps another leasehold-server: stop it, or set `listen` in [server] to another port): Address already in use (os error 98)");
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_told_with_the_way_out() {
        let message = refusal(SocketAddr::from(([192, 0, 2, 1], 7420))).await;
        insta::assert_snapshot!(message, @"cannot listen on 192.0.2.1:7420 for gRPC (this machine does not have the address: set `listen` in [server] to one that it has): Cannot assign requested address (os error 99)");
    }
}
