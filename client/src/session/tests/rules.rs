//! The rules of the protocol that are the node's, each by its number.

use super::*;
use crate::session::{ANSWER_PATIENCE, Fault};

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn rule_1_a_reconnect_keeps_the_session_and_names_the_highest_generation() {
    let mut node = Node::new(&["a"]);
    let (stream, first) = node.hello();
    assert_eq!(first.generation, Generation(0));
    let welcome = node.welcome_to(&first);
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    node.apply(Event::Ended(stream, "lost".into()));
    let (_, second) = node.hello();
    assert_eq!(second.session, first.session);
    assert_eq!(second.generation, Generation(3));
}

#[test]
fn rule_1_a_welcome_of_a_lower_generation_is_refused() {
    let mut node = Node::attached(&["a"]);
    let deadline = node.status().deadline;
    node.apply(Event::Ended(node.stream(), "lost".into()));
    let (stream, hello) = node.hello();
    let older = Welcome { generation: Generation(2), ..node.welcome_to(&hello) };
    node.apply(Event::Received(stream, FromServer::Welcome(older)));
    assert_eq!(node.taken()[0], Effect::Drop(stream));
    assert_eq!(node.status().endpoint, None);
    assert_eq!(node.status().deadline, deadline, "it prolongs nothing");
    let refused = Fault::OlderGeneration { offered: Generation(2), known: Generation(3) };
    assert_eq!(node.status().faults[&0], refused);
}

#[test]
fn rule_1_nothing_of_an_old_stream_is_applied_after_the_next_hello() {
    let mut node = Node::attached(&["a"]);
    let old = node.stream();
    node.register("b");
    assert_eq!(node.taken()[0], Effect::Drop(old), "the old stream is left before the Hello is composed");
    node.apply(Event::Received(old, allotment("a", 2, 5)));
    let new = node.stream();
    node.apply(Event::Connected(new));
    node.apply(Event::Received(old, allotment("a", 3, 7)));
    assert_eq!(node.pool("a").allotted(), [0_u32; 0]);
    assert_eq!(node.status().endpoint, None);
}

#[test]
fn rule_2_a_sequence_that_does_not_rise_ends_the_stream() {
    for repeated in [1, 2] {
        let mut node = Node::attached(&["a"]);
        node.allot("a", 2, 4);
        node.demands();
        let stream = node.stream();
        node.allot("a", repeated, 9);
        assert_eq!(node.pool("a").allotted(), [4], "{repeated} after 2");
        assert_eq!(node.taken()[0], Effect::Drop(stream));
    }
}

#[test]
fn rule_2_sequences_belong_to_one_stream_and_database() {
    let mut node = Node::attached(&["a", "b"]);
    node.allot("a", 9, 4);
    node.allot("b", 2, 3);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.taken();
    node.attach();
    node.allot("a", 2, 6);
    assert_eq!(node.pool("a").allotted(), [4, 6]);
    assert_eq!(node.pool("b").allotted(), [3]);
}

#[test]
fn rule_4_an_allotment_is_applied_and_acknowledged() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    let demands = node.demands();
    assert_eq!(demands.len(), 1);
    assert_eq!((demands[0].acknowledged, demands[0].levels.holding), (Sequence(2), 5));
    node.allot("a", 3, 2);
    let demands = node.demands();
    assert_eq!((demands[0].acknowledged, demands[0].levels.holding), (Sequence(3), 2));
}

/// A second stream whose Hello and Welcome are late: it is attached, but lapsed.
fn attach_too_late(node: &mut Node) {
    node.apply(Event::Ended(node.stream(), "lost".into()));
    let (stream, hello) = node.hello();
    let welcome = node.welcome_to(&hello);
    node.now = node.now + ANSWER_PATIENCE.min(TTL / 3).saturating_sub(MILLISECOND);
    let short = Welcome { ttl: 2_000 * MILLISECOND, keep_alive: 500 * MILLISECOND, ..welcome };
    node.apply(Event::Received(stream, FromServer::Welcome(short)));
    assert!(node.pool("a").is_lapsed());
    node.demands();
}

#[test]
fn rule_4_past_the_deadline_a_raise_is_only_acknowledged() {
    let mut node = Node::attached(&["a"]);
    attach_too_late(&mut node);
    node.allot("a", 2, 5);
    let demands = node.demands();
    assert_eq!((demands[0].acknowledged, demands[0].levels.holding), (Sequence(2), 0));
}

