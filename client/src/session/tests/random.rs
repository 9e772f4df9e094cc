//! Random events in random order, against a model that knows only what the
//! protocol promises.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::governed::{Governed, Levels};

/// What may happen to a node. Most of it makes no sense most of the time.
#[derive(Clone, Copy, Debug)]
enum Move {
    Pass { milliseconds: u64 },
    Connect,
    Welcome { generation: u64, ttl: Duration },
    Allot { database: usize, ahead: u64, tokens: u32 },
    AllotOnOldStream { tokens: u32 },
    AnswerKeepAlive { back: usize },
    TakeMessage,
    LoseStream,
    Gone,
    Open { database: usize },
    Close { database: usize },
    Wait { database: usize, waiting: u32 },
    Register,
}

const DATABASES: [&str; 3] = ["a", "b", "c"];

/// A server may come back with another TTL. With the shortest, a Welcome can
/// come when the deadline that it sets has passed.
const TTLS: [Duration; 3] = [TTL, Duration::from_secs(4), Duration::from_secs(1)];

const OFTEN: Duration = Duration::from_millis(300);

fn any_move() -> impl Strategy<Value = Move> {
    let database = || 0..DATABASES.len();
    prop_oneof![
        4 => (1_u64..3_000).prop_map(|milliseconds| Move::Pass { milliseconds }),
        6 => Just(Move::Connect),
        6 => (0_u64..20, 0_usize..3).prop_map(|(n, ttl)| Move::Welcome {
            generation: if n == 0 { 4 } else { 5 + n / 15 },
            ttl: TTLS[ttl],
        }),
        8 => (database(), 0_u64..9, 0_u32..10).prop_map(|(database, ahead, tokens)| {
            Move::Allot { database, ahead: ahead.div_ceil(4), tokens }
        }),
        2 => (0_u32..10).prop_map(|tokens| Move::AllotOnOldStream { tokens }),
        6 => (0_usize..3).prop_map(|back| Move::AnswerKeepAlive { back }),
        12 => Just(Move::TakeMessage),
        1 => Just(Move::LoseStream),
        1 => Just(Move::Gone),
        4 => database().prop_map(|database| Move::Open { database }),
        4 => database().prop_map(|database| Move::Close { database }),
        4 => (database(), 0_u32..4).prop_map(|(database, waiting)| Move::Wait { database, waiting }),
        1 => Just(Move::Register),
    ]
}

/// The node and what the protocol says about it.
struct Model {
    node: Node,
    /// The stream whose Hello was sent, and what is known of it.
    current: Option<Spoken>,
    old_streams: Vec<StreamId>,
    opened: Option<StreamId>,
    /// Sending times of what the server may still answer, by keep-alive.
    heard: Option<Time>,
    ttl: Option<Duration>,
    generation: u64,
}

struct Spoken {
    id: StreamId,
    hello: Hello,
    hello_sent: Time,
    welcomed: bool,
    in_flight: bool,
    keep_alives: Vec<(KeepAliveId, Time)>,
    delivered: BTreeMap<DatabaseName, u64>,
    acknowledged: BTreeMap<DatabaseName, u64>,
}

impl Model {
    fn new() -> Self {
        let mut node = Node::with_endpoints(&DATABASES[..1], 2);
        node.apply(Event::Timer);
        let mut model = Self {
            node,
            current: None,
            old_streams: Vec::new(),
            opened: None,
            heard: None,
            ttl: None,
            generation: 0,
        };
        model.look();
        model
    }

    fn deadline(&self) -> Option<Time> {
        self.heard.zip(self.ttl).map(|(heard, ttl)| heard + ttl)
    }

    fn past_deadline(&self) -> bool {
        self.deadline().is_some_and(|deadline| self.node.now >= deadline)
    }

    fn holdings(&self) -> Vec<u32> {
        self.node.pools.iter().map(|(_, pool)| pool.levels().holding).collect()
    }

