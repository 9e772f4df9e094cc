//! When a node reports, and when it keeps silent.

use super::*;

#[test]
fn a_report_waits_for_the_one_before_it_and_carries_the_newest_levels() {
    let mut node = Node::attached(&["a"]);
    for waiting in 1..=5 {
        node.pool("a").set(|levels| levels.waiting = waiting);
        node.apply(Event::Changed(name("a")));
    }
    let waiting: Vec<u32> = node.demands().iter().map(|demand| demand.levels.waiting).collect();
    assert_eq!(waiting, [1, 5]);
}

#[test]
fn a_call_without_a_change_is_not_worth_a_report() {
    let mut node = Node::attached(&["a"]);
    node.pool("a").set(|levels| levels.mean_hold = Duration::from_millis(3));
    node.apply(Event::Changed(name("a")));
    assert_eq!(node.demands(), []);
    node.pool("a").set(|levels| levels.wanted = 1);
    node.apply(Event::Changed(name("a")));
    assert_eq!(node.demands()[0].levels.mean_hold, Duration::from_millis(3), "said along with the rest");
}

#[test]
fn the_age_of_the_oldest_waiter_is_said_once_in_a_quarter_of_the_quantum() {
    let mut node = Node::attached(&["a"]);
    node.pool("a").set(|levels| levels.waiting = 1);
    node.apply(Event::Changed(name("a")));
    assert_eq!(node.demands().len(), 1);
    for age in 1..=75 {
        node.pool("a").set(|levels| levels.oldest_wait = Duration::from_millis(age));
        node.apply(Event::Changed(name("a")));
        node.advance(Duration::from_millis(1));
        let expected = usize::from(age % 25 == 0);
        assert_eq!(node.demands().len(), expected, "at {age} ms");
    }
    node.pool("a").set(|levels| *levels = crate::governed::Levels::default());
    node.apply(Event::Changed(name("a")));
    assert_eq!(node.demands().len(), 1);
    node.advance(QUANTUM);
    assert_eq!(node.demands(), [], "nobody waits any more");
}

#[test]
fn a_full_queue_is_known_until_another_word_or_another_stream_comes() {
    let mut node = Node::attached(&["a"]);
    let mut told = |sequence, max_waiting| {
        node.receive(queueing(sequence, None, max_waiting));
        node.pool("a").full()
    };
    assert_eq!(told(2, Some(500)), Some(500));
    assert_eq!(told(3, None), None);
    assert_eq!(told(4, Some(500)), Some(500));
    let stream = node.stream();
    node.apply(Event::Ended(stream, "cut".into()));
    assert_eq!(node.pool("a").full(), None, "the next server will say it again if it is so");
}

/// The mode of admission can change while the stream lasts.
#[test]
fn ages_are_said_by_the_quantum_that_was_told_last() {
    let mut node = Node::attached(&["a"]);
    node.pool("a").set(|levels| levels.waiting = 1);
    let mut said = |sequence, quantum| {
        node.receive(queueing(sequence, quantum, None));
        node.demands();
        let mut said = 0;
        for _ in 0..100 {
            node.pool("a").set(|levels| levels.oldest_wait += Duration::from_millis(1));
            node.advance(Duration::from_millis(1));
            said += node.demands().len();
        }
        said
    };
    assert_eq!(said(2, None), 4, "as the Welcome said");
    assert_eq!(said(3, Some(Duration::ZERO)), 0);
    assert_eq!(said(4, None), 0, "as before");
    assert_eq!(said(5, Some(QUANTUM * 2 / 5)), 10);
}

/// An allotment that gives nothing of database a, and tells how tasks queue.
fn queueing(sequence: u64, quantum: Option<Duration>, max_waiting: Option<u32>) -> FromServer {
    FromServer::Allotment(Allotment {
        database: name("a"),
        sequence: Sequence(sequence),
        tokens: 0,
        recall: Recall::None,
        quantum,
        max_waiting,
    })
}

#[test]
fn busy_databases_take_turns() {
    let mut node = Node::attached(&["a", "b", "c"]);
    let stream = node.stream();
    let mut turns = Vec::new();
    for round in 1..=6 {
        for database in ["a", "b", "c"] {
            node.pool(database).set(|levels| levels.wanted = round);
            node.apply(Event::Changed(name(database)));
        }
        for effect in node.taken() {
            if let Effect::Send(_, ToServer::Demand(demand)) = effect {
                turns.push(demand.database.to_string());
            }
        }
        node.apply(Event::Sent(stream));
    }
    assert_eq!(turns[..6].join(""), "abcabc");
}

#[test]
fn a_keep_alive_goes_before_demands() {
    let mut node = Node::attached(&["a"]);
    node.pool("a").set(|levels| levels.wanted = 1);
    node.now = node.now + KEEP_ALIVE;
    node.apply(Event::Changed(name("a")));
    let stream = node.stream();
    let said = node.said(stream);
    assert!(matches!(said[..], [ToServer::KeepAlive(_), ToServer::Demand(_)]), "{said:?}");
}

#[test]
fn an_attached_session_at_rest_has_one_timer_the_keep_alive() {
    let mut node = Node::attached(&["a"]);
    assert_eq!(node.session.next_timer(), Some(node.now + KEEP_ALIVE));
    let id = node.keep_alive();
    node.receive(FromServer::KeepAliveReply(id));
    assert_eq!(node.session.next_timer(), Some(node.now + KEEP_ALIVE));
}
