//! The address of a watched database, which holds a secret: nothing here ever
//! prints more of it than host and port. Does not connect.

use std::fmt;

use mysql_async::{Opts, OptsBuilder, UrlError};

/// Where a database is and how to log in to it. Shows itself without user,
/// password and parameters.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    options: Opts,
}

impl DatabaseUrl {
    /// Reads `mysql://user:password@host:port/`. The error says what is wrong
    /// without repeating the text, which may hold a password in any place.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        // An unescaped `/`, `?` or `#` in a password ends the host too early;
        // what follows would pass for a path, and a part of the password for the port.
        let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
        if after_scheme.split_once(['/', '?', '#']).is_some_and(|(_, tail)| tail.contains('@')) {
            return Err("a user name or password holds one of `/ ? # @`: write it as %2F %3F %23 %40");
        }
        let options = Opts::from_url(text).map_err(|error| describe(&error))?;
        // The socket that a server names is a path on its own machine, and
        // changing over to it would take a second connection for an instant.
        Ok(Self { options: OptsBuilder::from_opts(options).prefer_socket(false).into() })
    }

    /// What the driver needs to connect. Holds the password in the clear.
    pub fn options(&self) -> &Opts {
        &self.options
    }

    /// Host and port, or the path of the socket: what makes two urls the same server.
    pub fn address(&self) -> String {
        match self.options.socket() {
            Some(socket) => socket.to_owned(),
            None => format!("{}:{}", self.options.ip_or_hostname(), self.options.tcp_port()),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({}, user and password hidden)", self.address())
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())
    }
}

fn describe(error: &UrlError) -> &'static str {
    match error {
        UrlError::FeatureRequired { .. } => "it asks for TLS, which this server cannot speak to a database",
        UrlError::UnsupportedScheme { .. } => "it must begin with `mysql://`",
        UrlError::InvalidParamValue { .. } => "a parameter after `?` has a value that cannot be used",
        UrlError::UnknownParameter { .. } => "a parameter after `?` is not known",
        UrlError::InvalidPoolConstraints { .. } => "pool_min is greater than pool_max",
        UrlError::Invalid | UrlError::Parse(_) => "it must have the form `mysql://user:password@host:port/`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_neither_user_nor_password() {
        let url = DatabaseUrl::parse("mysql://herbert:s3cret@db.example:3307/shop?wait_timeout=10").unwrap();
        for shown in [format!("{url}"), format!("{url:?}"), format!("{:#?}", Some(url))] {
            assert!(shown.contains("db.example:3307"), "{shown}");
            assert!(!shown.contains("herbert") && !shown.contains("s3cret"), "{shown}");
        }
    }

    #[test]
    fn a_password_that_splits_the_url_is_refused() {
        for text in ["mysql://u:12/34@h/", "mysql://u:1?2@h/", "mysql://u:1#2@h/"] {
            assert!(DatabaseUrl::parse(text).unwrap_err().contains("%2F"), "{text}");
        }
        assert!(DatabaseUrl::parse("mysql://u:12%2F34@h/").is_ok());
    }

    #[test]
    fn the_driver_never_changes_over_to_a_socket() {
        let url = DatabaseUrl::parse("mysql://u@h/?prefer_socket=true").unwrap();
        assert!(!url.options().prefer_socket());
    }
}
