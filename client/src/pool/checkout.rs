//! The way of a task to a connection: take an idle one or a token, else wait;
//! test the one, connect with the other. Knows nothing of levels or reports.
//!
//! Dropping the future at any point loses nothing: a claim is always held by
//! something whose drop passes it on.

use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use deadpool::managed::Manager;
use tokio::time::timeout;
use tracing::{Instrument, Span};

use crate::clock::Time;
use crate::error::{Error, RecycleFailure};
use crate::ledger::{Ahead, Asked, Claim, State, Ticket, Wait, remaining};
use crate::statistics::{Held, Site};
use crate::trace::{TraceContext, checkout_span};

use super::connect::NoConnection;
use super::guard::Checkout;
use super::shared::{Pooled, Shared};

/// How many connections in a row may fail their test in one checkout.
const TESTS_BOUND: u32 = 100;

/// What a task has on its way.
enum Step<'a, M: Manager + 'static> {
    Claim(Claim<Pooled<M::Type>>),
    Unfit(Untested<'a, M>, RecycleFailure<M::Error>),
    Wait(Wait<'a, Arc<Shared<M>>>),
    Refused { max_waiting: u32 },
}

impl<'a, M: Manager + 'static> From<Asked<Claim<Pooled<M::Type>>, Wait<'a, Arc<Shared<M>>>>> for Step<'a, M> {
    fn from(asked: Asked<Claim<Pooled<M::Type>>, Wait<'a, Arc<Shared<M>>>>) -> Self {
        match asked {
            Asked::Claim(claim) => Self::Claim(claim),
            Asked::Place(wait) => Self::Wait(wait),
            Asked::Refused { max_waiting } => Self::Refused { max_waiting },
        }
    }
}

impl<M: Manager + 'static> Shared<M> {
    pub(super) async fn checkout(
        self: &Arc<Self>,
        location: &'static Location<'static>,
    ) -> Result<Checkout<M>, Error<M::Error>> {
        let since = self.ledger.now();
        let site = self.sites.of(location);
        let step = match self.ledger.step(State::take_idle) {
            Some(pooled) => match Untested::new(self, pooled, Held::at_once(site, since)).test(since).await {
                Ok(checkout) => return Ok(checkout),
                Err((untested, failure)) => Some(Step::Unfit(untested, failure)),
            },
            None => None,
        };
        // Only a checkout that waits or connects comes here.
        let span = checkout_span(&self.database);
        let ticket = Ticket { since, trace: TraceContext::of(&span) };
        let outcome = self.proceed(site, ticket, step).instrument(span.clone()).await;
        record(&span, &outcome);
        outcome
    }

    /// A checkout for closing another connection, ahead of all that wait.
    pub(super) async fn checkout_spare(self: &Arc<Self>) -> Option<Checkout<M>> {
        let ticket = Ticket { since: self.ledger.now(), trace: None };
        let mut step = self.ask(ticket, Ahead::OfAll);
        // No timeout: the close as a whole has one.
        if let Step::Wait(wait) = step {
            self.sites.waited(Site::OTHER);
            step = Step::Claim(wait.await);
        }
        match step {
            Step::Claim(Claim::Connection(pooled)) => {
                let now = self.ledger.now();
                let held = Held::at_once(Site::OTHER, now);
                Untested::new(self, pooled, held).test(now).await.ok()
            }
            Step::Claim(Claim::Token) => self.connect(Site::OTHER).await.ok(),
            Step::Claim(Claim::Closed) | Step::Unfit(..) | Step::Wait(_) | Step::Refused { .. } => None,
        }
    }

    /// Goes on from `step` until there is a connection or an error.
    async fn proceed<'a>(
        self: &'a Arc<Self>,
        site: Site,
        ticket: Ticket,
        step: Option<Step<'a, M>>,
    ) -> Result<Checkout<M>, Error<M::Error>> {
        let mut step = step.unwrap_or_else(|| self.ask(ticket, Ahead::OfTheYounger));
        let mut attempts = 0;
        loop {
            step = match step {
                Step::Wait(wait) => Step::Claim(self.wait(site, ticket, wait).await?),
                Step::Claim(Claim::Closed) => return Err(self.closed()),
                Step::Refused { max_waiting } => {
                    return Err(Error::QueueFull { database: self.database.clone(), max_waiting });
                }
                Step::Claim(Claim::Connection(pooled)) => {
                    let now = self.ledger.now();
                    // Idle before it was asked for, or handed over since.
                    let kept_since = pooled.came.max(ticket.since);
                    let held = Held { site, since: now, kept_since };
                    match Untested::new(self, pooled, held).test(now).await {
                        Ok(checkout) => return Ok(checkout),
                        Err((untested, failure)) => Step::Unfit(untested, failure),
                    }
                }
                Step::Unfit(untested, failure) => {
                    attempts += 1;
                    if attempts >= TESTS_BOUND || self.is_testing_over(ticket) {
                        drop(untested);
                        let database = self.database.clone();
                        return Err(Error::Recycle { database, attempts, source: failure });
                    }
                    self.retire_and_ask(untested, ticket)
                }
                Step::Claim(Claim::Token) => match self.connect(site).await {
                    Ok(checkout) => return Ok(checkout),
                    // The token is gone; another may come with an allotment.
                    Err(NoConnection::Lapsed) => self.ask(ticket, Ahead::AsBefore),
                    Err(NoConnection::Closed) => return Err(self.closed()),
                    Err(NoConnection::Failed(error)) => return Err(error),
                },
            };
        }
    }

