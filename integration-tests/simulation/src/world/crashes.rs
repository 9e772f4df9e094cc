//! A server that dies again and again, each time just before it could expire
//! anybody by itself. Knows nothing of why.

use std::time::Duration;

use super::{Event, World};
use crate::{
    time::Moment,
    violation::{Invariant, broken},
};

/// Time from a death to the next start.
const DOWN: Duration = Duration::from_millis(20);

/// How often ages are written.
const LAZY: Duration = Duration::from_secs(1);

/// A loop that goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrashLoop {
    since: Moment,
    left: u32,
}

/// What happens in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CrashStep {
    /// The server starts.
    Starts,
    /// The server dies, or lives on.
    Dies,
}

impl World {
    /// Begins a loop, if nothing else is wrong with server or store, and if ages
    /// are written in one life at all.
    pub(crate) fn begin_crash_loop(&mut self) {
        let wrong = self.server.frozen > 0 || self.store.failing.is_some() || self.store.slow.is_some();
        if wrong || !self.server.is_up() || self.server.crash_loop.is_some() {
            return;
        }
        let ttl = self.plan.longest_ttl();
        let kept = self.life().saturating_sub(LAZY + ttl / 4 + Duration::from_millis(100));
        if kept < Duration::from_millis(250) {
            return;
        }
        // A clock may be slow, and the first life does not count.
        let left = (ttl.mul_f64(1.05).as_nanos().div_ceil(kept.as_nanos()) + 1) as u32;
        self.server.crash_loop = Some(CrashLoop { since: self.now, left });
        self.crash_step(CrashStep::Dies);
    }

    /// Nobody may expire within one life.
    fn life(&self) -> Duration {
        self.plan.shortest_ttl() * 19 / 20
    }

    pub(crate) fn crash_step(&mut self, step: CrashStep) {
        let Some(CrashLoop { since, left }) = self.server.crash_loop else { return };
        match step {
            CrashStep::Starts => {
                self.start_server();
                self.after(self.life(), Event::CrashLoop(CrashStep::Dies));
            }
            CrashStep::Dies if left == 0 => {
                self.server.crash_loop = None;
                self.nobody_is_immortal(since);
            }
            CrashStep::Dies => {
                self.server.crash_loop = Some(CrashLoop { since, left: left - 1 });
                self.kill_server();
                self.after(DOWN, Event::CrashLoop(CrashStep::Starts));
            }
        }
    }

    /// **A crash loop makes nobody immortal.** Who died before it is given up when
    /// all lives of the server together, less what each may have failed to write,
    /// have been as long as a TTL.
    fn nobody_is_immortal(&self, since: Moment) {
        for number in &self.ledgers.relevant {
            let process = &self.processes[*number];
            let dead =
                process.died_at.is_some_and(|died_at| died_at < since) && process.right.heard_at < since;
            let counted = self.ledgers.all.iter().any(|ledger| ledger.counted[*number].is_some());
            if dead && counted && !process.given_up {
                broken(Invariant::NobodyIsImmortal, format!("process {number} has outlived a crash loop"));
            }
        }
    }
}
