//! What a database says of itself, and what is made of it: the admitted
//! number, the others, the strays. Knows nothing of leases but their sums.
//!
//! Reports of nodes and observations of the database are not simultaneous, so
//! strays are known only between bounds: the fleet's connections minus the most,
//! and minus the fewest, that sessions reported in a window around the
//! observation. The window opens when the probe announces itself, 200 ms before
//! it looks, so that a connection that was reported closed but lingers at the
//! database is still counted; it ends 300 ms after the answer, so that late
//! reports count too.

use alloc::string::String;
use core::time::Duration;

use crate::{Observation, ProbeState, Time};

/// An observation is judged this long after it was answered.
const REPORT_LAG: Duration = Duration::from_millis(300);

/// The eyes on one database.
#[derive(Debug)]
pub(crate) struct Watch {
    state: ProbeState,
    /// The cap that was in force before the start.
    last_cap: Option<u32>,
    /// Another server watches it.
    elsewhere: bool,
    newest: Option<(Time, Observation)>,
    /// Answered, not yet judged.
    pending: Option<Pending>,
    window: Window,
    /// At least one observation was judged since the start.
    judged: bool,
    /// The last judged lower bound of strays, certain or not.
    previous: u32,
    strays: u32,
    uncertain: u32,
    /// The last judged number of connections that were reported and not seen,
    /// certain or not.
    previous_unseen: u32,
    unseen: u32,
    /// What of the uncertain is kept from grants.
    kept: u32,
}

/// An answer that is yet to be judged.
#[derive(Clone, Copy, Debug)]
struct Pending {
    answered: Time,
    observation: Observation,
    /// The fewest connections that all sessions may have had when it came.
    lowest: u64,
}

/// The extremes of what all sessions together reported.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    lowest: u64,
    highest: u64,
    now: (u64, u64),
}

/// What an answer of the probe brought to light.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// The probe was not known to work.
    pub(crate) up: bool,
    /// The database restarted since the last answer.
    pub(crate) restarted: bool,
}

impl Watch {
    pub(crate) fn new(watched: bool, last_cap: Option<u32>) -> Watch {
        Watch {
            state: if watched { ProbeState::Starting } else { ProbeState::None },
            last_cap,
            elsewhere: false,
            newest: None,
            pending: None,
            window: Window::default(),
            judged: false,
            previous: 0,
            strays: 0,
            uncertain: 0,
            previous_unseen: 0,
            unseen: 0,
            kept: 0,
        }
    }

    /// The sums of what sessions report changed.
    pub(crate) fn saw(&mut self, lowest: u64, highest: u64) {
        let window = &mut self.window;
        window.now = (lowest, highest);
        window.lowest = window.lowest.min(lowest);
        window.highest = window.highest.max(highest);
    }

    /// The probe is about to look. Returns an observation that is to be judged
    /// first.
    pub(crate) fn starts(&mut self) -> Option<Observation> {
        let unjudged = self.judge();
        let (lowest, highest) = self.window.now;
        self.window = Window { lowest, highest, now: self.window.now };
        unjudged
    }

    /// The probe's answer. Limit and others count at once, strays when judged.
    pub(crate) fn observed(&mut self, now: Time, observation: Observation) -> News {
        let restarted = self.newest.is_some_and(|(_, before)| observation.uptime < before.uptime);
        let up = self.state != ProbeState::Ok;
        self.state = ProbeState::Ok;
        self.elsewhere = false;
        self.newest = Some((now, observation));
        // After a restart every report is of dead sockets.
        let lowest = if restarted { 0 } else { self.window.now.0 };
        self.pending = Some(Pending { answered: now, observation, lowest });
        News { up, restarted }
    }

    /// The probe cannot see the database. True when that is new.
    pub(crate) fn down(&mut self, error: String, elsewhere: bool) -> bool {
        let new = !matches!(self.state, ProbeState::Down(_)) || elsewhere != self.elsewhere;
        self.elsewhere = elsewhere;
        self.state = ProbeState::Down(error);
        self.pending = None;
        new
    }

    /// When the pending observation is to be judged.
    pub(crate) fn judge_at(&self) -> Option<Time> {
        self.pending.map(|pending| pending.answered + REPORT_LAG)
    }

