//! Everybody who asked and has no connection yet, across the fleet, and by how
//! much whoever gets one has overtaken the oldest of another node. Knows nothing of
//! tokens.

use std::{collections::BTreeSet, time::Duration};

use crate::time::Moment;

/// Who waits, at every node.
#[derive(Debug)]
pub(super) struct Line {
    /// Of each node, the oldest first.
    nodes: Vec<BTreeSet<(Moment, usize)>>,
    /// The oldest of each node that has one.
    oldest: BTreeSet<(Moment, usize)>,
}

impl Line {
    pub(super) fn new(nodes: usize) -> Line {
        Line { nodes: vec![BTreeSet::new(); nodes], oldest: BTreeSet::new() }
    }

    /// A task asks.
    pub(super) fn enter(&mut self, asked: Moment, node: usize, task: usize) {
        self.change(node, |waiting| waiting.insert((asked, task)));
    }

    /// A task is served. Returns how much older the oldest is that waits at another
    /// node; zero if none is older.
    pub(super) fn serve(&mut self, asked: Moment, node: usize, task: usize) -> Duration {
        self.change(node, |waiting| waiting.remove(&(asked, task)));
        let elsewhere = self.oldest.iter().find(|(_, at)| *at != node);
        elsewhere.map_or(Duration::ZERO, |(oldest, _)| asked - *oldest)
    }

    /// Since when everybody waits who does.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Moment> {
        self.nodes.iter().flatten().map(|(asked, _)| *asked)
    }

    fn change(&mut self, node: usize, change: impl FnOnce(&mut BTreeSet<(Moment, usize)>) -> bool) {
        let waiting = &mut self.nodes[node];
        let before = waiting.first().map(|(asked, _)| *asked);
        change(waiting);
        let after = waiting.first().map(|(asked, _)| *asked);
        if before != after {
            before.map(|asked| self.oldest.remove(&(asked, node)));
            after.map(|asked| self.oldest.insert((asked, node)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_of_other_nodes_are_overtaken() {
        let mut line = Line::new(2);
        line.enter(Moment(1), 0, 0);
        line.enter(Moment(5), 0, 1);
        line.enter(Moment(8), 1, 0);
        assert_eq!(line.serve(Moment(5), 0, 1), Duration::ZERO);
        assert_eq!(line.serve(Moment(8), 1, 0), Duration::from_nanos(7));
        assert_eq!(line.serve(Moment(1), 0, 0), Duration::ZERO);
        assert_eq!(line.waiting().count(), 0);
    }
}
