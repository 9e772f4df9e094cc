//! A node process: a pool under load, and a record of each checkout. Knows
//! nothing of the experiment that it is a part of.

use std::{
    error::Error,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold_client::clock::{Clock, Time};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::{sleep, timeout},
};

use crate::{
    plan::{Load, Plan},
    pool::Pool,
    records::{Checkout, Records, Request},
};

/// Longest time for what is under way at the end of the load.
const END_BOUND: Duration = Duration::from_secs(30);

/// What its parent reads when its pool is there.
pub(crate) const READY: &str = "ready";

/// Does what `plan` says, once a line comes in, and writes to `records`.
pub(crate) async fn run(plan: Plan, records: &Path) -> Result<(), Box<dyn Error>> {
    let pool = Pool::build(&plan).await?;
    println!("{READY}");
    let mut start = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut start).await?;

    let node = Arc::new(Node { pool, query: plan.query, clock: Clock::system(), seen: Mutex::default() });
    let started = node.clock.now();
    let end = started + Duration::from_millis(plan.lasts_ms);
    sleep(Duration::from_millis(plan.begins_ms)).await;
    match plan.load {
        Load::Closed { requests, queries } => node.closed(requests, queries, end).await,
        Load::Open { rates, phase_ms } => node.open(&rates, Duration::from_millis(phase_ms), end).await,
    }
    let opens = node.pool.opens();
    node.pool.close().await;
    let mut seen = std::mem::take(&mut *node.seen.lock().unwrap_or_else(PoisonError::into_inner));
    (seen.started, seen.stopped, seen.opens) = (started.as_nanos(), end.as_nanos(), opens);
    Ok(seen.write(records)?)
}

struct Node {
    pool: Pool,
    query: String,
    clock: Clock,
    seen: Mutex<Records>,
}

impl Node {
    async fn closed(self: &Arc<Self>, requests: usize, queries: usize, end: Time) {
        let users: Vec<_> = (0..requests)
            .map(|_| {
                let node = Arc::clone(self);
                tokio::spawn(async move {
                    while node.clock.now() < end {
                        node.request(queries).await;
                    }
                })
            })
            .collect();
        for user in users {
            let _ = timeout(END_BOUND, user).await;
        }
    }

    async fn request(self: &Arc<Self>, queries: usize) {
        let begun = self.clock.now();
        let answers: Vec<_> = (0..queries)
            .map(|_| {
                let node = Arc::clone(self);
                tokio::spawn(async move { node.query().await })
            })
            .collect();
        for answer in answers {
            let _ = answer.await;
        }
        let request = Request { begun: begun.as_nanos(), ended: self.clock.now().as_nanos() };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).requests.push(request);
    }

    async fn open(self: &Arc<Self>, rates: &[f64], phase: Duration, end: Time) {
        let begun = self.clock.now();
        let mut queries = Vec::new();
        let mut next = begun;
        while next < end {
            let past = next.since(begun).as_nanos() / phase.as_nanos().max(1);
            let rate = rates[past as usize % rates.len()];
            next = next + Duration::from_secs_f64(-(1.0 - fastrand::f64()).ln() / rate);
            sleep(next.since(self.clock.now())).await;
            let node = Arc::clone(self);
            queries.push(tokio::spawn(async move { node.query().await }));
        }
        for query in queries {
            let _ = timeout(END_BOUND, query).await;
        }
    }

    async fn query(&self) {
        let asked = self.clock.now();
        let outcome = self.pool.query(&self.query, &self.clock).await;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok((got, done, returned)) => seen.checkouts.push(Checkout {
                asked: asked.as_nanos(),
                got: got.as_nanos(),
                done: done.as_nanos(),
                returned: returned.as_nanos(),
            }),
            Err(error) => {
                eprintln!("a checkout failed: {error}, because of {:?}", error.source());
                seen.failures += 1;
            }
        }
    }
}
