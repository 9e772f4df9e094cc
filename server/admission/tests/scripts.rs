//! The rules of `docs/protocol.md` and `docs/admission.md` that are the
//! server's, one short script each.

mod support;

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    Acquire, Admission, DatabaseSettings, Demand, Event, LossPolicy, Note, Recall, ReleaseTarget, SessionId,
    StreamId, Ticket, UnaryReply, durable::State,
};
use support::{DB, World, check, run, settings};

fn watched() -> DatabaseSettings {
    DatabaseSettings { watched: true, cap: None, reserve: 10, on_loss: LossPolicy::Keep, ..settings(0) }
}

fn unfair(cap: u32) -> DatabaseSettings {
    DatabaseSettings { admission: Admission::Unfair, ..settings(cap) }
}

#[test]
fn a_busy_node_gets_all_that_is_free() {
    check(settings(10), "hello a\nhello b\nwait a 20", "a=10 b=0 held=10 free=0");
}

#[test]
fn demand_is_a_level_and_draws_no_token_twice() {
    check(
        settings(10),
        "hello a\nwait a 3\ndeliver a server\npass 1s\nalive a\nwait a 1",
        "a=4 held=4 free=6",
    );
}

#[test]
fn idle_tokens_move_to_who_waits() {
    let script = "hello a\nhello b\nwait a 10\nreturn a 10\npass 100ms\nwait b 4";
    check(settings(10), script, "a=6 b=4 held=10 free=0");
}

#[test]
fn no_recall_while_capacity_is_free() {
    let world =
        check(settings(10), "hello a\nhello b\nwait a 5\nreturn a 5\nwait b 5", "a=5 b=5 held=10 free=0");
    assert!(!world.notes.iter().any(|note| matches!(note, Note::Recalled { .. })));
}

#[test]
fn an_idle_connection_has_a_grace() {
    let script =
        "hello a\nhello b\nwait a 10\nreturn a 10\nwait b 1\nexpect a=10 b=0 held=10 free=0\npass 2ms";
    check(settings(10), script, "a=9 b=1 held=10 free=0");
}

#[test]
fn unfair_leaves_busy_tokens_where_they_are() {
    let script = "hello a\nhello b\nwait a 30\nwait b 5\npass 5s\nreturn a 5\npass 1s";
    check(unfair(10), script, "a=10 b=0 held=10 free=0");
}

#[test]
fn fair_serves_a_node_that_has_nothing() {
    let script = "hello a\nhello b\nwait a 30\nwait b 5\npass 3ms\nreturn a 5";
    check(settings(10), script, "a=9 b=1 held=10 free=0");
}

#[test]
fn fair_moves_busy_tokens_toward_shares_once_the_lag_is_a_quantum() {
    let mut world = World::new(settings(16));
    run(&mut world, "hello a\nhello b\nwait a 40\nwait b 40");
    for _ in 0..60 {
        run(&mut world, "pass 20ms\nreturn a 1\nreturn b 1\nalive a\nalive b");
        let now = world.now;
        // a's tasks are served quickly, b's are old.
        world.node("a").waiting_since = now;
    }
    let (a, b) = (world.nodes["a"].holding(), world.nodes["b"].holding());
    assert!(a + b == 16 && (7..=9).contains(&a), "a={a} b={b}");
}

fn recalled(world: &World) -> u32 {
    let sessions = world.core.sessions(world.now);
    sessions
        .iter()
        .flat_map(|session| &session.leases)
        .map(|lease| lease.holding.saturating_sub(lease.allotment))
        .sum()
}

#[test]
fn the_motion_budget_bounds_busy_recalls() {
    let mut world = World::new(settings(16));
    run(&mut world, "hello a\nhello b\nhello c\nwait a 40\nwait b 5\nwait c 5\npass 90ms");
    assert_eq!(recalled(&world), 1);
    // A donor that does not answer is asked for more, up to half of what it uses.
    run(&mut world, "pass 5s");
    assert!(recalled(&world) <= 8, "{} recalled", recalled(&world));
}

