//! The published table of fair and unfair locks in a pool, with Leasehold's
//! modes: requests that run their queries in parallel on too few connections.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    crew,
    figures::{Run, median},
    plan::{Load, Plan},
    plot,
    report::{Report, Table},
    stage::{self, ACCOUNT, DATABASE, DEFAULT, Mode},
};

const NODES: usize = 4;
const REQUESTS: usize = 100;
const QUERIES: usize = 30;
const QUERY: &str = "select '1'";
const CAPS: [u32; 3] = [200, 500, 1_000];
const WARM_UP: Duration = Duration::from_secs(2);
/// Requests a second of an unfair and of a fair lock as published for pools of
/// these sizes, on another machine: only their ratios compare.
const PUBLISHED: [(u32, f64, f64); 3] = [(200, 187.0, 104.0), (500, 189.0, 127.0), (1_000, 194.0, 112.0)];

/// One run's line.
#[derive(Clone, Copy)]
struct Line {
    requests_a_second: f64,
    acquire_ms: f64,
    release_ms: f64,
    peak: i64,
    samples: usize,
    response: [f64; 4],
    overtaking_p99: f64,
    overtaking_max: f64,
    opens: u64,
}

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
        "connects",
    ]);
    let mut bars = Vec::new();
    for cap in CAPS {
        let database = stage::database(cap).await;
        let mut lines: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
        for number in 0..runs {
            for mode in Mode::ALL {
                let server = stage::server(&database, cap, mode).await;
                let plans = plans(&server.url(), &database.url(ACCOUNT), cap, seconds);
                let line = line(&Run::new(crew::run(&plans).await, WARM_UP));
                eprintln!(
                    "cap {cap}, run {number}, {}: {:.0} requests/s",
                    mode.name(),
                    line.requests_a_second
                );
                lines.entry(mode.name()).or_default().push(line);
            }
        }
        for mode in Mode::ALL {
            let (own, unfair) = (&lines[mode.name()], &lines[Mode::Unfair.name()]);
            let middle = |value: fn(&Line) -> f64| median(own.iter().map(value).collect());
            let pairs = own.iter().zip(unfair);
            let ratio =
                median(pairs.map(|(own, other)| own.requests_a_second / other.requests_a_second).collect());
            table.row([
                cap.to_string(),
                mode.name().to_owned(),
                format!("{:.1}", middle(|line| line.acquire_ms)),
                format!("{:.4}", middle(|line| line.release_ms)),
                format!("{:.0}", middle(|line| line.peak as f64)),
                format!("{:.0}", middle(|line| line.samples as f64)),
                format!("{:.0}", middle(|line| line.response[0])),
                format!("{:.0}", middle(|line| line.response[1])),
                format!("{:.0}", middle(|line| line.response[2])),
                format!("{:.0}", middle(|line| line.response[3])),
                format!("{:.0}", middle(|line| line.requests_a_second)),
                format!("{ratio:.2}"),
                format!("{:.0}", middle(|line| line.overtaking_p99)),
                format!("{:.0}", middle(|line| line.overtaking_max)),
                format!("{:.0}", middle(|line| line.opens as f64)),
            ]);
            bars.push((format!("{cap}\n{}", mode.name()), middle(|line| line.requests_a_second)));
        }
    }
    report.section("The published table, with ours beside it");
    report.paragraph(&format!(
        "{NODES} node processes with {REQUESTS} requests at a time, each of which runs {QUERIES} queries \
         (`{QUERY}`) in parallel. Medians of {runs} runs of {seconds} s, the first {} s of each left out; the modes \
         take turns, and `of unfair` is the median of the ratios of runs that followed each other. Overtaking is by \
         how much who got a connection had asked before the youngest who got one earlier, on any node.",
        WARM_UP.as_secs()
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

fn plans(server: &str, mysql: &str, cap: u32, seconds: u64) -> Vec<Plan> {
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
            lasts_ms: seconds * 1_000,
        })
        .collect()
}

fn line(run: &Run) -> Line {
    assert_eq!(run.failures(), 0, "checkouts failed");
    let (waits, responses, overtaking) = (run.waits(), run.responses(), run.overtaking());
    Line {
        requests_a_second: responses.count() as f64 / run.seconds(),
        acquire_ms: waits.mean_ms(),
        release_ms: run.releases().mean_ms(),
        peak: run.peak(),
        samples: responses.count(),
        response: [responses.mean_ms(), responses.quantile_ms(0.9), responses.min_ms(), responses.max_ms()],
        overtaking_p99: overtaking.quantile_ms(0.99),
        overtaking_max: overtaking.max_ms(),
        opens: run.opens(),
    }
}
