//! Placeholder.

pub mod clock;
pub mod governed;
