//! Unequal demand: who is served, and how steadily.

use std::time::Duration;

use leasehold_integration_tests::{server::Server, wait::now};

use crate::{
    crew,
    figures::{Run, median},
    plan::{Load, Plan},
    plot,
    report::{Report, Table, if_served},
    stage::{self, ACCOUNT, DATABASE, DEFAULT, Mode},
};

const CAP: u32 = 100;
/// Tasks of each node: 80, 13, 5 and 2 % of the demand, each due whole tokens.
const TASKS: [usize; 4] = [400, 65, 25, 10];
const QUERY: &str = "select sleep(0.02)";
const WARM_UP: Duration = Duration::from_secs(3);
/// How long after the largest node the others begin, as pods do that are new.
const LATER: Duration = Duration::from_millis(500);
/// Pause between two looks at who holds what.
const LOOK: Duration = Duration::from_millis(100);

/// What each node held at one moment.
type Holdings = Vec<(f64, [u32; 4])>;

pub(crate) async fn run(report: &mut Report, runs: usize, seconds: u64) {
    let database = stage::database(CAP).await;
    let mut table = Table::new(&[
        "mode",
        "node",
        "part of the demand",
        "part of the service",
        "wait p50 ms",
        "wait p99 ms",
        "wait max ms",
        "mean held",
        "spread of held",
    ]);
    let mut totals = [Vec::new(), Vec::new()];
    let mut pictures = Vec::new();
    for number in 0..runs {
        for (mode, total) in [Mode::Unfair, Mode::Fair].into_iter().zip(&mut totals) {
            let server = stage::server(&database, CAP, mode).await;
            let plans = plans(&server.url(), &database.url(ACCOUNT), seconds);
            let (records, holdings) = watched(&server, crew::run(&plans), seconds).await;
            let run = Run::new(&records, WARM_UP);
            eprintln!("skew, run {number}, {}: {:.0} queries/s", mode.name(), run.queries_a_second());
            total.push(run.queries_a_second());
            if number + 1 == runs {
                rows(&mut table, mode, &run, &holdings);
                pictures.push((mode, holdings));
            }
        }
    }
    let ratio = median(totals[1].iter().zip(&totals[0]).map(|(fair, unfair)| fair / unfair).collect());
    report.section("Skewed demand");
    report.paragraph(&format!(
        "Four nodes with {TASKS:?} tasks that each run `{QUERY}` over and over, on a cap of {CAP}; the smaller ones \
         begin {} ms after the largest; {runs} runs of {seconds} s. Fair serves {ratio:.3} of what unfair serves \
         (median of the ratios of runs that followed each other). The rows are of the last run. Spread is the \
         standard deviation of what the node held, looked at every {} ms.",
        LATER.as_millis(),
        LOOK.as_millis()
    ));
    report.table(&table);
    for (mode, holdings) in pictures {
        let name = if mode == Mode::Fair { "fairness-skew-fair.svg" } else { "fairness-skew-unfair.svg" };
        report.picture(name, &format!("What each node held, {}", mode.name()), |area| {
            plot::lines(area, &format!("tokens held, {}", mode.name()), &series(&holdings))
        });
    }
}

fn rows(table: &mut Table, mode: Mode, run: &Run, holdings: &Holdings) {
    let demand: usize = TASKS.iter().sum();
    let service = run.checkouts().count() as f64;
    for (node, tasks) in TASKS.iter().enumerate() {
        let waits = run.waits_of(node);
        let waited = |ms: f64| if_served(waits.count() > 0, format!("{ms:.0}"));
        let held: Vec<f64> = holdings.iter().map(|(_, held)| f64::from(held[node])).collect();
        let mean = held.iter().sum::<f64>() / held.len().max(1) as f64;
        let spread =
            (held.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / held.len().max(1) as f64).sqrt();
        table.row([
            mode.name().to_owned(),
            node.to_string(),
            format!("{:.1} %", 100.0 * *tasks as f64 / demand as f64),
            format!("{:.1} %", 100.0 * waits.count() as f64 / service),
            waited(waits.quantile_ms(0.5)),
            waited(waits.quantile_ms(0.99)),
            waited(waits.max_ms()),
            format!("{mean:.1}"),
            format!("{spread:.1}"),
        ]);
    }
}

fn series(holdings: &Holdings) -> Vec<(String, Vec<(f64, f64)>)> {
    (0..TASKS.len())
        .map(|node| {
            let points = holdings.iter().map(|(at, held)| (*at, f64::from(held[node]))).collect();
            (format!("{} tasks", TASKS[node]), points)
        })
        .collect()
}

/// Looks at who holds what while `load` runs, after the warm-up.
async fn watched<R>(server: &Server, load: impl Future<Output = R>, seconds: u64) -> (R, Holdings) {
    let start = now();
    let mut holdings = Vec::new();
    let looks = async {
        let mut looks = tokio::time::interval(LOOK);
        loop {
            looks.tick().await;
            let at = start.elapsed();
            let sessions = server.sessions(DATABASE).await;
            if at < WARM_UP || at.as_secs() >= seconds {
                continue;
            }
            let mut held = [0; 4];
            for session in &sessions {
                let node: Option<usize> =
                    session.node.strip_prefix("node-").and_then(|number| number.parse().ok());
                if let Some(held) = node.and_then(|node| held.get_mut(node)) {
                    *held = session.leases.iter().map(|lease| lease.holding).sum();
                }
            }
            holdings.push((at.as_secs_f64(), held));
        }
    };
    let result = tokio::select! {
        result = load => result,
        () = looks => unreachable!("it looks until the load ends"),
    };
    (result, holdings)
}

fn plans(server: &str, mysql: &str, seconds: u64) -> Vec<Plan> {
    TASKS
        .iter()
        .enumerate()
        .map(|(node, tasks)| Plan {
            node: format!("node-{node}"),
            workload: DEFAULT.to_owned(),
            server: Some(server.to_owned()),
            database: DATABASE.to_owned(),
            mysql: mysql.to_owned(),
            pool_max: CAP,
            query: QUERY.to_owned(),
            begins_ms: LATER.as_millis() as u64 * u64::from(node > 0),
            load: Load::Closed { requests: *tasks, queries: 1 },
            lasts_ms: seconds * 1_000,
        })
        .collect()
}
