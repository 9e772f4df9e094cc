//! Tokens without a pool.

mod support;

use std::sync::Arc;
use std::time::Duration;

use leasehold_client::clock::Clock;
use leasehold_client::error::TokenError;
use leasehold_client::governed::Recall;
use leasehold_client::{Error, Tokens};

use support::{Bell, reached};

const SHORT: Duration = Duration::from_millis(20);

fn tokens(bell: &Arc<Bell>) -> Tokens {
    let tokens = Tokens::builder("orders").max_size(4).wait_timeout(Some(SHORT)).shutdown_timeout(SHORT);
    tokens.build(bell.clone()).expect("the settings are right")
}

#[tokio::test]
async fn a_token_is_in_use_until_it_drops() {
    let tokens = tokens(&Arc::default());
    tokens.governed().allot(1, Recall::None);
    let token = tokens.acquire().await.expect("there is one");
    let status = tokens.status();
    assert_eq!((status.holding, status.in_use, status.opening), (1, 1, 0));
    assert!(matches!(tokens.acquire().await, Err(TokenError::WaitTimeout { .. })));
    drop(token);
    drop(tokens.acquire().await.expect("it came back"));
    let statistics = tokens.statistics();
    assert_eq!((statistics.hold.iter().sum::<u64>(), statistics.wait_timeouts, statistics.opens), (2, 1, 0));
}

#[tokio::test]
async fn a_waiter_gets_what_comes_back_or_arrives() {
    let tokens = tokens(&Arc::default());
    let session = tokens.governed();
    session.allot(1, Recall::None);
    let held = tokens.acquire().await.expect("there is one");
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let tokens = tokens.clone();
        waiting.push(tokio::spawn(async move { tokens.acquire().await }));
    }
    assert!(reached(|| tokens.status().waiting == 2).await);
    drop(held);
    session.allot(2, Recall::None);
    for task in waiting {
        drop(task.await.expect("it does not panic").expect("there are two"));
    }
}

#[tokio::test]
async fn a_recall_takes_tokens_at_their_return() {
    let tokens = tokens(&Arc::default());
    let session = tokens.governed();
    session.allot(3, Recall::None);
    let held = tokens.acquire().await.expect("there is one");
    session.allot(0, Recall::NextReturn);
    assert_eq!(session.levels().holding, 1);
    drop(held);
    assert_eq!(session.levels().holding, 0);
}

#[tokio::test]
async fn past_the_deadline_no_token_is_given() {
    let clock = Clock::manual();
    let tokens = Tokens::builder("orders").wait_timeout(Some(SHORT)).clock(clock.clone());
    let tokens = tokens.build(Arc::new(Bell::default())).expect("the settings are right");
    let session = tokens.governed();
    session.prolong(clock.now() + Duration::from_secs(10));
    session.allot(2, Recall::None);
    let held = tokens.acquire().await.expect("there are two");
    assert!(!held.is_lapsed());
    clock.advance(Duration::from_secs(10));
    assert!(held.is_lapsed());
    assert!(matches!(tokens.acquire().await, Err(TokenError::WaitTimeout { .. })));
    assert_eq!(session.levels().holding, 1, "the unused one lapsed");
    drop(held);
    assert_eq!(session.levels().holding, 0, "the used one too, at its return");
}

#[tokio::test]
async fn a_close_waits_and_gives_everything_back() {
    let tokens = tokens(&Arc::default());
    let session = tokens.governed();
    session.allot(2, Recall::None);
    let held = tokens.acquire().await.expect("there are two");
    assert_eq!(tokens.close().await.map_err(|error| error.connections), Err(1));
    assert!(matches!(tokens.acquire().await, Err(Error::Closed { .. })));
    drop(held);
    tokens.close().await.expect("it came back");
    assert_eq!(session.levels().holding, 0);
}

#[tokio::test]
async fn taking_and_giving_back_is_not_reported() {
    let bell = Arc::default();
    let tokens = tokens(&bell);
    let session = tokens.governed();
    session.allot(2, Recall::None);
    session.levels();
    drop(tokens.acquire().await.expect("there are two"));
    session.levels();
    let rings = bell.rings();
    for _ in 0..100 {
        drop(tokens.acquire().await.expect("there are two"));
        session.levels();
    }
    // What is to spare settles between looks; nothing rings at each turn.
    assert!(bell.rings() - rings <= 2, "{} rings", bell.rings() - rings);
}