#[test]
fn connects_in_flight_are_bounded() {
    let mut world = World::new(settings(500));
    run(&mut world, "hello a\nmute a\nwait a 400\ndeliver a server");
    assert_eq!(world.core.databases(world.now)[0].held, 32);
}

#[test]
fn warm_connections_take_free_tokens_only() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nhello b\nwait a 3\nreturn a 3");
    world.node("b").warm = 4;
    world.report("b");
    world.pump();
    run(&mut world, "pass 1s\nexpect a=3 b=1 held=4 free=0");
}

/// Rule 1.
#[test]
fn the_newest_hello_speaks_for_the_session() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 4");
    let old = world.nodes["a"].stream.unwrap();
    run(&mut world, "hello a");
    let demand = Demand { holding: 0, ..Demand::default() };
    world.apply(Event::Demand { stream: old, database: DB, demand });
    assert_eq!(world.show(), "a=4 held=4 free=6");
    assert!(world.notes.contains(&Note::Dropped { stream: old }));
}

/// Rule 1.
#[test]
fn a_restarted_process_does_not_inherit() {
    check(settings(10), "hello a\nwait a 4\nkill a\nhello a\nwait a 2", "a=2 held=6 free=4");
}

/// Rule 7.
#[test]
fn a_raise_on_its_way_stays_counted_when_the_target_falls() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nmute a\nwait a 6\ndeliver a server");
    // The raise to 6 is on its way; a has changed its mind, and b asks for all.
    let stream = world.nodes["a"].stream.unwrap();
    let demand = Demand { acknowledged: 1, ..Demand::default() };
    world.apply(Event::Demand { stream, database: DB, demand });
    run(&mut world, "wait b 10\npass 300ms\nexpect a=0 b=4 held=10 free=0");
    run(&mut world, "unmute a\npass 300ms");
    assert!(world.truly_held() <= 10);
}

/// Rule 9.
#[test]
fn a_recall_that_is_being_followed_was_not_refused() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nwait a 8\nwait b 2\nmute a");
    let stream = world.nodes["a"].stream.unwrap();
    let held = Demand { acknowledged: u64::MAX, holding: 8, ..Demand::default() };
    let one_idle = Demand { established: 8, in_use: 7, idle: 1, ..held };
    world.apply(Event::Demand { stream, database: DB, demand: one_idle });
    run(&mut world, "pass 10ms\nwait b 8");
    // The rest came back while the recall of one was on its way.
    let one_closes = Demand { established: 7, closing: 1, idle: 7, ..held };
    world.apply(Event::Demand { stream, database: DB, demand: one_closes });
    let one_gone = Demand { holding: 7, established: 7, idle: 7, ..held };
    world.apply(Event::Demand { stream, database: DB, demand: one_gone });
    run(&mut world, "pass 10ms");
    let mut recalled = 0;
    for note in &world.notes {
        if let Note::Recalled { tokens, recall: Recall::Idle, .. } = note {
            recalled += tokens;
        }
    }
    assert_eq!(recalled, 8);
}

/// Rule 8.
#[test]
fn what_a_node_does_not_take_is_free_again() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\nexpect a=6 held=6 free=4");
    world.node("a").in_use = 2;
    world.report("a");
    world.pump();
    assert_eq!(world.show(), "a=2 held=2 free=8");
}

/// Rule 9.
#[test]
fn an_idle_recall_that_finds_nothing_is_taken_back() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nhello b\nwait a 4\nreturn a 2\npass 1s\nmute a\nwait b 1");
    // Before the recall arrives, a uses what was idle.
    let node = world.node("a");
    (node.in_use, node.idle) = (4, 0);
    run(&mut world, "unmute a\nexpect a=4 b=0 held=4 free=0");
    let view = world.core.sessions(world.now);
    let allotment = view.iter().find(|session| &*session.node == "a").unwrap().leases[0].allotment;
    assert!(allotment >= 3, "taken back, but for what fair order moves");
}

