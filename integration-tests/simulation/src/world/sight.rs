//! What the probe of a watched database can know of strays, by the rules of the
//! protocol and from outside of the core: the extremes of what sessions said
//! around an observation, compared with what was truly there. Knows nothing of
//! what the core makes of it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use leasehold_admission::{DatabaseView, Demand, Event as CoreEvent, Hello, Observation, SessionState, Time};

use super::{World, server::process_of};
use crate::violation::{Invariant, broken};

/// An observation is judged this long after its answer, or when the next one
/// starts.
const REPORT_LAG: Duration = Duration::from_millis(300);

/// Judged observations whose least lower bound is certain.
const OBSERVATIONS: usize = 2;

/// What is known of one database.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// What each process said last, while a stream speaks for it.
    said: Vec<Option<Said>>,
    /// The least and the most connections that all sessions together may have
    /// had since the newest observation started.
    window: (u64, u64),
    /// What was there at the looks that the core has not heard of.
    looks: VecDeque<Look>,
    /// Answered, not judged, with the least connections that all sessions together
    /// may have had at the answer.
    pending: Option<(Time, Look, u64)>,
    /// The newest that were judged, the newest last.
    judged: VecDeque<Judged>,
    /// The fewest and the most strays that may be certain now.
    certain: (u64, u64),
    /// What the newest one left in doubt; it is yet to be kept from grants.
    doubt: Option<u64>,
    /// What is to be kept from grants until the next one is judged.
    kept: u64,
    /// Tokens granted by this core.
    granted: u64,
    /// The cap may have fallen, or somebody claimed more than was counted, in
    /// this pass: after its grants, perhaps.
    unsettled: bool,
}

/// A report that the core has accepted.
#[derive(Clone, Copy, Debug)]
struct Said {
    established: u64,
    /// The database has restarted since.
    dead: bool,
    possible: u64,
}

impl Said {
    const NOTHING: Said = Said { established: 0, dead: false, possible: 0 };
}

/// What was there when the database counted.
#[derive(Clone, Copy, Debug)]
struct Look {
    sent: Time,
    /// Connections of processes that the core counts, and those that linger.
    counted: u64,
    /// Connections of processes that it has given up.
    gone: u64,
    tools: u64,
}

/// How wrong an observation can be by the rules.
#[derive(Clone, Copy, Debug)]
struct Judged {
    /// Strays that hide behind connections that sessions may have had.
    hidden: u64,
    /// Strays, and connections that look like some, for no session said to have them.
    shown: u64,
    tools: u64,
}

impl Sight {
    /// A process is there.
    pub(crate) fn met(&mut self) {
        self.said.push(None);
    }

    /// Strays that may not be certain although they were seen.
    pub(crate) fn hidden(&self) -> u64 {
        self.judged.iter().map(|judged| judged.hidden).max().unwrap_or_default()
    }

    /// Tools that every observation saw that counts.
    pub(crate) fn tools(&self) -> u64 {
        let tools = self.judged.iter().map(|judged| judged.tools).min();
        tools.filter(|_| self.judged.len() == OBSERVATIONS).unwrap_or_default()
    }

    fn saw(&mut self, least: u64, most: u64) {
        self.window = (self.window.0.min(least), self.window.1.max(most));
    }

    /// The pending observation is judged now.
    fn judge(&mut self) {
        let Some((_, look, least)) = self.pending.take() else { return };
        let (fewest, most) = self.window;
        let strays = look.gone + look.tools;
        let late = least.saturating_sub(look.counted);
        self.doubt = Some(strays.saturating_sub(late));
        let still_there = strays.saturating_sub(fewest.saturating_sub(look.counted));
        self.judged.push_back(Judged {
            hidden: most.saturating_sub(look.counted),
            shown: strays + look.counted.saturating_sub(most),
            tools: look.tools,
        });
        if self.judged.len() > OBSERVATIONS {
            self.judged.pop_front();
        }
        let (least, most) = self.certain;
        self.certain = (least.min(still_there), most.max(self.shown_by_each()));
    }

    /// Strays that every observation showed that counts.
    fn shown_by_each(&self) -> u64 {
        let shown = self.judged.iter().map(|judged| judged.shown).min();
        shown.filter(|_| self.judged.len() == OBSERVATIONS).unwrap_or_default()
    }

    /// Somebody claimed more than was counted.
    pub(crate) fn overclaimed(&mut self) {
        self.unsettled = true;
    }

    /// The server died: another one begins to look.
    fn forget(&mut self) {
        let said = vec![None; self.said.len()];
        *self = Sight { said, ..Sight::default() };
    }
}

