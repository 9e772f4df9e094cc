//! A checkout that finds an idle connection allocates nothing, statistics
//! included. The only test of its file, for it counts what the whole process
//! allocates.

mod support;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use support::Scene;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CHECKOUTS: usize = 10_000;
/// What the runtime and the test harness may allocate meanwhile, in their own
/// time: far less than one for each checkout.
const OF_OTHERS: usize = 20;

#[test]
fn a_fast_checkout_allocates_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    let scene = runtime.block_on(async {
        let scene = Scene::new(4);
        let connections = [scene.pool.get().await, scene.pool.get().await];
        assert!(connections.iter().all(Result::is_ok));
        scene
    });
    // The bell rings at the first new low of idle, once.
    runtime.block_on(async { drop(scene.pool.get().await) });
    let region = Region::new(ALLOCATOR);
    runtime.block_on(async {
        for _ in 0..CHECKOUTS {
            let connection = scene.pool.get().await;
            assert!(connection.is_ok());
        }
    });
    let allocations = region.change().allocations;
    assert!(allocations <= OF_OTHERS, "{allocations} allocations in {CHECKOUTS} checkouts");
    assert_eq!(scene.pool.statistics().hold.iter().sum::<u64>() as usize, CHECKOUTS + 3);
}
