//! Whether the server and its nodes agree on what is held, at the moments when they
//! must. Knows nothing of how they came to disagree.

use leasehold_admission::{SessionState, SessionView};

use super::{World, server::process_of};
use crate::violation::{Invariant, broken};

impl World {
    /// **When all is quiet, the books agree.** Nothing is on its way and nobody wants
    /// anything: the server counts for each process what it holds, means it to hold
    /// that, and no more. A raise that is counted for ever, or a recall that nobody
    /// follows, shows here.
    pub(crate) fn the_books_agree(&self) {
        for session in self.sessions() {
            let Some(process) = process_of(session.id) else { continue };
            if session.state != SessionState::Attached || !self.processes[process].is_alive() {
                continue;
            }
            for lease in &session.leases {
                let holding = self.holding(process, lease.database.0 as usize);
                if (lease.held, lease.allotment) != (holding, holding) {
                    let details = format!("process {process} holds {holding}, the server sees {lease:?}");
                    broken(Invariant::BooksAgree, details);
                }
            }
        }
    }

    /// **A Welcome counts what was claimed.**
    pub(crate) fn the_claim_is_counted(&self, process: usize, claims: &[u32]) {
        let counted = self.sessions().into_iter().find(|session| process_of(session.id) == Some(process));
        for lease in counted.iter().flat_map(|session| &session.leases) {
            let claimed = claims.get(lease.database.0 as usize).copied().unwrap_or_default();
            if lease.held < claimed {
                let details = format!("process {process} is welcomed with {claimed}, counted is {lease:?}");
                broken(Invariant::OneHolder, details);
            }
        }
    }

    /// All sessions, as the server sees them; none while it is down.
    pub(crate) fn sessions(&self) -> Vec<SessionView> {
        let now = self.server.now(self.now);
        self.server.driver.as_ref().map(|driver| driver.core.sessions(now)).unwrap_or_default()
    }
}
