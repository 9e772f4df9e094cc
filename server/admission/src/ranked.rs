//! Members in an order that changes all the time, and the first of them that has
//! a certain property, in steps that grow with the logarithm of their number.
//! Knows nothing of what the order or the property mean.
//!
//! It is a search tree in which each node also knows the best of everything
//! below it, so that a search passes by whole branches that hold nothing of use.
//! Chance keeps it in balance (a treap), drawn from a fixed seed: the same
//! changes make the same tree.

use alloc::vec::Vec;
use core::{cmp::Ordering, fmt::Debug};

/// What a search asks for, of one member or of many.
pub(crate) trait Best: Copy + Debug {
    /// In each respect the better of two: a property that one of them has, this
    /// has too.
    fn best(self, other: Self) -> Self;
}

/// Members, ordered by `K`, searched by `B`.
#[derive(Debug)]
pub(crate) struct Ranked<K, B> {
    nodes: Vec<Node<K, B>>,
    /// Places in `nodes` that hold nobody.
    vacant: Vec<u32>,
    root: Link,
    dice: u64,
}

type Link = Option<u32>;

#[derive(Clone, Copy, Debug)]
struct Node<K, B> {
    key: K,
    own: B,
    /// The best of this node and everything below it.
    best: B,
    /// Greatest at the root of each branch.
    priority: u64,
    left: Link,
    right: Link,
}

impl<K, B> Default for Ranked<K, B> {
    fn default() -> Self {
        Ranked { nodes: Vec::new(), vacant: Vec::new(), root: None, dice: 0 }
    }
}

impl<K: Copy + Ord + Debug, B: Best> Ranked<K, B> {
    /// Adds a member that is not in yet.
    pub(crate) fn insert(&mut self, key: K, own: B) {
        let new = Node { key, own, best: own, priority: self.roll(), left: None, right: None };
        let new = if let Some(place) = self.vacant.pop() {
            self.nodes[place as usize] = new;
            place
        } else {
            self.nodes.push(new);
            (self.nodes.len() - 1) as u32
        };
        self.root = Some(self.hang(self.root, new));
    }

    /// Removes a member, if it is in.
    pub(crate) fn remove(&mut self, key: &K) {
        self.root = self.cut(self.root, key);
    }

    /// The first member that `admits`.
    ///
    /// `admits` must look at one respect alone, and be true of the best of a
    /// group exactly if it is true of one of its members: only then is the way
    /// short.
    pub(crate) fn first(&self, admits: impl Fn(&B) -> bool) -> Option<K> {
        self.search(self.root, &admits)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    fn search(&self, link: Link, admits: &impl Fn(&B) -> bool) -> Option<K> {
        let node = &self.nodes[link? as usize];
        if !admits(&node.best) {
            return None;
        }
        self.search(node.left, admits)
            .or_else(|| admits(&node.own).then_some(node.key))
            .or_else(|| self.search(node.right, admits))
    }

    /// Hangs a new node into a branch, above everything of a lower priority.
    fn hang(&mut self, link: Link, new: u32) -> u32 {
        let Node { key, own, priority, .. } = self.nodes[new as usize];
        let Some(at) = link.filter(|at| self.nodes[*at as usize].priority > priority) else {
            let (left, right) = self.split(link, &key);
            let node = &mut self.nodes[new as usize];
            (node.left, node.right) = (left, right);
            self.sum_up(new as usize);
            return new;
        };
        let Node { key: above, best, left, right, .. } = self.nodes[at as usize];
        self.nodes[at as usize].best = best.best(own);
        if key < above {
            self.nodes[at as usize].left = Some(self.hang(left, new));
        } else {
            self.nodes[at as usize].right = Some(self.hang(right, new));
        }
        at
    }

    /// Takes one member out of a branch.
    fn cut(&mut self, link: Link, key: &K) -> Link {
        let at = link? as usize;
        let Node { left, right, .. } = self.nodes[at];
        match key.cmp(&self.nodes[at].key) {
            Ordering::Less => self.nodes[at].left = self.cut(left, key),
            Ordering::Greater => self.nodes[at].right = self.cut(right, key),
            Ordering::Equal => {
                self.vacant.push(at as u32);
                return self.merge(left, right);
            }
        }
        self.sum_up(at);
        link
    }

    /// Parts a branch into what comes before a key and what comes after it.
    fn split(&mut self, link: Link, key: &K) -> (Link, Link) {
        let Some(place) = link else { return (None, None) };
        let at = place as usize;
        let Node { left, right, .. } = self.nodes[at];
        let parts = if self.nodes[at].key < *key {
            let (before, after) = self.split(right, key);
            self.nodes[at].right = before;
            (link, after)
        } else {
            let (before, after) = self.split(left, key);
            self.nodes[at].left = after;
            (before, link)
        };
        self.sum_up(at);
        parts
    }

    /// Joins two branches of which all of the first comes before the second.
    fn merge(&mut self, first: Link, second: Link) -> Link {
        let (Some(left), Some(right)) = (first, second) else { return first.or(second) };
        let (left, right) = (left as usize, right as usize);
        if self.nodes[left].priority > self.nodes[right].priority {
            self.nodes[left].right = self.merge(self.nodes[left].right, second);
            self.sum_up(left);
            first
        } else {
            self.nodes[right].left = self.merge(first, self.nodes[right].left);
            self.sum_up(right);
            second
        }
    }

    fn sum_up(&mut self, at: usize) {
        let node = self.nodes[at];
        let below = [node.left, node.right].into_iter().flatten().map(|link| self.nodes[link as usize].best);
        self.nodes[at].best = below.fold(node.own, B::best);
    }

    /// The next of a row of numbers without a pattern (splitmix64).
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.dice ^ (self.dice >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Greatest(u8);

    impl Best for Greatest {
        fn best(self, other: Self) -> Self {
            Greatest(self.0.max(other.0))
        }
    }

    proptest! {
        /// The tree finds what a look at everybody finds.
        #[test]
        fn the_first_is_the_first(
            steps in prop::collection::vec((any::<bool>(), 0..40u16, any::<u8>()), 0..300),
            least: u8,
        ) {
            let mut ranked = Ranked::default();
            let mut naive = BTreeMap::new();
            for (add, key, own) in steps {
                if add && !naive.contains_key(&key) {
                    naive.insert(key, Greatest(own));
                    ranked.insert(key, Greatest(own));
                } else {
                    ranked.remove(&key);
                    naive.remove(&key);
                }
                prop_assert_eq!(ranked.len(), naive.len());
                let admits = |own: &Greatest| own.0 >= least;
                let first = naive.iter().find(|(_, own)| admits(own));
                prop_assert_eq!(ranked.first(admits), first.map(|(key, _)| *key));
            }
        }
    }

    /// A hundred thousand members in order are the worst for a tree without balance.
    #[test]
    fn it_stays_in_balance() {
        fn depth(ranked: &Ranked<u32, Greatest>, link: Link) -> usize {
            let Some(at) = link else { return 0 };
            let node = &ranked.nodes[at as usize];
            1 + depth(ranked, node.left).max(depth(ranked, node.right))
        }
        let mut ranked = Ranked::default();
        for key in 0..100_000 {
            ranked.insert(key, Greatest(0));
        }
        let depth = depth(&ranked, ranked.root);
        assert!(depth < 60, "{depth} deep");
    }
}
