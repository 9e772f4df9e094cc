//! The rules of the ledger, each as a few lines of script and the state that
//! they lead to.

use super::{Limits, Move, Name, Recall, Table, Time, Use};

const LIMITS: Limits = Limits { maximum: 10, minimum: 0 };

/// Plays `script`, one move a line, and compares the state after it.
#[track_caller]
fn check(script: &str, expected: &str) {
    assert_eq!(play(LIMITS, script).show(), expected, "after\n{script}");
}

fn play(limits: Limits, script: &str) -> Table {
    let mut table = Table::new(limits, Use::Connections);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        for part in line.split(',') {
            let words: Vec<&str> = part.split_whitespace().collect();
            table.play(parse(&words).unwrap_or_else(|| panic!("no move: {part}")));
        }
    }
    table
}

fn parse(words: &[&str]) -> Option<Move> {
    let name = |word: &str| word.parse::<Name>().ok();
    Some(match *words {
        ["get", task] => Move::Get(name(task)?),
        ["poll", task] => Move::Poll(name(task)?),
        ["opened", task] => Move::Opened(name(task)?),
        ["failed", task] => Move::Failed(name(task)?),
        ["retry", task] => Move::Retry(name(task)?),
        ["return", task] => Move::Return(name(task)?),
        ["unfit", task] => Move::Unfit(name(task)?),
        ["leave", task] => Move::Leave(name(task)?),
        ["ended"] => Move::Ended,
        ["allot", tokens] => Move::Allot(tokens.parse().ok()?, Recall::None),
        ["allot", tokens, "idle"] => Move::Allot(tokens.parse().ok()?, Recall::Idle),
        ["allot", tokens, "next"] => Move::Allot(tokens.parse().ok()?, Recall::NextReturn),
        ["full", waiting] => Move::Bound(Some(waiting.parse().ok()?)),
        ["room"] => Move::Bound(None),
        ["lapse"] => Move::Lapse,
        ["fence"] => Move::Fence,
        ["revive"] => Move::Revive,
        ["prolong", seconds] => Move::Prolong(seconds.parse().ok()?),
        ["close"] => Move::Close,
        ["warm"] => Move::Warm,
        ["reap"] => Move::Reap,
        ["pass", seconds] => Move::Pass(seconds.parse().ok()?),
        ["report"] => Move::Report,
        ["settle"] => Move::Settle,
        _ => return None,
    })
}

/// Three connections: two in use by a and b, one idle.
const THREE: &str = "allot 3, get a, get b, get c, opened a, opened b, opened c, return c";

#[track_caller]
fn check_three(script: &str, expected: &str) {
    check(&format!("{THREE}\n{script}"), expected);
}

#[test]
fn a_token_becomes_a_connection() {
    check("get a", "tokens 0, 1 waiting");
    check("get a, allot 2", "tokens 2, 1 free, 1 opening; woken a");
    check("get a, allot 2, poll a, opened a", "tokens 2, 1 free, 1 used");
    check("get a, allot 2, poll a, opened a, return a", "tokens 2, 1 free, 1 idle");
    check("get a, allot 2, poll a, failed a", "tokens 2, 2 free");
    check("get a, allot 2, leave a", "tokens 2, 2 free");
}

#[test]
fn an_idle_connection_is_used_before_a_token() {
    check("allot 2, get a, opened a, return a, get b", "tokens 2, 1 free, 1 used");
}

#[test]
fn the_oldest_waiter_gets_what_comes_back() {
    check("allot 1, get a, opened a, get b, get c, return a", "tokens 1, 1 used, 1 waiting; woken b");
    check("allot 1, get a, opened a, get b, get c, leave b, return a", "tokens 1, 1 used; woken c");
    check("allot 1, get a, get b, failed a", "tokens 1, 1 opening; woken b");
}

#[test]
fn a_task_that_would_wait_beside_another_is_refused_when_as_many_wait_as_may() {
    check("get a, get b, full 2, get c", "tokens 0, 2 waiting");
    check("get a, get b, full 2, get c, room, get c", "tokens 0, 3 waiting");
    // The first one tells the server that there is a node.
    check("full 0, get a, get b", "tokens 0, 1 waiting");
    // What need not wait is served, and who was let in before waits on.
    check("allot 1, full 2, get a", "tokens 1, 1 opening");
    check(
        "allot 1, get a, opened a, return a, get b, get c, full 2, unfit b",
        "tokens 1, 1 closing, 2 waiting",
    );
}

