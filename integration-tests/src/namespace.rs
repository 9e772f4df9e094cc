//! A network namespace of its own for a process, joined to the machine by one
//! cable that can lose every packet to and from one port. Lost is lost: nobody
//! is told, as with a firewall or a dead switch. Knows nothing of who talks.

use std::{
    net::Ipv4Addr,
    process::{Command, Output, Stdio},
};

use crate::{figures, stage};

/// Numbers of namespaces; each has a network of its own in 10.213.0.0/16.
const NUMBERS: std::ops::Range<u8> = 1..250;

/// A namespace; it goes away when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    number: u8,
    _claim: std::fs::File,
}

impl Namespace {
    /// Makes one; none where that is not permitted.
    ///
    /// # Panics
    ///
    /// When that fails otherwise.
    pub fn create() -> Option<Self> {
        let (number, claim) = NUMBERS
            .into_iter()
            .find_map(|number| Some((number, stage::try_lock(&format!("namespace-{number}.lock"))?)))
            .expect("a free number for a network namespace");
        let namespace = Self { name: format!("leasehold-{number}"), number, _claim: claim };
        // What a killed test left behind.
        namespace.remove();
        let (name, outer, inner) = (&namespace.name, namespace.cable(), "inner");
        if figures::not_permitted("a network namespace", &output(&["ip", "netns", "add", name])) {
            return None;
        }
        run(&["ip", "link", "add", &outer, "type", "veth", "peer", "name", inner, "netns", name]);
        run(&["ip", "address", "add", &format!("{}/24", namespace.outside()), "dev", &outer]);
        run(&["ip", "link", "set", &outer, "up"]);
        namespace.run(&["ip", "address", "add", &format!("10.213.{number}.2/24"), "dev", inner]);
        namespace.run(&["ip", "link", "set", inner, "up"]);
        namespace.run(&["ip", "link", "set", "lo", "up"]);
        namespace.run(&["nft", "add table ip partition"]);
        for hook in ["input", "output"] {
            let chain = format!("add chain ip partition {hook} {{ type filter hook {hook} priority 0; }}");
            namespace.run(&["nft", &chain]);
        }
        Some(namespace)
    }

    /// The machine's address as seen from inside.
    pub fn outside(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number, 1)
    }

    /// The same command, to be run inside.
    #[must_use]
    pub fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.name]).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(key, value),
                None => inside.env_remove(key),
            };
        }
        inside
    }

    /// Drops every packet between the inside and this port outside.
    pub fn cut(&self, port: u16) {
        self.run(&["nft", &format!("add rule ip partition input tcp sport {port} drop")]);
        self.run(&["nft", &format!("add rule ip partition output tcp dport {port} drop")]);
    }

    /// Drops nothing any more.
    pub fn heal(&self) {
        for hook in ["input", "output"] {
            self.run(&["nft", &format!("flush chain ip partition {hook}")]);
        }
    }

    /// How many connections from inside to this port outside are being made.
    pub fn connecting(&self, port: u16) -> usize {
        let filter = format!("dport = :{port}");
        let command = ["ip", "netns", "exec", &self.name, "ss", "-Htn", "state", "syn-sent", &filter];
        let output = Command::new(command[0]).args(&command[1..]).output().expect("the connections inside");
        String::from_utf8_lossy(&output.stdout).lines().count()
    }

    fn cable(&self) -> String {
        format!("lease{}", self.number)
    }

    fn run(&self, command: &[&str]) {
        run(&[&["ip", "netns", "exec", &self.name], command].concat());
    }

    fn remove(&self) {
        // The cable goes with its inner end.
        let _ = quiet(&["ip", "netns", "delete", &self.name]).status();
        let _ = quiet(&["ip", "link", "delete", &self.cable()]).status();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.remove();
    }
}

fn run(command: &[&str]) {
    let output = output(command);
    assert!(
        output.status.success(),
        "`{}` failed: {}",
        command.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
}

fn output(command: &[&str]) -> Output {
    let output = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| {
        panic!("cannot run `{}`, {error}; scripts/test installs what the tests need", command[0])
    })
}

fn quiet(command: &[&str]) -> Command {
    let mut quiet = Command::new(command[0]);
    quiet.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet
}
