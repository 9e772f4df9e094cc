//! Placeholder.

pub mod governed;
