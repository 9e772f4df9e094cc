//! A node process: a pool under load, and a record of each checkout. Knows
//! nothing of the experiment that it is a part of.

use std::{
    error::Error,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_client::clock::{Clock, Time};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin},
    time::{interval, sleep, timeout},
};

use crate::{
    plan::{Load, Plan},
    pool::Pool,
    records::{Checkout, Records, Request},
};

/// Longest time for what is under way at the end of the load.
const END_BOUND: Duration = Duration::from_secs(30);

/// Pause between two looks at how many connections were opened.
const LOOK: Duration = Duration::from_millis(50);

/// What its parent reads when its pool is there.
pub(crate) const READY: &str = "ready";

/// Does what `plan` says, once a line comes in, and writes to `records`.
pub(crate) async fn run(plan: Plan, records: PathBuf) -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = Pool::build(&plan).await?;
    println!("{READY}");
    let mut words = BufReader::new(tokio::io::stdin());
    words.read_line(&mut String::new()).await?;

    let clock = Clock::system();
    let started = clock.now();
    let end = started + Duration::from_millis(plan.lasts_ms);
    let node = Arc::new(Node {
        pool,
        query: plan.query,
        clock,
        end: AtomicU64::new(end.as_nanos()),
        seen: Mutex::default(),
    });
    tokio::spawn(Arc::clone(&node).end_at_the_last_word(words));
    let looks = tokio::spawn(Arc::clone(&node).look_at_opens());
    sleep(Duration::from_millis(plan.begins_ms)).await;
    match plan.load {
        Load::Closed { requests, queries } => node.closed(requests, queries).await,
        Load::Open { rates, phase_ms } => node.open(&rates, Duration::from_millis(phase_ms)).await,
    }
    looks.abort();
    node.pool.close().await;
    let mut seen = std::mem::take(&mut *node.seen.lock().unwrap_or_else(PoisonError::into_inner));
    (seen.started, seen.stopped) = (started.as_nanos(), node.end().as_nanos());
    Ok(seen.write(&records)?)
}

struct Node {
    pool: Pool,
    query: String,
    clock: Clock,
    /// When it asks for nothing more.
    end: AtomicU64,
    seen: Mutex<Records>,
}

impl Node {
    fn end(&self) -> Time {
        Time::from_nanos(self.end.load(Ordering::Relaxed))
    }

    /// Its parent may end it sooner, by closing what it listens to.
    async fn end_at_the_last_word(self: Arc<Self>, mut words: BufReader<Stdin>) {
        // That it cannot be read is its end too.
        let _ = words.read_to_end(&mut Vec::new()).await;
        self.end.fetch_min(self.clock.now().as_nanos(), Ordering::Relaxed);
    }

    async fn look_at_opens(self: Arc<Self>) {
        let mut looks = interval(LOOK);
        loop {
            looks.tick().await;
            let look = (self.clock.now().as_nanos(), self.pool.opens());
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).opens.push(look);
        }
    }

    async fn closed(self: &Arc<Self>, requests: usize, queries: usize) {
        let users: Vec<_> = (0..requests)
            .map(|_| {
                let node = Arc::clone(self);
                tokio::spawn(async move {
                    while node.clock.now() < node.end() {
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

    async fn open(self: &Arc<Self>, rates: &[f64], phase: Duration) {
        let begun = self.clock.now();
        let mut queries = Vec::new();
        let mut next = begun;
        while next < self.end() {
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
