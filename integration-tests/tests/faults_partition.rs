//! A node that is cut off from the server, by packets that vanish and not by a
//! refusal, while it still reaches its database. It follows the loss policy that
//! it was told, and both ends notice the half-open stream.
//!
//! Needs network namespaces, so root; without them nothing is tested, and that is
//! said.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Watch},
    mariadb::MariaDb,
    member::Member,
    namespace::Namespace,
    node::{Load, Node},
    server::Server,
    wait::{eventually, never, now},
};

const CAP: u32 = 30;
/// Longer than the keep-alive bounds, so that a stream is noticed before the
/// session expires.
const TTL: Duration = Duration::from_secs(14);
/// The server pings a silent connection after 5 s and gives it 5 s.
const SERVER_NOTICES: Duration = Duration::from_secs(10);
/// A node gives an answer a third of the TTL, 5 s at most, and sends a
/// keep-alive every fifth of the TTL.
const NODE_NOTICES: Duration = Duration::from_secs(8);
const MARGIN: Duration = Duration::from_secs(2);
const FENCE_GRACE: Duration = Duration::from_secs(2);
const PROBE: Duration = Duration::from_secs(1);
/// Bound for what should happen at once but is not measured.
const SOON: Duration = Duration::from_secs(10);

/// A database, its server, and a node that works in a namespace.
struct Scene {
    database: MariaDb,
    server: Server,
    namespace: Namespace,
    node: Node,
    /// In the test's own process, on the server's side of the cut.
    other: Member,
    /// Its share, held from before the cut.
    kept: Vec<leasehold_client::Checkout<leasehold_client::mysql::Manager>>,
    watch: Watch,
}

impl Scene {
    /// `section` says how the server shares the database out; `{url}` in it is
    /// the database's.
    async fn set(section: &str) -> Option<Self> {
        let namespace = Namespace::create()?;
        let database = MariaDb::start_with(40, &["--bind-address=0.0.0.0"]).await;
        let section = section.replace("{url}", &database.url("leasehold"));
        let server = Server::start_open(&format!("[databases.{DATABASE}]\n{section}")).await;
        server.shows(DATABASE, SOON, "the cap", |shown| shown.cap == CAP).await;
        let from_inside = |url: String| url.replace("127.0.0.1", &namespace.outside().to_string());
        let watch = Watch::over(database.observer(), &[ACCOUNT]);
        let other = Member::join(&server.url(), &database.url(ACCOUNT), "other").await;
        let kept = other.take(10).await;
        let load = Load {
            server: Some(from_inside(server.url())),
            pool_max: 20,
            // It waits more than it works: these tests run beside each other.
            query: "SELECT SLEEP(0.05)".to_owned(),
            ..Load::new(from_inside(database.url(ACCOUNT)), 20, 600)
        };
        let node = Node::start_inside(&namespace, &load, "cut-off");
        let all = |shown: &leasehold_proto::v1::Database| shown.sessions == 2 && shown.held == CAP;
        server.shows(DATABASE, SOON, "both to share all", all).await;
        let scene = Self { database, server, namespace, node, other, kept, watch };
        eventually(SOON, "all connections", async || scene.connections().await == CAP).await;
        Some(scene)
    }

    async fn connections(&self) -> u32 {
        self.database.connections(ACCOUNT).await
    }

    async fn state(&self, node: &str) -> String {
        let sessions = self.server.sessions(DATABASE).await;
        sessions
            .into_iter()
            .find(|session| session.node == node)
            .map(|session| session.state)
            .unwrap_or_default()
    }

    async fn silent(&self, node: &str) -> Option<Duration> {
        let sessions = self.server.sessions(DATABASE).await;
        let session = sessions.into_iter().find(|session| session.node == node)?;
        Some(Duration::from_millis(session.silent_ms))
    }

    /// Cuts, and waits until both ends have noticed that the stream is gone.
    async fn cut(&self) {
        self.namespace.cut(self.server.address().port());
        let start = now();
        eventually(SERVER_NOTICES + MARGIN, "the server to notice", async || {
            self.state("cut-off").await == "unattached"
        })
        .await;
        measured(format_args!("the server noticed the half-open stream after {:?}", start.elapsed()));
    }

