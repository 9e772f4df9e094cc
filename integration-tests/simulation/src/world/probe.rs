//! The probe: a task of the server that announces an observation, looks 200 ms
//! later, and tells what it saw. Knows nothing of what is made of it.

use std::time::Duration;

use leasehold_admission::{DatabaseId, Event as CoreEvent, Observation};

use super::{Event, World, server::Input};
use crate::time::Moment;

/// Time from the announcement to the look.
const REPORT_LEAD: Duration = Duration::from_millis(200);
/// Time from one announcement to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same for the first observations after a connect.
const FIRST_INTERVAL: Duration = Duration::from_millis(300);
/// How many these are.
const FIRST_OBSERVATIONS: u32 = 3;
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(250);

/// Where a probe stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    /// It cannot look.
    pub(crate) blind: bool,
    /// Observations since it connected; none: it has to connect first.
    observations: Option<u32>,
    announced: Moment,
}

/// What a probe does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProbeStep {
    Start,
    /// The query is sent.
    Look,
    /// The database counts.
    Count {
        sent: leasehold_admission::Time,
    },
    /// The answer is there.
    Answer {
        observation: Observation,
    },
}

impl World {
    pub(crate) fn start_probes(&mut self) {
        for database in 0..self.plan.databases.len() {
            if self.plan.databases[database].settings.watched {
                self.probes[database].observations = None;
                self.probe_goes_on(database, Duration::ZERO, ProbeStep::Start);
            }
        }
    }

    fn probe_goes_on(&mut self, database: usize, time: Duration, step: ProbeStep) {
        let server = self.server.number;
        let shown = self.server.clock.read(self.now) + time.as_nanos() as u64;
        let late = self.dice.tail(Duration::from_micros(200), 5);
        let at = self.server.clock.when(self.now, shown) + late;
        self.queue.put(at, Event::Probe { server, database, step });
    }

    pub(crate) fn probe(&mut self, server: u32, database: usize, step: ProbeStep) {
        if server != self.server.number || !self.server.is_up() {
            return;
        }
        if self.server.frozen > 0 {
            self.server.missed.push(Event::Probe { server, database, step });
            return;
        }
        let id = DatabaseId(database as u32);
        if self.probes[database].blind || !self.databases.all[database].up {
            self.probes[database].observations = None;
            let error = "no answer".to_owned();
            self.put_input(Input::Core(CoreEvent::ProbeDown {
                database: id,
                error,
                watched_elsewhere: false,
            }));
            self.probe_goes_on(database, PAUSE, ProbeStep::Start);
            return;
        }
        match step {
            ProbeStep::Start => {
                self.probes[database].announced = self.now;
                self.probes[database].observations.get_or_insert(0);
                self.put_input(Input::Core(CoreEvent::ObservationStarts { database: id }));
                self.probe_goes_on(database, REPORT_LEAD, ProbeStep::Look);
            }
            ProbeStep::Look => {
                let sent = self.server.now(self.now);
                self.probe_goes_on(database, Duration::ZERO, ProbeStep::Count { sent });
            }
            ProbeStep::Count { sent } => {
                self.looked(database, sent);
                let seen = &self.databases.all[database];
                let observation = Observation {
                    sent,
                    max_connections: seen.max_connections,
                    uptime: self.databases.uptime(self.now, database),
                    fleet: self.databases.fleet(database),
                    others: seen.others,
                };
                self.probe_goes_on(database, Duration::ZERO, ProbeStep::Answer { observation });
            }
            ProbeStep::Answer { observation } => {
                self.put_input(Input::Core(CoreEvent::Observed { database: id, observation }));
                let made = self.probes[database].observations.unwrap_or_default() + 1;
                self.probes[database].observations = Some(made);
                let interval = if made < FIRST_OBSERVATIONS { FIRST_INTERVAL } else { INTERVAL };
                let left = interval.saturating_sub(self.now - self.probes[database].announced);
                self.probe_goes_on(database, left, ProbeStep::Start);
            }
        }
    }
}