impl World {
    /// The core is about to take an event: what it is told of connections.
    pub(crate) fn reported(&mut self, now: Time, event: &CoreEvent) {
        match event {
            CoreEvent::Hello(hello) => self.hello_claims(hello),
            CoreEvent::Demand { stream, database, demand } => {
                let stream = World::stream_of(*stream);
                let process = self.streams[stream].process;
                if self.processes[process].attached == Some(stream) {
                    self.said(process, database.0 as usize, demand);
                }
            }
            CoreEvent::StreamEnded { stream } => self.detached(World::stream_of(*stream)),
            CoreEvent::ObservationStarts { database } => {
                let database = database.0 as usize;
                self.sights[database].judge();
                let (least, most) = self.sums(database);
                self.sights[database].window = (least, most);
            }
            CoreEvent::Observed { database, observation } => {
                self.answered(now, database.0 as usize, observation);
            }
            CoreEvent::ProbeDown { database, .. } => {
                let sight = &mut self.sights[database.0 as usize];
                (sight.pending, sight.unsettled) = (None, true);
            }
            CoreEvent::Configure { database, .. } => self.sights[database.0 as usize].unsettled = true,
            CoreEvent::KeepAlive { stream, .. } => self.stands_by_its_reports(World::stream_of(*stream)),
            CoreEvent::Goodbye { stream } => self.nothing_is_left(World::stream_of(*stream)),
            CoreEvent::Acquire(_)
            | CoreEvent::AcquireEnded { .. }
            | CoreEvent::Renew { .. }
            | CoreEvent::Release { .. }
            | CoreEvent::Evict { .. }
            | CoreEvent::Committed
            | CoreEvent::CommitFailed
            | CoreEvent::Tick => {}
        }
    }

    fn hello_claims(&mut self, hello: &Hello) {
        let Some(process) = process_of(hello.session) else { return };
        self.processes[process].attached = Some(World::stream_of(hello.stream));
        for claim in &hello.claims {
            self.said(process, claim.database.0 as usize, &claim.demand);
        }
    }

    fn said(&mut self, process: usize, database: usize, demand: &Demand) {
        let possible = demand.established + demand.opening + demand.closing;
        let said = Said { established: demand.established.into(), possible: possible.into(), dead: false };
        self.sights[database].said[process] = Some(said);
        self.look_at_sums(database);
    }

    /// A keep-alive says that all is as it was reported.
    fn stands_by_its_reports(&mut self, stream: usize) {
        let process = self.streams[stream].process;
        if self.processes[process].attached == Some(stream) {
            for database in 0..self.sights.len() {
                if let Some(said) = &mut self.sights[database].said[process] {
                    said.dead = false;
                }
                self.look_at_sums(database);
            }
        }
    }

    /// A session ends: nobody counts anything of it any more, whatever the store
    /// still has.
    fn nothing_is_left(&mut self, stream: usize) {
        self.falls_silent(stream, Some(Said::NOTHING));
    }

    /// A stream speaks for nobody any more.
    pub(crate) fn detached(&mut self, stream: usize) {
        self.falls_silent(stream, None);
    }

    /// A stream says nothing more of its process, of which so much is known now.
    fn falls_silent(&mut self, stream: usize, known: Option<Said>) {
        let process = self.streams[stream].process;
        if self.processes[process].attached == Some(stream) {
            self.processes[process].attached = None;
            for database in 0..self.sights.len() {
                self.sights[database].said[process] = known;
                self.look_at_sums(database);
            }
        }
    }

    /// The server died.
    pub(crate) fn nobody_is_attached(&mut self) {
        self.processes.iter_mut().for_each(|process| process.attached = None);
        self.sights.iter_mut().for_each(Sight::forget);
    }

    fn answered(&mut self, now: Time, database: usize, observation: &Observation) {
        let sight = &mut self.sights[database];
        sight.unsettled = true;
        if observation.uptime < self.ledgers.all[database].uptime {
            // The sockets of every report are dead.
            sight.said.iter_mut().flatten().for_each(|said| said.dead = true);
        }
        self.look_at_sums(database);
        let (least, _) = self.sums(database);
        let sight = &mut self.sights[database];
        while let Some(look) = sight.looks.pop_front() {
            if look.sent == observation.sent {
                sight.pending = Some((now, look, least));
                break;
            }
        }
    }

    fn look_at_sums(&mut self, database: usize) {
        let (least, most) = self.sums(database);
        self.sights[database].saw(least, most);
    }

