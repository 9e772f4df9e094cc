//! The command line of the example node. Knows nothing of pools.

use std::{num::NonZeroU32, time::Duration};

use clap::Parser;

/// Runs queries through a pool that a Leasehold server governs, and prints one
/// line of JSON about them at the end.
#[derive(Clone, Debug, Parser)]
#[command(name = "app_node")]
pub(crate) struct Arguments {
    /// Leasehold server, such as `http://127.0.0.1:7420`; may be repeated.
    #[arg(long = "server", value_name = "URL", required_unless_present = "direct")]
    pub(crate) servers: Vec<String>,

    /// Name of the database at the Leasehold server.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) database: String,

    /// The database itself, such as `mysql://USER:PASSWORD@HOST:PORT/`.
    #[arg(long, value_name = "URL", env = "APP_NODE_MYSQL", hide_env_values = true)]
    pub(crate) mysql: String,

    /// Most connections of the pool.
    #[arg(long, value_name = "N")]
    pub(crate) pool_max: NonZeroU32,

    /// Tasks that take a connection, query and give it back, over and over. With
    /// 0 the node only registers and waits.
    #[arg(long, value_name = "N")]
    pub(crate) tasks: usize,

    /// How long they do. SIGTERM and SIGINT end it earlier.
    #[arg(long, value_name = "N")]
    pub(crate) seconds: u64,

    /// What they run.
    #[arg(long, value_name = "SQL", default_value = "select 1")]
    pub(crate) query: String,

    /// Workload of the node. Default: the server's.
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,

    /// Name of the node. Default: app-PID.
    #[arg(long, value_name = "NAME", default_value_t = format!("app-{}", std::process::id()))]
    pub(crate) node: String,

    /// Without Leasehold: a bare deadpool pool of the same size.
    #[arg(long)]
    pub(crate) direct: bool,

    /// Longest wait for a connection, such as 500ms.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) wait_timeout: Duration,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
