//! The Leasehold server: thin shells around the pure core in `admission/`.
//!
//! | module | what it is |
//! |---|---|
//! | [`config`] | the settings, checked |

pub mod config;
