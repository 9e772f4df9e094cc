//! A node's pool as its session sees it: the real ledger behind a lock, and a
//! tray where the effects of each change wait for the world to carry them out.
//! Knows nothing of tasks, connects or time.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use leasehold_client::{
    clock::Time,
    governed::{Governed, Levels, Recall},
    ledger::{Effects, Limits, State, Use},
};

/// A connection of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Names it at the database.
    pub id: usize,
    /// How often the pool had been fenced when it was made.
    pub fences: u32,
}

/// Names a task of a pool.
pub type TaskId = usize;

/// The ledger of a pool.
pub type Ledger = State<Connection, TaskId>;

/// The ledger's effects.
pub type LedgerEffects = Effects<Connection, TaskId>;

/// What the world has to do for a pool.
#[derive(Debug, Default)]
pub struct Tray {
    /// Tasks to wake.
    pub wake: Vec<TaskId>,
    /// Connections to close.
    pub close: Vec<Connection>,
    /// The session should read the levels.
    pub report: bool,
    /// A connection should be opened for the warm minimum.
    pub upkeep: bool,
    /// Connections in use are to be cut.
    pub sever: bool,
}

impl Tray {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.wake.is_empty() && self.close.is_empty() && !self.report && !self.upkeep && !self.sever
    }
}

/// One pool. Clones are the same pool.
#[derive(Clone)]
pub struct Pool(Arc<Mutex<Inside>>);

struct Inside {
    ledger: Ledger,
    now: Time,
    fences: u32,
    tray: Tray,
}

impl Pool {
    /// A pool without tokens.
    pub fn new(limits: Limits) -> Pool {
        Pool(Arc::new(Mutex::new(Inside {
            ledger: State::new(limits, Use::Connections),
            now: Time::START,
            fences: 0,
            tray: Tray::default(),
        })))
    }

    /// Tells it the time.
    pub fn tell(&self, now: Time) {
        self.with(|inside| inside.now = now);
    }

    /// Makes one change.
    pub fn change<R>(&self, step: impl FnOnce(&mut Ledger, Time, &mut LedgerEffects) -> R) -> R {
        self.with(|inside| {
            let mut effects = Effects::default();
            let result = step(&mut inside.ledger, inside.now, &mut effects);
            let Effects { wake, close, report, upkeep, emptied: _ } = effects;
            inside.tray.wake.extend(wake);
            inside.tray.close.extend(close);
            inside.tray.report |= report;
            inside.tray.upkeep |= upkeep;
            result
        })
    }

    /// Looks at it.
    pub fn read<R>(&self, look: impl FnOnce(&Ledger, Time) -> R) -> R {
        self.with(|inside| look(&inside.ledger, inside.now))
    }

    /// How often it was fenced.
    pub fn fences(&self) -> u32 {
        self.with(|inside| inside.fences)
    }

    /// Takes what the world has to do.
    pub fn take_tray(&self) -> Tray {
        self.with(
            |inside| if inside.tray.is_empty() { Tray::default() } else { std::mem::take(&mut inside.tray) },
        )
    }

    fn with<R>(&self, step: impl FnOnce(&mut Inside) -> R) -> R {
        step(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|inside| inside.ledger.levels(inside.now).fmt(f))
    }
}

impl Governed for Pool {
    fn levels(&self) -> Levels {
        self.with(|inside| inside.ledger.report(inside.now))
    }

    fn traceparent(&self) -> String {
        String::new()
    }

    fn allot(&self, tokens: u32, recall: Recall) {
        self.change(|ledger, now, effects| ledger.allot(tokens, recall, now, effects));
    }

    fn bound_queue(&self, full: Option<u32>) {
        self.change(|ledger, _, _| ledger.bound_queue(full));
    }

    fn lapse(&self, fence: bool) {
        self.with(|inside| {
            inside.fences += u32::from(fence);
            inside.tray.sever |= fence;
        });
        self.change(|ledger, _, effects| ledger.lapse(fence, effects));
    }

    fn revive(&self) {
        self.change(|ledger, _, effects| ledger.revive(effects));
    }

    fn prolong(&self, deadline: Time) {
        self.change(|ledger, _, effects| ledger.prolong(deadline, effects));
    }

    fn close(&self) {
        self.change(|ledger, _, effects| ledger.close(effects));
    }

    fn is_closed(&self) -> bool {
        self.with(|inside| inside.ledger.is_closed())
    }
}
