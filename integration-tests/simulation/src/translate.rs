//! Levels and allotments from the client's words to the core's and back, as a
//! wire between them would carry them. Knows nothing of streams.

use leasehold_admission as core;
use leasehold_client::{
    governed::{Levels, Recall},
    session::message::{self, DatabaseName, LossPolicy, Sequence},
};

/// What a node says, as the core takes it.
pub(crate) fn to_core(acknowledged: Sequence, levels: Levels) -> core::Demand {
    let Levels { holding, established, opening, closing, in_use, idle, waiting, wanted, .. } = levels;
    core::Demand {
        acknowledged: acknowledged.0,
        holding,
        established,
        opening,
        closing,
        in_use,
        idle,
        waiting,
        wanted,
        oldest_wait: levels.oldest_wait,
        mean_hold: levels.mean_hold,
        mean_connect: levels.mean_connect,
    }
}

/// What the core says about a database, as a node takes it.
pub(crate) fn from_core(database: DatabaseName, allotment: core::Allotment) -> message::Allotment {
    message::Allotment {
        database,
        sequence: Sequence(allotment.sequence),
        tokens: allotment.tokens,
        recall: match allotment.recall {
            core::Recall::None => Recall::None,
            core::Recall::Idle => Recall::Idle,
            core::Recall::NextReturn => Recall::NextReturn,
        },
        quantum: Some(allotment.queueing.quantum),
        max_waiting: allotment.queueing.full,
    }
}

/// The terms of a Welcome, as a node takes them.
pub(crate) fn terms(terms: &core::Terms) -> message::Terms {
    message::Terms {
        sequence: Sequence(terms.sequence),
        on_loss: match terms.on_loss {
            core::LossPolicy::Keep => LossPolicy::Keep,
            core::LossPolicy::Fence => LossPolicy::Fence,
        },
        quantum: terms.quantum,
    }
}
