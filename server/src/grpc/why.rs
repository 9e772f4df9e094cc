//! Explanations as messages, and in sentences for people. Knows nothing of how they
//! come about.

use leasehold_admission::{Explanation, Facts, Holder, Promise, Reason};
use leasehold_proto::v1;

use super::to_proto::{lease, millis};
use crate::driver::DriverHandle;

pub(super) fn reply(found: &[Explanation], left_out: usize, handle: &DriverHandle) -> v1::WhyReply {
    v1::WhyReply {
        explanations: found.iter().map(|one| explanation(one, handle)).collect(),
        left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
    }
}

fn explanation(one: &Explanation, handle: &DriverHandle) -> v1::Explanation {
    let Facts { demand, need, promised: _, giving, share_thousandths, in_line, reason } = one.facts;
    v1::Explanation {
        session: one.session.to_string(),
        node: String::from(&*one.node),
        database: String::from(&**handle.database_name(one.database)),
        lease: one.lease.as_ref().map(|view| lease(view, handle)),
        waits_for: sentence(reason, &one.workload, &one.moves),
        workload: String::from(&*one.workload),
        workload_held: one.workload_held,
        workload_target_thousandths: one.workload_target_thousandths,
        demand,
        need,
        share_thousandths,
        place: one.place,
        in_line,
        reason: reason.word().to_owned(),
        rule: reason.rule().unwrap_or(0),
        giving,
        promises: one.moves.iter().map(promise).collect(),
        shadowed: one.shadowed.map(|shadowed| v1::Shadowed {
            tokens: shadowed.tokens,
            reason: shadowed.reason.word().to_owned(),
            waits_for: sentence(shadowed.reason, &one.workload, &[]),
            rule: shadowed.reason.rule().unwrap_or(0),
            ago_ms: millis(shadowed.ago),
        }),
        holders: one.holders.iter().map(|one| holder(one, handle)).collect(),
    }
}

fn promise(one: &Promise) -> v1::Promise {
    v1::Promise {
        donor: String::from(&*one.donor),
        rule: one.rule.number(),
        rule_name: one.rule.word().to_owned(),
        asked_ms: millis(one.asked),
    }
}

fn holder(one: &Holder, handle: &DriverHandle) -> v1::Holder {
    v1::Holder {
        session: one.session.to_string(),
        node: String::from(&*one.node),
        workload: String::from(&*one.workload),
        lease: Some(lease(&one.lease, handle)),
    }
}

fn sentence(reason: Reason, workload: &str, moves: &[Promise]) -> String {
    let text = match reason {
        Reason::Content => "nothing",
        Reason::OwnPool => "a connection of its own pool, which is at its maximum size",
        Reason::Granted => "its node to open, or hand on, what it has been granted",
        Reason::NoStream => "its node, which is not connected to the server",
        Reason::Expired => {
            "nothing: it has expired, and its tokens are kept back until they are free for certain"
        }
        Reason::Draining => "the end of the drain: `leasehold resume`",
        Reason::StoreFails => "the server's store, which fails: nothing is granted until it works",
        Reason::NotObserved => "the probe, which has not seen the database lately enough",
        Reason::RecordsLost => "nodes whose records are lost to come back, or their time to run out",
        Reason::Limit(limit) => {
            return format!("others of the workload `{workload}`, which is at its limit of {limit}");
        }
        Reason::Floors => "others: what is free is held for the floors of other workloads",
        Reason::Doubt => "the next look of the probe: what is free may be taken by strays",
        Reason::Pacing => "others to connect: as many connections as may are being opened",
        Reason::Turn => "its turn: those before it come first",
        Reason::Promised(_) => {
            let donors: Vec<&str> = moves.iter().map(|one| &*one.donor).collect();
            return format!("the next return at {}, which was asked for a token", donors.join(", "));
        }
        Reason::Idle => "unused tokens of others, which were asked for",
        Reason::Grace => "unused tokens of others, which have a moment to be used again",
        Reason::Budget => "tokens that move to others: as many as may are in motion",
        Reason::Unfair => "others to leave a token unused: admission is unfair",
        Reason::NoDonor => "others to use a token: nobody has one that could be asked for",
        Reason::Share => "to lag behind others by two quanta: it has its share",
        Reason::Level => "to lag behind others by three quanta: nobody has more than its share",
        Reason::Lag => "to lag behind others by a quantum: it is below its share",
        Reason::OneAtATime => "the token before, which is on its way: who is far behind gets one at a time",
    };
    text.to_owned()
}