#[test]
fn rule_4_past_the_deadline_a_recall_is_followed() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 3);
    node.pool("a").set(|levels| (levels.established, levels.in_use, levels.idle) = (3, 1, 2));
    attach_too_late(&mut node);
    node.allot("a", 2, 1);
    let demands = node.demands();
    assert_eq!((demands[0].acknowledged, demands[0].levels.holding), (Sequence(2), 1));
}

#[test]
fn rule_12_past_the_deadline_nothing_is_asked_for() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 3);
    node.pool("a").set(|levels| {
        (levels.established, levels.in_use, levels.waiting, levels.wanted) = (2, 2, 4, 6);
    });
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.now = node.now + TTL;
    let (_, hello) = node.hello();
    let levels = hello.claims[0].levels;
    assert_eq!((levels.holding, levels.waiting, levels.wanted), (2, 0, 2));
}

#[test]
fn rule_6_an_acknowledgement_is_sent_even_if_nothing_else_changed() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    node.demands();
    node.allot("a", 3, 5);
    let demands = node.demands();
    assert_eq!(demands.len(), 1);
    assert_eq!((demands[0].acknowledged, demands[0].levels.holding), (Sequence(3), 5));
}

#[test]
fn rule_6_the_welcome_is_acknowledged_for_every_database() {
    let mut node = Node::new(&["a", "b"]);
    let (stream, hello) = node.hello();
    assert!(hello.claims.iter().all(|claim| claim.acknowledged == Sequence(0)));
    let welcome = node.welcome_to(&hello);
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    let acknowledged: Vec<_> = node.demands().into_iter().map(|d| (d.database, d.acknowledged)).collect();
    assert_eq!(acknowledged, [(name("a"), Sequence(1)), (name("b"), Sequence(1))]);
}

#[test]
fn rule_6_the_welcome_of_each_stream_is_acknowledged() {
    let mut node = Node::attached(&["a"]);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    let (stream, hello) = node.hello();
    let welcome = node.welcome_to(&hello);
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    // Same sequence, same levels as were said last, but on another stream.
    assert_eq!(node.demands().len(), 1);
}

#[test]
fn rule_7_a_demand_carries_levels_read_after_what_it_acknowledges() {
    let mut node = Node::attached(&["a"]);
    // The slot is taken, so the report waits; meanwhile the raise arrives.
    node.pool("a").set(|levels| levels.waiting = 1);
    node.apply(Event::Changed(name("a")));
    node.pool("a").set(|levels| levels.waiting = 2);
    node.apply(Event::Changed(name("a")));
    node.allot("a", 2, 5);
    let demands = node.demands();
    assert_eq!(demands.len(), 2);
    assert_eq!((demands[0].acknowledged, demands[0].levels.holding), (Sequence(1), 0));
    assert_eq!((demands[1].acknowledged, demands[1].levels.holding), (Sequence(2), 5));
}

#[test]
fn rule_10_a_hello_claims_what_is_held_and_a_welcome_gives_nothing() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.taken();
    let (stream, hello) = node.hello();
    assert_eq!(hello.claims[0].levels.holding, 5);
    node.pool("a").set(|levels| levels.holding = 3);
    let welcome = node.welcome_to(&hello);
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    assert_eq!(node.demands()[0].levels.holding, 3);
    assert_eq!(node.pool("a").allotted(), [5]);
}

#[test]
fn rule_10_what_exceeds_the_claim_is_given_up_at_the_welcome() {
    let mut node = Node::new(&["a"]);
    let (stream, hello) = node.hello();
    node.pool("a").set(|levels| levels.holding = 2);
    let welcome = node.welcome_to(&hello);
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    assert_eq!(node.demands()[0].levels.holding, 0);
}

#[test]
fn rule_14_the_deadline_counts_from_the_sending_of_what_was_answered() {
    let mut node = Node::new(&["a"]);
    let (stream, hello) = node.hello();
    let hello_sent = node.now;
    node.now = node.now + Duration::from_secs(1);
    let welcome = node.welcome_to(&hello);
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    assert_eq!(node.status().deadline, Some(hello_sent + TTL));
    node.demands();
    let id = node.keep_alive();
    let sent = node.now;
    assert_eq!(node.status().deadline, Some(hello_sent + TTL), "sending alone moves nothing");
    node.now = node.now + Duration::from_secs(1);
    node.receive(FromServer::KeepAliveReply(id));
    assert_eq!(node.status().deadline, Some(sent + TTL));
    assert_eq!(node.pool("a").deadline(), Some(sent + TTL), "the pool checks it by itself");
}

