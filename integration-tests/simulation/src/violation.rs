//! What must be true after each step, by name, and how a history says that it
//! is not. Knows nothing of how it is found out.

use std::{fmt, panic};

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Tokens stay within the configured cap.
    CapHolds,
    /// Connections at a watched database stay within what it admits.
    NotTooFull,
    /// What is called a stray for certain is one, and is not forgotten.
    CertainStrays,
    /// What may be taken by strays is not granted.
    NothingOutOfDoubt,
    /// Every open connection has a token.
    ConnectionsHaveTokens,
    /// When the server gives a session up, its node has no right to open any
    /// more.
    DeadlineFirst,
    /// Behind its fence a node has nothing open.
    FenceKept,
    /// A report says what is true, and counts no need twice.
    ReportsAreTrue,
    /// A server that crashes again and again gives up whom it does not hear.
    NobodyIsImmortal,
    /// What a process holds is counted by the server, so nobody else has it.
    OneHolder,
    /// What a process holds is covered by the store.
    StoreCovers,
    /// A waiter gets a connection, a timeout, a cancellation or a closed pool:
    /// one of them, once.
    AnsweredOnce,
    /// After the faults everything is usable again.
    Recovers,
    /// When all is quiet, the server counts what nodes hold.
    BooksAgree,
    /// Nobody talks without an end.
    Quiet,
    /// An assertion of the core, a session, a ledger, or of the world itself.
    Assertion,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Invariant; 16] = [
        Invariant::CapHolds,
        Invariant::NotTooFull,
        Invariant::CertainStrays,
        Invariant::NothingOutOfDoubt,
        Invariant::ConnectionsHaveTokens,
        Invariant::DeadlineFirst,
        Invariant::FenceKept,
        Invariant::ReportsAreTrue,
        Invariant::NobodyIsImmortal,
        Invariant::OneHolder,
        Invariant::StoreCovers,
        Invariant::AnsweredOnce,
        Invariant::Recovers,
        Invariant::BooksAgree,
        Invariant::Quiet,
        Invariant::Assertion,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::CapHolds => "the-cap-holds",
            Invariant::NotTooFull => "not-too-full",
            Invariant::CertainStrays => "certain-strays-are-true",
            Invariant::NothingOutOfDoubt => "nothing-out-of-doubt",
            Invariant::ConnectionsHaveTokens => "connections-have-tokens",
            Invariant::DeadlineFirst => "the-deadline-comes-first",
            Invariant::FenceKept => "the-fence-is-kept",
            Invariant::ReportsAreTrue => "reports-are-true",
            Invariant::NobodyIsImmortal => "nobody-is-immortal",
            Invariant::OneHolder => "one-holder",
            Invariant::StoreCovers => "the-store-covers",
            Invariant::AnsweredOnce => "answered-once",
            Invariant::Recovers => "everything-recovers",
            Invariant::BooksAgree => "the-books-agree",
            Invariant::Quiet => "quiet",
            Invariant::Assertion => "assertion",
        }
    }
}

/// What was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub invariant: Invariant,
    /// How it was broken.
    pub details: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.name(), self.details)
    }
}

/// Ends the history: a promise is broken.
pub fn broken(invariant: Invariant, details: String) -> ! {
    panic::panic_any(Violation { invariant, details })
}
