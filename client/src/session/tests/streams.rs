//! How streams come and go.

use super::*;
use crate::governed::Governed;
use crate::session::{CONNECT_PATIENCE, DatabaseState, Ending, Fault};

#[test]
fn an_endpoint_that_does_not_answer_gives_way_to_the_next() {
    let mut node = Node::with_endpoints(&["a"], 3);
    node.apply(Event::Timer);
    let (_, first) = node.opened();
    node.advance(CONNECT_PATIENCE);
    let (second_stream, second) = node.opened();
    node.apply(Event::Ended(second_stream, "refused".into()));
    let (_, third) = node.opened();
    assert_eq!((first, second, third), (0, 1, 2));
    let faults: Vec<String> = node.status().faults.values().map(Fault::to_string).collect();
    assert_eq!(faults, ["no connection within 2 s", "refused"]);
}

#[test]
fn a_hello_without_a_welcome_is_given_up() {
    let mut node = Node::new(&["a"]);
    let (stream, _) = node.hello();
    node.now = node.session.next_timer().unwrap();
    node.apply(Event::Timer);
    assert_eq!(node.taken()[0], Effect::Drop(stream));
    assert_eq!(node.status().faults[&0], Fault::HelloUnanswered);
}

#[test]
fn an_unanswered_keep_alive_ends_the_stream_long_before_the_deadline() {
    let mut node = Node::attached(&["a"]);
    node.keep_alive();
    let (stream, sent) = (node.stream(), node.now);
    node.advance((TTL / 3).saturating_sub(Duration::from_millis(1)));
    assert_eq!(node.stream(), stream);
    node.said(stream);
    node.now = sent + TTL / 3;
    node.apply(Event::Timer);
    assert_eq!(node.taken()[0], Effect::Drop(stream));
    assert_eq!(node.status().faults[&0], Fault::KeepAliveUnanswered);
    assert!(!node.pool("a").is_lapsed());
}

#[test]
fn a_server_that_does_not_read_is_left() {
    let mut node = Node::attached(&["a"]);
    node.pool("a").set(|levels| levels.wanted = 1);
    node.apply(Event::Changed(name("a")));
    let stream = node.stream();
    node.taken();
    node.now = node.session.next_timer().unwrap();
    node.apply(Event::Timer);
    assert_eq!(node.taken()[0], Effect::Drop(stream));
    assert_eq!(node.status().faults[&0], Fault::Stalled);
}

#[test]
fn words_before_the_welcome_end_the_stream() {
    let mut node = Node::new(&["a"]);
    let (stream, hello) = node.hello();
    node.apply(Event::Received(stream, allotment("a", 1, 5)));
    assert_eq!(node.taken()[0], Effect::Drop(stream));
    let (stream, _) = node.hello();
    let mut other = node.welcome_to(&hello);
    other.databases[0].database = name("z");
    node.apply(Event::Received(stream, FromServer::Welcome(other)));
    assert_eq!(node.taken()[0], Effect::Drop(stream));
    assert_eq!(node.status().deadline, None, "nothing of it is believed");
}

#[test]
fn a_pool_that_is_registered_later_is_listed_in_a_new_hello() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    node.demands();
    let old = node.stream();
    node.register("b");
    let effects = node.taken();
    let [Effect::Drop(dropped), Effect::Open { stream, reuse: true, .. }] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(dropped, old);
    node.apply(Event::Connected(stream));
    let sent = node.taken();
    let [Effect::Send(_, ToServer::Hello(hello))] = &sent[..] else { panic!("{sent:?}") };
    let claims: Vec<_> =
        hello.claims.iter().map(|claim| (claim.database.as_str(), claim.levels.holding)).collect();
    assert_eq!(claims, [("a", 5), ("b", 0)]);
}

#[test]
fn pools_that_are_registered_during_a_hello_share_the_next_one() {
    let mut node = Node::new(&["a"]);
    let (stream, hello) = node.hello();
    node.register("b");
    node.register("c");
    assert_eq!(node.taken(), []);
    let welcome = node.welcome_to(&hello);
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    let (_, hello) = node.hello();
    assert_eq!(hello.claims.len(), 3);
}