#[test]
fn rule_14_at_the_deadline_unopened_tokens_lapse() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    node.pool("a").set(|levels| (levels.established, levels.idle) = (2, 2));
    node.apply(Event::Ended(node.stream(), "lost".into()));
    let deadline = node.status().deadline.unwrap();
    node.now = deadline;
    assert!(!node.pool("a").is_lapsed());
    node.apply(Event::Timer);
    assert!(node.pool("a").is_lapsed() && !node.pool("a").is_fenced());
    node.taken();
    let (_, hello) = node.hello();
    assert_eq!(hello.claims[0].levels.holding, 2);
}

#[test]
fn rule_14_with_fence_the_deadline_closes_everything() {
    let mut node = Node::new(&["a"]);
    node.on_loss = LossPolicy::Fence;
    node.attach();
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.advance(TTL);
    assert!(node.pool("a").is_fenced());
}

#[test]
fn rule_14_the_deadline_is_on_the_timer() {
    let mut node = Node::attached(&["a"]);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    let deadline = node.status().deadline.unwrap();
    let mut last = node.now;
    for _ in 0..1_000 {
        node.now = node.session.next_timer().expect("a timer");
        if node.now >= deadline {
            break;
        }
        last = node.now;
        node.apply(Event::Timer);
        let stream = node.session.current();
        node.taken();
        if let Some(stream) = stream {
            node.apply(Event::Ended(stream, "refused".into()));
        }
    }
    assert!(last < deadline && node.now == deadline, "no timer between {last:?} and {deadline:?}");
}

#[test]
fn rule_14_only_what_was_sent_less_than_a_ttl_ago_revives() {
    let mut node = Node::attached(&["a"]);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.advance(TTL);
    node.taken();
    assert!(node.pool("a").is_lapsed());
    // A Welcome that comes a TTL after its Hello (here: of a shorter TTL).
    let (stream, hello) = node.hello();
    node.now = node.now + Duration::from_secs(2);
    let late = Welcome {
        ttl: Duration::from_secs(1),
        keep_alive: Duration::from_millis(100),
        ..node.welcome_to(&hello)
    };
    node.apply(Event::Received(stream, FromServer::Welcome(late)));
    assert!(node.pool("a").is_lapsed());
    // The keep-alive after it, answered at once.
    node.advance(Duration::from_millis(100));
    let sent = node.said(stream);
    let Some(ToServer::KeepAlive(id)) =
        sent.iter().find(|message| matches!(message, ToServer::KeepAlive(_))).cloned()
    else {
        panic!("no keep-alive: {sent:?}")
    };
    node.receive(FromServer::KeepAliveReply(id));
    assert!(!node.pool("a").is_lapsed());
    node.allot("a", 2, 4);
    assert_eq!(node.pool("a").allotted(), [4]);
}

#[test]
fn rule_16_a_policy_that_a_late_welcome_tells_is_followed_at_once() {
    let mut node = Node::attached(&["a"]);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.advance(TTL);
    node.taken();
    assert!(node.pool("a").is_lapsed() && !node.pool("a").is_fenced());
    node.on_loss = LossPolicy::Fence;
    let (stream, hello) = node.hello();
    node.now = node.now + Duration::from_secs(2);
    let late = Welcome { ttl: Duration::from_secs(1), ..node.welcome_to(&hello) };
    node.apply(Event::Received(stream, FromServer::Welcome(late)));
    assert!(node.pool("a").is_lapsed() && node.pool("a").is_fenced());
}

#[test]
fn rule_14_a_prompt_welcome_revives_but_the_lapsed_tokens_stay_lost() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.advance(TTL);
    node.taken();
    node.attach();
    assert!(!node.pool("a").is_lapsed());
    assert_eq!(node.pool("a").allotted(), [5]);
    node.allot("a", 2, 4);
    assert_eq!(node.demands()[0].levels.holding, 4);
}

#[test]
fn rule_15_gone_is_followed_by_a_hello_of_the_same_session_with_what_is_held() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    node.demands();
    let stream = node.stream();
    node.receive(FromServer::Gone("evicted".into()));
    assert_eq!(node.taken()[0], Effect::Drop(stream));
    let (_, hello) = node.hello();
    assert_eq!(hello.session, SessionId::from_bytes([1; 16]));
    assert_eq!(hello.claims[0].levels.holding, 5);
    assert_eq!(node.status().faults[&0].to_string(), "the session was gone: evicted");
}
