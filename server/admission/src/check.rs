//! Every invariant, from scratch: whatever is kept up to date at each change is
//! found again by a look at everything, and compared. This is also the plain
//! form of the rules of `docs/admission.md`, without any of the indexes.

use alloc::{collections::BTreeMap, vec::Vec};
use core::cmp::Reverse;

use crate::{
    SessionId, Time,
    calls::as_receiver,
    core::Core,
    database::{Database, Totals},
    grant::{Next, age_of_call},
    lease::{Counts, Lease, Standing},
    orders::{Lack, Oldest, Places, Plenty, Youngest},
    queue::effective_age,
    recall::{NextMove, Rule, may_receive},
    shares::{Shares, Sums},
};

impl Core {
    /// Checks every invariant from scratch. For tests and simulations: it looks
    /// at everything.
    ///
    /// # Panics
    ///
    /// When one is broken.
    pub fn check(&self) {
        for database in &self.databases {
            database.totals_are_sums();
            database.leases_are_covered();
            database.orders_are_complete();
            database.promises_are_kept_count_of();
            database.the_next_is_the_next(self.now);
            database.the_next_move_is_the_next_move(self.now);
            self.leases_have_sessions(database);
        }
        self.one_stream_speaks_for_a_session();
        self.looks_are_planned();
    }

    fn leases_have_sessions(&self, database: &Database) {
        for (session, lease) in &database.leases {
            let owner = self.sessions.get(session);
            let knows = owner.is_some_and(|owner| owner.databases.contains(&database.id));
            assert!(knows, "a lease without a session");
            if let Standing::Attached(stream) = lease.standing {
                assert_eq!(self.streams.get(&stream), Some(session), "a stream that speaks for nobody");
            }
        }
    }

    fn one_stream_speaks_for_a_session(&self) {
        for (stream, session) in &self.streams {
            let owner = self.sessions.get(session);
            let alone = owner.is_some_and(|owner| owner.stream == Some(*stream));
            assert!(alone, "two streams speak for one session");
        }
    }
}

impl Database {
    fn totals_are_sums(&self) {
        let mut totals = Totals::default();
        for lease in self.leases.values() {
            totals.replace(Counts::default(), lease.counts());
        }
        assert_eq!(totals, self.totals, "totals of {}", self.settings.name);
    }

    fn leases_are_covered(&self) {
        for (session, lease) in &self.leases {
            let Counts { held, ceiling, .. } = lease.counts();
            assert_eq!(self.slack.contains(session), ceiling > held, "index of slack ceilings");
            assert!(held <= ceiling, "held {held} above the ceiling {ceiling}");
            let attached = matches!(lease.standing, Standing::Attached(_));
            assert!(attached || lease.granting() == 0 || held >= lease.tokens, "a grant nobody counts");
        }
    }

    fn orders_are_complete(&self) {
        let places: Vec<(SessionId, Places)> =
            self.leases.iter().map(|(session, lease)| (*session, Places::of(*session, lease))).collect();
        let sum = |count: fn(&Places) -> u32| places.iter().map(|(_, places)| u64::from(count(places))).sum();
        assert_eq!(self.orders.missing, sum(|places| places.missing), "missing tokens");
        assert_eq!(self.orders.coming, sum(|places| places.coming), "coming tokens");
        assert_eq!(self.orders.fixed, sum(|places| places.fixed), "fixed tokens");
        let mut shares = Sums::default();
        for (_, places) in &places {
            shares.add(places.weight, places.hold);
        }
        assert_eq!(self.orders.shares, shares, "sums of the shares");
        for (session, places) in &places {
            assert_eq!(self.orders.cool.contains(session), places.cool, "index of cool leases");
            assert_eq!(
                self.orders.unobserved.contains(session),
                places.unobserved,
                "index of the unobserved"
            );
        }
        let queued = places.iter().any(|(_, places)| places.queue.is_some());
        assert_eq!(self.orders.queue.is_empty(), !queued, "an empty queue");
        assert_eq!(self.orders.receivers.len(), self.all_receivers().len(), "receivers");
        assert_eq!(self.orders.donors.len(), self.all_donors().len(), "donors");
        let missing: u64 =
            self.calls.iter().map(|(_, call)| u64::from(call.tokens.saturating_sub(call.promised))).sum();
        assert_eq!(self.calls.missing(), missing, "tokens missing to calls");
        self.most_idle_is_most_idle(&places);
    }

