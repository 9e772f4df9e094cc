//! A real MariaDB on a free port with an empty data directory, for one test.
//! Knows nothing of Leasehold.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use mysql_async::{
    Conn, Opts, OptsBuilder,
    prelude::{FromRow, Queryable},
};
use rustix::thread::CpuSet;
use tempfile::TempDir;

use crate::{ports::Port, process::Process, processors, scratch, stage, wait::eventually};

/// Longest wait for it to accept connections.
const START_BOUND: Duration = Duration::from_secs(30);
/// Where `mariadbd` may be besides the search path; Debian's is in no user's.
const SERVER_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec"];
/// Run at each start, before connections are accepted.
const ACCOUNTS: &str = "\
CREATE DATABASE IF NOT EXISTS test;
CREATE USER IF NOT EXISTS 'app'@'%';
CREATE USER IF NOT EXISTS 'other'@'%';
CREATE USER IF NOT EXISTS 'leasehold'@'%';
CREATE USER IF NOT EXISTS 'root'@'%';
GRANT ALL ON test.* TO 'app'@'%', 'other'@'%';
GRANT PROCESS ON *.* TO 'leasehold'@'%';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
";
/// Small and careless: no test looks at what it stores.
const SIZE: [&str; 3] =
    ["--innodb-log-file-size=4M", "--innodb-buffer-pool-size=8M", "--innodb-flush-log-at-trx-commit=0"];
/// Counts what each account does.
const COUNTS: &str = "--userstat=ON";

/// A running MariaDB with the accounts `app` (the fleet's), `other`,
/// `leasehold` (may see all connections) and `root`, all without passwords.
#[derive(Debug)]
pub struct MariaDb {
    // Dropped first: it uses the directory.
    process: Process,
    command: Command,
    directory: TempDir,
    port: Port,
    back_door: Port,
}

impl MariaDb {
    /// Starts one that admits `max_connections`.
    pub async fn start(max_connections: u32) -> Self {
        Self::start_with(max_connections, &[]).await
    }

