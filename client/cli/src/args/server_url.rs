//! The address of the server, from the forms that people type. Knows nothing of
//! connections.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The server's default port for gRPC.
const DEFAULT_PORT: u16 = 7420;

/// Where the server listens: `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    /// A name or IPv4 address, or an IPv6 address in brackets.
    host: String,
    port: u16,
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}:{}", self.host, self.port)
    }
}

/// Why a text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("it is empty; give HOST:PORT")]
    Empty,
    #[error("https is not supported; give http://HOST:PORT, through a TLS proxy where needed")]
    Https,
    #[error("`{0}` is not supported; give http://HOST:PORT")]
    Scheme(String),
    #[error("only a host and a port belong here; remove everything from `{0}` on")]
    Trailing(char),
    #[error("a user name does not belong here; remove everything up to `@`")]
    UserName,
    #[error("the host is missing")]
    NoHost,
    #[error("an IPv6 address needs brackets: [::1]:7420")]
    Brackets,
    #[error("`{0}` is not an IPv6 address")]
    Ipv6(String),
    #[error("a host cannot contain `{0}`")]
    Host(char),
    #[error("`{0}` is not a port; give a number from 1 to 65535")]
    Port(String),
}

impl FromStr for ServerUrl {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let authority = authority(text.trim())?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => ipv6_and_port(rest)?,
            None => name_and_port(authority)?,
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) => parse_port(digits)?,
        };
        Ok(ServerUrl { host, port })
    }
}

/// What stands between the scheme and the path, which must be empty.
fn authority(text: &str) -> Result<&str, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    let rest = match text.split_once("://") {
        None => text,
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => return Err(Problem::Https),
        Some((scheme, _)) => return Err(Problem::Scheme(format!("{scheme}://"))),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    match rest.chars().find(|character| matches!(character, '/' | '?' | '#' | '@')) {
        None => Ok(rest),
        // Not repeated: what stands before may be a password.
        Some('@') => Err(Problem::UserName),
        Some(character) => Err(Problem::Trailing(character)),
    }
}

fn ipv6_and_port(rest: &str) -> Result<(String, Option<&str>), Problem> {
    let (address, after) = rest.split_once(']').ok_or(Problem::Brackets)?;
    let address: Ipv6Addr = address.parse().map_err(|_| Problem::Ipv6(address.to_owned()))?;
    let port = match after.strip_prefix(':') {
        Some(digits) => Some(digits),
        None if after.is_empty() => None,
        None => return Err(Problem::Port(after.to_owned())),
    };
    Ok((format!("[{address}]"), port))
}

fn name_and_port(authority: &str) -> Result<(String, Option<&str>), Problem> {
    if authority.matches(':').count() > 1 {
        return Err(Problem::Brackets);
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if host.is_empty() {
        return Err(Problem::NoHost);
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_');
    match host.chars().find(|character| !allowed(*character)) {
        None => Ok((host.to_owned(), port)),
        Some(character) => Err(Problem::Host(character)),
    }
}

fn parse_port(digits: &str) -> Result<u16, Problem> {
    let problem = || Problem::Port(digits.to_owned());
    // `u16::from_str` takes a plus sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(problem());
    }
    digits.parse().ok().filter(|port| *port != 0).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::ServerUrl;

    fn check(text: &str, expected: &str) {
        let found = match text.parse::<ServerUrl>() {
            Ok(url) => url.to_string(),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(found, expected, "parsing {text:?}");
    }

    #[test]
    fn forms_that_people_type_are_understood() {
        check("http://127.0.0.1:7420", "http://127.0.0.1:7420");
        check("127.0.0.1:9000", "http://127.0.0.1:9000");
        check("leasehold.internal", "http://leasehold.internal:7420");
        check("HTTP://db-1.example:80/", "http://db-1.example:80");
        check("[::1]:7420", "http://[::1]:7420");
        check("http://[2001:db8::5]", "http://[2001:db8::5]:7420");
        check(" localhost:1 ", "http://localhost:1");
    }

    #[test]
    fn wrong_addresses_are_explained() {
        check("", "it is empty; give HOST:PORT");
        check(
            "https://db:7420",
            "https is not supported; give http://HOST:PORT, through a TLS proxy where needed",
        );
        check("mysql://db:3306", "`mysql://` is not supported; give http://HOST:PORT");
        check("http://db:7420/admin", "only a host and a port belong here; remove everything from `/` on");
        check("http://me:secret@db", "a user name does not belong here; remove everything up to `@`");
        check(":7420", "the host is missing");
        check("http://", "the host is missing");
        check("::1", "an IPv6 address needs brackets: [::1]:7420");
        check("[::1", "an IPv6 address needs brackets: [::1]:7420");
        check("[::g]:1", "`::g` is not an IPv6 address");
        check("[::1]7420", "`7420` is not a port; give a number from 1 to 65535");
        check("my host:1", "a host cannot contain ` `");
        check("db:", "`` is not a port; give a number from 1 to 65535");
        check("db:0", "`0` is not a port; give a number from 1 to 65535");
        check("db:+80", "`+80` is not a port; give a number from 1 to 65535");
        check("db:70000", "`70000` is not a port; give a number from 1 to 65535");
    }
}
