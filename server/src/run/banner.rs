//! What people read when the server has started. Shows no secret.

use std::fmt;
use std::net::SocketAddr;

use crate::config::Config;

/// Where the operator's command looks when it is told nothing.
const COMMAND_DEFAULT_PORT: u16 = 7420;

/// Writes in a few lines what runs and what to try next.
#[derive(Debug)]
pub struct Banner<'a> {
    /// What it runs on; its addresses are the real ones.
    pub config: &'a Config,
    /// Number of the server's incarnation.
    pub generation: u64,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        writeln!(f, "Leasehold {version}, generation {}", self.generation)?;
        write!(f, "{}", self.config.summary())?;
        let server = server_option(self.config.server.listen);
        writeln!(f, "next: cargo run --release -p leasehold-cli -- status{server}")?;
        writeln!(f, "      (installed: leasehold status{server})")
    }
}

/// What the operator's command must be told to find this server.
fn server_option(listen: SocketAddr) -> String {
    // All addresses of the machine are reached at its loopback, too.
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    let reached = SocketAddr::new(ip, listen.port());
    if reached == SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, COMMAND_DEFAULT_PORT)) {
        String::new()
    } else {
        format!(" --server http://{reached}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_read_like_this() {
        let config = crate::config::load(None, &[]).unwrap().config;
        let banner = Banner { config: &config, generation: 3 };
        let text = banner.to_string().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(text, @"
        Leasehold VERSION, generation 3
        gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
        database default: a fixed cap of 100; fair admission within 100ms; nodes close their connections when the server is silent for 30s, and have 30s for it
        next: cargo run --release -p leasehold-cli -- status
              (installed: leasehold status)
        ");
    }

    #[test]
    fn another_address_is_named() {
        let option = |text: &str| server_option(text.parse().unwrap());
        assert_eq!(option("127.0.0.1:7420"), "");
        assert_eq!(option("0.0.0.0:7420"), "");
        assert_eq!(option("10.0.0.1:7420"), " --server http://10.0.0.1:7420");
        assert_eq!(option("[::]:9000"), " --server http://[::1]:9000");
    }
}