/// Rule 10.
#[test]
fn hello_lowers_nothing() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\nmute a\ndisconnect a");
    let node = world.node("a");
    node.in_use = 1;
    run(
        &mut world,
        "hello a\ndeliver a server\nexpect a=1 held=6 free=4\nunmute a\nexpect a=1 held=1 free=9",
    );
}

/// Rule 10.
#[test]
fn a_claim_of_more_than_was_granted_is_counted_and_recalled() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nwait a 2\ndisconnect a");
    world.node("a").in_use = 9;
    run(&mut world, "hello a\nexpect a=9 held=9 free=0");
    assert!(world.notes.iter().any(|note| matches!(note, Note::OverClaimed { claimed: 9, counted: 2, .. })));
    run(&mut world, "return a 9\nexpect a=4 held=4 free=0");
}

/// Rule 13.
#[test]
fn nothing_is_granted_that_the_store_did_not_take() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nwait a 6\nstore fails\nwait b 4\nexpect a=6 b=0 held=6 free=4");
    run(&mut world, "return a 3\npass 200ms\nexpect a=6 b=0 held=6 free=4");
    run(&mut world, "store works\npass 200ms\nexpect a=6 b=4 held=10 free=0");
}

/// Rule 13.
#[test]
fn returns_are_accepted_while_the_store_fails() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\nstore fails");
    world.node("a").in_use = 1;
    world.report("a");
    world.pump();
    assert_eq!(world.show(), "a=1 held=1 free=9");
}

/// Rule 13.
#[test]
fn recalls_are_sent_while_the_store_fails() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 10\nstore fails");
    world.apply(Event::Configure { database: DB, settings: settings(4) });
    run(&mut world, "return a 10\nexpect a=4 held=4 free=0");
}

/// Rule 13.
#[test]
fn a_restart_counts_ceilings() {
    let script =
        "hello a\nhello b\nwait a 6\nwait b 2\nrestart\nexpect a=6 b=2 held=8 free=2\nhello a\nhello b";
    let world = check(settings(10), script, "a=6 b=2 held=8 free=2");
    assert_eq!(world.durable.leases.len(), 2);
}

/// Rule 13.
#[test]
fn ceilings_breathe_lazily() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\npass 2s\nalive a");
    let before = world.commits;
    // Up and down within what is durable: nothing to write.
    for _ in 0..20 {
        run(&mut world, "return a 3\nwait a 3");
    }
    assert_eq!(world.commits, before);
    world.node("a").in_use = 1;
    world.report("a");
    world.pump();
    run(&mut world, "pass 1s");
    assert_eq!(world.commits, before + 1);
    assert_eq!(world.durable.leases.values().map(|lease| lease.ceiling).sum::<u32>(), 1);
}

/// Rule 15.
#[test]
fn a_stall_of_the_server_expires_nobody() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nwait a 6\nwait b 1\npass 5s\nmute a\nalive a");
    world.now = world.now + Duration::from_secs(30);
    // What was queued is applied first, then time passes. b's keep-alives are
    // still on their way.
    run(&mut world, "deliver a server\npass 3s\nalive b\npass 1s");
    assert!(!world.notes.iter().any(|note| matches!(note, Note::Expired { .. })));
}

/// Rule 15.
#[test]
fn age_survives_restarts() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\ndisconnect a");
    for _ in 0..6 {
        run(&mut world, "pass 4s\nrestart");
    }
    assert!(world.durable.sessions.values().all(|session| session.silent_ms > 5_000));
    run(&mut world, "pass 20s");
    assert_eq!(world.core.databases(world.now)[0].held, 0);
}