    /// The fewest and the most connections that all sessions together may have:
    /// nobody knows anything of those without a stream.
    fn sums(&self, database: usize) -> (u64, u64) {
        let sight = &self.sights[database];
        let sum = |(least, most): (u64, u64), process: &usize| match sight.said[*process] {
            Some(said) if said.dead => (least, most + said.possible),
            Some(said) => (least + said.established, most + said.possible),
            None => (least, most + self.ledgers.all[database].ceiling_of(*process)),
        };
        self.ledgers.relevant.iter().fold((0, 0), sum)
    }

    /// The database counts for the probe.
    pub(crate) fn looked(&mut self, database: usize, sent: Time) {
        let gone = self.gone(database);
        let seen = &self.databases.all[database];
        let look = Look { sent, counted: u64::from(seen.slots) - gone, gone, tools: seen.tools.into() };
        self.sights[database].looks.push_back(look);
    }

    /// The core has ticked.
    pub(crate) fn ticked(&mut self, now: Time) {
        let due = |sight: &Sight| sight.pending.is_some_and(|(answered, ..)| now >= answered + REPORT_LAG);
        if self.sights.iter().any(due) {
            self.the_expired_say_nothing(now);
            self.sights.iter_mut().filter(|sight| due(sight)).for_each(Sight::judge);
            self.the_given_up_have_nothing(now);
        }
    }

    /// A session expires before its stream is closed.
    fn the_expired_say_nothing(&mut self, now: Time) {
        let sessions = self.server.driver.as_ref().map(|driver| driver.core.sessions(now));
        for session in sessions.into_iter().flatten() {
            let attached = process_of(session.id).and_then(|process| self.processes[process].attached);
            if let Some(stream) = attached.filter(|_| session.state == SessionState::Quarantined) {
                self.detached(stream);
            }
        }
    }

    /// What was judged may have ended a quarantine: of that session nothing is counted
    /// any more, whatever the store still has.
    fn the_given_up_have_nothing(&mut self, now: Time) {
        let Some(driver) = &self.server.driver else { return };
        let leases = driver.core.sessions(now).into_iter().filter_map(|session| {
            let databases = session.leases.iter().map(|lease| lease.database.0 as usize).collect::<Vec<_>>();
            Some((process_of(session.id)?, databases))
        });
        let leases: BTreeMap<usize, Vec<usize>> = leases.collect();
        for process in
            self.ledgers.relevant.iter().filter(|process| self.processes[**process].attached.is_none())
        {
            for (database, sight) in self.sights.iter_mut().enumerate() {
                if !leases.get(process).is_some_and(|leases| leases.contains(&database)) {
                    sight.said[*process] = Some(Said::NOTHING);
                }
            }
        }
    }

    /// **Certain strays are true.** None becomes certain but what two observations
    /// in a row saw, strays or connections that no session said to have, open or
    /// close in the window around each: the cap falls for nothing else. And none
    /// that is still there is forgotten, but for as many as sessions said
    /// throughout the window to have and had not: the cap does not rise under it.
    pub(crate) fn certain_strays_are_true(&mut self, view: &DatabaseView) {
        let sight = &mut self.sights[view.id.0 as usize];
        let certain = u64::from(view.strays);
        let (least, most) = std::mem::replace(&mut sight.certain, (certain, certain));
        if certain < least || certain > most {
            broken(
                Invariant::CertainStrays,
                format!("{least} to {most} strays may be certain, and {certain} are: {view:?}"),
            );
        }
    }

    /// **Nothing is granted out of doubt.** What an observation saw that no session
    /// had, and that is not certain yet, is kept from grants, as far as anything was
    /// free, until the next observation is judged. But for connections that sessions
    /// said to have when its answer came, and had not when the database counted.
    pub(crate) fn nothing_out_of_doubt(&mut self, view: &DatabaseView) {
        let database = view.id.0 as usize;
        if !self.plan.databases[database].settings.watched {
            return;
        }
        let sight = &mut self.sights[database];
        let grants = std::mem::replace(&mut sight.granted, view.grants) < view.grants;
        let settled = !std::mem::take(&mut sight.unsettled) && sight.doubt.is_none();
        let most = u64::from(view.cap).saturating_sub(sight.kept);
        if settled && grants && u64::from(view.held) > most {
            let kept = sight.kept;
            broken(
                Invariant::NothingOutOfDoubt,
                format!("{kept} may be taken at database {database}: {view:?}"),
            );
        }
        if let Some(doubt) = sight.doubt.take() {
            let free = view.cap.saturating_sub(view.held);
            sight.kept = doubt.saturating_sub(view.strays.into()).min(free.into());
        }
    }
}
