//! Every invariant, from scratch: whatever is kept up to date at each change is
//! found again by a look at everything, and compared. This is also the plain
//! form of the rules of `docs/admission.md`, without any of the indexes.

use alloc::{collections::BTreeMap, vec::Vec};
use core::cmp::Reverse;

use crate::{
    SessionId, Time,
    between::{Precedence, may_give_to_others},
    calls::as_receiver,
    core::Core,
    database::{Database, Totals},
    grant::{Next, age_of_call, free_for},
    lease::{Counts, Lease, Standing},
    orders::{Lack, Oldest, Places, Plenty, Youngest},
    queue::{EffectiveAge, effective_age},
    reason::Rule,
    recall::{NextMove, WITHIN, may_give, may_receive},
    shares::Sums,
    targets::targets,
    workload::Workload,
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
            database.tasks_queue_by_the_rules_in_force();
            database.limits_hold();
            database.settings_in_force_are_those_set();
            database.targets_are_what_was_aimed_for();
            for workload in &database.workloads {
                let part = Part::of(database, workload);
                part.totals_are_sums();
                part.orders_are_complete();
                part.most_idle_is_most_idle();
            }
            database.promises_are_kept_count_of();
            database.places_are_in_order(self.now);
            database.the_next_is_the_next(self.now);
            database.the_next_move_is_the_next_move(self.now);
            database.the_move_between_is_one_that_may_be(self.now);
            self.leases_have_sessions(database);
        }
        self.one_stream_speaks_for_a_session();
        self.looks_are_planned();
    }

    fn leases_have_sessions(&self, database: &Database) {
        for (session, lease) in &database.leases {
            let Some(owner) = self.sessions.get(session) else { panic!("a lease without a session") };
            assert!(owner.databases.contains(&database.id), "a lease that its session does not know");
            assert_eq!(lease.workload, database.workload_named(&owner.workload), "a lease's workload");
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
        assert_eq!(self.totals, sum(self.leases.values()), "totals of {}", self.settings.name);
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

    fn tasks_queue_by_the_rules_in_force(&self) {
        for lease in self.leases.values() {
            let attached = matches!(lease.standing, Standing::Attached(_));
            assert!(!attached || lease.queueing == self.queueing(lease.workload), "an old rule of queueing");
        }
    }

    /// Floors in force are never more than the cap, nor than was set.
    fn limits_hold(&self) {
        let floors: u64 = self.workloads.iter().map(|workload| u64::from(workload.floor)).sum();
        assert!(self.cap == 0 || floors <= u64::from(self.cap), "floors above the cap");
        assert!(self.workloads.iter().all(|workload| workload.floor <= workload.settings.floor), "a floor");
    }

    /// Each workload goes by what is set for it, and so does what it is to have.
    fn settings_in_force_are_those_set(&self) {
        let in_force = self.workloads.iter().map(|workload| &workload.settings);
        assert!(in_force.eq(self.settings.workloads.iter()), "settings of workloads");
        let (_, claims) = &self.aimed_for;
        let weights = claims.iter().map(|claim| claim.weight);
        let set = self.workloads.iter().map(|workload| workload.settings.weight);
        assert!(claims.is_empty() || weights.eq(set), "weights of workloads");
        for workload in &self.workloads {
            let (floor, limit) = (workload.floor, workload.settings.limit.unwrap_or(u32::MAX));
            assert!(floor <= limit, "a floor of {floor} in force, above the limit of {limit}");
            for (_, call) in workload.calls.iter().filter(|_| !self.settings.shadow) {
                assert!(call.tokens <= limit, "a call waits for {}, above the limit of {limit}", call.tokens);
            }
        }
    }

    fn targets_are_what_was_aimed_for(&self) {
        let (tokens, claims) = &self.aimed_for;
        let targets = targets(claims, *tokens);
        let kept = self.workloads.iter().map(|workload| workload.target);
        assert!(claims.is_empty() || kept.eq(targets), "targets of workloads");
    }

    /// A place in line is one more than the number of those who come before.
    fn places_are_in_order(&self, now: Time) {
        for workload in &self.workloads {
            let part = Part::of(self, workload);
            let queued = || part.places.iter().filter_map(|(_, places)| places.queue);
            let ages: Vec<EffectiveAge> =
                queued().map(|(part, turn)| effective_age(&turn, part, now)).collect();
            for age in &ages {
                let before = ages.iter().filter(|other| *other > age).count();
                assert_eq!(workload.orders.queue.before(*age, now), before, "a place in line");
            }
        }
    }

    fn promises_are_kept_count_of(&self) {
        let mut asked: BTreeMap<SessionId, u32> = BTreeMap::new();
        let mut promised: BTreeMap<SessionId, u32> = BTreeMap::new();
        let balances = self.moves.iter().any(|step| step.rule == Rule::Balance);
        assert_eq!(self.moves.balances(), balances, "a move that balances shares");
        for step in self.moves.iter() {
            *asked.entry(step.donor).or_default() += 1;
            *promised.entry(step.receiver).or_default() += 1;
        }
        for (session, lease) in &self.leases {
            assert_eq!(lease.asked, asked.remove(session).unwrap_or_default(), "recalls asked for");
            assert_eq!(lease.promised, promised.remove(session).unwrap_or_default(), "promises to a lease");
        }
        for (request, call) in self.workloads.iter().flat_map(|workload| workload.calls.iter()) {
            assert_eq!(call.promised, promised.remove(&request).unwrap_or_default(), "promises to a call");
        }
        assert!(asked.is_empty() && promised.is_empty(), "moves of those who are gone");
    }

    /// Rules 1, 2 and 11, for each need one look; and of the workloads, the one
    /// that lacks most.
    fn the_next_is_the_next(&self, now: Time) {
        let heads = self.workloads.iter().filter_map(|workload| {
            let (age, next) = self.naive_head(workload, now)?;
            Some(((Precedence::of(workload), age), next))
        });
        let next = heads.max_by_key(|(key, _)| *key).map(|(_, next)| next);
        assert_eq!(self.next(now), next, "who is next");
    }

    fn naive_head(&self, workload: &Workload, now: Time) -> Option<(EffectiveAge, Next)> {
        let room = u64::from(self.room());
        let free = free_for(workload, room, self.reserved());
        if room == 0 || free == 0 {
            return None;
        }
        let part = Part::of(self, workload);
        let queue = part.places.iter().filter_map(|(session, places)| {
            let (part, turn) = places.queue?;
            self.may_connect().then(|| (effective_age(&turn, part, now), Next::Lease(*session)))
        });
        let fits = |tokens: u32| self.quantum().is_some() || u64::from(tokens) <= free;
        let calls = workload.calls.iter().filter(|(_, call)| fits(call.tokens));
        let calls = calls.map(|(request, call)| (age_of_call(request, call, now), Next::Call(request)));
        let head = queue.chain(calls).max_by_key(|(age, _)| *age)?;
        let too_large = |call: SessionId| {
            let tokens = workload.calls.get(call).map_or(0, |call| call.tokens);
            u64::from(tokens) > workload.below_limit()
        };
        match head.1 {
            Next::Call(call) if too_large(call) => None,
            Next::Call(_) | Next::Lease(_) => Some(head),
        }
    }

    /// Rules 5 and 6: each receiver, the oldest first, with each donor, the one
    /// whose task is youngest first.
    fn the_next_move_is_the_next_move(&self, now: Time) {
        let missing = self.workloads.iter().filter(|workload| workload.missing > 0);
        let moves = missing.filter_map(|workload| self.naive_move_within(workload, now));
        let next = moves.min_by_key(|next| next.receiver);
        assert_eq!(self.next_move_within(now), next, "which token moves next");
    }

    fn naive_move_within(&self, workload: &Workload, now: Time) -> Option<NextMove> {
        let quantum = self.quantum()?;
        let part = Part::of(self, workload);
        let (shares, donors) = (self.shares(workload), part.donors());
        let kept_for = workload.kept_call().map(|(call, _)| call);
        let may = |receiver| kept_for.is_none_or(|call| call == receiver);
        for ((since, receiver), lack) in part.receivers().into_iter().filter(|((_, id), _)| may(*id)) {
            let others = || donors.iter().filter(|((_, _, donor), _)| *donor != receiver);
            for rule in WITHIN.into_iter().filter(|rule| self.is_open(*rule)) {
                let lags = |(Reverse(donor), _, _): &Youngest| {
                    let lag = now.since(since).saturating_sub(now.since(*donor));
                    match rule {
                        Rule::Share => lag > quantum,
                        Rule::Balance => lag > quantum / 2,
                        Rule::Escape => lag > quantum * 2,
                        Rule::Rescue => lag > quantum * 3,
                        Rule::Poverty | Rule::Target | Rule::Starving => true,
                    }
                };
                let pair = others().find(|(key, plenty)| lags(key) && may_give(rule, &shares, plenty));
                if let (Some((donor, _)), true) = (pair, may_receive(rule, &shares, &lack)) {
                    let receiver = (since, receiver);
                    return Some(NextMove { receiver, donor: *donor, rule, workload: workload.id });
                }
            }
        }
        None
    }

    /// Rule 9: whatever moves between workloads moves from one that has too much
    /// to one that has too little; and if nothing does, there are no such two.
    fn the_move_between_is_one_that_may_be(&self, now: Time) {
        let may_be = |poor: &Workload, rich: &Workload, rule: Rule| {
            let poor_enough = rule == Rule::Starving || poor.is_under_target();
            let receives = self.may_receive_from_others(poor, now) && poor_enough;
            let (poor, rich) = (Part::of(self, poor), Part::of(self, rich));
            receives
                && may_give_to_others(rich.workload, rule)
                && !rich.donors().is_empty()
                && poor.may_receive()
        };
        let pairs =
            || self.workloads.iter().flat_map(|poor| self.workloads.iter().map(move |rich| (poor, rich)));
        if let Some(next) = self.next_move_between(now) {
            let donor = self.leases.get(&next.donor.2).map(|lease| lease.workload);
            let poor = &self.workloads[next.workload.index()];
            let rich = &self.workloads[donor.unwrap_or(next.workload).index()];
            assert!(poor.id != rich.id && may_be(poor, rich, next.rule), "{next:?}");
        } else {
            let missed = pairs().any(|(poor, rich)| may_be(poor, rich, Rule::Target));
            assert!(!missed, "a token may move to another workload, and does not");
        }
    }
}

/// A workload, looked at as a whole.
struct Part<'a> {
    database: &'a Database,
    workload: &'a Workload,
    places: Vec<(SessionId, Places)>,
}

