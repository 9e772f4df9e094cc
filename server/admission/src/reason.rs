//! The rules of `docs/admission.md` by which tokens move, and all that keeps
//! somebody from a token. Decides nothing.

/// Why a busy token moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The receiver's workload is under its target, the donor's is over its own
    /// (rule 9).
    Target,
    /// The receiver's workload has nothing for too long (rule 9).
    Starving,
    /// The receiver is below its share, the donor above it, and the lag is more
    /// than a quantum (rule 5).
    Share,
    /// Both are far from their shares, and the lag is more than half a quantum (rule 5).
    Balance,
    /// The donor is above its share, and the lag is more than two quanta (rule 6).
    Escape,
    /// The lag is more than three quanta (rule 6).
    Rescue,
    /// The receiver has nothing (rule 6).
    Poverty,
}

impl Rule {
    /// Its number in `docs/admission.md`.
    pub fn number(self) -> u32 {
        match self {
            Rule::Share | Rule::Balance => 5,
            Rule::Escape | Rule::Rescue | Rule::Poverty => 6,
            Rule::Target | Rule::Starving => 9,
        }
    }

    /// The same in a word that stays the same from version to version.
    pub fn word(self) -> &'static str {
        match self {
            Rule::Target => "target",
            Rule::Starving => "starving",
            Rule::Share => "share",
            Rule::Balance => "balance",
            Rule::Escape => "escape",
            Rule::Rescue => "rescue",
            Rule::Poverty => "poverty",
        }
    }
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing: it needs nothing.
    Content,
    /// Connections of its own pool, which may not grow.
    OwnPool,
    /// Its node to open what it was granted.
    Granted,
    /// Its node to be connected to the server.
    NoStream,
    /// Nothing: it expired, and what it held is kept back until it is free for certain.
    Expired,
    /// The end of a drain.
    Draining,
    /// The store to work again.
    StoreFails,
    /// The database to be observed.
    NotObserved,
    /// Nodes whose records are lost to come back.
    RecordsLost,
    /// Others of its workload, which is at its limit (rule 10).
    Limit(u32),
    /// Others: what is free is held for floors (rule 10).
    Floors,
    /// The next observation: what is free may be taken by strays.
    Doubt,
    /// Others to connect: as many do as may (rule 11).
    Pacing,
    /// Its turn (rule 2).
    Turn,
    /// Busy tokens that were asked for on its behalf.
    Promised(Rule),
    /// Unused tokens of others, which were asked for (rule 4).
    Idle,
    /// Unused tokens of others, in their grace (rule 4).
    Grace,
    /// Other tokens in motion, of which there are as many as may be (rule 7).
    Budget,
    /// Anybody to have no use for a token: admission is unfair.
    Unfair,
    /// Anybody to have a token that may be asked for.
    NoDonor,
    /// A lag of two quanta: it has its share (rules 5 and 6).
    Share,
    /// A lag of three quanta: nobody has more than its share (rule 6).
    Level,
    /// A lag of a quantum (rule 5).
    Lag,
    /// The token before, which is on its way: it is far behind, and gets one at a
    /// time (rule 6).
    OneAtATime,
}

impl Reason {
    /// The number of the rule in `docs/admission.md`, if it is one of those.
    pub fn rule(self) -> Option<u32> {
        match self {
            Reason::Content
            | Reason::OwnPool
            | Reason::Granted
            | Reason::NoStream
            | Reason::Expired
            | Reason::Draining
            | Reason::StoreFails
            | Reason::NotObserved
            | Reason::RecordsLost
            | Reason::Doubt
            | Reason::Unfair
            | Reason::NoDonor => None,
            Reason::Turn => Some(2),
            Reason::Idle | Reason::Grace => Some(4),
            Reason::Share | Reason::Lag => Some(5),
            Reason::Level | Reason::OneAtATime => Some(6),
            Reason::Budget => Some(7),
            Reason::Limit(_) | Reason::Floors => Some(10),
            Reason::Pacing => Some(11),
            Reason::Promised(rule) => Some(rule.number()),
        }
    }

    /// The same in a word that stays the same from version to version.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Content => "nothing",
            Reason::OwnPool => "own_pool",
            Reason::Granted => "granted",
            Reason::NoStream => "no_stream",
            Reason::Expired => "expired",
            Reason::Draining => "draining",
            Reason::StoreFails => "store_fails",
            Reason::NotObserved => "not_observed",
            Reason::RecordsLost => "records_lost",
            Reason::Limit(_) => "limit",
            Reason::Floors => "floors",
            Reason::Doubt => "doubt",
            Reason::Pacing => "pacing",
            Reason::Turn => "turn",
            Reason::Promised(_) => "promised",
            Reason::Idle => "idle",
            Reason::Grace => "grace",
            Reason::Budget => "budget",
            Reason::Unfair => "unfair",
            Reason::NoDonor => "no_donor",
            Reason::Share => "share",
            Reason::Level => "level",
            Reason::Lag => "lag",
            Reason::OneAtATime => "one_at_a_time",
        }
    }
}