    async fn ends_within_the_cap(self) {
        drop(self.kept);
        self.other.client.shutdown().await.expect("everything is given back");
        let report = self.node.finish().await;
        eprintln!("{report:?}");
        assert!(report.refused() == 0 && report.checkouts > 0, "{report:?}");
        let peak = self.watch.end().await.peak();
        assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_keeps_its_connections_and_they_stay_counted() {
    let section = format!(
        "url = \"{{url}}\"\naccounts = [\"{ACCOUNT}\"]\nreserve = 10\nttl = \"{}s\"\n",
        TTL.as_secs()
    );
    let Some(scene) = Scene::set(&section).await else { return };
    let start = now();
    scene.cut().await;
    scene.server.shows(DATABASE, TTL + MARGIN, "its expiry", |shown| shown.expired == 1).await;
    measured(format_args!("it expired {:?} after the cut", start.elapsed()));
    // The server counts as strays what the database shows; the node works on.
    scene.server.shows(DATABASE, 5 * PROBE, "its connections as strays", |shown| shown.strays == 20).await;
    let before = scene.database.observer().status("Questions").await;
    never(Duration::from_secs(3), async || {
        let open = scene.connections().await;
        (open > CAP).then(|| format!("{open} connections, more than {CAP}"))
    })
    .await;
    let queries = scene.database.observer().status("Questions").await - before;
    assert!(queries > 500, "the node that was cut off stood still: {queries} queries");

    scene.namespace.heal();
    let healed = now();
    scene
        .server
        .shows(DATABASE, SOON, "its return", |shown| {
            shown.sessions == 2 && shown.strays == 0 && shown.held == CAP
        })
        .await;
    measured(format_args!("the node was back {:?} after the cut ended", healed.elapsed()));
    scene.ends_within_the_cap().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_closes_its_connections_where_nobody_counts_them() {
    let section = format!(
        "cap = {CAP}\non_loss = \"fence\"\nttl = \"{}s\"\nfence_grace = \"{}s\"\n",
        TTL.as_secs(),
        FENCE_GRACE.as_secs()
    );
    let Some(scene) = Scene::set(&section).await else { return };
    let start = now();
    scene.cut().await;
    eventually(TTL + MARGIN, "the node to close its connections", async || scene.connections().await == 10)
        .await;
    let closed = start.elapsed();
    measured(format_args!("the node had closed everything {closed:?} after the cut"));
    // Its tokens are free after that, not before.
    let all = scene.other.take(20).await;
    let free = start.elapsed();
    measured(format_args!("its tokens were another node's {free:?} after the cut"));
    assert!(
        closed < free && free <= TTL + FENCE_GRACE + MARGIN,
        "closed after {closed:?}, free after {free:?}"
    );
    drop(all);

    scene.namespace.heal();
    scene
        .server
        .shows(DATABASE, SOON, "its return", |shown| shown.sessions == 2 && shown.quarantined == 0)
        .await;
    eventually(SOON, "it to work again", async || {
        scene.state("cut-off").await == "attached" && scene.connections().await > 10
    })
    .await;
    scene.ends_within_the_cap().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_notices_a_half_open_stream_by_itself() {
    let section = format!("cap = {CAP}\non_loss = \"keep\"\nttl = \"{}s\"\n", TTL.as_secs());
    let Some(scene) = Scene::set(&section).await else { return };
    scene.namespace.cut(scene.server.address().port());
    let start = now();
    // It tries a new connection: a packet to nobody, again and again.
    eventually(NODE_NOTICES + MARGIN, "the node to try again", async || {
        scene.namespace.connecting(scene.server.address().port()) > 0
    })
    .await;
    measured(format_args!("the node noticed the half-open stream after {:?}", start.elapsed()));
    scene.namespace.heal();
    // The new stream is heard of; the server may not have missed the old one yet.
    let back = eventually(SOON, "the server to hear of it", async || {
        scene.silent("cut-off").await.is_some_and(|silent| silent < TTL / 5)
    })
    .await;
    measured(format_args!("it was heard of {back:?} after the cut ended"));
    let shown = scene.server.database(DATABASE).await;
    assert_eq!((shown.expired, shown.held), (0, CAP), "{shown:?}");
    scene.ends_within_the_cap().await;
}
