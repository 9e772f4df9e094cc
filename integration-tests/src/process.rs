//! A process that a test starts and that never outlives it: it is killed when
//! dropped, and by the kernel when the test itself is killed. Knows nothing of
//! what the process does.

use std::{
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{find, now};

/// Longest wait for a process to end after it was asked to.
const STOP_BOUND: Duration = Duration::from_secs(20);
/// Lines of its log that a failing test shows.
const SHOWN_LINES: usize = 60;

/// A running process, or what is left of it.
pub struct Process {
    name: String,
    child: Child,
    output: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts `command`. Its standard output goes to `NAME.out` and its
    /// standard error to `NAME.log` in `directory`, added to what is there.
    pub fn spawn(name: &str, command: &Command, directory: &Path) -> Self {
        let output = directory.join(format!("{name}.out"));
        let log = directory.join(format!("{name}.log"));
        let mut tied = tied_to_this_process(command);
        tied.stdin(Stdio::null()).stdout(appending(&output)).stderr(appending(&log));
        let child = spawn_on_lasting_thread(tied)
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", command.get_program().display()));
        Self { name: name.to_owned(), child, output, log }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a child process")
    }

    /// Waits for its end.
    pub async fn end(&mut self, bound: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        find(bound, &what, async || self.ended()).await.0
    }

    /// Ends it with SIGKILL, as a crash does. Nothing happens if it has ended.
    pub fn kill(&mut self) {
        // `Child` forgets the id with the wait, so that a stranger is never hit.
        self.child.kill().expect("kill a child process");
        self.child.wait().expect("wait for a child process");
    }

    /// Asks it to end with SIGTERM and waits until it has.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.end(STOP_BOUND).await
    }

    /// Stops it with SIGSTOP and waits until it stands still, with its connections
    /// open. Threads run on for a moment when there are more than processors.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
        let start = now();
        while !self.threads("stat").iter().all(|stat| stands_still(stat)) {
            assert!(start.elapsed() <= STOP_BOUND, "{} does not stand still", self.name);
            thread::yield_now();
        }
    }

    /// Lets it run on after `pause`.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// How long its threads were ready to run and waited for a processor, added up.
    pub fn starved(&self) -> Duration {
        // Time on a processor, time of waiting for one, both in nanoseconds, and a count.
        let waited = |schedule: &String| schedule.split(' ').nth(1)?.parse::<u64>().ok();
        Duration::from_nanos(self.threads("schedstat").iter().filter_map(waited).sum())
    }

    /// What the kernel says of each of its threads.
    fn threads(&self, file: &str) -> Vec<String> {
        let threads =
            fs::read_dir(format!("/proc/{}/task", self.id())).expect("the threads of a child process");
        // A thread may end meanwhile.
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join(file)).ok()).collect()
    }

    /// Everything that it wrote on standard output.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Everything that it wrote on standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let id =
                i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("the id of a child process");
            kill_process(id, signal).expect("signal a child process");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors would hide the test's own.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("---- {} wrote at last ----\n{}{}", self.name, tail(&self.log()), tail(&self.output()));
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Process")
            .field("name", &self.name)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// Whether a thread is stopped, or dead. Its state follows its name, which is in
/// brackets and may be anything.
fn stands_still(stat: &str) -> bool {
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_none_or(|state| "TZX".contains(state))
}

/// The same command, to be killed by the kernel when the thread that starts it
/// ends.
fn tied_to_this_process(command: &Command) -> Command {
    let mut tied = Command::new("setpriv");
    tied.args([OsStr::new("--pdeathsig"), OsStr::new("KILL"), OsStr::new("--"), command.get_program()]);
    tied.args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => tied.env(key, value),
            None => tied.env_remove(key),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        tied.current_dir(directory);
    }
    tied
}

/// Starts a command on a thread that lives as long as this process. A test's
/// own thread may end earlier, and the kernel takes that for the parent's end.
fn spawn_on_lasting_thread(command: Command) -> std::io::Result<Child> {
    type Order = (Command, mpsc::Sender<std::io::Result<Child>>);
    static SPAWNER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in orders {
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, spawned) = mpsc::channel();
    SPAWNER.send((command, reply)).expect("the spawning thread");
    spawned.recv().expect("the spawning thread")
}

fn appending(path: &Path) -> fs::File {
    fs::OpenOptions::new().create(true).append(true).open(path).expect("open a log file")
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().flat_map(|line| [line, "\n"]).collect()
}
