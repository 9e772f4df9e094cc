//! A pool without connections: it follows orders by the rules, counts, and
//! writes down what it was told.

use std::sync::{Mutex, PoisonError};

use crate::clock::Time;
use crate::governed::{Governed, Levels, Recall};

/// The pool. Nothing in it opens or returns but by a test's hand.
#[derive(Debug, Default)]
pub(crate) struct CountingPool {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    levels: Levels,
    lapsed: bool,
    fenced: bool,
    full: Option<u32>,
    closed: bool,
    deadline: Option<Time>,
    allotted: Vec<u32>,
}

impl CountingPool {
    /// Changes the levels as an application would.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Levels)) {
        self.with(|state| change(&mut state.levels));
    }

    /// Every allotment that was applied, in order.
    pub(crate) fn allotted(&self) -> Vec<u32> {
        self.with(|state| state.allotted.clone())
    }

    pub(crate) fn is_lapsed(&self) -> bool {
        self.with(|state| state.lapsed)
    }

    /// The bound of the queue, while as many wait as may.
    pub(crate) fn full(&self) -> Option<u32> {
        self.with(|state| state.full)
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.with(|state| state.fenced)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.with(|state| state.deadline)
    }

    fn with<R>(&self, read: impl FnOnce(&mut State) -> R) -> R {
        read(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Governed for CountingPool {
    fn levels(&self) -> Levels {
        self.with(|state| state.levels)
    }

    fn traceparent(&self) -> String {
        String::new()
    }

    fn allot(&self, tokens: u32, recall: Recall) {
        self.with(|state| {
            state.allotted.push(tokens);
            if state.closed {
                return;
            }
            let levels = &mut state.levels;
            if tokens >= levels.holding || recall == Recall::None {
                levels.holding = levels.holding.max(tokens);
                return;
            }
            let unopened = levels.holding - levels.established - levels.opening - levels.closing;
            levels.holding -= unopened.min(levels.holding - tokens);
            let idle = levels.idle.min(levels.holding - tokens);
            levels.idle -= idle;
            levels.established -= idle;
            levels.holding -= idle;
        });
    }

    fn bound_queue(&self, full: Option<u32>) {
        self.with(|state| state.full = full);
    }

    fn lapse(&self, fence: bool) {
        self.with(|state| {
            state.lapsed = true;
            state.fenced = fence;
            let levels = &mut state.levels;
            if fence {
                levels.established -= levels.idle;
                levels.idle = 0;
            }
            levels.holding = levels.established + levels.opening + levels.closing;
        });
    }

    fn revive(&self) {
        self.with(|state| state.lapsed = false);
    }

    fn prolong(&self, deadline: Time) {
        self.with(|state| state.deadline = Some(deadline));
    }

    fn close(&self) {
        self.with(|state| {
            state.closed = true;
            let levels = &mut state.levels;
            levels.established -= levels.idle;
            levels.idle = 0;
            levels.holding = levels.established + levels.opening + levels.closing;
        });
    }

    fn is_closed(&self) -> bool {
        self.with(|state| state.closed)
    }
}
