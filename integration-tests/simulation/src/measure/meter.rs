//! What is seen of a fleet, and the figures made of it. Nothing counts before the
//! end of the warm-up. Knows nothing of why things happen.

use std::time::Duration;

use super::line::Line;
use crate::time::Moment;

/// What was measured in one cell.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Checkouts that began.
    pub checkouts: usize,
    /// Token time in which tasks worked, of that in which they could have. Where all
    /// ask again at once that is a token for each task, up to the cap; where they
    /// come by chance, the means of the holds they came for.
    pub throughput: f64,
    /// By how much those served had overtaken the oldest of another node that
    /// waited. Zero for those that overtook nobody.
    pub overtaking: Times,
    /// From asking for a connection to having it. Who still waits at the end
    /// counts with the time until then.
    pub waits: Times,
    /// Connects for each thousand checkouts.
    pub connects: f64,
    /// What nodes say to the server, in messages for each thousand checkouts.
    pub messages: f64,
    /// Standard deviation of what a node holds, over time, of its mean. Over all
    /// nodes: the sum of the one by the sum of the other.
    pub oscillation: f64,
    /// Nodes that were served nothing although their tasks waited.
    pub starved: usize,
    /// The part of all work that would have to be done at other nodes for each to have
    /// its part of the demand. None where that is not the same all the time.
    pub misplaced: Option<f64>,
}

/// Sorted times in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<u32>);

impl Times {
    fn of(mut times: Vec<u32>) -> Times {
        times.sort_unstable();
        Times(times)
    }

    /// The time in milliseconds that `part` of all are no longer than.
    pub fn quantile(&self, part: f64) -> f64 {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        let index = rank.max(1).min(self.0.len()) - usize::from(!self.0.is_empty());
        self.0.get(index).map_or(0.0, |time| f64::from(*time) / 1e3)
    }

    /// The longest, in milliseconds.
    pub fn max(&self) -> f64 {
        self.quantile(1.0)
    }
}

/// What one node held, over time.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    sum: f64,
    squares: f64,
}

/// Looks on.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) line: Line,
    cap: u32,
    from: Moment,
    last: Moment,
    in_use: u32,
    waiting: u32,
    /// Seconds of tokens.
    worked: f64,
    could: f64,
    offered: Option<f64>,
    overtaking: Vec<u32>,
    waits: Vec<u32>,
    connects: u64,
    messages: u64,
    looks: u32,
    held: Vec<Held>,
    worked_at: Vec<f64>,
    served: Vec<bool>,
    waited: Vec<bool>,
}

impl Meter {
    pub(super) fn new(nodes: usize, cap: u32, from: Moment) -> Meter {
        Meter {
            line: Line::new(nodes),
            cap,
            from,
            last: from,
            in_use: 0,
            waiting: 0,
            worked: 0.0,
            could: 0.0,
            offered: None,
            overtaking: Vec::new(),
            waits: Vec::new(),
            connects: 0,
            messages: 0,
            looks: 0,
            held: vec![Held::default(); nodes],
            worked_at: vec![0.0; nodes],
            served: vec![false; nodes],
            waited: vec![false; nodes],
        }
    }

    /// A task comes by chance that is to hold a connection for about so long.
    pub(super) fn comes(&mut self, now: Moment, hold: Duration) {
        let hold = if now >= self.from { hold } else { Duration::ZERO };
        *self.offered.get_or_insert_default() += hold.as_secs_f64();
    }

    /// A task asks for a connection.
    pub(super) fn asks(&mut self, now: Moment, node: usize, task: usize) {
        self.pass(now);
        self.waiting += 1;
        self.line.enter(now, node, task);
    }

    /// A task that asked then gets one.
    pub(super) fn gets(&mut self, now: Moment, asked: Moment, node: usize, task: usize) {
        self.pass(now);
        self.waiting -= 1;
        self.in_use += 1;
        let overtaken = self.line.serve(asked, node, task);
        if now >= self.from {
            self.overtaking.push(micros(overtaken));
            self.waits.push(micros(now - asked));
            self.served[node] = true;
        }
    }

    /// A task gives back what it has held for so long.
    pub(super) fn returns(&mut self, now: Moment, node: usize, held: Duration) {
        self.pass(now);
        self.in_use -= 1;
        if now >= self.from {
            self.worked_at[node] += held.as_secs_f64();
        }
    }