    /// Judges the pending observation, if there is one. A stray is certain when
    /// two observations in a row have shown it, for a closed connection can
    /// linger at the database for longer than its node knows; and it stays so
    /// until one shows that it is gone. An observation that tokens in motion
    /// blur shows neither.
    pub(crate) fn judge(&mut self) -> Option<Observation> {
        let Pending { observation, lowest: settled, .. } = self.pending.take()?;
        let fleet = u64::from(observation.fleet);
        let lowest = fleet.saturating_sub(self.window.highest) as u32;
        let highest = fleet.saturating_sub(self.window.lowest) as u32;
        let shown_twice = lowest.min(self.previous);
        self.strays = self.strays.min(highest).max(shown_twice);
        // What moved in the window and was there again at its answer hid a stray
        // only from a look at the very moment of the move. If that counted as well,
        // a fleet whose tokens move all the time would be in doubt all the time.
        let in_doubt = fleet.saturating_sub(settled) as u32;
        self.uncertain = in_doubt.max(lowest).saturating_sub(self.strays);
        self.previous = lowest;
        let unseen = self.window.lowest.saturating_sub(fleet) as u32;
        self.unseen = unseen.min(self.previous_unseen);
        self.previous_unseen = unseen;
        self.judged = true;
        Some(observation)
    }

    /// Whether enough is known to grant: an observation made since the start is
    /// judged, or the database is down and its last cap is known (rule 17). Two
    /// servers would both lease the whole cap, so the one that is not the
    /// watcher leases nothing.
    pub(crate) fn may_grant(&self) -> bool {
        match self.state {
            ProbeState::None => true,
            ProbeState::Starting => false,
            ProbeState::Ok => self.judged,
            ProbeState::Down(_) if self.elsewhere => false,
            ProbeState::Down(_) => self.judged || self.last_cap.is_some(),
        }
    }

    /// What the database admits to the fleet. `None` when unwatched or when
    /// nothing is known.
    pub(crate) fn admitted(&self, reserve: u32) -> Option<u32> {
        if self.state == ProbeState::None {
            return None;
        }
        match self.newest {
            Some((_, seen)) => {
                let taken = [reserve, seen.others, self.strays];
                Some(taken.into_iter().fold(seen.max_connections, u32::saturating_sub))
            }
            None => self.last_cap,
        }
    }

    pub(crate) fn uncertain(&self) -> u32 {
        self.uncertain
    }

    /// Connections that nodes report and the database does not show on the
    /// fleet's accounts. Nothing follows from it but that people should look: the
    /// accounts may be named wrongly.
    pub(crate) fn unseen(&self) -> u32 {
        self.unseen
    }

    /// Doubt takes of what is `free` when an observation was judged, and nothing
    /// of what nodes hold: tokens in motion blur what is seen, and if that stopped
    /// their motion, each observation would stop it for as long as the next takes.
    pub(crate) fn keep_of(&mut self, free: u32) {
        self.kept = self.uncertain.min(free);
    }

    /// The cap rose by this since: doubt takes of that too.
    pub(crate) fn keep_also_of(&mut self, risen: u32) {
        self.keep_of(self.kept.saturating_add(risen));
    }

    /// What is kept from grants because it may be taken by strays.
    pub(crate) fn kept(&self) -> u32 {
        self.kept
    }

    pub(crate) fn strays(&self) -> u32 {
        self.strays
    }

    pub(crate) fn newest(&self) -> Option<(Time, Observation)> {
        self.newest
    }

    pub(crate) fn state(&self) -> ProbeState {
        self.state.clone()
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec::Vec};

    use super::*;