#[test]
fn a_chosen_waiter_that_leaves_passes_it_on() {
    check("allot 1, get a, opened a, get b, get c, return a, leave b", "tokens 1, 1 used; woken c");
    check("allot 1, get a, opened a, get b, return a, leave b", "tokens 1, 1 idle");
    check("get b, get c, allot 1, leave b", "tokens 1, 1 opening; woken c");
    // The recall comes before the next waiter.
    check(
        "allot 1, get a, opened a, get b, get c, return a, allot 0 next, leave b",
        "tokens 1, 1 closing, 1 waiting",
    );
}

#[test]
fn nobody_overtakes_a_task_whose_connection_was_unfit() {
    check(
        "allot 1, get a, opened a, return a, pass 1, get b, pass 1, get c, unfit b",
        "tokens 1, 1 closing, 2 waiting",
    );
    check(
        "allot 1, get a, opened a, return a, pass 1, get b, pass 1, get c, unfit b, ended",
        "tokens 1, 1 opening, 1 waiting; woken b",
    );
}

#[test]
fn unopened_tokens_go_first_then_the_longest_idle() {
    check("allot 4, get a, opened a, return a, allot 2 idle", "tokens 2, 1 free, 1 idle");
    check("allot 4, get a, opened a, return a, allot 0 idle", "tokens 1, 1 closing");
    check("allot 4, get a, opened a, return a, allot 0 idle, ended", "tokens 0");
    let table = play(LIMITS, &format!("{THREE}, pass 1, return a, allot 2 idle"));
    assert_eq!(table.closing, [3], "c's connection was idle for longest");
}

#[test]
fn an_idle_recall_leaves_what_is_used() {
    check_three("allot 0 idle", "tokens 3, 2 used, 1 closing");
    check_three("allot 0 idle, ended, return a, return b", "tokens 2, 2 idle");
}

#[test]
fn next_return_takes_them_as_they_come_back() {
    check_three("allot 1 next", "tokens 3, 2 used, 1 closing");
    check_three("allot 1 next, get d, return a", "tokens 3, 1 used, 2 closing, 1 waiting");
    check_three("allot 1 next, get d, return a, ended, ended", "tokens 1, 1 used, 1 waiting");
    check_three("allot 1 next, get d, return a, ended, ended, return b", "tokens 1, 1 used; woken d");
    check("allot 2, get a, allot 0 next, failed a", "tokens 0");
}

#[test]
fn an_unfit_connection_answers_a_recall_too() {
    check_three("get d, allot 2 next, unfit d", "tokens 3, 2 used, 1 closing, 1 waiting");
    check_three("get d, allot 2 next, unfit d, ended", "tokens 2, 2 used, 1 waiting");
}

#[test]
fn a_raise_during_a_close_keeps_the_token() {
    check_three("allot 1 next, return a, allot 3, ended, ended", "tokens 3, 2 free, 1 used");
    check_three("allot 1 next, return a, allot 2, ended, ended", "tokens 2, 1 free, 1 used");
    // More than before: the closing ones are part of what is held already.
    check_three("allot 0 idle, allot 4, ended", "tokens 4, 2 free, 2 used");
}

#[test]
fn more_than_the_maximum_is_not_taken() {
    check("allot 50", "tokens 10, 10 free");
    check("allot 50, allot 20 next", "tokens 10, 10 free");
    check("allot 50, allot 3 next", "tokens 3, 3 free");
}

#[test]
fn past_the_deadline_only_what_is_open_stays() {
    check_three("allot 5, lapse", "tokens 3, 2 used, 1 idle");
    check_three("lapse, return a, get d", "tokens 3, 2 used, 1 idle");
    check_three("lapse, unfit a", "tokens 3, 2 used, 1 closing");
    check_three("lapse, leave a, ended", "tokens 2, 1 used, 1 idle");
    check_three("lapse, allot 9", "tokens 3, 2 used, 1 idle");
    check_three("prolong 1, pass 1, allot 9", "tokens 3, 2 used, 1 idle");
    check("allot 2, get a, lapse, opened a", "tokens 1, 1 closing, 1 waiting");
    check("allot 2, get a, lapse, opened a, ended", "tokens 0, 1 waiting");
    check("allot 2, get a, lapse, failed a", "tokens 0");
    check("get a, allot 1, lapse, poll a", "tokens 0, 1 waiting");
}

