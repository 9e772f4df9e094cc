//! What a checkout of a held connection costs: `LeasedPool` with its statistics
//! against deadpool's own `Pool`, one task, and 64 tasks on two threads. Prints
//! criterion's figures, then the ratio and the allocations of each.

#![expect(clippy::print_stdout, reason = "a bench prints its result")]
#![expect(clippy::disallowed_methods, reason = "a bench measures with the system's clock")]

use std::alloc::System;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use deadpool::managed::{Manager, Metrics, Pool, RecycleResult};
use leasehold_client::LeasedPool;
use leasehold_client::governed::{Recall, Reporter};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CONNECTIONS: u32 = 16;
const TASKS: u64 = 64;
const THREADS: usize = 2;
/// Checkouts in each timed block of the comparison, and how many blocks. A block
/// is shorter than a slice of the scheduler, so that on a busy machine most
/// blocks run undisturbed.
const BLOCK: u64 = 3_200;
const BLOCKS: usize = 1_001;

/// A manager that does nothing, so that only the pool is measured.
struct Nothing;

impl Manager for Nothing {
    type Type = u64;
    type Error = Infallible;

    async fn create(&self) -> Result<u64, Infallible> {
        Ok(0)
    }

    async fn recycle(&self, _connection: &mut u64, _metrics: &Metrics) -> RecycleResult<Infallible> {
        Ok(())
    }
}

struct Deaf;

impl Reporter for Deaf {
    fn changed(&self) {}
}

/// One of the two pools.
#[derive(Clone)]
enum Either {
    Leased(LeasedPool<Nothing>),
    Bare(Pool<Nothing>),
}

impl Either {
    fn leased(runtime: &Runtime) -> Self {
        let _inside = runtime.enter();
        let pool = LeasedPool::builder("bench", Nothing).max_size(CONNECTIONS).build(Arc::new(Deaf));
        let pool = pool.expect("the settings are right");
        pool.governed().allot(CONNECTIONS, Recall::None);
        Self::Leased(pool)
    }

    fn bare() -> Self {
        let pool = Pool::builder(Nothing).max_size(CONNECTIONS as usize).build();
        Self::Bare(pool.expect("no timeouts, so no runtime is missing"))
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Leased(_) => "leasehold",
            Self::Bare(_) => "deadpool",
        }
    }

    /// Checks out and gives back `checkouts` times, one after the other.
    async fn run(&self, checkouts: u64) {
        match self {
            Self::Leased(pool) => {
                for _ in 0..checkouts {
                    let mut connection = pool.get().await.expect("it is open");
                    *connection += 1;
                }
            }
            Self::Bare(pool) => {
                for _ in 0..checkouts {
                    let mut connection = pool.get().await.expect("it is open");
                    *connection += 1;
                }
            }
        }
    }

    /// The same from 64 tasks at a time. A checkout is followed by a yield, as a
    /// query would, so that tasks meet.
    async fn run_many(&self, checkouts: u64) {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let pool = self.clone();
                tokio::spawn(async move {
                    for _ in 0..checkouts / TASKS {
                        pool.run(1).await;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("it does not panic");
        }
    }
}

fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

fn two_threads() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(THREADS).enable_all().build().expect("a runtime starts")
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let one = one_thread();
    let two = two_threads();
    let alone = [Either::leased(&one), Either::bare()];
    let crowd = [Either::leased(&two), Either::bare()];

    let mut group = criterion.benchmark_group("checkout");
    for pool in &alone {
        group.bench_function(BenchmarkId::new("one task", pool.name()), |bencher| {
            bencher.iter_custom(|checkouts| timed(|| one.block_on(pool.run(checkouts))));
        });
    }
    for pool in &crowd {
        group.bench_function(BenchmarkId::new("64 tasks on 2 threads", pool.name()), |bencher| {
            bencher.iter_custom(|checkouts| timed(|| two.block_on(pool.run_many(checkouts.max(TASKS)))));
        });
    }
    group.finish();
    criterion.final_summary();

    compare("one task", &alone, |pool, checkouts| one.block_on(pool.run(checkouts)));
    compare("64 tasks on 2 threads", &crowd, |pool, checkouts| two.block_on(pool.run_many(checkouts)));
}

/// Times both pools in turns, so that a slow moment of the machine meets both,
/// and prints the median block of each, their ratio and the allocations.
/// What spawning the tasks allocates is not counted.
fn compare(case: &str, pools: &[Either; 2], run: impl Fn(&Either, u64)) {
    let spawning = allocations_of(|| run(&pools[0], 0));
    let mut times = [Vec::with_capacity(BLOCKS), Vec::with_capacity(BLOCKS)];
    let mut allocations = [usize::MAX; 2];
    for _ in 0..BLOCKS {
        for ((pool, times), fewest) in pools.iter().zip(&mut times).zip(&mut allocations) {
            let allocated = allocations_of(|| times.push(timed(|| run(pool, BLOCK))));
            *fewest = allocated.saturating_sub(spawning).min(*fewest);
        }
    }
    let per_checkout = times.map(|mut times| {
        times.sort();
        times[BLOCKS / 2].as_nanos() as f64 / BLOCK as f64
    });
    let [leased, bare] = per_checkout;
    println!("{case}: {leased:.0} ns a checkout, deadpool {bare:.0} ns, ratio {:.2}", leased / bare);
    let [leased, bare] = allocations.map(|allocations| allocations as f64 / BLOCK as f64);
    println!("{case}: {leased:.4} allocations a checkout, deadpool {bare:.4}");
}

fn allocations_of(run: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    run();
    region.change().allocations
}

fn timed(run: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}