impl Part<'_> {
    fn of<'a>(database: &'a Database, workload: &'a Workload) -> Part<'a> {
        let leases = database.leases.iter().filter(|(_, lease)| lease.workload == workload.id);
        let places = leases.map(|(session, lease)| (*session, Places::of(*session, lease))).collect();
        Part { database, workload, places }
    }

    fn totals_are_sums(&self) {
        let leases = self.database.leases.values().filter(|lease| lease.workload == self.workload.id);
        assert_eq!(self.workload.totals, sum(leases), "totals of {}", self.workload.name());
    }

    fn orders_are_complete(&self) {
        let (orders, places) = (&self.workload.orders, &self.places);
        let sum = |count: fn(&Places) -> u32| {
            places.iter().map(|(_, places)| u64::from(count(places))).sum::<u64>()
        };
        assert_eq!(orders.missing, sum(|places| places.missing), "missing tokens");
        assert_eq!(orders.coming, sum(|places| places.coming), "coming tokens");
        assert_eq!(orders.fixed, sum(|places| places.fixed), "fixed tokens");
        let mut shares = Sums::default();
        for (_, places) in places {
            shares.add(places.stake, places.hold);
        }
        assert_eq!(orders.shares, shares, "sums of the shares");
        for (session, places) in places {
            assert_eq!(orders.cool.contains(session), places.cool, "index of cool leases");
            assert_eq!(orders.unobserved.contains(session), places.unobserved, "index of the unobserved");
        }
        let queued = places.iter().any(|(_, places)| places.queue.is_some());
        assert_eq!(orders.queue.is_empty(), !queued, "an empty queue");
        assert_eq!(orders.receivers.len(), self.receivers().len(), "receivers");
        assert_eq!(orders.donors.len(), self.donors().len(), "donors");
        let calls = || self.workload.calls.iter().map(|(_, call)| call);
        let missing: u64 = calls().map(|call| u64::from(call.tokens.saturating_sub(call.promised))).sum();
        assert_eq!(self.workload.calls.missing(), missing, "tokens missing to calls");
        let promised: u64 = calls().map(|call| u64::from(call.promised)).sum();
        assert_eq!(self.workload.calls.promised(), promised, "tokens promised to calls");
    }

    fn most_idle_is_most_idle(&self) {
        let spares = self.places.iter().filter_map(|(session, places)| Some((places.spare?, *session)));
        let most = spares.map(|(spare, session)| (Reverse(spare.tokens), session)).min();
        let most = most.map(|(Reverse(tokens), session)| (tokens, session));
        assert_eq!(self.workload.orders.idle.most(true), most, "most idle tokens");
    }

    /// The oldest first.
    fn receivers(&self) -> Vec<(Oldest, Lack)> {
        let leases = self.places.iter().filter_map(|(_, places)| places.receiver);
        let calls = self.workload.calls.iter().filter_map(as_receiver);
        let mut receivers: Vec<(Oldest, Lack)> = leases.chain(calls).collect();
        receivers.sort_by_key(|(key, _)| *key);
        receivers
    }

    /// The one whose task is youngest first.
    fn donors(&self) -> Vec<(Youngest, Plenty)> {
        let mut donors: Vec<(Youngest, Plenty)> =
            self.places.iter().filter_map(|(_, places)| places.donor).collect();
        donors.sort_by_key(|(key, _)| *key);
        donors
    }

    fn may_receive(&self) -> bool {
        Database::first_receiver(self.workload).is_some()
    }
}

fn sum<'a>(leases: impl Iterator<Item = &'a Lease>) -> Totals {
    let mut totals = Totals::default();
    for lease in leases {
        totals.replace(Counts::default(), lease.counts());
    }
    totals
}