#[test]
fn a_recall_is_followed_past_the_deadline_and_stays_in_force() {
    check_three("lapse, allot 1 next", "tokens 3, 2 used, 1 closing");
    check_three("lapse, allot 1 next, ended, revive, return a, ended", "tokens 1, 1 used");
    check_three("lapse, allot 2 idle, ended, revive, return a", "tokens 2, 1 used, 1 idle");
    // The session is late to notice the deadline.
    check_three("prolong 1, pass 1, allot 1 next, ended", "tokens 2, 2 used");
}

#[test]
fn a_fence_closes_what_is_idle_and_what_comes_back() {
    check_three("fence", "tokens 3, 2 used, 1 closing");
    check_three("fence, return a, ended, ended", "tokens 1, 1 used");
    // The stronger order stays until the session lives again.
    check_three("fence, lapse, return a", "tokens 3, 1 used, 2 closing");
}

#[test]
fn a_revived_session_grows_by_an_allotment_only() {
    check_three("allot 5, lapse, revive, get d, get e", "tokens 3, 3 used, 1 waiting");
    check_three("allot 5, lapse, revive, get d, get e, allot 4", "tokens 4, 1 opening, 3 used; woken e");
}

#[test]
fn what_was_open_at_the_deadline_takes_its_token_along_also_after_a_revival() {
    check_three("lapse, leave a, revive, ended", "tokens 2, 1 used, 1 idle");
    check_three("lapse, revive, leave a, ended, get d", "tokens 2, 2 used");
    check_three("lapse, revive, leave a, ended, allot 3", "tokens 3, 1 free, 1 used, 1 idle");
    check("allot 2, get a, lapse, revive, failed a", "tokens 0");
}

#[test]
fn nothing_is_opened_after_a_revival_under_a_token_of_before() {
    // Its connect was under way, or waited to be tried again.
    check("allot 2, get a, lapse, revive, opened a", "tokens 1, 1 closing, 1 waiting");
    check("allot 2, get a, lapse, revive, opened a, ended", "tokens 0, 1 waiting");
    check("allot 2, get a, lapse, revive, retry a", "tokens 0, 1 waiting");
    check("allot 2, get a, lapse, revive, retry a, allot 1, poll a", "tokens 1, 1 opening");
    // It was chosen, and did not know yet.
    check("get a, allot 1, lapse, revive, poll a", "tokens 0, 1 waiting");
    check("get a, allot 1, lapse, revive, leave a", "tokens 0");
    // As many as were under way come to nothing, whichever ends first.
    check("allot 1, get a, lapse, revive, allot 2, get b", "tokens 1, 1 opening, 1 waiting");
}

#[test]
fn a_deadline_holds_before_the_session_notices() {
    check("prolong 5, allot 2, pass 5, get a", "tokens 0, 1 waiting");
    check("prolong 5, allot 2, get a, pass 5, opened a", "tokens 1, 1 closing, 1 waiting");
    check("prolong 5, allot 2, get a, pass 5, opened a, ended", "tokens 0, 1 waiting");
    check(
        "prolong 5, allot 2, get a, pass 5, opened a, ended, prolong 5, allot 1",
        "tokens 1, 1 opening; woken a",
    );
    check("prolong 5, allot 2, get a, pass 4, opened a", "tokens 2, 1 free, 1 used");
    // Another deadline does not undo what the session ordered.
    check("allot 2, lapse, prolong 5, allot 2", "tokens 0");
}

#[test]
fn a_close_gives_everything_back() {
    check_three("allot 5, close", "tokens 3, 2 used, 1 closing");
    check_three("close, return a, return b, ended, ended, ended", "tokens 0");
    check_three("close, allot 9, get d", "tokens 3, 2 used, 1 closing");
    check("get a, close", "tokens 0; woken a");
    check("get a, close, poll a", "tokens 0");
    check("allot 1, get a, close, opened a, ended", "tokens 0");
    let table = play(LIMITS, "allot 1, get a, opened a, close, return a, ended");
    assert!(table.state.is_emptied());
}

