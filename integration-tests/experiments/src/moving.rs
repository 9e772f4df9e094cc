//! From "node A is idle, node B asks" to B's first new connection.

use std::time::Duration;

use leasehold_client::{Checkout, Client, LeasedPool, clock::Clock, mysql::Manager};
use leasehold_integration_tests::wait::eventually;

use crate::{
    figures::Times,
    report::{Report, Table},
    stage::{self, ACCOUNT, DATABASE, Mode},
};

const CAP: u32 = 20;
/// Longer than an idle connection's grace.
const IDLE: Duration = Duration::from_millis(100);
const BOUND: Duration = Duration::from_secs(10);

struct Node {
    client: Client,
    pool: LeasedPool<Manager>,
}

impl Node {
    async fn new(name: &str, server: &str, mysql: &str) -> Self {
        let client = Client::builder().endpoints([server.to_owned()]).node(name).connect().await;
        let client = client.expect("the server is there");
        let manager = Manager::from_url(mysql).expect("the URL is right");
        let pool =
            client.mysql_pool(DATABASE, manager).max_size(CAP).build().expect("the settings are right");
        client.ready(DATABASE).await.expect("the server knows the database");
        Self { client, pool }
    }

    async fn take_all(&self) -> Vec<Checkout<Manager>> {
        let mut all = Vec::new();
        while all.len() < CAP as usize {
            all.push(self.pool.get().await.expect("the cap is free"));
        }
        all
    }
}

pub(crate) async fn run(report: &mut Report, times: usize) {
    let database = stage::database(CAP).await;
    let server = stage::server(&database, CAP, Mode::Fair).await;
    let mysql = database.url(ACCOUNT);
    let nodes = [Node::new("a", &server.url(), &mysql).await, Node::new("b", &server.url(), &mysql).await];
    let clock = Clock::system();
    let (mut totals, mut beyond) = (Vec::new(), Vec::new());
    for number in 0..times {
        let (idle, asks) = (&nodes[number % 2], &nodes[(number + 1) % 2]);
        drop(idle.take_all().await);
        eventually(BOUND, "the one node to hold all, and to have used none for a while", async || {
            tokio::time::sleep(IDLE).await;
            let (one, other) = (idle.pool.status(), asks.pool.status());
            one.idle == CAP && other.holding == 0
        })
        .await;
        let connect = connect_time(&database, &clock).await;
        let asked = clock.now();
        let connection = asks.pool.get().await.expect("the other gives one up");
        let took = clock.now().since(asked);
        drop(connection);
        totals.push(took.as_nanos() as u64);
        beyond.push(took.saturating_sub(connect).as_nanos() as u64);
    }
    let (totals, beyond) = (Times::of(totals.into_iter()), Times::of(beyond.into_iter()));
    report.section("Moving demand");
    report.paragraph(&format!(
        "Two pools under one server. One holds the whole cap of {CAP}, all idle; the other asks for its first \
         connection. {times} times, in turns; the database's own connect time is that of a connection made without \
         Leasehold just before."
    ));
    let mut table = Table::new(&["", "median ms", "p90 ms", "max ms"]);
    for (name, times) in [("asked until connected", &totals), ("of that beyond the connect", &beyond)] {
        table.row([
            name.to_owned(),
            format!("{:.2}", times.quantile_ms(0.5)),
            format!("{:.2}", times.quantile_ms(0.9)),
            format!("{:.2}", times.max_ms()),
        ]);
    }
    report.table(&table);
    for node in nodes {
        node.client.shutdown().await.expect("it ends in order");
    }
}

/// How long the database takes to give a connection.
async fn connect_time(database: &leasehold_integration_tests::mariadb::MariaDb, clock: &Clock) -> Duration {
    let begun = clock.now();
    let connection = database.connect("other").await.expect("the reserve has room");
    let took = clock.now().since(begun);
    connection.disconnect().await.expect("it ends in order");
    took
}