/// Rule 16.
#[test]
fn fenced_tokens_come_back_after_ttl_and_grace() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nwait a 10\nwait b 3\nmute a");
    for _ in 0..14 {
        run(&mut world, "pass 1s\nalive b");
    }
    run(&mut world, "expect a=0 b=0 held=10 free=0\npass 2s");
    assert_eq!(world.nodes["b"].holding(), 3);
}

/// Rule 16.
#[test]
fn watched_tokens_come_back_after_two_observations() {
    let mut world = World::new(watched());
    run(&mut world, "observe 20 0 0\nhello a\nhello b\nwait a 10\nwait b 3\nkill a");
    for _ in 0..9 {
        run(&mut world, "observe 20 10 0\npass 500ms\nalive b");
    }
    run(
        &mut world,
        "expect b=0 held=10 free=0\npass 1s\nobserve 20 0 0\nexpect b=0 held=10 free=0\nobserve 20 0 0",
    );
    run(&mut world, "expect b=3 held=3 free=7");
}

/// Rule 16.
#[test]
fn tokens_of_a_node_that_lives_on_are_not_granted_twice() {
    let mut world = World::new(watched());
    run(
        &mut world,
        "observe 20 0 0\nhello a\nhello b\nwait a 8\nwait b 5\nexpect a=8 b=2 held=10 free=0\nmute a\ndisconnect a",
    );
    for _ in 0..14 {
        run(&mut world, "observe 20 10 0\npass 500ms\nalive b");
        // Its sockets stay open, so that it only fails to grow.
        let node = world.node("a");
        (node.deadline, node.in_use) = (None, 8);
        assert_eq!(world.nodes["b"].holding(), 2);
    }
    let view = &world.core.databases(world.now)[0];
    assert_eq!((view.held, view.strays, view.cap), (2, 8, 2));
}

/// Rule 17.
#[test]
fn nothing_is_granted_before_an_observation_is_judged() {
    let mut world = World::new(watched());
    run(&mut world, "hello a\nwait a 4\nexpect a=0 held=0 free=0\nobserve 40 0 0\nexpect a=4 held=4 free=26");
}

/// Rule 17.
#[test]
fn a_database_that_is_down_at_the_start_keeps_its_last_cap() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\npass 1s\nrestart\nhello a\nwait a 4\nexpect a=0 held=0 free=0");
    world.apply(Event::ProbeDown {
        database: DB,
        error: "connection refused".into(),
        watched_elsewhere: false,
    });
    world.pump();
    assert_eq!(world.show(), "a=4 held=4 free=26");
}

#[test]
fn a_database_that_another_server_watches_is_not_leased() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nwait a 4\nexpect a=4 held=4 free=26");
    world.apply(Event::ProbeDown { database: DB, error: "taken".into(), watched_elsewhere: true });
    run(&mut world, "wait a 1\npass 1s\nexpect a=4 held=4 free=0\nobserve 40 4 0\nexpect a=5 held=5 free=25");
}

#[test]
fn others_lower_the_cap_and_the_excess_is_recalled_busy_or_not() {
    let mut world = World::new(watched());
    run(
        &mut world,
        "observe 40 0 0\nhello a\nhello b\nwait a 20\nwait b 10\nobserve 40 30 12\nexpect a=20 b=10 held=30 free=0",
    );
    assert_eq!(world.core.databases(world.now)[0].cap, 18);
    run(&mut world, "return a 20\nreturn b 10\nexpect a=9 b=9 held=18 free=0");
    run(&mut world, "observe 40 18 0\nexpect a=9 b=9 held=18 free=12");
}

#[test]
fn uncertainty_stops_grants_and_recalls_nothing() {
    let mut world = World::new(watched());
    run(
        &mut world,
        "observe 40 0 0\nhello a\nwait a 5\nobserve 40 25 0\nwait a 10\nexpect a=10 held=10 free=0",
    );
    assert_eq!(world.core.databases(world.now)[0].cap, 30);
}

