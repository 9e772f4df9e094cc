//! For each rule that needs more than a script's glance, the shortest history found
//! in which leaving the rule out does harm. Each test fails without its rule.

mod support;

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    Acquire, Admission, DatabaseSettings, DatabaseView, Demand, Effect, Event, LossPolicy, Observation,
    ReleaseTarget, SessionId, Ticket, UnaryReply,
};
use support::{DB, World, run, settings};

/// A database whose probe keeps 10 connections back.
fn watched() -> DatabaseSettings {
    DatabaseSettings { watched: true, cap: None, reserve: 10, on_loss: LossPolicy::Keep, ..settings(0) }
}

fn view(world: &World) -> DatabaseView {
    world.core.databases(world.now).remove(0)
}

fn cut_cap(world: &mut World, cap: u32) {
    let settings = DatabaseSettings { cap: Some(cap), ..world.settings[0].clone() };
    world.apply(Event::Configure { database: DB, settings });
}

fn acquire(world: &mut World, ticket: u64, request: u128, tokens: u32) {
    world.apply(Event::Acquire(Acquire {
        ticket: Ticket(ticket),
        request: SessionId(request),
        node: Arc::from("py"),
        workload: Arc::from("default"),
        database: DB,
        tokens,
    }));
}

/// Rule 7. The raise is still on its way when the target falls: whoever counts only
/// the newest target gives three of its tokens to somebody else.
#[test]
fn a_raise_that_may_still_arrive_is_counted() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nmute a\nwait a 6\ndeliver a server");
    let stream = world.node("a").stream.expect("a has a stream");
    let nobody_waits = Demand { acknowledged: 1, ..Demand::default() };
    world.apply(Event::Demand { stream, database: DB, demand: nobody_waits });
    cut_cap(&mut world, 3);
    cut_cap(&mut world, 10);
    run(&mut world, "wait b 10\nexpect a=0 b=4 held=10 free=0");
    while !world.node("a").incoming.is_empty() {
        world.deliver_one_to_node("a");
        assert!(world.truly_held() <= 10, "{}", world.show());
    }
}

/// Rule 9. What was idle is in use when the recall arrives: a target that stayed low
/// would take it at its return, which only a recall of busy tokens may do.
#[test]
fn an_idle_recall_takes_nothing_that_is_in_use_again() {
    let mut world = World::new(DatabaseSettings { admission: Admission::Unfair, ..settings(4) });
    run(&mut world, "hello a\nhello b\nwait a 4\nreturn a 2\npass 1s\nmute a\nwait b 1");
    let node = world.node("a");
    (node.in_use, node.idle) = (4, 0);
    run(&mut world, "unmute a\nexpect a=4 b=0 held=4 free=0");
    let sessions = world.core.sessions(world.now);
    let lease = &sessions.iter().find(|session| &*session.node == "a").expect("a's session").leases[0];
    assert_eq!(lease.allotment, 4);
}

/// Rule 16. An observation that was under way at the expiry may have been made before
/// the node's last connect.
#[test]
fn an_observation_from_before_the_expiry_ends_no_quarantine() {
    let mut world = World::new(watched());
    run(&mut world, "observe 20 0 0\nhello a\nwait a 10\nkill a\npass 9700ms\nobserve 20 10 0");
    assert_eq!(view(&world).quarantined, 10, "it expired while the observation was under way");
    run(&mut world, "observe 20 0 0");
    assert_eq!(view(&world).quarantined, 10);
    run(&mut world, "observe 20 0 0");
    assert_eq!((view(&world).quarantined, view(&world).free), (0, 10));
}

/// Rule 17. An answer of the probe tells the limit at once, but not yet what is strays.
#[test]
fn an_answer_that_is_not_judged_grants_nothing() {
    let mut world = World::new(watched());
    run(&mut world, "hello a\nwait a 4");
    world.apply(Event::ObservationStarts { database: DB });
    run(&mut world, "pass 200ms");
    let (sent, uptime) = (world.now, Duration::from_secs(60));
    let observation = Observation { sent, max_connections: 40, uptime, fleet: 29, others: 0 };
    world.apply(Event::Observed { database: DB, observation });
    run(&mut world, "pass 100ms\nexpect a=0 held=0 free=0\npass 200ms\nexpect a=1 held=1 free=0");
}

/// P2. A connection that is closed during the observation is nobody's stray, however
/// often that happens.
#[test]
fn a_fleet_that_breathes_has_no_strays() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nwait a 5");
    for _ in 0..3 {
        world.apply(Event::ObservationStarts { database: DB });
        world.node("a").in_use = 4;
        world.report("a");
        run(&mut world, "pass 200ms");
        let (sent, uptime) = (world.now, world.now.since_start());
        // The database has not noticed the close yet.
        let observation = Observation { sent, max_connections: 40, uptime, fleet: 5, others: 0 };
        world.apply(Event::Observed { database: DB, observation });
        run(&mut world, "pass 300ms\nwait a 1");
        assert_eq!((view(&world).strays, view(&world).cap), (0, 30));
    }
}

/// P2. A session without a stream keeps its connections: they are not strays as well.
#[test]
fn connections_of_an_unattached_session_count_once() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nhello b\nwait a 8\nwait b 2\ndisconnect a");
    run(&mut world, "observe 40 10 0\nobserve 40 10 0\nobserve 40 10 0");
    let seen = view(&world);
    assert_eq!((seen.held, seen.strays, seen.cap), (10, 0, 30));
}