    fn make(&mut self, action: Move) {
        let before = self.holdings();
        let mut may_rise = None;
        match action {
            Move::Pass { milliseconds } => self.node.advance(Duration::from_millis(milliseconds)),
            Move::Connect => {
                if let Some(stream) = self.opened {
                    self.node.apply(Event::Connected(stream));
                }
            }
            Move::Welcome { generation, ttl } => self.welcome(generation, ttl),
            Move::Allot { database, ahead, tokens } => may_rise = self.allot(database, ahead, tokens),
            Move::AllotOnOldStream { tokens } => {
                if let Some(old) = self.old_streams.last() {
                    let event = Event::Received(*old, allotment("a", 1_000_000, tokens));
                    self.node.apply(event);
                }
            }
            Move::AnswerKeepAlive { back } => self.answer(back),
            Move::TakeMessage => {
                if let Some(current) = &mut self.current {
                    current.in_flight = false;
                    let event = Event::Sent(current.id);
                    self.node.apply(event);
                }
            }
            Move::LoseStream => {
                if let Some(stream) = self.node.session.current() {
                    self.opened = None;
                    self.leave(stream);
                    self.node.apply(Event::Ended(stream, "lost".into()));
                }
            }
            Move::Gone => {
                if let Some(current) = &self.current {
                    let event = Event::Received(current.id, FromServer::Gone("evicted".into()));
                    self.node.apply(event);
                }
            }
            Move::Open { database } => self.change(database, |levels| {
                if levels.established < levels.holding {
                    levels.established += 1;
                    levels.idle += 1;
                }
            }),
            Move::Close { database } => self.change(database, |levels| {
                levels.established = levels.established.saturating_sub(1);
                levels.idle = levels.established;
            }),
            Move::Wait { database, waiting } => self.change(database, |levels| levels.waiting = waiting),
            Move::Register => {
                if let Some(next) = DATABASES.get(self.node.pools.len()) {
                    self.node.register(next);
                }
            }
        }
        self.look();
        self.check(&before, may_rise);
    }

    fn welcome(&mut self, generation: u64, ttl: Duration) {
        let Some(current) = &mut self.current else { return };
        let welcome = Welcome {
            generation: Generation(generation),
            ttl,
            keep_alive: OFTEN,
            ..self.node.welcome_to(&current.hello)
        };
        if !current.welcomed && generation >= self.generation {
            current.welcomed = true;
            current.delivered = welcome.databases.iter().map(|terms| (terms.database.clone(), 1)).collect();
            self.generation = generation;
            self.heard = Some(current.hello_sent);
            self.ttl = Some(ttl);
        }
        let event = Event::Received(current.id, FromServer::Welcome(welcome));
        self.node.apply(event);
    }

    /// The database whose holding this may raise, and how far.
    fn allot(&mut self, database: usize, ahead: u64, tokens: u32) -> Option<(usize, u32)> {
        let past_deadline = self.past_deadline();
        let current = self.current.as_mut()?;
        let (name, _) = self.node.pools.get(database)?;
        let newest = current.delivered.get(name).copied();
        let sequence = newest.unwrap_or(0) + ahead;
        let legal = current.welcomed && ahead > 0 && newest.is_some();
        if legal {
            current.delivered.insert(name.clone(), sequence);
        }
        let event = Event::Received(current.id, allotment(DATABASES[database], sequence, tokens));
        self.node.apply(event);
        (legal && !past_deadline).then_some((database, tokens))
    }

    fn answer(&mut self, back: usize) {
        let Some(current) = &self.current else { return };
        let Some(index) = current.keep_alives.len().checked_sub(back + 1) else { return };
        let (id, sent) = current.keep_alives[index];
        if current.welcomed {
            self.heard = self.heard.max(Some(sent));
        }
        let event = Event::Received(current.id, FromServer::KeepAliveReply(id));
        self.node.apply(event);
    }

