//! The unary calls that wait for tokens of one database, by age and by size.
//! Knows nothing of who is served.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use crate::{
    SessionId, Ticket, Time,
    database::Database,
    orders::{Lack, Oldest},
    workload::Workload,
};

/// One request, with every attempt at it that still waits.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) tickets: Vec<Ticket>,
    /// All of them or none. At least 1.
    pub(crate) tokens: u32,
    pub(crate) node: Arc<str>,
    pub(crate) workload: Arc<str>,
    pub(crate) since: Time,
    /// Tokens of others that were asked for on its behalf and count as promised.
    pub(crate) promised: u32,
}

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    waiting: BTreeMap<SessionId, Call>,
    by_age: BTreeSet<Oldest>,
    by_size: BTreeMap<u32, BTreeSet<Oldest>>,
    /// Tokens they wait for.
    tokens: u64,
    /// Tokens promised to them.
    promised: u64,
    /// Tokens they wait for, beyond those.
    missing: u64,
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn get(&self, request: SessionId) -> Option<&Call> {
        self.waiting.get(&request)
    }

    /// One more attempt at a request that waits.
    pub(crate) fn attempt(&mut self, request: SessionId, ticket: Ticket) {
        if let Some(call) = self.waiting.get_mut(&request) {
            call.tickets.push(ticket);
        }
    }

    /// An attempt is over. True when nobody waits for the request any more.
    pub(crate) fn give_up(&mut self, request: SessionId, ticket: Ticket) -> bool {
        self.waiting.get_mut(&request).is_some_and(|call| {
            call.tickets.retain(|other| *other != ticket);
            call.tickets.is_empty()
        })
    }

    pub(crate) fn insert(&mut self, request: SessionId, call: Call) {
        self.tokens += u64::from(call.tokens);
        self.promised += u64::from(call.promised);
        self.missing += missing(&call);
        self.by_age.insert((call.since, request));
        self.by_size.entry(call.tokens).or_default().insert((call.since, request));
        self.waiting.insert(request, call);
    }

    pub(crate) fn remove(&mut self, request: SessionId) -> Option<Call> {
        let call = self.waiting.remove(&request)?;
        self.tokens -= u64::from(call.tokens);
        self.promised -= u64::from(call.promised);
        self.missing -= missing(&call);
        self.by_age.remove(&(call.since, request));
        if let Some(same_size) = self.by_size.get_mut(&call.tokens) {
            same_size.remove(&(call.since, request));
            if same_size.is_empty() {
                self.by_size.remove(&call.tokens);
            }
        }
        Some(call)
    }

    /// Takes everybody out.
    pub(crate) fn drain(&mut self) -> BTreeMap<SessionId, Call> {
        core::mem::take(self).waiting
    }

    /// Whoever waits longest.
    pub(crate) fn first(&self) -> Option<(SessionId, &Call)> {
        let (_, request) = self.by_age.first()?;
        Some((*request, self.waiting.get(request)?))
    }

    /// Whoever waits longest among those that so many tokens are enough for.
    pub(crate) fn first_within(&self, tokens: u32) -> Option<(SessionId, &Call)> {
        let (_, request) = self.by_size.range(..=tokens).filter_map(|(_, calls)| calls.first()).min()?;
        Some((*request, self.waiting.get(request)?))
    }

    /// Whoever waits for more than so many tokens.
    pub(crate) fn above(&self, tokens: u32) -> Vec<SessionId> {
        let larger = self.by_size.range(tokens.saturating_add(1)..);
        larger.flat_map(|(_, calls)| calls.iter().map(|(_, request)| *request)).collect()
    }

    /// Tokens they wait for.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Tokens promised to them.
    pub(crate) fn promised(&self) -> u64 {
        self.promised
    }

    /// Tokens they wait for, beyond those promised to them.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// Everybody, by request.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Call)> {
        self.waiting.iter().map(|(request, call)| (*request, call))
    }
}

fn missing(call: &Call) -> u64 {
    u64::from(call.tokens.saturating_sub(call.promised))
}

/// The calls among all others who wait.
impl Workload {
    pub(crate) fn insert_call(&mut self, request: SessionId, call: Call) {
        if let Some((key, lack)) = as_receiver((request, &call)) {
            self.orders.receivers.insert(key, lack);
        }
        self.calls.insert(request, call);
    }

    fn take_call(&mut self, request: SessionId) -> Option<Call> {
        let call = self.calls.remove(request)?;
        if let Some((key, _)) = as_receiver((request, &call)) {
            self.orders.receivers.remove(&key);
        }
        Some(call)
    }
}

/// Wherever they wait.
impl Database {
    pub(crate) fn call(&self, request: SessionId) -> Option<&Call> {
        self.workloads.iter().find_map(|workload| workload.calls.get(request))
    }

    /// One more attempt at a request that waits.
    pub(crate) fn attempt_call(&mut self, request: SessionId, ticket: Ticket) {
        for workload in &mut self.workloads {
            workload.calls.attempt(request, ticket);
        }
    }

    /// An attempt is over. True when nobody waits for the request any more.
    pub(crate) fn give_up_call(&mut self, request: SessionId, ticket: Ticket) -> bool {
        self.workloads.iter_mut().any(|workload| workload.calls.give_up(request, ticket))
    }

    pub(crate) fn insert_call(&mut self, request: SessionId, call: Call) {
        let workload = self.workload_named(&call.workload);
        self.workloads[workload.index()].insert_call(request, call);
    }

    /// Takes a call out that is to be served, and what is promised to it along.
    pub(crate) fn take_call(&mut self, request: SessionId) -> Option<Call> {
        self.workloads.iter_mut().find_map(|workload| workload.take_call(request))
    }

    /// Nobody waits for a request any more.
    pub(crate) fn remove_call(&mut self, request: SessionId) -> Option<Call> {
        let call = self.take_call(request)?;
        self.forget_moves(request);
        Some(call)
    }

    /// One token more, or less, is on its way to a call.
    pub(crate) fn promise_call(&mut self, request: SessionId, change: impl FnOnce(u32) -> u32) {
        let Some(mut call) = self.take_call(request) else { return };
        call.promised = change(call.promised);
        self.insert_call(request, call);
    }
}

/// A call has no share: a token moves to it only if it is left far behind, or
/// has nothing.
pub(crate) fn as_receiver((request, call): (SessionId, &Call)) -> Option<(Oldest, Lack)> {
    let lack = Lack { supply: None, supply_after: None, promised: call.promised, tokens: call.promised };
    (missing(call) > 0).then_some(((call.since, request), lack))
}
