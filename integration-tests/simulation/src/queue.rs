//! What is due when: a queue in which, at the same moment, the first to be put
//! in comes first. Knows nothing of what is due.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::time::Moment;

/// Things in the order of their moments.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    entered: u64,
}

#[derive(Debug)]
struct Entry<T> {
    key: (Moment, u64),
    thing: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), entered: 0 }
    }
}

impl<T> Queue<T> {
    /// Puts something in.
    pub fn put(&mut self, at: Moment, thing: T) {
        self.entered += 1;
        self.heap.push(Reverse(Entry { key: (at, self.entered), thing }));
    }

    /// Takes the first thing out.
    pub fn take(&mut self) -> Option<(Moment, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.key.0, entry.thing))
    }

    /// The moment of the first thing.
    pub fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse(entry)| entry.key.0)
    }
}
