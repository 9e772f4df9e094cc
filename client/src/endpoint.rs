//! Where a server may be reached: addresses as people write them, checked.
//! Knows nothing of connections.

use std::fmt;
use std::str::FromStr;

use tonic::codegen::http::Uri;

/// The address of a server, as `host:port` or `http://host:port`. An IPv6
/// address stands in brackets: `[::1]:7420`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Uri);

/// An address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` is not the address of a server: {reason}; write host:port or http://host:port")]
pub struct InvalidEndpoint {
    /// What was given.
    pub address: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Endpoint {
    /// The address as a URI with scheme, host and port.
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(address: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |reason: &str| InvalidEndpoint { address: address.into(), reason: reason.into() };
        if address.is_empty() {
            return Err(invalid("it is empty"));
        }
        let with_scheme =
            if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let uri: Uri = with_scheme.parse().map_err(|error| invalid(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(invalid("TLS is not supported yet")),
            Some(_) | None => return Err(invalid("its scheme is not http")),
        }
        let authority = uri.authority().ok_or_else(|| invalid("it has no host"))?;
        if authority.host().is_empty() {
            return Err(invalid("it has no host"));
        }
        if authority.as_str().contains('@') {
            return Err(invalid("it names a user"));
        }
        if !matches!(uri.port_u16(), Some(1..)) {
            return Err(invalid("it has no port"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("it has a path"));
        }
        Ok(Self(uri))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(formatter, "http://{authority}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: &str) {
        let shown = match address.parse::<Endpoint>() {
            Ok(endpoint) => endpoint.to_string(),
            Err(error) => error.reason,
        };
        assert_eq!(shown, expected, "{address}");
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        check("127.0.0.1:7420", "http://127.0.0.1:7420");
        check("http://leasehold.internal:7420", "http://leasehold.internal:7420");
        check("http://leasehold.internal:7420/", "http://leasehold.internal:7420");
        check("[::1]:7420", "http://[::1]:7420");
        check("localhost:1", "http://localhost:1");
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("localhost", "it has no port");
        check("localhost:0", "it has no port");
        check("localhost:99999", "it has no port");
        check("https://localhost:1", "TLS is not supported yet");
        check("ftp://localhost:1", "its scheme is not http");
        check("localhost:1/path", "it has a path");
        check("user@localhost:1", "it names a user");
        check("", "it is empty");
    }
}
