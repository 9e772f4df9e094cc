//! The order and the times of a probe's reports, on a fake clock. What a real
//! database answers is tried in the integration tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;

/// A database that does what its script says at each connect and each look.
struct Scripted {
    script: Arc<Mutex<VecDeque<Step>>>,
    closed: Arc<Mutex<u32>>,
}

enum Step {
    Refuse,
    Accept,
    See(u32),
    Fail,
}

struct ScriptedSession {
    script: Arc<Mutex<VecDeque<Step>>>,
    closed: Arc<Mutex<u32>>,
}

impl Database for Scripted {
    type Session = ScriptedSession;

    async fn connect(&self) -> Result<ScriptedSession, Error> {
        match self.script.lock().unwrap().pop_front() {
            Some(Step::Refuse) => Err(Error::new("refused")),
            Some(Step::Accept) => {
                Ok(ScriptedSession { script: Arc::clone(&self.script), closed: Arc::clone(&self.closed) })
            }
            Some(Step::See(_) | Step::Fail) | None => panic!("connects against the script"),
        }
    }
}

impl Session for ScriptedSession {
    fn warning(&self) -> Option<String> {
        None
    }

    async fn look(&mut self) -> Result<Counts, Error> {
        match self.script.lock().unwrap().pop_front() {
            Some(Step::See(fleet)) => {
                Ok(Counts { max_connections: 100, uptime: Duration::from_secs(1), fleet, others: 0 })
            }
            Some(Step::Fail) => Err(Error::new("gone")),
            Some(Step::Refuse | Step::Accept) | None => panic!("looks against the script"),
        }
    }

    async fn close(self) {
        *self.closed.lock().unwrap() += 1;
    }
}

/// Plays a script of words and shows what is reported, with the milliseconds
/// since the probe's start; pauses are random and show as `~`.
async fn check(script: &str, expected: &str) {
    let steps: VecDeque<Step> = script
        .split_whitespace()
        .map(|word| match word {
            "refuse" => Step::Refuse,
            "accept" => Step::Accept,
            "fail" => Step::Fail,
            count => Step::See(count.parse().unwrap()),
        })
        .collect();
    let (script, closed) = (Arc::new(Mutex::new(steps)), Arc::new(Mutex::new(0)));
    let database = Scripted { script: Arc::clone(&script), closed: Arc::clone(&closed) };
    let (sender, mut receiver) = mpsc::channel(1);
    let start = Instant::now();
    let probe = tokio::spawn(async move { run("a", database, sender).await });

    let mut lines = Vec::new();
    let mut connects = 0;
    let mut paused = false;
    for _ in 0..expected.lines().filter(|line| !line.trim().is_empty()).count() {
        let report = receiver.recv().await.unwrap();
        let at = if paused { "~".to_owned() } else { start.elapsed().as_millis().to_string() };
        lines.push(match report {
            Report::Connected { .. } => {
                connects += 1;
                format!("{at} connected")
            }
            Report::ObservationStarts => format!("{at} starts"),
            Report::Observed(observation) => {
                assert!(observation.sent <= Instant::now());
                format!("{at} saw {}", observation.counts.fleet)
            }
            Report::Down { error, watched_elsewhere: _ } => {
                paused = true;
                format!("{at} down: {error}")
            }
        });
    }
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected);
    // Whoever stops listening stops the probe, and every connection was closed.
    drop(receiver);
    probe.await.unwrap();
    assert_eq!(*closed.lock().unwrap(), connects);
}

#[tokio::test(start_paused = true)]
async fn every_observation_is_announced_and_the_first_come_quickly() {
    check(
        "accept 1 2 3 4 5",
        "0 connected
         0 starts
         200 saw 1
         500 starts
         700 saw 2
         1000 starts
         1200 saw 3
         2000 starts
         2200 saw 4
         3000 starts
         3200 saw 5",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_down_is_asked_again() {
    check("refuse refuse accept 7", "0 down: refused\n~ down: refused\n~ connected\n~ starts\n~ saw 7").await;
}

#[tokio::test(start_paused = true)]
async fn a_database_that_goes_away_is_connected_anew() {
    check(
        "accept 1 fail accept 2",
        "0 connected
         0 starts
         200 saw 1
         500 starts
         700 down: gone
         ~ connected
         ~ starts
         ~ saw 2",
    )
    .await;
}

#[test]
fn pauses_grow_to_their_bound_and_start_anew() {
    let mut pauses = Pauses::default();
    for failures in 0..40 {
        let pause = pauses.next();
        let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE);
        assert!(pause <= longest && pause >= longest / 2, "pause {pause:?} after {failures} failures");
    }
    pauses.reset();
    assert!(pauses.next() <= FIRST_PAUSE);
}
