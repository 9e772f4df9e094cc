//! The published table of fair and unfair locks in a pool, with Leasehold's
//! modes: requests that run their queries in parallel on too few connections.
//! The modes take turns in one and the same fleet.

use std::{collections::BTreeMap, time::Duration};

use leasehold_client::clock::{Clock, Time};
use leasehold_integration_tests::server::Server;
use tokio::time::sleep;

use crate::{
    crew::Crew,
    figures::{Run, Times, median},
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

/// What is said of a mode: its head, digits behind the point, and how it is found.
type Figure = (&'static str, usize, fn(&Seen<'_>) -> f64);

const FIGURES: [Figure; 14] = [
    ("acquire avg ms", 1, |seen| seen.waits.mean_ms()),
    ("release avg ms", 4, |seen| seen.run.releases().mean_ms()),
    ("active peak", 0, |seen| seen.run.peak() as f64),
    ("samples", 0, |seen| seen.responses.count() as f64),
    ("response avg ms", 0, |seen| seen.responses.mean_ms()),
    ("p90 ms", 0, |seen| seen.responses.quantile_ms(0.9)),
    ("min ms", 0, |seen| seen.responses.min_ms()),
    ("max ms", 0, |seen| seen.responses.max_ms()),
    ("requests/s", 0, |seen| seen.responses.count() as f64 / seen.run.seconds()),
    ("overtaking p99 ms", 0, |seen| seen.overtaking.quantile_ms(0.99)),
    ("overtaking max ms", 0, |seen| seen.overtaking.max_ms()),
    ("within a node p99 ms", 0, |seen| seen.run.overtaking_within_nodes().quantile_ms(0.99)),
    ("hold p99 ms", 0, |seen| seen.run.holds().quantile_ms(0.99)),
    ("connects", 0, |seen| seen.run.opens() as f64),
];
/// Which of them is compared with that of unfair, in a column behind it.
const RATE: usize = 8;

/// All figures of a mode: of a turn, or their means of the turns of a run.
type Line = [f64; FIGURES.len()];

/// The lines of one mode, one for each run.
type Lines = BTreeMap<&'static str, Vec<Line>>;

/// A turn, and what most figures are made of.
struct Seen<'a> {
    run: Run<'a>,
    waits: Times,
    responses: Times,
    overtaking: Times,
}

pub(crate) async fn run(report: &mut Report, runs: usize, seconds: u64) {
    let mut heads: Vec<&str> = FIGURES.iter().map(|(head, ..)| *head).collect();
    heads.insert(RATE + 1, "of unfair");
    let mut table = Table::new(&[&["cap", "mode"], &heads[..]].concat());
    let mut bars = Vec::new();
    for cap in CAPS {
        let lines = measure(cap, runs, seconds).await;
        for mode in Mode::ALL {
            table.row(row(cap, mode, &lines));
            let rate = middle(&lines[mode.name()], RATE);
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
            let own: Vec<Line> = own.map(|(_, turn)| line(Run::between(&records, *turn))).collect();
            let line: Line = std::array::from_fn(|figure| {
                own.iter().map(|line| line[figure]).sum::<f64>() / own.len() as f64
            });
            let said =
                FIGURES.iter().zip(line).map(|((head, digits, _), value)| format!("{head} {value:.digits$}"));
            eprintln!("cap {cap}, run {number}, {}: {}", mode.name(), said.collect::<Vec<_>>().join(", "));
            lines.entry(mode.name()).or_default().push(line);
        }
    }
    lines
}

fn row(cap: u32, mode: Mode, lines: &Lines) -> Vec<String> {
    let (own, unfair) = (&lines[mode.name()], &lines[Mode::Unfair.name()]);
    let ratios = own.iter().zip(unfair).map(|(own, other)| own[RATE] / other[RATE]);
    let mut row: Vec<String> = FIGURES
        .iter()
        .enumerate()
        .map(|(figure, (_, digits, _))| format!("{:.digits$}", middle(own, figure)))
        .collect();
    row.insert(RATE + 1, format!("{:.3}", median(ratios.collect())));
    [cap.to_string(), mode.name().to_owned()].into_iter().chain(row).collect()
}

/// The median of a figure over the runs.
fn middle(lines: &[Line], figure: usize) -> f64 {
    median(lines.iter().map(|line| line[figure]).collect())
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

fn line(run: Run<'_>) -> Line {
    assert_eq!(run.failures(), 0, "checkouts failed");
    let (waits, responses, overtaking) = (run.waits(), run.responses(), run.overtaking());
    let seen = Seen { run, waits, responses, overtaking };
    FIGURES.map(|(_, _, of)| of(&seen))
}
