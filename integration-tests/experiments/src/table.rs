//! The published table of fair and unfair locks in a pool, with Leasehold's
//! modes: requests that run their queries in parallel on too few connections.
//! The modes take turns in one and the same fleet.

use std::{collections::BTreeMap, time::Duration};

use leasehold_client::clock::{Clock, Time};
use leasehold_integration_tests::server::Server;
use tokio::time::sleep;

use crate::{
    crew::Crew,
    figures::{Run, median},
    plan::{Load, Plan},
    plot,
    records::Records,
    report::{Report, Table},
    stage::{self, ACCOUNT, DATABASE, DEFAULT, Mode},
};

const NODES: usize = 4;
const REQUESTS: usize = 100;
const QUERIES: usize = 30;
const QUERY: &str = "select '1'";
const CAPS: [u32; 3] = [200, 500, 1_000];
/// For the nodes to have opened what they will.
const WARM_UP: Duration = Duration::from_secs(5);
/// After a change of the mode, for those that wait since before.
const SETTLE: Duration = Duration::from_millis(500);
/// Longest time for a fleet.
const BOUND: Duration = Duration::from_secs(3_600);
/// Short, for the speed of a machine that is shared changes from second to second.
const TURN: Duration = Duration::from_secs(1);
/// In pairs there and back, so that a fleet that grows slower or faster does so in both.
const PAIRS: [Mode; 4] = [Mode::Unfair, Mode::Fair, Mode::Fair, Mode::Unfair];
/// Requests a second of an unfair and of a fair lock as published for pools of
/// these sizes, on another machine: only their ratios compare.
const PUBLISHED: [(u32, f64, f64); 3] = [(200, 187.0, 104.0), (500, 189.0, 127.0), (1_000, 194.0, 112.0)];

/// What one mode did in a turn, or its mean of the turns of a run.
#[derive(Clone, Copy)]
struct Line {
    requests_a_second: f64,
    acquire_ms: f64,
    release_ms: f64,
    peak: f64,
    samples: f64,
    response: [f64; 4],
    overtaking_p99: f64,
    overtaking_max: f64,
    within_p99: f64,
    hold_p99: f64,
    opens: f64,
}

/// The lines of one mode, one for each run.
type Lines = BTreeMap<&'static str, Vec<Line>>;

pub(crate) async fn run(report: &mut Report, runs: usize, seconds: u64) {
    let mut table = Table::new(&[
        "cap",
        "mode",
        "acquire avg ms",
        "release avg ms",
        "active peak",
        "samples",
        "response avg ms",
        "p90 ms",
        "min ms",
        "max ms",
        "requests/s",
        "of unfair",
        "overtaking p99 ms",
        "overtaking max ms",
        "within a node p99 ms",
        "hold p99 ms",
        "connects",
    ]);
    let mut bars = Vec::new();
    for cap in CAPS {
        let lines = measure(cap, runs, seconds).await;
        for mode in Mode::ALL {
            table.row(row(cap, mode, &lines));
            let rate = median(lines[mode.name()].iter().map(|line| line.requests_a_second).collect());
            bars.push((format!("{cap}\n{}", mode.name()), rate));
        }
    }
    report.section("The published table, with ours beside it");
    report.paragraph(&format!(
        "{NODES} node processes with {REQUESTS} requests at a time, each of which runs {QUERIES} queries \
         (`{QUERY}`) in parallel. In each of {runs} runs one fleet passes through the modes, changed live: unfair and \
         fair take turns of {} s in the order U F F U, until each had {seconds} s, and then comes strict. The first {} s of \
         the fleet and {} s of each turn are left out. A figure is the median over the runs of the mean of a mode's turns, \
         and `of unfair` the median of the runs' own ratios. Overtaking is by how much who got a connection had asked \
         before the youngest who got one earlier, on any node; `within a node` is the same among the tasks of one node \
         alone, whose pool lets nobody overtake: it is the order in which connects end and a node's processor comes to \
         its tasks. A hold ends when the task has its answer. Nothing is sent to test a connection at its checkout.",
        TURN.as_secs(),
        WARM_UP.as_secs(),
        SETTLE.as_secs_f64()
    ));
    report.table(&table);
    let mut published = Table::new(&["pool", "unfair requests/s", "fair requests/s", "fair of unfair"]);
    for (pool, unfair, fair) in PUBLISHED {
        published.row([
            pool.to_string(),
            unfair.to_string(),
            fair.to_string(),
            format!("{:.2}", fair / unfair),
        ]);
    }
    report.paragraph("As published for the locks of a connection pool in one process, on another machine:");
    report.table(&published);
    report.picture("fairness-table.svg", "Requests a second by cap and mode", |area| {
        plot::bars(area, "requests/s by cap and mode", &bars)
    });
}

async fn measure(cap: u32, runs: usize, seconds: u64) -> Lines {
    let database = stage::database(cap).await;
    let mut lines = Lines::new();
    for number in 0..runs {
        let server = stage::server(&database, cap, Mode::Unfair).await;
        let plans = plans(&server.url(), &database.url(ACCOUNT), cap);
        let (records, turns) = in_turns(&server, &plans, &turns(seconds)).await;
        for mode in Mode::ALL {
            let own = turns.iter().filter(|(of, _)| *of == mode);
            let own: Vec<Line> = own.map(|(_, turn)| line(&Run::between(&records, *turn))).collect();
            let line = mean(&own);
            eprintln!(
                "cap {cap}, run {number}, {}: {:.0} requests/s, overtaking p99 {:.0} ms, within a node {:.0} ms",
                mode.name(),
                line.requests_a_second,
                line.overtaking_p99,
                line.within_p99,
            );
            lines.entry(mode.name()).or_default().push(line);
        }
    }
    lines
}