#[test]
fn a_database_that_the_server_does_not_know_is_shown_and_asked_again() {
    let mut node = Node::new(&["a", "typo"]);
    let (stream, hello) = node.hello();
    let mut welcome = node.welcome_to(&hello);
    welcome.databases[1].terms = None;
    node.apply(Event::Received(stream, FromServer::Welcome(welcome)));
    assert_eq!(node.demands().len(), 1);
    assert_eq!(node.status().databases[&name("typo")], DatabaseState::Unknown);
    assert_eq!(node.status().databases[&name("a")], DatabaseState::Known);
    node.apply(Event::Ended(stream, "restart".into()));
    node.taken();
    node.attach();
    assert_eq!(node.status().databases[&name("typo")], DatabaseState::Known);
}

#[test]
fn a_shutdown_closes_the_pools_and_says_goodbye_when_nothing_is_held() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 5);
    node.pool("a").set(|levels| (levels.established, levels.in_use) = (1, 1));
    node.demands();
    node.apply(Event::Shutdown);
    assert!(node.pool("a").is_closed());
    let stream = node.stream();
    let said = node.said(stream);
    let [ToServer::Demand(demand)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(demand.levels.holding, 1, "what is in use is waited for");
    node.pool("a").set(|levels| *levels = crate::governed::Levels::default());
    node.apply(Event::Timer);
    assert_eq!(node.said(stream), [], "the server was not told yet");
    node.apply(Event::Changed(name("a")));
    let said = node.said(stream);
    let [ToServer::Demand(demand), ToServer::Goodbye] = &said[..] else { panic!("{said:?}") };
    assert_eq!(demand.levels.holding, 0);
    node.apply(Event::Ended(stream, "OK".into()));
    assert_eq!(node.taken(), [Effect::Finished]);
    assert_eq!(node.status().ending, Some(Ending::Confirmed));
    assert!(node.pool("a").is_lapsed(), "nothing is opened without a session");
    assert_eq!(node.session.next_timer(), None);
}

#[test]
fn a_goodbye_is_not_said_while_something_is_held() {
    let mut node = Node::attached(&["a"]);
    node.allot("a", 2, 1);
    node.pool("a").set(|levels| (levels.established, levels.in_use) = (1, 1));
    node.demands();
    let stream = node.stream();
    node.apply(Event::Shutdown);
    let said = node.said(stream);
    assert!(matches!(said[..], [ToServer::Demand(_)]), "{said:?}");
    let mut effects = Vec::new();
    node.session.abandon(&mut effects);
    assert_eq!(effects, [Effect::Drop(stream), Effect::Finished]);
    assert_eq!(node.status().ending, Some(Ending::Holding));
    assert!(node.pool("a").is_lapsed());
}

#[test]
fn a_goodbye_waits_for_the_end_of_the_stream_with_a_bound() {
    let mut node = Node::attached(&["a"]);
    node.apply(Event::Shutdown);
    let stream = node.stream();
    assert_eq!(node.said(stream), [ToServer::Goodbye]);
    node.now = node.session.next_timer().unwrap();
    node.apply(Event::Timer);
    assert_eq!(node.taken(), [Effect::Drop(stream), Effect::Finished]);
    assert_eq!(node.status().ending, Some(Ending::Unheard));
}

#[test]
fn a_shutdown_without_a_server_does_not_wait_for_one() {
    let mut node = Node::new(&["a"]);
    node.taken();
    node.apply(Event::Shutdown);
    assert_eq!(node.taken().last(), Some(&Effect::Finished));
    assert_eq!(node.status().ending, Some(Ending::Confirmed), "it never was given anything");

    let mut node = Node::attached(&["a"]);
    node.apply(Event::Ended(node.stream(), "lost".into()));
    node.apply(Event::Shutdown);
    assert_eq!(node.taken(), [Effect::Finished]);
    assert_eq!(node.status().ending, Some(Ending::Unheard));
}
