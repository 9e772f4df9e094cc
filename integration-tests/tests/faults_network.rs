//! A slow and stalling network between nodes and server: nobody is taken for
//! dead before the TTL, and streams are not given up without need.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Fleet, Terms},
    member::Member,
    proxy::{Direction, Proxy},
    wait::{eventually, never, now},
};

const CAP: u32 = 30;
/// The longest wait of a node for an answer is a third of it.
const TTL: Duration = Duration::from_secs(9);
/// Bound for what should happen at once but is not measured.
const SOON: Duration = Duration::from_secs(10);
/// How long nothing may change while the network is merely slow.
const LONG: Duration = Duration::from_secs(6);
const DELAY: Duration = Duration::from_millis(400);

/// A fleet with one node that reaches the server over a proxy.
struct Scene {
    fleet: Fleet,
    proxy: Proxy,
    member: Member,
}

impl Scene {
    async fn set() -> Self {
        let fleet = Fleet::start(Terms { ttl: TTL, ..Terms::default() }).await;
        let proxy = Proxy::start(fleet.server.address());
        let member = Member::join(&proxy.url(), &fleet.database.url(ACCOUNT), "far").await;
        Self { fleet, proxy, member }
    }

    /// Nobody expired, and nobody says that anybody did.
    async fn nobody_expired(&self) {
        let shown = self.fleet.server.database(DATABASE).await;
        assert_eq!((shown.expired, shown.quarantined, shown.sessions), (0, 0, 1), "{shown:?}");
        let left = self.member.client.status().deadline_remaining.expect("it was welcomed");
        assert!(left > Duration::ZERO, "the node's own deadline has passed");
    }

    /// How often the node connected to the server.
    fn connects(&self) -> usize {
        self.proxy.arrivals().len()
    }

    async fn session_state(&self) -> String {
        let sessions = self.fleet.server.sessions(DATABASE).await;
        sessions.into_iter().next().map(|session| session.state).unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_network_costs_time_and_nothing_else() {
    let scene = Scene::set().await;
    scene.proxy.delay(DELAY);
    let start = now();
    let held = scene.member.take(10).await;
    let waited = start.elapsed();
    measured(format_args!("ten connections with {DELAY:?} of delay each way: {waited:?}"));
    // One way there and one back for what is asked for at once, and once more
    // for what was asked for a moment later.
    assert!(waited < DELAY * 7, "ten connections took {waited:?}");
    never(LONG, async || {
        let status = scene.member.client.status();
        let shown = scene.fleet.server.database(DATABASE).await;
        (!status.attached || shown.held != 10 || shown.sessions != 1)
            .then(|| format!("the session flaps: {status:?} {shown:?}"))
    })
    .await;
    assert_eq!(scene.connects(), 1, "the node connected again");
    scene.nobody_expired().await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn stalls_below_a_nodes_patience_change_nothing() {
    let scene = Scene::set().await;
    let held = scene.member.take(10).await;
    for direction in [Direction::Requests, Direction::Replies, Direction::Requests] {
        scene.proxy.stall(direction);
        tokio::time::sleep(TTL / 5).await;
        scene.proxy.flow();
        // Until both have heard of each other again.
        eventually(SOON, "the deadline to move", async || {
            let left = scene.member.client.status().deadline_remaining;
            left.is_some_and(|left| left > TTL * 4 / 5)
        })
        .await;
    }
    assert_eq!(scene.connects(), 1, "the node connected again");
    scene.nobody_expired().await;
    assert_eq!(scene.fleet.server.database(DATABASE).await.held, 10);
    // And it can have more as ever.
    let more = scene.member.take(CAP as usize - 10).await;
    drop((held, more));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_almost_as_long_as_the_ttl_expires_nobody() {
    let scene = Scene::set().await;
    let held = scene.member.take(10).await;
    for direction in [Direction::Requests, Direction::Replies] {
        let before = scene.connects();
        // A new connection stalls as well.
        scene.proxy.stall(direction);
        // The last keep-alive that was answered may be a fifth of the TTL old.
        tokio::time::sleep(TTL * 7 / 10).await;
        scene.proxy.flow();
        let start = now();
        eventually(SOON, "the node to be attached", async || {
            scene.member.client.status().attached && scene.session_state().await == "attached"
        })
        .await;
        let (connects, time) = (scene.connects() - before, start.elapsed());
        measured(format_args!(
            "{direction:?} stalled for 7/10 of the TTL: attached {time:?} after, {connects} connects"
        ));
        // A try lasts for some seconds: it is no flood.
        assert!(connects <= 5, "{connects} connects within one stall");
        scene.nobody_expired().await;
        assert_eq!(scene.fleet.server.database(DATABASE).await.held, 10);
    }
    let more = scene.member.take(CAP as usize - 10).await;
    drop((held, more));
}