fn row(cap: u32, mode: Mode, lines: &Lines) -> [String; 17] {
    let (own, unfair) = (&lines[mode.name()], &lines[Mode::Unfair.name()]);
    let middle = |value: fn(&Line) -> f64| median(own.iter().map(value).collect());
    let pairs = own.iter().zip(unfair);
    let ratio = median(pairs.map(|(own, other)| own.requests_a_second / other.requests_a_second).collect());
    [
        cap.to_string(),
        mode.name().to_owned(),
        format!("{:.1}", middle(|line| line.acquire_ms)),
        format!("{:.4}", middle(|line| line.release_ms)),
        format!("{:.0}", middle(|line| line.peak)),
        format!("{:.0}", middle(|line| line.samples)),
        format!("{:.0}", middle(|line| line.response[0])),
        format!("{:.0}", middle(|line| line.response[1])),
        format!("{:.0}", middle(|line| line.response[2])),
        format!("{:.0}", middle(|line| line.response[3])),
        format!("{:.0}", middle(|line| line.requests_a_second)),
        format!("{ratio:.3}"),
        format!("{:.0}", middle(|line| line.overtaking_p99)),
        format!("{:.0}", middle(|line| line.overtaking_max)),
        format!("{:.0}", middle(|line| line.within_p99)),
        format!("{:.0}", middle(|line| line.hold_p99)),
        format!("{:.0}", middle(|line| line.opens)),
    ]
}

/// So many seconds for each mode: unfair and fair by turns, and then strict, whose unrest
/// would last into the others' turns.
fn turns(seconds: u64) -> Vec<Mode> {
    let pairs = (0..seconds.div_ceil(2)).flat_map(|_| PAIRS);
    pairs.chain((0..seconds).map(|_| Mode::Strict)).collect()
}

/// Runs a fleet while the modes take turns; says what was whose, without the time in
/// which it settled.
async fn in_turns(
    server: &Server,
    plans: &[Plan],
    turns: &[Mode],
) -> (Vec<Records>, Vec<(Mode, (Time, Time))>) {
    let clock = Clock::system();
    let mut crew = Crew::gather(plans).await;
    crew.begin().await;
    sleep(WARM_UP).await;
    let mut windows = Vec::new();
    for mode in turns {
        stage::change(server, *mode).await;
        sleep(SETTLE).await;
        let from = clock.now();
        sleep(TURN).await;
        windows.push((*mode, (from, clock.now())));
    }
    crew.end();
    (crew.records().await, windows)
}

fn plans(server: &str, mysql: &str, cap: u32) -> Vec<Plan> {
    (0..NODES)
        .map(|node| Plan {
            node: format!("node-{node}"),
            workload: DEFAULT.to_owned(),
            server: Some(server.to_owned()),
            database: DATABASE.to_owned(),
            mysql: mysql.to_owned(),
            pool_max: cap,
            query: QUERY.to_owned(),
            begins_ms: 0,
            load: Load::Closed { requests: REQUESTS, queries: QUERIES },
            lasts_ms: BOUND.as_millis() as u64,
        })
        .collect()
}

fn line(run: &Run<'_>) -> Line {
    assert_eq!(run.failures(), 0, "checkouts failed");
    let (waits, responses, overtaking) = (run.waits(), run.responses(), run.overtaking());
    Line {
        requests_a_second: responses.count() as f64 / run.seconds(),
        acquire_ms: waits.mean_ms(),
        release_ms: run.releases().mean_ms(),
        peak: run.peak() as f64,
        samples: responses.count() as f64,
        response: [responses.mean_ms(), responses.quantile_ms(0.9), responses.min_ms(), responses.max_ms()],
        overtaking_p99: overtaking.quantile_ms(0.99),
        overtaking_max: overtaking.max_ms(),
        within_p99: run.overtaking_within_nodes().quantile_ms(0.99),
        hold_p99: run.holds().quantile_ms(0.99),
        opens: run.opens() as f64,
    }
}

/// The mean of some lines, figure by figure.
fn mean(lines: &[Line]) -> Line {
    let of = |value: fn(&Line) -> f64| lines.iter().map(value).sum::<f64>() / lines.len() as f64;
    Line {
        requests_a_second: of(|line| line.requests_a_second),
        acquire_ms: of(|line| line.acquire_ms),
        release_ms: of(|line| line.release_ms),
        peak: of(|line| line.peak),
        samples: of(|line| line.samples),
        response: [
            of(|line| line.response[0]),
            of(|line| line.response[1]),
            of(|line| line.response[2]),
            of(|line| line.response[3]),
        ],
        overtaking_p99: of(|line| line.overtaking_p99),
        overtaking_max: of(|line| line.overtaking_max),
        within_p99: of(|line| line.within_p99),
        hold_p99: of(|line| line.hold_p99),
        opens: of(|line| line.opens),
    }
}
