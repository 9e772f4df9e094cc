//! Waiting for a condition with a bound. The crate's only clock. Knows nothing
//! of what is waited for.

use std::time::{Duration, Instant};

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(10);

/// The time now.
#[expect(clippy::disallowed_methods, reason = "this is the crate's clock file")]
pub fn now() -> Instant {
    Instant::now()
}

/// Looks again and again until `look` finds something, and returns it with the
/// time that this took.
///
/// # Panics
///
/// When `look` has found nothing for as long as `bound`; the message says
/// `what` was waited for.
pub async fn find<T>(bound: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
    let start = now();
    loop {
        // The time is taken before the look: what it finds was there by then.
        let elapsed = start.elapsed();
        if let Some(found) = look().await {
            return (found, elapsed);
        }
        assert!(elapsed <= bound, "waited {elapsed:?} in vain for {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks again and again until `condition` holds, and returns the time that
/// this took.
///
/// # Panics
///
/// When `condition` has not held for as long as `bound`; the message says
/// `what` was waited for.
pub async fn eventually(bound: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) -> Duration {
    let ((), elapsed) = find(bound, what, async || condition().await.then_some(())).await;
    elapsed
}

/// Looks for as long as `period`, and panics with what `fault` says as soon as
/// it says something.
///
/// # Panics
///
/// When `fault` found something.
pub async fn never(period: Duration, mut fault: impl AsyncFnMut() -> Option<String>) {
    let start = now();
    while start.elapsed() < period {
        if let Some(fault) = fault().await {
            panic!("{fault} (after {:?})", start.elapsed());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
