//! Who waits, oldest first: a linked list in a slab, so that entering, leaving
//! from the middle and asking for the oldest take constant time whatever the
//! length. Knows nothing of tokens.
//!
//! A waiter that was chosen leaves the list at once but keeps its place in the
//! slab, where its task finds the claim, or the one who drops it does.

use crate::clock::Time;
use crate::trace::TraceContext;

use super::Claim;

/// Names a waiter from its entry until it was polled to its claim or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaiterId(usize);

/// What is known of a task that begins to wait.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Since when it waits.
    pub since: Time,
    /// The trace that it belongs to, if any.
    pub trace: Option<TraceContext>,
}

#[derive(Debug)]
struct Waiting<W> {
    ticket: Ticket,
    waker: W,
    older: Option<usize>,
    younger: Option<usize>,
}

#[derive(Debug)]
enum Slot<T, W> {
    Vacant { next: Option<usize> },
    Waiting(Waiting<W>),
    Chosen(Claim<T>),
}

/// What became of a waiter.
#[derive(Debug)]
pub(super) enum Removed<T, W> {
    /// It still waited; its waker may be dropped outside the lock.
    Waiting(W),
    /// It had been chosen.
    Chosen(Claim<T>),
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Waiters<T, W> {
    waiting: u32,
    oldest: Option<usize>,
    youngest: Option<usize>,
    slots: Vec<Slot<T, W>>,
    vacant: Option<usize>,
}

impl<T, W> Waiters<T, W> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), vacant: None, oldest: None, youngest: None, waiting: 0 }
    }

    /// How many wait and were not chosen.
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Who is chosen next.
    pub(super) fn oldest(&self) -> Option<&Ticket> {
        self.oldest.map(|index| &self.waiting_at(index).ticket)
    }

    /// Adds a waiter behind every older one. Almost all enter as the youngest;
    /// a task whose connection failed its test comes back near the front.
    pub(super) fn enter(&mut self, ticket: Ticket, waker: W) -> WaiterId {
        let mut older = self.youngest;
        if self.oldest().is_some_and(|oldest| ticket.since < oldest.since) {
            older = None;
        }
        while let Some(index) = older {
            let waiting = self.waiting_at(index);
            if waiting.ticket.since <= ticket.since {
                break;
            }
            older = waiting.older;
        }
        let younger = match older {
            Some(index) => self.waiting_at(index).younger,
            None => self.oldest,
        };
        let index = self.occupy(Slot::Waiting(Waiting { ticket, waker, older, younger }));
        self.link(older, younger, Some(index), Some(index));
        self.waiting += 1;
        WaiterId(index)
    }

    /// Adds a waiter in front of everybody. It counts as no older than the one
    /// who was the oldest.
    pub(super) fn enter_ahead(&mut self, mut ticket: Ticket, waker: W) -> WaiterId {
        if let Some(oldest) = self.oldest() {
            ticket.since = ticket.since.min(oldest.since);
        }
        let younger = self.oldest;
        let index = self.occupy(Slot::Waiting(Waiting { ticket, waker, older: None, younger }));
        self.link(None, younger, Some(index), Some(index));
        self.waiting += 1;
        WaiterId(index)
    }

    /// Gives `claim` to the oldest waiter; returns its waker, or the claim
    /// when nobody waits.
    pub(super) fn choose(&mut self, claim: Claim<T>) -> Result<W, Claim<T>> {
        if self.waiting == 0 {
            return Err(claim);
        }
        let Some(index) = self.oldest else { return Err(claim) };
        let waiting = self.unlink(index);
        self.slots[index] = Slot::Chosen(claim);
        Ok(waiting.waker)
    }

    /// Replaces the waker of one who still waits and returns the old one, or
    /// removes one who was chosen.
    pub(super) fn poll(&mut self, id: WaiterId, waker: W) -> Removed<T, W> {
        match &mut self.slots[id.0] {
            Slot::Waiting(waiting) => Removed::Waiting(std::mem::replace(&mut waiting.waker, waker)),
            Slot::Chosen(_) | Slot::Vacant { .. } => self.remove(id),
        }
    }

    /// Removes a waiter, chosen or not.
    pub(super) fn remove(&mut self, id: WaiterId) -> Removed<T, W> {
        let index = id.0;
        if matches!(self.slots[index], Slot::Waiting(_)) {
            let waiting = self.unlink(index);
            self.vacate(index);
            return Removed::Waiting(waiting.waker);
        }
        match self.vacate(index) {
            Slot::Chosen(claim) => Removed::Chosen(claim),
            Slot::Waiting(_) | Slot::Vacant { .. } => panic!("a waiter was removed twice"),
        }
    }

    fn waiting_at(&self, index: usize) -> &Waiting<W> {
        match &self.slots[index] {
            Slot::Waiting(waiting) => waiting,
            Slot::Chosen(_) | Slot::Vacant { .. } => panic!("the list of waiters names one that left"),
        }
    }

    fn waiting_at_mut(&mut self, index: usize) -> &mut Waiting<W> {
        match &mut self.slots[index] {
            Slot::Waiting(waiting) => waiting,
            Slot::Chosen(_) | Slot::Vacant { .. } => panic!("the list of waiters names one that left"),
        }
    }

    /// Makes `after_older` follow `older`, and `before_younger` precede
    /// `younger`, where the ends of the list count as neighbours.
    fn link(
        &mut self,
        older: Option<usize>,
        younger: Option<usize>,
        after_older: Option<usize>,
        before_younger: Option<usize>,
    ) {
        match older {
            Some(index) => self.waiting_at_mut(index).younger = after_older,
            None => self.oldest = after_older,
        }
        match younger {
            Some(index) => self.waiting_at_mut(index).older = before_younger,
            None => self.youngest = before_younger,
        }
    }

    /// Takes a waiter out of the list; its slot is vacant but not yet reusable.
    fn unlink(&mut self, index: usize) -> Waiting<W> {
        match std::mem::replace(&mut self.slots[index], Slot::Vacant { next: None }) {
            Slot::Waiting(waiting) => {
                self.link(waiting.older, waiting.younger, waiting.younger, waiting.older);
                self.waiting -= 1;
                waiting
            }
            Slot::Chosen(_) | Slot::Vacant { .. } => panic!("a waiter was unlinked twice"),
        }
    }

    fn occupy(&mut self, slot: Slot<T, W>) -> usize {
        let Some(index) = self.vacant else {
            self.slots.push(slot);
            return self.slots.len() - 1;
        };
        if let Slot::Vacant { next } = std::mem::replace(&mut self.slots[index], slot) {
            self.vacant = next;
        }
        index
    }

    fn vacate(&mut self, index: usize) -> Slot<T, W> {
        let slot = std::mem::replace(&mut self.slots[index], Slot::Vacant { next: self.vacant });
        self.vacant = Some(index);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(since: u64) -> Ticket {
        Ticket { since: Time::from_nanos(since), trace: None }
    }

    fn order(waiters: &mut Waiters<(), u64>) -> Vec<u64> {
        std::iter::from_fn(|| waiters.choose(Claim::Token).ok()).collect()
    }

    #[test]
    fn the_oldest_comes_first() {
        let mut waiters = Waiters::new();
        for since in [3, 5, 4, 9, 1, 5] {
            waiters.enter(ticket(since), since);
        }
        assert_eq!(waiters.oldest().map(|oldest| oldest.since), Some(Time::from_nanos(1)));
        assert_eq!(order(&mut waiters), [1, 3, 4, 5, 5, 9]);
        assert_eq!(waiters.waiting(), 0);
    }

    #[test]
    fn one_who_is_let_ahead_does_not_look_older() {
        let mut waiters = Waiters::new();
        for since in [3, 5] {
            waiters.enter(ticket(since), since);
        }
        waiters.enter_ahead(ticket(9), 9);
        assert_eq!(waiters.oldest().map(|oldest| oldest.since), Some(Time::from_nanos(3)));
        assert_eq!(order(&mut waiters), [9, 3, 5]);
        waiters.enter_ahead(ticket(7), 7);
        assert_eq!(waiters.oldest().map(|oldest| oldest.since), Some(Time::from_nanos(7)));
    }

    #[test]
    fn leaving_from_anywhere_keeps_the_order() {
        for leaver in 0..4 {
            let mut waiters: Waiters<(), u64> = Waiters::new();
            let ids: Vec<_> = (0..4).map(|since| waiters.enter(ticket(since), since)).collect();
            assert!(matches!(waiters.remove(ids[leaver]), Removed::Waiting(waker) if waker == leaver as u64));
            let expected: Vec<u64> = (0..4).filter(|since| *since != leaver as u64).collect();
            assert_eq!(order(&mut waiters), expected);
        }
    }

    #[test]
    fn slots_are_used_again() {
        let mut waiters: Waiters<(), u64> = Waiters::new();
        for round in 0..100 {
            let first = waiters.enter(ticket(round), round);
            let second = waiters.enter(ticket(round), round);
            assert!(waiters.choose(Claim::Token).is_ok());
            assert!(matches!(waiters.poll(first, 0), Removed::Chosen(_)));
            assert!(matches!(waiters.poll(second, 7), Removed::Waiting(_)));
            assert!(matches!(waiters.remove(second), Removed::Waiting(7)));
        }
        assert_eq!(waiters.slots.len(), 2);
    }
}