#[test]
fn uncertainty_leaves_tokens_in_motion_alone() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nhello b\nwait a 30\nobserve 40 35 0");
    let view = &world.core.databases(world.now)[0];
    assert_eq!((view.uncertain, view.cap), (5, 30));
    run(&mut world, "return a 30\npass 100ms\nwait b 4\nexpect a=26 b=4 held=30 free=0");
}

#[test]
fn a_cap_that_rises_is_kept_back_while_it_may_be_taken() {
    let mut world = World::new(DatabaseSettings { cap: Some(20), ..watched() });
    run(&mut world, "observe 40 0 0\nhello a\nwait a 20\nobserve 40 25 0");
    world.apply(Event::Configure { database: DB, settings: watched() });
    run(&mut world, "wait a 30\nexpect a=25 held=25 free=0");
}

#[test]
fn a_server_that_dies_early_comes_back_with_its_cap() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nwait a 4\nrestart\nhello a\nexpect a=4 held=4 free=0");
    assert_eq!(world.core.databases(world.now)[0].cap, 30);
}

#[test]
fn a_cap_cut_to_nothing_takes_everything_back() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 10");
    let draining = DatabaseSettings { draining: true, ..settings(10) };
    world.apply(Event::Configure { database: DB, settings: draining });
    run(&mut world, "return a 10\nwait a 3\nexpect a=0 held=0 free=0");
    world.apply(Event::Configure { database: DB, settings: settings(10) });
    world.pump();
    assert_eq!(world.show(), "a=3 held=3 free=7");
}

#[test]
fn goodbye_frees_everything_at_once() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 10");
    let stream = world.nodes["a"].stream.unwrap();
    world.node("a").in_use = 0;
    world.apply(Event::Goodbye { stream });
    assert_eq!(world.show(), "a=0 held=0 free=10");
    assert!(world.durable.sessions.is_empty() && world.durable.leases.is_empty());
}

#[test]
fn evict_frees_what_nobody_can_give_back() {
    let mut world = World::new(DatabaseSettings { on_loss: LossPolicy::Keep, ..settings(10) });
    run(&mut world, "hello a\nwait a 10\nkill a\npass 100s\nexpect held=10 free=0");
    let session = world.core.sessions(world.now)[0].id;
    world.apply(Event::Evict { session });
    assert_eq!(world.show(), "held=0 free=10");
}

fn acquire(world: &mut World, ticket: u64, request: u128, tokens: u32) {
    let acquire = Acquire {
        ticket: Ticket(ticket),
        request: SessionId(request),
        node: Arc::from("py"),
        workload: Arc::from("default"),
        database: DB,
        tokens,
    };
    world.apply(Event::Acquire(acquire));
}

fn release(world: &mut World, ticket: u64, request: u128, node: &str) {
    let target = ReleaseTarget::Lease(SessionId(request));
    world.apply(Event::Release { ticket: Ticket(ticket), target, node: Arc::from(node) });
}

fn replies(world: &mut World) -> Vec<(u64, UnaryReply)> {
    std::mem::take(&mut world.replies)
}

fn leased(request: u128, tokens: u32) -> UnaryReply {
    UnaryReply::Leased { lease: SessionId(request), tokens, ttl: Duration::from_secs(10) }
}

#[test]
fn a_repeated_request_gives_the_same_lease() {
    let mut world = World::new(settings(10));
    acquire(&mut world, 1, 77, 4);
    acquire(&mut world, 2, 77, 4);
    acquire(&mut world, 3, 77, 5);
    assert_eq!(replies(&mut world), [(1, leased(77, 4)), (2, leased(77, 4)), (3, UnaryReply::Mismatch)]);
    assert_eq!(world.show(), "held=4 free=6");
    world.restart();
    acquire(&mut world, 4, 77, 4);
    assert_eq!(replies(&mut world), [(4, leased(77, 4))]);
    assert_eq!(world.show(), "held=4 free=6");
}

