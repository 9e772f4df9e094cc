//! The pure core of Leasehold: it decides who holds how many tokens and does
//! nothing else. No clock, no input or output, no tasks: `no_std` makes that a
//! fact of the compiler. Knows nothing of sockets, stores or threads.
//!
//! [`Core::apply`] takes one [`Event`] at one moment and appends [`Effect`]s;
//! [`Core::next_deadline`] says when the driver must call again with
//! [`Event::Tick`]. Every `apply` ends with the checks of [`Core::check`], in
//! release builds too.

#![no_std]

extern crate alloc;

pub mod durable;

mod attach;
mod between;
mod blockers;
mod calls;
mod check;
mod core;
mod database;
mod effect;
mod event;
mod explain;
mod grant;
mod idle;
mod ids;
mod lease;
mod moves;
mod orders;
mod queue;
mod ranked;
mod reason;
mod recall;
mod session;
mod settings;
mod settle;
mod shadow;
mod shares;
mod shed;
mod silence;
mod targets;
mod time;
mod unary;
mod view;
mod watch;
mod workload;

pub use self::core::Core;
pub use effect::{Allotment, Close, Effect, Note, Queueing, Recall, Terms, UnaryReply, Welcome};
pub use event::{Acquire, Claim, Demand, Event, Hello, Observation, ReleaseTarget};
pub use explain::{Explanation, Facts, Holder, Promise, ShadowedView};
pub use ids::{DatabaseId, SessionId, StreamId, Ticket};
pub use reason::{Reason, Rule};
pub use settings::{Admission, DatabaseSettings, LossPolicy, WorkloadSettings, Workloads};
pub use time::Time;
pub use view::{DatabaseView, LeaseView, ProbeState, SessionState, SessionView, ShadowView, WorkloadView};
