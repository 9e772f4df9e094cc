//! How a fault is done, and how it is made good. Knows nothing of which comes
//! when.

use std::time::Duration;

use leasehold_admission::LossPolicy;

use super::{Event, World};
use crate::fault::{self, FaultKind};

impl World {
    /// The fault with this number is next.
    pub(crate) fn plan_fault(&mut self, number: usize) {
        let after = fault::nth(&self.plan, number).after;
        self.after(after, Event::Fault { number });
    }

    pub(crate) fn fault(&mut self, number: usize) {
        if self.calm {
            return;
        }
        self.plan_fault(number + 1);
        let fault = fault::nth(&self.plan, number);
        let crashing = self.server.crash_loop.is_some() && fault.kind.is_of_the_server();
        if crashing || self.without.contains(&number) {
            return;
        }
        self.done.push((number, self.now, fault.clone()));
        self.active.push(number);
        self.after(fault.lasts, Event::Heal { number });
        self.inflict(fault.kind, fault.lasts);
    }

    fn inflict(&mut self, kind: FaultKind, lasts: Duration) {
        match kind {
            FaultKind::Kill(node) => self.kill_process(node, None),
            FaultKind::Vanish(node) => {
                let lasting = self.dice.millis(0, 6_000);
                self.kill_process(node, Some(lasting));
            }
            FaultKind::Stop(node) | FaultKind::Suspend(node) => {
                let now = self.now;
                let stopped = &mut self.nodes[node];
                if stopped.frozen == 0 {
                    stopped.frozen_at = now;
                }
                stopped.frozen += 1;
            }
            FaultKind::Leap(node) => self.nodes[node].clock.leap(self.now, lasts),
            FaultKind::Retire(node) => self.retire_process(node),
            FaultKind::Partition(node) => self.cut_off(node),
            FaultKind::Break { node, server_last } => self.break_newest_stream(node, server_last, lasts),
            FaultKind::Stall(node) => self.nodes[node].stalled += 1,
            FaultKind::Slow(node) => self.nodes[node].slow += 1,
            FaultKind::Former(node) => self.nodes[node].former += 1,
            FaultKind::ServerKill => self.kill_server(),
            FaultKind::CrashLoop => self.begin_crash_loop(),
            FaultKind::ServerStop => self.server.frozen += 1,
            FaultKind::ServerSuspend => {
                self.server.frozen += 1;
                self.server.clock.stand(self.now, true);
            }
            FaultKind::ServerLeap => {
                // Each leap may cost a tenth of a TTL; the grace covers one.
                if self.now - self.server.last_leap > self.plan.longest_ttl() * 3 {
                    self.server.last_leap = self.now;
                    self.server.clock.leap(self.now, lasts);
                }
            }
            FaultKind::StoreFails(how) => self.store.failing = Some(how),
            FaultKind::StoreStalls => self.store.slow = Some(lasts),
            FaultKind::Restart(database) => self.databases.stop(database),
            FaultKind::Limit(limit) => self.databases.all[0].max_connections = limit,
            FaultKind::Others(others) => self.databases.all[0].others = others,
            FaultKind::Tools(tools) => {
                if self.databases.all[0].up {
                    self.databases.all[0].tools = tools;
                }
            }
            FaultKind::Blind => self.probes[0].blind = true,
            FaultKind::Cap(database, cap) => self.configure(database, |settings| settings.cap = Some(cap)),
            FaultKind::Drain(database) => self.configure(database, |settings| settings.draining = true),
            FaultKind::Policy(database) => self.configure(database, |settings| {
                settings.on_loss = match settings.on_loss {
                    LossPolicy::Keep => LossPolicy::Fence,
                    LossPolicy::Fence => LossPolicy::Keep,
                };
            }),
            FaultKind::Divide(database, division) => self.configure(database, |settings| {
                settings.workloads = division.of(&settings.workloads);
            }),
        }
    }

    pub(crate) fn heal(&mut self, number: usize) {
        let Some(at) = self.active.iter().position(|active| *active == number) else { return };
        self.active.remove(at);
        match fault::nth(&self.plan, number).kind {
            FaultKind::Kill(node) | FaultKind::Vanish(node) => self.start_process(node),
            FaultKind::Stop(node) | FaultKind::Suspend(node) => {
                self.nodes[node].frozen -= 1;
                if self.nodes[node].frozen == 0 {
                    let slept = matches!(fault::nth(&self.plan, number).kind, FaultKind::Suspend(_));
                    self.thaw_node(node, slept);
                }
            }
            FaultKind::Leap(_)
            | FaultKind::Retire(_)
            | FaultKind::Break { .. }
            | FaultKind::ServerLeap
            | FaultKind::CrashLoop => {}
            FaultKind::Partition(node) => self.no_longer_cut_off(node),
            FaultKind::Stall(node) => {
                self.nodes[node].stalled = self.nodes[node].stalled.saturating_sub(1);
                if self.nodes[node].stalled == 0 {
                    self.unstall(node);
                }
            }
            FaultKind::Slow(node) => self.nodes[node].slow -= 1,
            FaultKind::Former(node) => self.no_former(node),
            FaultKind::ServerKill => self.start_server(),
            FaultKind::ServerStop => self.server_goes_on(),
            FaultKind::ServerSuspend => {
                self.server.clock.stand(self.now, false);
                self.server_goes_on();
            }
            FaultKind::StoreFails(_) => self.store.failing = None,
            FaultKind::StoreStalls => self.store.slow = None,
            FaultKind::Restart(database) => self.databases.start(self.now, database),
            FaultKind::Limit(_) => {
                self.databases.all[0].max_connections = self.plan.databases[0].max_connections;
            }
            FaultKind::Others(_) => self.databases.all[0].others = 0,
            FaultKind::Tools(_) => self.databases.all[0].tools = 0,
            FaultKind::Blind => self.probes[0].blind = false,
            FaultKind::Cap(database, _) => {
                let cap = self.plan.databases[database].settings.cap;
                self.configure(database, |settings| settings.cap = cap);
            }
            FaultKind::Drain(database) => self.configure(database, |settings| settings.draining = false),
            FaultKind::Policy(database) => {
                let on_loss = self.plan.databases[database].settings.on_loss;
                self.configure(database, |settings| settings.on_loss = on_loss);
            }
            FaultKind::Divide(database, _) => {
                let workloads = self.plan.databases[database].settings.workloads.clone();
                self.configure(database, |settings| settings.workloads = workloads);
            }
        }
    }

    fn server_goes_on(&mut self) {
        self.server.frozen -= 1;
        if self.server.frozen == 0 {
            self.thaw_server();
        }
    }

    /// No more faults; those that last end now.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.server.crash_loop = None;
        for number in self.active.clone() {
            self.heal(number);
        }
    }
}