    /// Runs a script of `starts`, `saw LOW HIGH`, `see FLEET`, `judge` and
    /// returns strays and uncertain after it.
    fn run(script: &str) -> String {
        let mut watch = Watch::new(true, None);
        for line in script.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).expect("a number");
            match words.first().copied() {
                Some("starts") => drop(watch.starts()),
                Some("saw") => watch.saw(number(1), number(2)),
                Some("see") => {
                    let fleet = number(1) as u32;
                    let seen = Observation {
                        sent: Time::ZERO,
                        max_connections: 100,
                        uptime: Duration::from_secs(9),
                        fleet,
                        others: 3,
                    };
                    let _ = watch.observed(Time::ZERO, seen);
                }
                Some("judge") => drop(watch.judge()),
                _ => {}
            }
        }
        format!(
            "{} certain, {} uncertain, {:?} admitted",
            watch.strays(),
            watch.uncertain(),
            watch.admitted(10)
        )
    }

    #[test]
    fn strays_are_certain_when_two_observations_show_them() {
        let once = "saw 5 5\nstarts\nsee 20\njudge";
        assert_eq!(run(once), "0 certain, 15 uncertain, Some(87) admitted");
        let twice = format!("{once}\nstarts\nsee 20\njudge");
        assert_eq!(run(&twice), "15 certain, 0 uncertain, Some(72) admitted");
    }

    #[test]
    fn what_blurs_an_observation_hides_no_certain_stray() {
        let clear = "saw 5 5\nstarts\nsee 20\njudge\nstarts\nsee 20\njudge";
        // Four tokens move: 1 to 5 connections are the fleet's.
        let blurred = format!("{clear}\nstarts\nsaw 1 5\nsee 18\njudge");
        assert_eq!(run(&blurred), "15 certain, 2 uncertain, Some(72) admitted");
        let fewer = format!("{blurred}\nsaw 5 5\nstarts\nsaw 3 5\nsee 12\njudge");
        assert_eq!(run(&fewer), "9 certain, 0 uncertain, Some(78) admitted");
        let gone = format!("{fewer}\nsaw 5 5\nstarts\nsee 5\njudge");
        assert_eq!(run(&gone), "0 certain, 0 uncertain, Some(87) admitted");
    }

    #[test]
    fn what_has_moved_before_the_answer_leaves_no_doubt() {
        // A token moves before and after the answer: 4 or 5 connections are the fleet's.
        let moved = "saw 5 5\nstarts\nsaw 4 5\nsaw 5 5\nsee 5\nsaw 4 5\nsaw 5 5\njudge";
        assert_eq!(run(moved), "0 certain, 0 uncertain, Some(87) admitted");
        // While the answer comes, it is on its way.
        let moving = "saw 5 5\nstarts\nsaw 4 5\nsee 5\nsaw 5 5\njudge";
        assert_eq!(run(moving), "0 certain, 1 uncertain, Some(87) admitted");
        // What was shown is in doubt whatever has come since.
        let shown = "saw 5 5\nstarts\nsee 7\njudge";
        assert_eq!(run(shown), "0 certain, 2 uncertain, Some(87) admitted");
    }

    #[test]
    fn what_nodes_have_and_the_accounts_have_not_is_told_when_two_observations_miss_it() {
        let mut watch = Watch::new(true, None);
        let seen = Observation {
            sent: Time::ZERO,
            max_connections: 100,
            uptime: Duration::from_secs(9),
            fleet: 2,
            others: 5,
        };
        let mut look = |lowest| {
            watch.saw(lowest, lowest);
            watch.starts();
            let _ = watch.observed(Time::ZERO, seen);
            watch.judge();
            watch.unseen()
        };
        assert_eq!([look(5), look(6), look(2), look(7), look(7)], [0, 3, 0, 0, 5]);
    }

    #[test]
    fn a_connection_that_lingers_is_nobodys_stray() {
        // Reported closed within the window, still seen by the database.
        let script = "saw 5 5\nstarts\nsaw 4 4\nsee 5\njudge\nstarts\nsee 4\njudge";
        assert_eq!(run(script), "0 certain, 0 uncertain, Some(87) admitted");
    }

    #[test]
    fn what_nodes_close_after_each_look_is_nobodys_stray() {
        let look = "starts\nsee 5\nsaw 4 4\njudge\nsaw 5 5\n";
        let busy = format!("saw 5 5\n{look}{look}{look}");
        assert_eq!(run(&busy), "0 certain, 0 uncertain, Some(87) admitted");
    }

    #[test]
    fn what_nodes_open_after_a_look_stands_for_no_stray() {
        let certain = "saw 5 5\nstarts\nsee 8\njudge\nstarts\nsee 8\njudge";
        let opened = format!("{certain}\nstarts\nsee 8\nsaw 7 7\njudge");
        assert_eq!(run(&opened), "3 certain, 0 uncertain, Some(84) admitted");
    }

    #[test]
    fn others_and_limit_count_before_they_are_judged() {
        assert_eq!(run("starts\nsee 0"), "0 certain, 0 uncertain, Some(87) admitted");
    }

    #[test]
    fn the_next_start_judges_what_is_pending() {
        let script = "saw 0 0\nstarts\nsee 4\nstarts\nsee 4\nstarts";
        assert_eq!(run(script), "4 certain, 0 uncertain, Some(83) admitted");
    }
}