    /// Takes what is there, or a place in the queue.
    fn ask(self: &Arc<Self>, ticket: Ticket, ahead: Ahead) -> Step<'_, M> {
        Wait::ask(self, ticket, ahead, |_, _| {}).into()
    }

    /// Closes a connection that is not fit and asks for another. Both are one
    /// change, so nobody takes the closed one's token before this task is back
    /// in the queue, in front.
    fn retire_and_ask<'a>(self: &'a Arc<Self>, mut untested: Untested<'a, M>, ticket: Ticket) -> Step<'a, M> {
        let failed = untested.failed;
        let pooled = untested.pooled.take();
        let asked = Wait::ask(self, ticket, Ahead::AsBefore, |state, effects| {
            state.begin_retire(failed, effects);
        });
        if let Some(pooled) = pooled {
            self.start_close(pooled);
        }
        asked.into()
    }

    async fn wait(
        self: &Arc<Self>,
        site: Site,
        ticket: Ticket,
        wait: Wait<'_, Arc<Self>>,
    ) -> Result<Claim<Pooled<M::Type>>, Error<M::Error>> {
        self.sites.waited(site);
        let waited = wait.within(self.settings.wait_timeout, ticket.since).await;
        waited.map_err(|waited| {
            self.sites.wait_timed_out(site);
            Error::WaitTimeout { database: self.database.clone(), waited }
        })
    }

    /// Whether a checkout has tested for long enough: for as long as it may wait,
    /// but one whole test at least.
    fn is_testing_over(&self, ticket: Ticket) -> bool {
        let Some(limit) = self.settings.wait_timeout else { return false };
        let limit = limit.max(self.settings.recycle_timeout);
        remaining(limit, ticket.since, self.ledger.now()).is_zero()
    }

    fn closed(&self) -> Error<M::Error> {
        Error::Closed { database: self.database.clone() }
    }
}

/// An open connection that was taken and not tested yet. Dropped, it is closed:
/// its state is unknown.
struct Untested<'a, M: Manager + 'static> {
    shared: &'a Arc<Shared<M>>,
    pooled: Option<Pooled<M::Type>>,
    held: Held,
    failed: bool,
}

impl<'a, M: Manager + 'static> Untested<'a, M> {
    const fn new(shared: &'a Arc<Shared<M>>, pooled: Pooled<M::Type>, held: Held) -> Self {
        Self { shared, pooled: Some(pooled), held, failed: false }
    }

    /// Lets the manager test the connection.
    async fn test(mut self, now: Time) -> Result<Checkout<M>, (Self, RecycleFailure<M::Error>)> {
        if let Err(failure) = self.verdict(now).await {
            self.failed = match failure {
                RecycleFailure::Unfit(_) | RecycleFailure::Timeout { .. } => true,
                RecycleFailure::Expired => false,
            };
            return Err((self, failure));
        }
        let mut pooled = self.pooled.take().expect("it is taken once");
        pooled.tested(now);
        Ok(Checkout::new(pooled, self.held, Arc::clone(self.shared)))
    }

    async fn verdict(&mut self, now: Time) -> Result<(), RecycleFailure<M::Error>> {
        let pooled = self.pooled.as_mut().expect("it is taken once");
        if pooled.is_expired(now) {
            return Err(RecycleFailure::Expired);
        }
        let mut recycle = pin!(self.shared.manager.recycle(&mut pooled.connection, &pooled.metrics));
        // Most tests answer at once; a timer costs more than such a test.
        let outcome = match poll_fn(|context| Poll::Ready(recycle.as_mut().poll(context))).await {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                let limit = self.shared.settings.recycle_timeout;
                timeout(limit, recycle).await.map_err(|_elapsed| RecycleFailure::Timeout { limit })?
            }
        };
        outcome.map_err(RecycleFailure::Unfit)
    }
}

impl<M: Manager + 'static> Drop for Untested<'_, M> {
    fn drop(&mut self) {
        let Some(pooled) = self.pooled.take() else { return };
        self.shared.ledger.step(|state, effects| state.begin_retire(self.failed, effects));
        self.shared.start_close(pooled);
    }
}

fn record<T, E>(span: &Span, outcome: &Result<T, Error<E>>) {
    let outcome = match outcome {
        Ok(_) => "connection",
        Err(Error::WaitTimeout { .. }) => "wait timeout",
        Err(Error::QueueFull { .. }) => "queue full",
        Err(Error::CreateTimeout { .. }) => "create timeout",
        Err(Error::Recycle { .. }) => "recycle failures",
        Err(Error::Backend { .. }) => "backend error",
        Err(Error::Closed { .. }) => "closed",
    };
    span.record("outcome", outcome);
}
