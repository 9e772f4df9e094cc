//! Sessions that are silent, and when their tokens come back where nobody watches
//! the database.

use std::time::Duration;

use leasehold_admission::Note;

use crate::support::{World, run, settings};

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

/// A failed commit brings the look at everybody it concerns forward, also where it
/// is overdue already.
#[test]
fn a_failed_commit_puts_no_look_off() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nwait a 6\nreturn a 6\npass 1s\nalive b\nmute a");
    for _ in 0..11 {
        world.now = world.now + Duration::from_secs(1);
        run(&mut world, "alive b");
    }
    run(&mut world, "store fails\nwait b 10");
    world.core.check();
    run(&mut world, "pass 1s\npass 1s");
    assert!(world.notes.iter().any(|note| matches!(note, Note::Expired { .. })), "nobody expired");
}
