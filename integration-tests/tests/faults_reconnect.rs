//! A whole fleet comes back to a server that restarted: spread out, nobody
//! lost, and the database does not notice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_client::{
    Checkout, Client, LeasedPool,
    mysql::{Hooks, Manager},
};
use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Fleet, Terms},
    proxy::Proxy,
    stage::Stage,
    wait::{eventually, now},
};
use tokio::task::JoinSet;

const SESSIONS: u32 = 500;
const CAP: u32 = 600;
const TERMS: Terms = Terms { max_connections: 650, reserve: 50, ttl: Duration::from_secs(20) };
/// Most sessions that ask for a connection to the database at once at first.
const JOINING: usize = 50;
/// How long all may take to join, on a machine that runs them all.
const JOIN_BOUND: Duration = Duration::from_secs(60);
/// How soon all must be back.
const BACK: Duration = Duration::from_secs(10);
/// The server is away for so long.
const OUTAGE: Duration = Duration::from_secs(3);
/// Attempts to connect are counted in slots of this length.
const SLOT: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_sessions_come_back_spread_out_and_open_nothing() {
    let _stage = Stage::alone().await;
    let mut fleet = Fleet::start(TERMS).await;
    // All come through it, so it knows when each came.
    let proxy = Proxy::start(fleet.server.address());
    let members = gather(&proxy.url(), &fleet.database.url(ACCOUNT)).await;
    let all = |shown: &leasehold_proto::v1::Database| shown.held == SESSIONS && shown.sessions == SESSIONS;
    fleet.server.shows(DATABASE, JOIN_BOUND, "all sessions with a token", all).await;

    let delays = Delays::watch();
    fleet.server.kill();
    let opened = fleet.database.opened_by(ACCOUNT).await;
    let away = now();
    tokio::time::sleep(OUTAGE).await;
    fleet.server.restart().await;
    let restarted = now();
    eventually(BACK, "every session to be attached", async || {
        let sessions = fleet.server.sessions(DATABASE).await;
        sessions.iter().filter(|session| session.state == "attached").count() == SESSIONS as usize
    })
    .await;
    measured(format_args!("all {SESSIONS} are back {:?} after the restart", restarted.elapsed()));
    let shown = fleet.server.database(DATABASE).await;
    assert_eq!((shown.held, shown.quarantined, shown.expired), (SESSIONS, 0, 0), "{shown:?}");
    for member in &members {
        assert_eq!(member.pool.status().established, 1, "{:?}", member.client.status());
    }
    let more = fleet.database.opened_by(ACCOUNT).await - opened;
    assert!(more == 0, "{more} connections were opened at the database");
    assert_eq!(fleet.database.connections(ACCOUNT).await, SESSIONS);

    let attempts: Vec<Instant> = proxy.arrivals().into_iter().filter(|arrival| *arrival > away).collect();
    // One after the other, after pauses of 0.1 to 1 times what doubles from 50 ms
    // to 1 s: some ten times within the outage and the time after it. The proxy
    // accepts what its server refuses, and the transport then often connects once
    // more by itself.
    let most = 2 * 15 * SESSIONS as usize;
    let count = attempts.len();
    assert!(count <= most, "{count} attempts to connect, more than {most}");
    // Spread out: without jitter they would all come in one slot of a second. What
    // was due while this process was not running comes at once.
    let slot = SLOT + delays.longest();
    let later: Vec<Instant> =
        attempts.into_iter().filter(|attempt| *attempt > away + Duration::from_secs(1)).collect();
    let busiest = busiest_slot(&later, slot);
    measured(format_args!("{count} attempts to connect, after a second at most {busiest} within {slot:?}"));
    let most = (2.0 * f64::from(SESSIONS) / 3.0 * slot.div_duration_f64(SLOT)) as usize;
    assert!(busiest <= most, "{busiest} of {SESSIONS} came within {slot:?}, more than {most}");

    // None was lost for the future either: all can have another connection.
    let mut more = JoinSet::new();
    for member in members.iter().take((CAP - SESSIONS) as usize) {
        let pool = member.pool.clone();
        more.spawn(async move { pool.get().await.expect("another connection") });
    }
    let more = more.join_all().await;
    assert_eq!(fleet.database.connections(ACCOUNT).await, CAP);
    drop(more);
}

struct Member {
    client: Client,
    pool: LeasedPool<Manager>,
    _connection: Checkout<Manager>,
}

/// As many sessions in this process, each with one connection in use.
async fn gather(server: &str, mysql: &str) -> Vec<Member> {
    let (mut members, mut joining) = (Vec::new(), JoinSet::new());
    for number in 0..SESSIONS {
        let client = Client::builder().endpoint(server).node(format!("node-{number}"));
        let client = client.connect_lazy().expect("a session");
        let manager = Manager::from_url(mysql).expect("the database's URL");
        let pool = client.pool(DATABASE, manager).hooks(Hooks).max_size(2).wait_timeout(Some(JOIN_BOUND));
        let pool = pool.build().expect("a pool");
        joining.spawn(async move {
            let connection = pool.get().await.expect("a connection");
            Member { client, pool, _connection: connection }
        });
        if joining.len() >= JOINING {
            members.extend(joining.join_next().await.map(|member| member.expect("no panic")));
        }
    }
    members.extend(joining.join_all().await);
    members
}

/// Most of `instants` that lie within one slot.
fn busiest_slot(instants: &[Instant], slot: Duration) -> usize {
    let within = |from: Instant| instants.iter().filter(|at| (from..from + slot).contains(*at)).count();
    instants.iter().map(|from| within(*from)).max().unwrap_or(0)
}

/// How late this process's timers are.
struct Delays {
    longest: Arc<AtomicU64>,
}

impl Delays {
    fn watch() -> Self {
        const TICK: Duration = Duration::from_millis(5);
        let longest = Arc::<AtomicU64>::default();
        let seen = Arc::downgrade(&longest);
        tokio::spawn(async move {
            while let Some(longest) = seen.upgrade() {
                let begun = now();
                tokio::time::sleep(TICK).await;
                let late = begun.elapsed().saturating_sub(TICK);
                longest.fetch_max(late.as_millis() as u64, Ordering::Relaxed);
            }
        });
        Self { longest }
    }

    fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::Relaxed))
    }
}
