//! What a process's pools want done, and what they do by themselves now and then.
//! Knows nothing of why.

use std::time::Duration;

use leasehold_client::session::Event as SessionEvent;

use crate::world::{Event, World};

/// How often a pool looks after itself.
const SETTLING_PERIOD: Duration = Duration::from_millis(250);

impl World {
    /// Carries out what pools want done.
    pub(crate) fn empty_trays(&mut self, number: usize) {
        for database in 0..self.plan.databases.len() {
            let tray = self.processes[number].pools[database].take_tray();
            if tray.is_empty() {
                continue;
            }
            for task in tray.wake {
                self.wake_task(number, database, task);
            }
            for connection in tray.close {
                self.start_close(number, database, connection);
            }
            if tray.report {
                self.processes[number].changed[database] = true;
                if !std::mem::replace(&mut self.processes[number].mail_planned, true) {
                    let soon = self.dice.tail(Duration::from_micros(5), 4);
                    self.after(soon, Event::Mail { process: number });
                }
            }
            if tray.upkeep {
                self.warm_up(number, database);
            }
            if tray.sever {
                self.sever_all(number, database);
            }
        }
    }

    pub(super) fn read_mail(&mut self, number: usize) {
        self.processes[number].mail_planned = false;
        for database in 0..self.plan.databases.len() {
            if std::mem::replace(&mut self.processes[number].changed[database], false) {
                let name = self.nodes[self.processes[number].node].names[database].clone();
                self.apply(number, SessionEvent::Changed(name));
                if !self.processes[number].is_alive() {
                    return;
                }
            }
        }
    }

    pub(super) fn tidy(&mut self, number: usize, database: usize) {
        let idle_timeout = (database == 0).then_some(Duration::from_millis(1_500));
        let pool = self.processes[number].pools[database].clone();
        pool.change(|ledger, now, effects| {
            ledger.reap(idle_timeout, |_| false, now, effects);
            ledger.settle(effects);
        });
        if !pool.read(|ledger, _| ledger.is_closed()) {
            self.after(SETTLING_PERIOD, Event::Tidy { process: number, database });
        }
        self.empty_trays(number);
    }
}