#[test]
fn releasing_is_idempotent_and_says_what_it_found() {
    let mut world = World::new(settings(10));
    acquire(&mut world, 1, 77, 4);
    release(&mut world, 2, 77, "someone else");
    release(&mut world, 3, 77, "py");
    release(&mut world, 4, 77, "py");
    release(&mut world, 5, 78, "py");
    acquire(&mut world, 6, 77, 4);
    let expected = [
        (1, leased(77, 4)),
        (2, UnaryReply::Foreign),
        (3, UnaryReply::Released),
        (4, UnaryReply::AlreadyReleased),
        (5, UnaryReply::Unknown),
        (6, UnaryReply::AlreadyReleased),
    ];
    assert_eq!(replies(&mut world), expected);
    assert_eq!(world.show(), "held=0 free=10");
    assert_eq!(world.core.databases(world.now)[0].repeated_releases, 1);
    run(&mut world, "pass 30s");
    release(&mut world, 7, 77, "py");
    assert_eq!(replies(&mut world), [(7, UnaryReply::Unknown)]);
    assert!(world.durable.sessions.is_empty());
}

#[test]
fn a_waiting_call_is_served_all_or_nothing_and_in_its_turn() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 8");
    acquire(&mut world, 1, 77, 4);
    assert_eq!(replies(&mut world), []);
    run(&mut world, "return a 1\npass 100ms\nreturn a 1\npass 100ms");
    assert_eq!(replies(&mut world), [(1, leased(77, 4))]);
    assert_eq!(world.show(), "a=6 held=10 free=0");
}

#[test]
fn a_cancelled_call_leaves_nothing_behind() {
    let mut world = World::new(settings(2));
    acquire(&mut world, 1, 77, 2);
    acquire(&mut world, 2, 78, 2);
    acquire(&mut world, 3, 79, 1);
    world.apply(Event::AcquireEnded { ticket: Ticket(2), timed_out: false });
    release(&mut world, 4, 77, "py");
    let expected = [(1, leased(77, 2)), (4, UnaryReply::Released), (3, leased(79, 1))];
    let mut got = replies(&mut world);
    got.sort_by_key(|(ticket, _)| [1, 4, 3].iter().position(|other| other == ticket));
    assert_eq!(got, expected);
    assert_eq!(world.show(), "held=1 free=1");
}

#[test]
fn a_lease_that_nobody_got_is_released() {
    let mut world = World::new(settings(2));
    acquire(&mut world, 1, 77, 2);
    world.apply(Event::AcquireEnded { ticket: Ticket(1), timed_out: false });
    assert_eq!(world.show(), "held=0 free=2");
}

#[test]
fn a_call_waits_while_the_store_fails() {
    let mut world = World::new(settings(10));
    world.store_fails = true;
    acquire(&mut world, 1, 77, 4);
    assert_eq!(replies(&mut world), []);
    assert_eq!(world.show(), "held=0 free=10");
    world.mend_store();
    assert_eq!(replies(&mut world), [(1, leased(77, 4))]);
    assert_eq!(world.durable.leases.values().next().unwrap().ceiling, 4);
}

#[test]
fn an_expired_call_is_told_so_and_its_tokens_are_fenced() {
    let mut world = World::new(settings(10));
    acquire(&mut world, 1, 77, 4);
    run(&mut world, "pass 9s");
    world.apply(Event::Renew { ticket: Ticket(2), lease: SessionId(77), node: Arc::from("py") });
    run(&mut world, "pass 11s");
    release(&mut world, 3, 77, "py");
    let renewed = UnaryReply::Renewed { ttl: Duration::from_secs(10) };
    assert_eq!(replies(&mut world), [(1, leased(77, 4)), (2, renewed), (3, UnaryReply::Expired)]);
    run(&mut world, "expect held=4 free=6\npass 5s\nexpect held=0 free=10");
}

