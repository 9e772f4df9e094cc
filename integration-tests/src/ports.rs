//! Free TCP ports that stay the test's own, also while nobody listens on them:
//! a server that was killed comes back on the same port. Knows nothing of who
//! listens.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use crate::stage;

/// Below the ports that the kernel gives to outgoing connections, so that none
/// of those takes one away while its server restarts.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port on 127.0.0.1 that no other test uses as long as this lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: File,
}

impl Port {
    /// Claims a free port.
    pub fn claim() -> Self {
        // Processes start at different places, so that they seldom meet.
        let offset = std::process::id() as usize * 61 % RANGE.len();
        RANGE
            .cycle()
            .skip(offset)
            .take(RANGE.len())
            .find_map(|number| {
                let claim = stage::try_lock(&format!("port-{number}.lock"))?;
                TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
                Some(Self { number, _claim: claim })
            })
            .expect("a free port")
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its address on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}