    fn change(&mut self, database: usize, change: impl FnOnce(&mut Levels)) {
        let Some((name, pool)) = self.node.pools.get(database) else { return };
        pool.set(change);
        let event = Event::Changed(name.clone());
        self.node.apply(event);
    }

    fn leave(&mut self, stream: StreamId) {
        if self.current.as_ref().is_some_and(|current| current.id == stream) {
            self.current = None;
        }
        self.old_streams.push(stream);
    }

    /// Takes in what the node did, and checks each thing that it says.
    fn look(&mut self) {
        for effect in self.node.taken() {
            match effect {
                Effect::Open { stream, .. } => {
                    assert!(self.current.is_none(), "two streams at once");
                    self.opened = Some(stream);
                }
                Effect::Drop(stream) => {
                    self.opened = None;
                    self.leave(stream);
                }
                Effect::Send(stream, ToServer::Hello(hello)) => self.spoke(stream, hello),
                Effect::Send(stream, message) => self.said(stream, message),
                Effect::Finished => panic!("nobody asked for the end"),
            }
        }
    }

    fn spoke(&mut self, stream: StreamId, hello: Hello) {
        assert!(self.current.is_none(), "a Hello while another stream speaks");
        assert_eq!(self.opened.take(), Some(stream));
        let claimed: Vec<u32> = hello.claims.iter().map(|claim| claim.levels.holding).collect();
        assert_eq!(claimed, self.holdings());
        assert_eq!(hello.generation.0, self.generation);
        self.current = Some(Spoken {
            id: stream,
            hello,
            hello_sent: self.node.now,
            welcomed: false,
            in_flight: true,
            keep_alives: Vec::new(),
            delivered: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
        });
    }

    fn said(&mut self, stream: StreamId, message: ToServer) {
        let lapsed = self.past_deadline();
        let current = self.current.as_mut().expect("words without a stream");
        assert_eq!(current.id, stream, "words on an old stream");
        assert!(current.welcomed, "words before the Welcome");
        assert!(!current.in_flight, "the last message has not left");
        current.in_flight = true;
        match message {
            ToServer::KeepAlive(id) => current.keep_alives.push((id, self.node.now)),
            ToServer::Demand(demand) => {
                let mut levels = self.node.pool(demand.database.as_str()).levels();
                if lapsed {
                    // It cannot take tokens, so it asks for none.
                    (levels.waiting, levels.wanted) = (0, levels.in_use);
                }
                assert_eq!(demand.levels, levels, "levels of another moment");
                let delivered = current.delivered.get(&demand.database);
                assert_eq!(delivered, Some(&demand.acknowledged.0), "not what was applied last");
                let before = current.acknowledged.insert(demand.database, demand.acknowledged.0);
                assert!(before <= Some(demand.acknowledged.0), "an acknowledgement fell");
            }
            ToServer::Hello(_) | ToServer::Goodbye => panic!("{message:?} now"),
        }
    }

    fn check(&self, before: &[u32], may_rise: Option<(usize, u32)>) {
        let lapsed = self.past_deadline();
        for (index, (database, pool)) in self.node.pools.iter().enumerate() {
            let (was, is) = (before.get(index).copied().unwrap_or(0), pool.levels().holding);
            let most = may_rise.filter(|(raised, _)| *raised == index).map_or(was, |(_, to)| was.max(to));
            assert!(is <= most, "{database} rose from {was} to {is}, at most {most} was allowed");
            assert_eq!(pool.is_lapsed(), lapsed, "{database} at {:?}", self.node.now);
            let until = self.deadline();
            assert!(pool.deadline().is_none() || pool.deadline() == until, "{database}");
        }
        let timer = self.node.session.next_timer().expect("a session that lives has a timer");
        assert!(timer > self.node.now, "a timer that is due was not served");
        assert_eq!(self.node.status().deadline, self.deadline());
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_promises_hold(moves in prop::collection::vec(any_move(), 1..150)) {
        let mut model = Model::new();
        for action in moves {
            model.make(action);
        }
    }
}
