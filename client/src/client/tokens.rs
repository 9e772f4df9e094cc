//! How tokens without connections are built under a client's session. Knows
//! nothing of how they work: all settings are those of [`TokensBuilder`].

use std::sync::Arc;
use std::time::Duration;

use super::{Client, PoolError};
use crate::governed::{Governed, Reporter};
use crate::tokens::{Tokens, TokensBuilder};

/// Builds [`Tokens`] that live by a client's session.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientTokensBuilder {
    client: Client,
    database: String,
    tokens: TokensBuilder,
}

impl Client {
    /// Begins to build tokens for the database that the server calls
    /// `database`, for anything that is not a deadpool manager. A database has
    /// either a pool or tokens in one client.
    pub fn tokens(&self, database: &str) -> ClientTokensBuilder {
        let tokens = Tokens::builder(database).clock(self.inner.clock.clone());
        ClientTokensBuilder { client: self.clone(), database: database.into(), tokens }
    }
}

impl ClientTokensBuilder {
    /// Most tokens ever asked for. Default 10.
    pub fn max_size(self, tokens: u32) -> Self {
        self.with(|builder| builder.max_size(tokens))
    }

    /// Longest wait for a token; zero never waits, None waits for ever. Default
    /// 30 s.
    pub fn wait_timeout(self, limit: Option<Duration>) -> Self {
        self.with(|builder| builder.wait_timeout(limit))
    }

    /// Longest time that closing waits for tokens in use. Default 30 s.
    pub fn shutdown_timeout(self, limit: Duration) -> Self {
        self.with(|builder| builder.shutdown_timeout(limit))
    }

    /// Builds the tokens and puts them under the session's orders.
    ///
    /// Errors: a setting or the database's name is wrong, the client has a pool
    /// of this database or too many, it was shut down, or there is no tokio
    /// runtime here.
    pub fn build(self) -> Result<Tokens, PoolError> {
        let Self { client, database, tokens } = self;
        let make = |reporter: Arc<dyn Reporter>| -> Result<(Tokens, Arc<dyn Governed>), PoolError> {
            let tokens = tokens.build(reporter)?;
            let governed = tokens.governed();
            Ok((tokens, governed))
        };
        client.govern(&database, make)
    }

    fn with(mut self, set: impl FnOnce(TokensBuilder) -> TokensBuilder) -> Self {
        self.tokens = set(self.tokens);
        self
    }
}