    /// A node connects.
    pub(super) fn connects(&mut self, now: Moment) {
        self.connects += u64::from(now >= self.from);
    }

    /// A node says something.
    pub(super) fn says(&mut self, now: Moment) {
        self.messages += u64::from(now >= self.from);
    }

    /// A look at what each node holds, and whether its tasks wait.
    pub(super) fn look(&mut self, now: Moment, nodes: impl Iterator<Item = (u32, bool)>) {
        if now < self.from {
            return;
        }
        self.looks += 1;
        for (node, (holding, waits)) in nodes.enumerate() {
            self.held[node].sum += f64::from(holding);
            self.held[node].squares += f64::from(holding).powi(2);
            self.waited[node] |= waits;
        }
    }

    /// The end. `due` are the parts of the work that nodes were due, if they have any.
    pub(super) fn figures(mut self, now: Moment, due: Option<&[f64]>) -> Figures {
        self.pass(now);
        let checkouts = self.waits.len();
        let could = self.offered.unwrap_or(self.could);
        self.waits.extend(self.line.waiting().map(|asked| micros(now - asked)));
        let starved = self.waited.iter().zip(&self.served).filter(|(waited, served)| **waited && !**served);
        Figures {
            checkouts,
            throughput: if could > 0.0 { self.worked / could } else { 1.0 },
            connects: self.connects as f64 * 1e3 / checkouts.max(1) as f64,
            messages: self.messages as f64 * 1e3 / checkouts.max(1) as f64,
            oscillation: oscillation(&self.held, self.looks),
            starved: starved.count(),
            misplaced: due.map(|due| misplaced(&self.worked_at, due)),
            overtaking: Times::of(self.overtaking),
            waits: Times::of(self.waits),
        }
    }

    /// Time passes in which nothing changed.
    fn pass(&mut self, now: Moment) {
        if now > self.last {
            let time = (now - self.last).as_secs_f64();
            self.worked += time * f64::from(self.in_use);
            self.could += time * f64::from(self.cap.min(self.in_use + self.waiting));
            self.last = now;
        }
    }
}

fn misplaced(worked_at: &[f64], due: &[f64]) -> f64 {
    let all: f64 = worked_at.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    worked_at.iter().zip(due).map(|(worked, due)| (worked / all - due).max(0.0)).sum()
}

fn oscillation(held: &[Held], looks: u32) -> f64 {
    let looks = f64::from(looks.max(1));
    let deviation = |held: &Held| {
        let mean = held.sum / looks;
        (held.squares / looks - mean * mean).max(0.0).sqrt()
    };
    let mean: f64 = held.iter().map(|held| held.sum / looks).sum();
    if mean > 0.0 { held.iter().map(deviation).sum::<f64>() / mean } else { 0.0 }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_nobody_works_with_are_lost_while_tasks_wait() {
        let at = |millis: u64| Moment(millis * 1_000_000);
        let mut meter = Meter::new(2, 1, at(100));
        meter.asks(at(0), 0, 0);
        meter.gets(at(150), at(0), 0, 0);
        meter.asks(at(160), 1, 0);
        meter.returns(at(200), 0, Duration::from_millis(50));
        let figures = meter.figures(at(200), None);
        assert!((figures.throughput - 0.5).abs() < 1e-9, "{figures:?}");
        assert_eq!(figures.waits.0, [40_000, 150_000]);
        assert!((figures.waits.quantile(0.5) - 40.0).abs() < 1e-9);
    }

    #[test]
    fn work_at_one_node_that_another_one_is_due_is_misplaced() {
        assert!(misplaced(&[6.0, 2.0], &[0.75, 0.25]).abs() < 1e-9);
        assert!((misplaced(&[4.0, 4.0], &[0.75, 0.25]) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_comes_and_goes_oscillates() {
        let steady = Held { sum: 20.0, squares: 40.0 };
        let swinging = Held { sum: 20.0, squares: 80.0 };
        assert!(oscillation(&[steady; 2], 10) < 1e-9);
        assert!((oscillation(&[swinging; 2], 10) - 1.0).abs() < 1e-9);
    }
}
