//! Tokens for anything that is not a deadpool manager: another pool, a driver
//! of one's own, a child process that connects. Knows nothing of what is done
//! with one.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as Runtime;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::Instrument;

use crate::clock::{Clock, Time};
use crate::error::{Error, StillInUse, TokenError};
use crate::governed::{Governed, Levels, Recall, Reporter};
use crate::ledger::{Ahead, Asked, Claim, Few, Ledger, Limits, MayUse, Shell, State, Ticket, Use, Wait};
use crate::settings::{BuildError, SETTLING_PERIOD, Settings};
use crate::statistics::{Held, Site, Sites, Statistics};
use crate::trace::{TraceContext, checkout_span};

/// The tokens of one database, each the right to hold one connection.
///
/// Handles are cheap to clone. When the last one drops, tokens are given back as
/// they come free.
#[derive(Clone)]
pub struct Tokens {
    handle: Arc<Handle>,
}

/// The right to hold one connection. Drop it only when the connection is gone
/// for certain.
#[must_use = "the token is given back at once when it is not kept"]
pub struct Token {
    shared: Arc<Shared>,
    held: Held,
}

/// Builds [`Tokens`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct TokensBuilder {
    database: String,
    settings: Settings,
    clock: Clock,
}

struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    database: String,
    settings: Settings,
    ledger: Ledger<()>,
    sites: Sites,
}

impl Tokens {
    /// Begins to build tokens of the database that the server calls `database`.
    pub fn builder(database: impl Into<String>) -> TokensBuilder {
        TokensBuilder { database: database.into(), settings: Settings::default(), clock: Clock::system() }
    }

    /// Takes a token, or waits for one, at most `wait_timeout`. Dropping the
    /// future at any point leaves nothing behind.
    ///
    /// Errors: [`Error::WaitTimeout`], [`Error::QueueFull`] and [`Error::Closed`].
    #[track_caller]
    pub fn acquire(&self) -> impl Future<Output = Result<Token, TokenError>> + Send + use<'_> {
        let location = Location::caller();
        self.handle.shared.acquire(location)
    }

    /// Gives every token back. Tasks that wait get [`Error::Closed`]; for tokens
    /// in use it waits at most `shutdown_timeout`.
    ///
    /// Errors: tokens are in use for longer. They still go back when they drop.
    pub async fn close(&self) -> Result<(), StillInUse> {
        let shared = &self.handle.shared;
        shared.ledger.step(State::close);
        let limit = shared.settings.shutdown_timeout;
        if timeout(limit, shared.ledger.emptied()).await.is_ok() {
            return Ok(());
        }
        let connections = self.status().holding;
        Err(StillInUse { database: shared.database.clone(), connections, waited: limit })
    }

    /// What is held and wanted now.
    pub fn status(&self) -> Levels {
        let ledger = &self.handle.shared.ledger;
        let now = ledger.now();
        ledger.read(|state| state.levels(now))
    }

    /// What happened so far.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.handle.shared.ledger.read(State::statistics);
        self.handle.shared.sites.add_to(&mut statistics);
        statistics
    }

    /// The tokens as their session sees them.
    pub fn governed(&self) -> Arc<dyn Governed> {
        Arc::new(Reins(Arc::clone(&self.handle.shared)))
    }
}

impl Token {
    /// True while the session is past its deadline. Under the policy `fence` the
    /// server may then give this token to others after its grace time, so what
    /// the token stands for has to end.
    pub fn is_lapsed(&self) -> bool {
        let now = self.shared.ledger.now();
        self.shared.ledger.read(|state| state.is_lapsed(now))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let ledger = &self.shared.ledger;
        let now = ledger.now();
        let held = now.since(self.held.since);
        self.shared.sites.returned(self.held.site, held);
        ledger.step(|state, effects| state.give_back_token(held, now, effects));
    }
}

impl TokensBuilder {
    /// Most tokens ever asked for.
    pub const fn max_size(mut self, tokens: u32) -> Self {
        self.settings.max_size = tokens;
        self
    }

    /// Longest wait for a token; zero never waits, None waits for ever.
    pub const fn wait_timeout(mut self, limit: Option<Duration>) -> Self {
        self.settings.wait_timeout = limit;
        self
    }