#[test]
fn more_than_the_cap_is_refused_at_once() {
    let mut world = World::new(settings(10));
    acquire(&mut world, 1, 77, 11);
    assert_eq!(replies(&mut world), [(1, UnaryReply::TooMany { cap: 10 })]);
}

#[test]
fn absurd_demands_are_sums_like_any_other() {
    let mut world = World::new(settings(10));
    run(
        &mut world,
        "hello a\nhello b\nhello c\nwait a 4000000000\nwait b 4000000000\nwait c 4000000000\npass 1s",
    );
    assert_eq!(world.core.databases(world.now)[0].waiting, u32::MAX);
    assert_eq!(world.truly_held(), 10);
}

/// A cut is shared out in one step, however much is claimed.
#[test]
fn absurd_claims_are_recalled_at_once() {
    let mut world = World::new(settings(10));
    for name in ["a", "b", "c"] {
        run(&mut world, &format!("hello {name}\nmute {name}\ndisconnect {name}"));
        world.node(name).in_use = if name == "a" { 2 } else { 1_000_000_000 };
        run(&mut world, &format!("hello {name}\nunmute {name}"));
    }
    let mut targets: Vec<u32> =
        world.core.sessions(world.now).iter().map(|session| session.leases[0].allotment).collect();
    targets.sort_unstable();
    assert_eq!(targets, [2, 4, 4]);
}

/// The records of everybody are lost, and a recovery has noted that.
fn lose_records(world: &mut World) {
    world.durable = State { generation: world.durable.generation, ..State::default() };
    world.durable.miss_records();
}

#[test]
fn lost_records_keep_grants_back_until_their_nodes_have_lapsed() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 4\npass 1s\nkill a");
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\nexpect b=0 held=0 free=0");
    run(&mut world, "pass 8s\nalive b\npass 6s\nexpect b=0 held=0 free=0\npass 2s\nexpect b=8 held=8 free=2");
    assert!(!world.durable.sessions.contains_key(&SessionId::LOST), "it is over for good");
}

#[test]
fn whose_record_was_lost_comes_back_with_all_it_holds() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 4\npass 1s");
    lose_records(&mut world);
    run(
        &mut world,
        "restart\nhello a\npass 1s\nexpect a=4 held=4 free=0\npass 8s\nalive a\npass 8s\nexpect a=4 held=4 free=6",
    );
}

#[test]
fn a_restart_does_not_forget_that_records_were_lost() {
    let mut world = World::new(settings(10));
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\npass 6s\nrestart\nhello b\nexpect b=0 held=0 free=0");
    run(&mut world, "pass 6s\nalive b\nexpect b=0 held=0 free=0\npass 5s\nexpect b=8 held=8 free=2");
}

#[test]
fn a_watched_database_that_lost_records_grants_after_a_ttl_and_two_observations() {
    let mut world = World::new(DatabaseSettings { cap: Some(10), ..watched() });
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\nobserve 100 0 0\nobserve 100 0 0\nexpect b=0 held=0 free=0");
    run(&mut world, "pass 6s\nalive b\npass 5s\nexpect b=0 held=0 free=0");
    run(&mut world, "observe 100 0 0\npass 1s\nobserve 100 0 0\npass 1s\nobserve 100 0 0\npass 1s");
    assert_eq!(world.truly_held(), 8);
}

#[test]
fn an_operator_ends_the_wait_for_lost_records() {
    let mut world = World::new(settings(10));
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\nexpect b=0 held=0 free=0");
    world.apply(Event::Evict { session: SessionId::LOST });
    run(&mut world, "pass 1s\nexpect b=8 held=8 free=2");
}

#[test]
fn messages_of_unknown_streams_are_dropped() {
    let mut world = World::new(settings(10));
    let stream = StreamId(99);
    world.apply(Event::KeepAlive { stream, id: 1 });
    world.apply(Event::Goodbye { stream });
    world.apply(Event::StreamEnded { stream });
    assert_eq!(world.notes, [Note::Dropped { stream }, Note::Dropped { stream }]);
}