/// P4. After a restart of the database, reports of dead sockets would hide strays.
#[test]
fn dead_sockets_hide_no_strays() {
    let mut world = World::new(watched());
    run(&mut world, "observe 30 0 0\nhello a\nhello b\nwait a 10\npass 1s");
    world.apply(Event::ObservationStarts { database: DB });
    run(&mut world, "pass 200ms");
    let (sent, uptime) = (world.now, Duration::from_millis(50));
    let observation = Observation { sent, max_connections: 30, uptime, fleet: 3, others: 0 };
    world.apply(Event::Observed { database: DB, observation });
    run(&mut world, "pass 300ms\nwait b 10\nexpect a=10 b=7 held=17 free=0");
}

/// P4. A node whose connections are all back before it would report has nothing new
/// to report: its keep-alives say that its last report is true, or it would be in
/// doubt for ever, and what is kept back for the doubt with it.
#[test]
fn a_node_with_nothing_new_to_report_is_believed_again() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nhello b\nwait a 25");
    world.apply(Event::ObservationStarts { database: DB });
    let (sent, uptime) = (world.now, Duration::from_millis(50));
    let observation = Observation { sent, max_connections: 40, uptime, fleet: 25, others: 0 };
    world.apply(Event::Observed { database: DB, observation });
    run(&mut world, "pass 300ms\nwait b 10\nexpect a=25 b=0 held=25 free=0");
    let after_restart = |world: &mut World, fleet| {
        world.apply(Event::ObservationStarts { database: DB });
        let (sent, uptime) = (world.now, Duration::from_secs(1));
        let observation = Observation { sent, max_connections: 40, uptime, fleet, others: 0 };
        world.apply(Event::Observed { database: DB, observation });
        run(world, "pass 300ms");
    };
    after_restart(&mut world, 25);
    assert_eq!(world.show(), "a=25 b=0 held=25 free=0");
    run(&mut world, "alive a");
    after_restart(&mut world, 25);
    assert_eq!(world.show(), "a=25 b=5 held=30 free=0");
}

/// U2. Repeating a request is a sign of life.
#[test]
fn a_repeated_request_renews_its_lease() {
    let mut world = World::new(settings(10));
    acquire(&mut world, 1, 77, 4);
    run(&mut world, "pass 8s");
    acquire(&mut world, 2, 77, 4);
    run(&mut world, "pass 8s\nexpect held=4 free=6");
    world.apply(Event::Renew { ticket: Ticket(3), lease: SessionId(77), node: Arc::from("py") });
    let renewed = UnaryReply::Renewed { ttl: Duration::from_secs(10) };
    assert_eq!(world.replies.last(), Some(&(3, renewed)));
}

/// U3. One attempt goes away, another one has the lease.
#[test]
fn a_cancelled_attempt_takes_nothing_from_another() {
    let mut world = World::new(settings(10));
    acquire(&mut world, 1, 77, 4);
    acquire(&mut world, 2, 77, 4);
    world.apply(Event::AcquireEnded { ticket: Ticket(1), timed_out: false });
    assert_eq!(world.show(), "held=4 free=6");
    world.apply(Event::AcquireEnded { ticket: Ticket(2), timed_out: false });
    assert_eq!(world.show(), "held=0 free=10");
}

/// U4. A grant and two releases of it share a commit that fails: the request waits
/// again, so neither caller may believe that it is over.
#[test]
fn no_release_of_a_failed_commit_is_called_done() {
    let mut world = World::new(settings(10));
    let node: Arc<str> = Arc::from("py");
    let (database, request) = (DB, SessionId(77));
    let workload = Arc::from("default");
    let attempt =
        Acquire { ticket: Ticket(1), request, node: Arc::clone(&node), workload, database, tokens: 4 };
    let release = |ticket| Event::Release {
        ticket: Ticket(ticket),
        target: ReleaseTarget::Request(request),
        node: Arc::clone(&node),
    };
    let mut effects = Vec::new();
    for event in [Event::Acquire(attempt), release(2), release(3)] {
        world.core.apply(world.now, event, &mut effects);
    }
    let said = |effect: &Effect| matches!(effect, Effect::Reply { .. }) && !effect.needs_commit();
    assert!(!effects.iter().any(said), "{effects:?}");

    world.apply(Event::CommitFailed);
    let told = |ticket| (ticket, UnaryReply::StoreUnavailable);
    let leased = UnaryReply::Leased {
        lease: request,
        tokens: 4,
        waited: Duration::ZERO,
        ttl: Duration::from_secs(10),
    };
    assert_eq!(world.replies, [told(2), told(3), (1, leased)], "the lease is there again");
}

/// U5. What a unary lease has open is not known until the probe has looked once.
#[test]
fn a_unary_lease_is_certain_after_one_observation() {
    let mut world = World::new(watched());
    run(&mut world, "observe 30 0 0");
    acquire(&mut world, 1, 77, 5);
    run(&mut world, "observe 30 5 0");
    assert_eq!((view(&world).strays, view(&world).uncertain), (0, 5));
    run(&mut world, "observe 30 5 0");
    assert_eq!((view(&world).strays, view(&world).uncertain), (0, 0));
}
