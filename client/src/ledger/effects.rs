//! What a change of the ledger asks its shell to do, once the lock is open
//! again: wake tasks, close connections, tell the session. Knows nothing of how
//! any of it is done.

/// The effects of one or more changes.
#[derive(Debug)]
pub struct Effects<T, W> {
    /// Waiters that were chosen.
    pub wake: Few<W>,
    /// Connections to close; each is counted as closing, until
    /// [`close_ended`](super::State::close_ended).
    pub close: Few<T>,
    /// Levels changed that the session should report.
    pub report: bool,
    /// A connection should be opened for the warm minimum.
    pub upkeep: bool,
    /// The state is closed and has given everything back.
    pub emptied: bool,
}

impl<T, W> Default for Effects<T, W> {
    fn default() -> Self {
        Self { wake: Few::default(), close: Few::default(), report: false, upkeep: false, emptied: false }
    }
}

/// A list that is mostly empty or of one element, and then does not allocate:
/// a checkout or a return has at most one of each effect.
#[derive(Debug)]
pub struct Few<X> {
    first: Option<X>,
    rest: Vec<X>,
}

impl<X> Default for Few<X> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl<X> Few<X> {
    /// Adds an element at the end.
    pub fn push(&mut self, element: X) {
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(element);
        } else {
            self.rest.push(element);
        }
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// True when there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<X> IntoIterator for Few<X> {
    type Item = X;
    type IntoIter = std::iter::Chain<std::option::IntoIter<X>, std::vec::IntoIter<X>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}
