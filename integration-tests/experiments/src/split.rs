//! The same cap divided evenly by hand, against leases, while demand moves from
//! node to node.

use std::time::Duration;

use crate::{
    crew,
    figures::{Run, median},
    plan::{Load, Plan},
    report::{Report, Table},
    stage::{self, ACCOUNT, DATABASE, DEFAULT, Mode},
};

const NODES: usize = 4;
const CAP: u32 = 40;
const HOLD: f64 = 0.02;
const QUERY: &str = "select sleep(0.02)";
/// The part of the demand that the busy node has; the others share the rest.
const BUSY: f64 = 0.7;
const PHASE: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_secs(2);
const LOADS: [f64; 2] = [0.6, 0.8];

pub(crate) async fn run(report: &mut Report, runs: usize, seconds: u64) {
    let database = stage::database(CAP).await;
    let mut table = Table::new(&[
        "demand",
        "load",
        "split p50 ms",
        "split p99 ms",
        "leased p50 ms",
        "leased p99 ms",
        "p99 ratio",
        "split queries/s",
        "leased queries/s",
    ]);
    for moving in [true, false] {
        for load in LOADS {
            let mut figures: [Vec<f64>; 7] = Default::default();
            for number in 0..runs {
                let split = plans(None, &database.url(ACCOUNT), CAP / NODES as u32, load, moving, seconds);
                let split = crew::run(&split).await;
                let split = Run::new(&split, WARM_UP);
                // Started before, it would count all of that as strays.
                let server = stage::server(&database, CAP, Mode::Fair).await;
                let leased = plans(Some(&server.url()), &database.url(ACCOUNT), CAP, load, moving, seconds);
                let leased = crew::run(&leased).await;
                let leased = Run::new(&leased, WARM_UP);
                assert_eq!(split.failures() + leased.failures(), 0, "checkouts failed");
                let (ours, theirs) = (leased.waits(), split.waits());
                let ratio = theirs.quantile_ms(0.99) / ours.quantile_ms(0.99);
                eprintln!(
                    "load {load}, moving {moving}, run {number}: p99 {:.1} ms split, {:.1} ms leased",
                    theirs.quantile_ms(0.99),
                    ours.quantile_ms(0.99)
                );
                let seen = [
                    theirs.quantile_ms(0.5),
                    theirs.quantile_ms(0.99),
                    ours.quantile_ms(0.5),
                    ours.quantile_ms(0.99),
                    ratio,
                    split.queries_a_second(),
                    leased.queries_a_second(),
                ];
                figures.iter_mut().zip(seen).for_each(|(figures, seen)| figures.push(seen));
            }
            let [split_p50, split_p99, leased_p50, leased_p99, ratio, split, leased] = figures.map(median);
            table.row([
                if moving { "moves every 2 s" } else { "equal" }.to_owned(),
                format!("{:.0} %", load * 100.0),
                format!("{split_p50:.1}"),
                format!("{split_p99:.1}"),
                format!("{leased_p50:.1}"),
                format!("{leased_p99:.1}"),
                format!("{ratio:.1}"),
                format!("{split:.0}"),
                format!("{leased:.0}"),
            ]);
        }
    }
    report.section("Against a static split");
    report.paragraph(&format!(
        "A cap of {CAP}, {NODES} nodes, `{QUERY}` at random moments at {:.0} and {:.0} % of what the cap can serve. \
         Split: deadpool's own pool of {} on each node. Leased: one cap, fair(100 ms). Moving: one node has {:.0} % of \
         the demand, the next one {} s later. Medians of {runs} runs of {seconds} s.",
        LOADS[0] * 100.0, LOADS[1] * 100.0, CAP / NODES as u32, BUSY * 100.0, PHASE.as_secs()
    ));
    report.table(&table);
}

fn plans(
    server: Option<&str>,
    mysql: &str,
    pool_max: u32,
    load: f64,
    moving: bool,
    seconds: u64,
) -> Vec<Plan> {
    let rate = f64::from(CAP) / HOLD * load;
    (0..NODES)
        .map(|node| {
            let rates = (0..NODES)
                .map(|busy| match (moving, busy == node) {
                    (false, _) => rate / NODES as f64,
                    (true, true) => rate * BUSY,
                    (true, false) => rate * (1.0 - BUSY) / (NODES - 1) as f64,
                })
                .collect();
            Plan {
                node: format!("node-{node}"),
                workload: DEFAULT.to_owned(),
                server: server.map(str::to_owned),
                database: DATABASE.to_owned(),
                mysql: mysql.to_owned(),
                pool_max,
                query: QUERY.to_owned(),
                begins_ms: 0,
                load: Load::Open { rates, phase_ms: PHASE.as_millis() as u64 },
                lasts_ms: seconds * 1_000,
            }
        })
        .collect()
}