    /// Starts one with more `arguments` for `mariadbd`.
    pub async fn start_with(max_connections: u32, arguments: &[&str]) -> Self {
        let directory = scratch::directory("mariadb");
        let port = Port::claim();
        let back_door = Port::claim();
        let data = directory.path().join("data");
        copy_directory(&template(), &data).expect("copy the empty database");
        let accounts = directory.path().join("accounts.sql");
        fs::write(&accounts, ACCOUNTS).expect("write the accounts");

        let mut command = mariadbd();
        command.arg(option("datadir", data.display()));
        command.arg(option("init-file", accounts.display()));
        // It removes others' temporary tables where it starts; each has its own place.
        command.arg(option("tmpdir", directory.path().display()));
        // Relative to the data directory: the full path could be too long.
        command.args(["--socket=m.sock", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        command.arg(option("port", port.number()));
        command.args([option("extra-port", back_door.number()), option("extra-max-connections", 10)]);
        command.arg(option("max-connections", max_connections));
        command.args(SIZE).arg(COUNTS).args(arguments);

        let process = Process::spawn("mariadbd", &command, directory.path());
        let mut database = Self { process, command, directory, port, back_door };
        database.ready().await;
        database
    }

    /// Has it run on `processors` alone.
    pub fn keep_to(&self, processors: &CpuSet) {
        processors::keep(self.process.id(), processors).expect("it runs, and these processors are there");
    }

    /// A URL for `account`.
    pub fn url(&self, account: &str) -> String {
        format!("mysql://{account}@{}/", self.port.address())
    }

    /// Opens a connection as any tool does.
    pub async fn connect(&self, account: &str) -> mysql_async::Result<Conn> {
        connect(self.port.number(), account).await
    }

    /// Opens `count` connections as a tool does that knows nothing of leases.
    pub async fn open(&self, account: &str, count: usize) -> Vec<Conn> {
        let mut connections = Vec::new();
        while connections.len() < count {
            connections.push(self.connect(account).await.expect("the tool's connection"));
        }
        connections
    }

    /// Looks into it through the back door.
    pub fn observer(&self) -> Observer {
        Observer { back_door: self.back_door.number() }
    }

    /// How many connections `account` has now.
    pub async fn connections(&self, account: &str) -> u32 {
        self.observer().crowd(account).await.open
    }

    /// How many connections `account` has opened since the start, by
    /// MariaDB's own count.
    pub async fn opened_by(&self, account: &str) -> u64 {
        let question =
            "SELECT CAST(SUM(TOTAL_CONNECTIONS) AS UNSIGNED) FROM information_schema.USER_STATISTICS";
        self.observer().ask(&format!("{question} WHERE USER = '{account}'")).await
    }

    /// Ends all connections of `account`.
    pub async fn kill_connections(&self, account: &str) {
        self.observer().command(&format!("KILL HARD CONNECTION USER '{account}'")).await;
    }

    /// Changes its limit while it runs.
    pub async fn set_max_connections(&self, count: u32) {
        let observer = self.observer();
        observer.command(&format!("SET GLOBAL max_connections = {count}")).await;
        let now: u32 = observer.ask("SELECT @@GLOBAL.max_connections").await;
        assert_eq!(now, count, "MariaDB took another limit");
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Ends it in order.
    pub async fn stop(&mut self) {
        self.process.stop().await;
    }

    /// Starts it again on the same port and data after `kill` or `stop`.
    pub async fn restart(&mut self) {
        self.process = Process::spawn("mariadbd", &self.command, self.directory.path());
        self.ready().await;
    }

    /// Makes it stand still with its connections open.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    /// Lets it run on after `pause`.
    pub fn resume(&mut self) {
        self.process.resume();
    }

    async fn ready(&mut self) {
        let (process, back_door) = (&mut self.process, self.back_door.number());
        eventually(START_BOUND, "MariaDB to accept connections", async || {
            assert!(process.ended().is_none(), "MariaDB ended at once:\n{}", process.log());
            match connect(back_door, "root").await {
                Ok(root) => root.disconnect().await.is_ok(),
                Err(_) => false,
            }
        })
        .await;
    }
}

/// Root at the back door: gets in even when all connections are taken, and
/// stays for one statement only, as whoever counts connections counts root's too.
#[derive(Clone, Debug)]
pub struct Observer {
    back_door: u16,
}

/// The connections of an account at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// All of them.
    pub open: u32,
    /// Those that run a statement.
    pub busy: u32,
}

impl Observer {
    /// Counts the connections of `account`.
    pub async fn crowd(&self, account: &str) -> Crowd {
        self.crowd_of(&[account]).await
    }

    /// Counts the connections of all `accounts` together.
    pub async fn crowd_of(&self, accounts: &[impl AsRef<str>]) -> Crowd {
        let question =
            "SELECT COUNT(*), COUNT(IF(COMMAND = 'Sleep', NULL, 1)) FROM information_schema.PROCESSLIST";
        let accounts: Vec<_> = accounts.iter().map(|account| format!("'{}'", account.as_ref())).collect();
        let (open, busy) = self.ask(&format!("{question} WHERE USER IN ({})", accounts.join(", "))).await;
        Crowd { open, busy }
    }

    /// Counts the connections of `account` whose query is of the endless kind
    /// that tests cancel.
    pub async fn endless(&self, account: &str) -> u32 {
        let question = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%BENCHMARK%'";
        self.ask(&format!("{question} AND USER = '{account}'")).await
    }

    /// A status variable that is a count, such as `Max_used_connections`.
    pub async fn status(&self, variable: &str) -> u64 {
        let question = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME";
        let answer: String = self.ask(&format!("{question} = '{variable}'")).await;
        answer.parse().expect("a count")
    }

    /// Runs a statement.
    pub async fn command(&self, statement: &str) {
        let mut root = self.enter().await;
        root.query_drop(statement).await.expect("root's statement");
        root.disconnect().await.expect("root leaves");
    }

    async fn ask<T: FromRow + Send + 'static>(&self, question: &str) -> T {
        let mut root = self.enter().await;
        let answer = root.query_first(question).await.expect("root's question").expect("an answer");
        root.disconnect().await.expect("root leaves");
        answer
    }

    async fn enter(&self) -> Conn {
        connect(self.back_door, "root").await.expect("root gets in through the back door")
    }
}

async fn connect(port: u16, account: &str) -> mysql_async::Result<Conn> {
    let options: Opts = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .user(Some(account))
        // It would open a second connection.
        .prefer_socket(false)
        .into();
    Conn::new(options).await
}

fn mariadbd() -> Command {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&search)
        .chain(SERVER_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join("mariadbd"))
        .find(|path| path.is_file())
        .expect("MariaDB is not installed; scripts/test installs what the tests need");
    let mut command = Command::new(program);
    command.arg("--no-defaults").args(consent_to_root());
    command
}

/// MariaDB runs as root only when told so.
fn consent_to_root() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}

/// An empty database that is made once and copied for each test.
fn template() -> PathBuf {
    let template = scratch::shared().join("mariadb-template");
    let _one_at_a_time = stage::lock("mariadb-template.lock");
    if !template.exists() {
        let unfinished = scratch::directory("mariadb-unfinished");
        let output = Command::new("mariadb-install-db")
            .arg("--no-defaults")
            .args(consent_to_root())
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(SIZE)
            .arg(option("datadir", unfinished.path().display()))
            .stdin(Stdio::null())
            .output()
            .expect("mariadb-install-db is not installed; scripts/test installs what the tests need");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mariadb-install-db failed: {said}");
        fs::rename(unfinished.keep(), &template).expect("name the finished database");
    }
    template
}

fn option(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