    /// Longest time that closing waits for tokens in use.
    pub const fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.settings.shutdown_timeout = limit;
        self
    }

    /// Another clock than the system's, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the tokens, which tell `reporter` when their levels are worth a
    /// report. There are none until a session gives some.
    ///
    /// Errors: a setting is wrong, or there is no tokio runtime.
    pub fn build(self, reporter: Arc<dyn Reporter>) -> Result<Tokens, BuildError> {
        self.settings.check()?;
        let runtime = Runtime::try_current().map_err(|_| BuildError::NoRuntime)?;
        let limits = Limits { maximum: self.settings.max_size, minimum: 0 };
        let shared = Arc::new(Shared {
            database: self.database,
            settings: self.settings,
            ledger: Ledger::new(limits, Use::Tokens, self.clock, reporter),
            sites: Sites::new(),
        });
        runtime.spawn(settle(Arc::clone(&shared)));
        Ok(Tokens { handle: Arc::new(Handle { shared }) })
    }
}

impl Shared {
    async fn acquire(self: &Arc<Self>, location: &'static Location<'static>) -> Result<Token, TokenError> {
        let since = self.ledger.now();
        let site = self.sites.of(location);
        if self.ledger.step(|state, effects| state.take_token(since, effects)) {
            return Ok(self.token(site, since));
        }
        let span = checkout_span(&self.database);
        let ticket = Ticket { since, trace: TraceContext::of(&span) };
        self.wait_for_token(site, ticket).instrument(span).await
    }

    async fn wait_for_token(self: &Arc<Self>, site: Site, ticket: Ticket) -> Result<Token, TokenError> {
        let mut ahead = Ahead::OfTheYounger;
        loop {
            let claim = match Wait::ask(self, ticket, ahead, |_, _| {}) {
                Asked::Claim(claim) => claim,
                Asked::Refused { max_waiting } => {
                    return Err(Error::QueueFull { database: self.database.clone(), max_waiting });
                }
                Asked::Place(wait) => {
                    self.sites.waited(site);
                    let waited = wait.within(self.settings.wait_timeout, ticket.since).await;
                    waited.map_err(|waited| {
                        self.sites.wait_timed_out(site);
                        Error::WaitTimeout { database: self.database.clone(), waited }
                    })?
                }
            };
            let now = self.ledger.now();
            let may_use = match claim {
                Claim::Closed => MayUse::Closed,
                Claim::Token | Claim::Connection(()) => {
                    self.ledger.step(|state, effects| state.may_use(now, effects))
                }
            };
            match may_use {
                MayUse::Yes => return Ok(self.token(site, now)),
                // The token is gone; another may come with an allotment.
                MayUse::Lapsed => ahead = Ahead::AsBefore,
                MayUse::Closed => return Err(Error::Closed { database: self.database.clone() }),
            }
        }
    }

    fn token(self: &Arc<Self>, site: Site, since: Time) -> Token {
        self.sites.checked_out(site);
        Token { shared: Arc::clone(self), held: Held::at_once(site, since) }
    }
}

/// Lets the reports settle until the tokens are closed, as they are at the
/// latest when their last handle drops.
async fn settle(shared: Arc<Shared>) {
    let mut period = interval(SETTLING_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !shared.ledger.read(State::is_closed) {
        period.tick().await;
        shared.ledger.step(State::settle);
    }
}

impl Shell for Arc<Shared> {
    type Connection = ();

    fn ledger(&self) -> &Ledger<()> {
        &self.ledger
    }

    fn close_all(&self, connections: Few<()>) {
        assert!(connections.is_empty(), "a token has no connection to close");
    }
}

/// The tokens as their session sees them.
struct Reins(Arc<Shared>);

impl Governed for Reins {
    fn levels(&self) -> Levels {
        let now = self.0.ledger.now();
        self.0.ledger.step(|state, _| state.report(now))
    }

    fn traceparent(&self) -> String {
        let trace = self.0.ledger.read(State::trace);
        trace.map_or_else(String::new, |trace| trace.to_string())
    }

    fn allot(&self, tokens: u32, recall: Recall) {
        let now = self.0.ledger.now();
        self.0.ledger.step(|state, effects| state.allot(tokens, recall, now, effects));
    }

    fn bound_queue(&self, full: Option<u32>) {
        self.0.ledger.step(|state, _| state.bound_queue(full));
    }

    fn lapse(&self, fence: bool) {
        self.0.ledger.step(|state, effects| state.lapse(fence, effects));
    }

    fn revive(&self) {
        self.0.ledger.step(State::revive);
    }

    fn prolong(&self, deadline: Time) {
        self.0.ledger.step(|state, effects| state.prolong(deadline, effects));
    }

    fn close(&self) {
        self.0.ledger.step(State::close);
    }

    fn is_closed(&self) -> bool {
        self.0.ledger.read(State::is_closed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.ledger.step(State::close);
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tokens")
            .field("database", &self.handle.shared.database)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Token").field("database", &self.shared.database).finish_non_exhaustive()
    }
}
