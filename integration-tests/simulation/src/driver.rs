//! The driver without its tasks: the server's own rounds, around the core, told
//! the time and the outcome of each commit. Knows nothing of streams, stores or
//! clocks.

// The server's own files, not copies of them: the crate around them would bring
// gRPC, HTTP and a database client along.
#[path = "../../../server/src/driver/pending.rs"]
mod pending;
#[path = "../../../server/src/driver/round.rs"]
mod round;

use leasehold_admission::{Core, Effect, Event, Time, durable::Change};

use self::round::{Ended, Rounds};

/// A core and what its rounds leave behind.
#[derive(Debug)]
pub struct Driver {
    /// The core.
    pub core: Core,
    effects: Vec<Effect>,
    rounds: Rounds,
}

/// How a round goes on.
#[derive(Debug)]
pub enum Begun {
    /// These are to be committed first; then the round is to be ended.
    Commit(Vec<Change>),
    /// The round has ended; these are to be carried out.
    Ended(Vec<Effect>),
}

impl Driver {
    /// A driver that has done nothing.
    pub fn new(core: Core) -> Driver {
        Driver { core, effects: Vec::new(), rounds: Rounds::default() }
    }

    /// The core takes an event.
    pub fn apply(&mut self, now: Time, event: Event) {
        self.core.apply(now, event, &mut self.effects);
    }

    /// Everything that came is applied: goes on to the commit.
    pub fn begin(&mut self, now: Time) -> Begun {
        match self.rounds.begin(now, std::mem::take(&mut self.effects)) {
            round::Begun::Commit(changes) => Begun::Commit(changes),
            round::Begun::Ended(ended) => Begun::Ended(self.ended(now, ended)),
        }
    }

    /// The commit has ended; `left` are its changes if it failed, or may have.
    /// Returns what is to be carried out.
    pub fn end(&mut self, now: Time, left: Option<Vec<Change>>) -> Vec<Effect> {
        let ended = self.rounds.end(now, left);
        self.ended(now, ended)
    }

    fn ended(&mut self, now: Time, ended: Ended) -> Vec<Effect> {
        let Ended { event, send, durable } = ended;
        assert_eq!(durable, !matches!(event, Some(Event::CommitFailed)), "what operators are told");
        if let Some(event) = event {
            self.apply(now, event);
        }
        send
    }

    /// When there is something to do although nothing comes.
    pub fn due(&self) -> Option<Time> {
        let at_once = (!self.effects.is_empty()).then_some(Time::ZERO);
        [self.core.next_deadline(), self.rounds.retry_at(), at_once].into_iter().flatten().min()
    }
}