    fn most_idle_is_most_idle(&self, places: &[(SessionId, Places)]) {
        let spares = places.iter().filter_map(|(session, places)| Some((places.spare?, *session)));
        let most = spares.map(|(spare, session)| (Reverse(spare.tokens), session)).min();
        let most = most.map(|(Reverse(tokens), session)| (tokens, session));
        assert_eq!(self.orders.idle.most(true), most, "most idle tokens");
    }

    fn promises_are_kept_count_of(&self) {
        let mut asked: BTreeMap<SessionId, u32> = BTreeMap::new();
        let mut promised: BTreeMap<SessionId, u32> = BTreeMap::new();
        for step in self.moves.iter() {
            *asked.entry(step.donor).or_default() += 1;
            *promised.entry(step.receiver).or_default() += 1;
        }
        for (session, lease) in &self.leases {
            assert_eq!(lease.asked, asked.remove(session).unwrap_or_default(), "recalls asked for");
            assert_eq!(lease.promised, promised.remove(session).unwrap_or_default(), "promises to a lease");
        }
        for (request, call) in self.calls.iter() {
            assert_eq!(call.promised, promised.remove(&request).unwrap_or_default(), "promises to a call");
        }
        // A receiver may have been served, and a donor be gone, in the meantime.
    }

    /// Rules 1, 2 and 11, for each need one look.
    fn the_next_is_the_next(&self, now: Time) {
        let queue = self.leases.iter().filter_map(|(session, lease)| {
            let (part, turn) = Places::of(*session, lease).queue?;
            self.may_connect().then(|| (effective_age(&turn, part, now), Next::Lease(*session)))
        });
        let room = self.room();
        let fair = self.quantum().is_some();
        let fits = |tokens: u32| fair || tokens <= room;
        let calls = self.calls.iter().filter(|(_, call)| fits(call.tokens));
        let calls = calls.map(|(request, call)| (age_of_call(request, call, now), Next::Call(request)));
        let next = queue.chain(calls).max_by_key(|(age, _)| *age).map(|(_, next)| next);
        assert_eq!(self.next(now), next, "who is next");
    }

    /// Rules 5 and 6: each receiver, the oldest first, with each donor, the one
    /// whose task is youngest first.
    fn the_next_move_is_the_next_move(&self, now: Time) {
        let Some(quantum) = self.quantum() else { return };
        let (shares, donors) = (self.shares(), self.all_donors());
        let mut next = None;
        'receivers: for ((since, receiver), lack) in self.all_receivers() {
            if self.kept_for().is_some_and(|(call, _)| call != receiver) {
                continue;
            }
            let others = || donors.iter().filter(|((_, _, donor), _)| *donor != receiver);
            for rule in [Rule::Share, Rule::Escape, Rule::Poverty] {
                let lags = |(Reverse(donor), _, _): &Youngest| {
                    let lag = now.since(since).saturating_sub(now.since(*donor));
                    match rule {
                        Rule::Share => lag > quantum,
                        Rule::Escape => lag > quantum * 2,
                        Rule::Poverty => true,
                    }
                };
                let pair = others().find(|(key, plenty)| lags(key) && may_give(rule, &shares, plenty));
                if let (Some((donor, _)), true) = (pair, may_receive(rule, &shares, &lack)) {
                    next = Some(NextMove { receiver: (since, receiver), donor: *donor, rule });
                    break 'receivers;
                }
            }
        }
        assert_eq!(self.next_move(quantum, now), next, "which token moves next");
    }

    /// The oldest first.
    fn all_receivers(&self) -> Vec<(Oldest, Lack)> {
        let leases = self.leases.iter().filter_map(|(session, lease)| Places::of(*session, lease).receiver);
        let mut receivers: Vec<(Oldest, Lack)> =
            leases.chain(self.calls.iter().filter_map(as_receiver)).collect();
        receivers.sort_by_key(|(key, _)| *key);
        receivers
    }

    /// The one whose task is youngest first.
    fn all_donors(&self) -> Vec<(Youngest, Plenty)> {
        let donor = |(session, lease): (&SessionId, &Lease)| Places::of(*session, lease).donor;
        let mut donors: Vec<(Youngest, Plenty)> = self.leases.iter().filter_map(donor).collect();
        donors.sort_by_key(|(key, _)| *key);
        donors
    }
}

fn may_give(rule: Rule, shares: &Shares, plenty: &Plenty) -> bool {
    match rule {
        Rule::Share => shares.not_half_below(&plenty.supply),
        Rule::Escape => true,
        Rule::Poverty => plenty.left > 1,
    }
}
