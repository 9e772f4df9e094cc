//! Placeholder.

pub mod clock;
pub mod governed;
pub mod session;
