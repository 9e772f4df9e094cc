//! A real `leasehold-server` process on free ports with its own data, for one
//! test. Knows its command line, its configuration file and its gRPC API, and
//! nothing of what it decides.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use leasehold_proto::v1::{
    Database, ListSessionsRequest, Session, StatusReply, StatusRequest,
    admin_service_client::AdminServiceClient,
};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use crate::{
    binaries, http,
    http::Page,
    ports::Port,
    process::Process,
    scratch,
    wait::{eventually, find, now},
};

/// Longest wait for it to be ready.
const READY_BOUND: Duration = Duration::from_secs(20);
/// Longest wait for it to answer one call.
const CALL_BOUND: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct Server {
    // Dropped first: it uses the directory.
    process: Process,
    config: PathBuf,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    directory: TempDir,
    listen: Port,
    http: Port,
    channel: Channel,
}

impl Server {
    /// Starts one and waits until it is ready. `databases` is the part of its
    /// configuration below `[server]`.
    pub async fn start(databases: &str) -> Self {
        Self::start_with(databases, &[]).await
    }

    /// Starts one with more variables in its environment.
    pub async fn start_with(databases: &str, environment: &[(&str, &str)]) -> Self {
        Self::launch(Ipv4Addr::LOCALHOST, databases, environment, &[]).await
    }

    /// Starts one that is told more on its command line, too.
    pub async fn start_told(databases: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::launch(Ipv4Addr::LOCALHOST, databases, environment, arguments).await
    }

    /// Starts one that other network namespaces reach too.
    pub async fn start_open(databases: &str) -> Self {
        Self::launch(Ipv4Addr::UNSPECIFIED, databases, &[], &[]).await
    }

    async fn launch(
        from: Ipv4Addr,
        databases: &str,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let directory = scratch::directory("server");
        let data = directory.path().join("data");
        Self::start_in(directory, &data, from, databases, environment, arguments).await
    }

    /// Starts one that keeps its records elsewhere, in `data`.
    pub async fn start_on(data: &Path, databases: &str) -> Self {
        Self::start_in(scratch::directory("server"), data, Ipv4Addr::LOCALHOST, databases, &[], &[]).await
    }

    async fn start_in(
        directory: TempDir,
        data: &Path,
        from: Ipv4Addr,
        databases: &str,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let (listen, http) = (Port::claim(), Port::claim());
        let config = directory.path().join("leasehold.toml");
        let text = format!(
            "[server]\nlisten = \"{from}:{}\"\nhttp = \"{}\"\ndata = \"{}\"\n\n{databases}",
            listen.number(),
            http.address(),
            data.display()
        );
        fs::write(&config, text).expect("write the server's configuration");
        let environment: Vec<(String, String)> =
            environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let channel = Endpoint::from_shared(format!("http://{}", listen.address()))
            .expect("the server's URL")
            .timeout(CALL_BOUND)
            .connect_lazy();
        let process = spawn(&config, &environment, &arguments, &directory);
        let mut server = Self { process, config, environment, arguments, directory, listen, http, channel };
        server.ready().await;
        server
    }

    /// Where nodes and operators reach it.
    pub fn url(&self) -> String {
        format!("http://{}", self.listen.address())
    }

    /// A connection to it for any of its gRPC services.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Its whole state.
    pub async fn status(&self) -> StatusReply {
        let mut admin = AdminServiceClient::new(self.channel());
        admin.status(StatusRequest {}).await.expect("the server's status").into_inner()
    }

    /// What it says of one database.
    pub async fn database(&self, name: &str) -> Database {
        let status = self.status().await;
        status
            .databases
            .into_iter()
            .find(|database| database.name == name)
            .expect("the database in the status")
    }

    /// Waits until what it says of one database is as `expected`, and returns
    /// the time that this took.
    pub async fn shows(
        &self,
        name: &str,
        bound: Duration,
        what: &str,
        expected: impl Fn(&Database) -> bool,
    ) -> Duration {
        let mut last = None;
        let what = format!("the server to show {what}");
        find(bound, &what, async || {
            let database = self.database(name).await;
            let found = expected(&database).then_some(());
            if last.as_ref() != Some(&database) {
                eprintln!("the server shows {}", summary(&database));
                last = Some(database);
            }
            found
        })
        .await
        .1
    }

    /// The sessions that use one database.
    pub async fn sessions(&self, database: &str) -> Vec<Session> {
        let request = ListSessionsRequest { database: database.to_owned() };
        let mut admin = AdminServiceClient::new(self.channel());
        admin.list_sessions(request).await.expect("the server's sessions").into_inner().sessions
    }

    /// A page of its HTTP port, such as `/metrics`.
    pub async fn page(&self, path: &str) -> Option<Page> {
        http::get(self.http.address(), path).await
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Ends it in order.
    pub async fn stop(&mut self) -> std::process::ExitStatus {
        self.process.stop().await
    }

    /// Starts it again on the same ports and data after `kill` or `stop`, and
    /// returns how long it took to be ready.
    pub async fn restart(&mut self) -> Duration {
        let start = now();
        self.process = spawn(&self.config, &self.environment, &self.arguments, &self.directory);
        self.ready().await;
        start.elapsed()
    }

    /// How long it waited for a processor since its last start: time that others,
    /// on this machine, cost it. Of all its threads, so it may be too much.
    pub fn starved(&self) -> Duration {
        self.process.starved()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its gRPC address.
    pub fn address(&self) -> SocketAddr {
        self.listen.address()
    }

    /// Makes it stand still with its connections open.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    /// Lets it run on after `pause`.
    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Everything that it wrote for people: on standard output and in its log.
    pub fn written(&self) -> String {
        self.process.output() + &self.process.log()
    }

    async fn ready(&mut self) {
        let (process, address) = (&mut self.process, self.http.address());
        eventually(READY_BOUND, "the server to be ready", async || {
            assert!(
                process.ended().is_none(),
                "the server ended at once:\n{}{}",
                process.output(),
                process.log()
            );
            http::get(address, "/readyz").await.is_some_and(|page| page.status == 200)
        })
        .await;
    }
}

fn spawn(
    config: &Path,
    environment: &[(String, String)],
    arguments: &[String],
    directory: &TempDir,
) -> Process {
    let mut command = Command::new(binaries::server());
    command.arg("--config").arg(config).args(arguments).current_dir(directory.path());
    for (key, value) in environment {
        command.env(key, value);
    }
    Process::spawn("leasehold-server", &command, directory.path())
}

fn summary(database: &Database) -> String {
    format!(
        "cap={} held={} free={} others={} strays={} uncertain={} quarantined={} waiting={} sessions={}",
        database.cap,
        database.held,
        database.free,
        database.others,
        database.strays,
        database.uncertain,
        database.quarantined,
        database.waiting,
        database.sessions
    )
}
