//! Leases without a stream.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{Acquire, Event, Note, ReleaseTarget, SessionId, Ticket, UnaryReply};

use crate::support::{DB, World, run, settings};

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
    leased_after(Duration::ZERO, request, tokens)
}

fn leased_after(waited: Duration, request: u128, tokens: u32) -> UnaryReply {
    UnaryReply::Leased { lease: SessionId(request), tokens, waited, ttl: Duration::from_secs(10) }
}

/// U2.
#[test]
fn the_wait_that_a_caller_is_told_is_at_most_the_true_one() {
    let mut world = World::new(settings(4));
    acquire(&mut world, 1, 77, 4);
    acquire(&mut world, 2, 78, 4);
    run(&mut world, "pass 3s");
    // The server stands still.
    world.now = world.now + Duration::from_secs(60);
    release(&mut world, 3, 77, "py");
    let told = replies(&mut world);
    let waited = Duration::from_secs(4);
    assert_eq!(told, [(1, leased(77, 4)), (2, leased_after(waited, 78, 4)), (3, UnaryReply::Released)]);
}

/// Rule 15. What a caller was told holds also for a server that starts anew: a written
/// silence that is over is over there too.
#[test]
fn a_renewal_outlives_the_server() {
    let renewals: [fn(&mut World); 2] = [
        |world| acquire(world, 2, 77, 4),
        |world| world.apply(Event::Renew { ticket: Ticket(2), lease: SessionId(77), node: Arc::from("py") }),
    ];
    for renewed in renewals {
        let mut world = World::new(settings(10));
        acquire(&mut world, 1, 77, 4);
        run(&mut world, "pass 6s");
        assert!(world.durable.sessions[&SessionId(77)].silent_ms >= 4_000);
        renewed(&mut world);
        run(&mut world, "restart\npass 6s\nexpect held=4 free=6");
        assert!(!world.notes.iter().any(|note| matches!(note, Note::Expired { .. })));
    }
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
    let waited = Duration::from_millis(100);
    assert_eq!(replies(&mut world), [(1, leased_after(waited, 77, 4))]);
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
