//! A crowd of batch tasks beside a few of the web's: what the few notice of it.

use std::time::Duration;

use crate::{
    crew,
    figures::{Run, median},
    plan::{Load, Plan},
    report::{Report, Table, if_served},
    stage::{self, ACCOUNT, DATABASE, Mode},
};

const CAP: u32 = 40;
const WEB: usize = 20;
const WEB_QUERY: &str = "select sleep(0.005)";
const BATCH: usize = 10_000;
const BATCH_HOLD: Duration = Duration::from_millis(50);
const BATCH_QUERY: &str = "select sleep(0.05)";
const WARM_UP: Duration = Duration::from_secs(2);
/// How the two are divided, and the server's settings for it.
const DIVISIONS: [(&str, &str); 3] = [
    ("not at all, one queue", ""),
    ("weights 1:1", "[databases.orders.workloads.web]\n[databases.orders.workloads.batch]\n"),
    (
        "a floor of 10 for the web",
        "[databases.orders.workloads.web]\nfloor = 10\n[databases.orders.workloads.batch]\n",
    ),
];

pub(crate) async fn run(report: &mut Report, runs: usize, seconds: u64) {
    let database = stage::database(CAP).await;
    let mut table = Table::new(&[
        "divided by",
        "web alone p99 ms",
        "web beside batch p50 ms",
        "web beside batch p99 ms",
        "twice alone + one batch hold ms",
        "batch p50 ms",
        "web queries/s",
        "batch queries/s",
    ]);
    for (division, workloads) in DIVISIONS {
        let mut figures: [Vec<f64>; 6] = Default::default();
        for number in 0..runs {
            let server = stage::server_among(&database, CAP, Mode::Fair, workloads).await;
            let plan = |name: &str, tasks, query: &str| Plan {
                node: name.to_owned(),
                workload: name.to_owned(),
                server: Some(server.url()),
                database: DATABASE.to_owned(),
                mysql: database.url(ACCOUNT),
                pool_max: CAP,
                query: query.to_owned(),
                begins_ms: 0,
                load: Load::Closed { requests: tasks, queries: 1 },
                lasts_ms: seconds * 1_000,
            };
            let web = plan("web", WEB, WEB_QUERY);
            let alone = crew::run(std::slice::from_ref(&web)).await;
            let alone = Run::new(&alone, WARM_UP);
            let both = crew::run(&[web, plan("batch", BATCH, BATCH_QUERY)]).await;
            let both = Run::new(&both, WARM_UP);
            let (web, batch) = (both.waits_of(0), both.waits_of(1));
            let measured = (seconds as f64) - WARM_UP.as_secs_f64();
            eprintln!("{division}, run {number}: web p99 {:.1} ms", web.quantile_ms(0.99));
            let seen = [
                alone.waits_of(0).quantile_ms(0.99),
                web.quantile_ms(0.5),
                web.quantile_ms(0.99),
                batch.quantile_ms(0.5),
                web.count() as f64 / measured,
                batch.count() as f64 / measured,
            ];
            figures.iter_mut().zip(seen).for_each(|(figures, seen)| figures.push(seen));
        }
        let [alone, web_p50, web_p99, batch_p50, web_rate, batch_rate] = figures.map(median);
        table.row([
            division.to_owned(),
            format!("{alone:.1}"),
            waited(web_p50, web_rate),
            waited(web_p99, web_rate),
            format!("{:.1}", 2.0 * alone + BATCH_HOLD.as_secs_f64() * 1_000.0),
            format!("{batch_p50:.0}"),
            format!("{web_rate:.0}"),
            format!("{batch_rate:.0}"),
        ]);
    }
    report.section("A noisy neighbour");
    report.paragraph(&format!(
        "A cap of {CAP}; {WEB} tasks of the web that run `{WEB_QUERY}`, beside {BATCH} of a batch job that run \
         `{BATCH_QUERY}`, over and over, fair(100 ms). Medians of {runs} runs of {seconds} s."
    ));
    report.table(&table);
}

/// A wait, if anybody was served at all.
fn waited(ms: f64, served_a_second: f64) -> String {
    if_served(served_a_second > 0.0, format!("{ms:.1}"))
}