#[test]
fn the_minimum_is_kept_warm_with_free_tokens_only() {
    let limits = Limits { maximum: 10, minimum: 2 };
    let check = |script: &str, expected: &str| assert_eq!(play(limits, script).show(), expected, "{script}");
    check("warm", "tokens 0");
    check("allot 5, warm, warm, warm", "tokens 5, 3 free, 2 idle");
    check("allot 5, warm, warm, pass 60, reap", "tokens 5, 3 free, 2 idle");
    check("allot 5, warm, warm, get a, get b, get c, opened c, return c", "tokens 5, 2 free, 2 used, 1 idle");
    check(
        "allot 5, get a, get b, get c, opened a, opened b, opened c, return a, return b, return c, pass 60, reap",
        "tokens 5, 2 free, 2 idle, 1 closing",
    );
    assert_eq!(play(limits, "").state.wanted(), 2);
}

#[test]
fn what_is_wanted_counts_each_task_once() {
    let wanted = |script: &str| play(LIMITS, script).state.wanted();
    assert_eq!(wanted("get a, get b"), 2);
    assert_eq!(wanted("allot 1, get a, opened a, get b"), 2);
    assert_eq!(wanted(&format!("{THREE}, allot 9")), 2, "neither idle nor free ones are wanted");
    assert_eq!(wanted("get a, close"), 0);
}

#[test]
fn the_oldest_wait_is_the_first_in_the_queue() {
    let table = play(LIMITS, "get a, pass 3, get b, pass 4");
    assert_eq!(table.state.levels(table.now).oldest_wait.as_secs(), 7);
    let table = play(LIMITS, "get a, pass 3, get b, pass 4, leave a");
    assert_eq!(table.state.levels(table.now).oldest_wait.as_secs(), 4);
    assert_eq!(Table::new(LIMITS, Use::Connections).state.levels(Time::START).oldest_wait.as_secs(), 0);
}

/// How many reports `script` asked for after `THREE` was reported.
fn reports(script: &str) -> u32 {
    let before = play(LIMITS, &format!("{THREE}, report")).reports;
    play(LIMITS, &format!("{THREE}, report, {script}")).reports - before
}

#[test]
fn a_swing_between_used_and_idle_is_not_reported() {
    assert_eq!(reports("get d"), 1, "more is wanted than before, and less to spare");
    let once = "get d, report, return d, report";
    assert_eq!(reports(once), 2);
    assert_eq!(reports(&format!("{once}, get d, return d, get d, return d")), 2);
}

/// Others may wait for it, and the server asks only where it knows of something.
#[test]
fn what_is_to_spare_is_reported_where_nothing_was() {
    let busy = "get d, report";
    assert_eq!(reports(&format!("{busy}, return d")), 2);
    assert_eq!(reports(&format!("{busy}, get e, report, leave e, return d")), 3, "nobody waits any more");
    assert_eq!(reports(&format!("{busy}, return d, report, return a, return b")), 2, "the rest has time");
}

#[test]
fn the_first_waiter_is_reported() {
    assert_eq!(reports("get d, report, get e"), 2);
    assert_eq!(reports("get d, report, get e, report, get f"), 3, "more is wanted");
    assert_eq!(reports("get d, report, get e, report, leave e, get e"), 2, "the server thinks so already");
}

#[test]
fn a_report_is_asked_for_once_until_it_is_read() {
    assert_eq!(reports("get d, get e, get f, unfit a, unfit b"), 1);
}

#[test]
fn opens_closes_and_the_holding_are_reported() {
    assert_eq!(reports("allot 4"), 1);
    assert_eq!(reports("allot 4, report, get d, get e"), 2);
    assert_eq!(reports("unfit a"), 1);
}

#[test]
fn what_falls_is_reported_when_it_lasted() {
    assert_eq!(reports("settle, settle"), 0);
    assert_eq!(reports("return a, return b"), 0);
    assert_eq!(reports("settle, return a, settle"), 0, "it may be a swing");
    assert_eq!(reports("settle, return a, settle, settle"), 1);
    assert_eq!(reports("settle, return a, settle, settle, report, settle, settle"), 1);
    assert_eq!(reports("settle, return a, get a, settle, return a, get a, settle"), 0);
}
