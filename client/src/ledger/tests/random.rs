//! Random sequences of moves, and what must be true after each, by name.

use proptest::prelude::*;

use super::{Limits, Move, Name, Recall, Table, Task, Use};

const NAMES: [Name; 6] = ['a', 'b', 'c', 'd', 'e', 'f'];

fn moves() -> impl Strategy<Value = Move> {
    let name = || prop::sample::select(&NAMES[..]);
    let recall = prop::sample::select(vec![Recall::None, Recall::Idle, Recall::NextReturn]);
    prop_oneof![
        6 => name().prop_map(Move::Get),
        4 => name().prop_map(Move::Poll),
        6 => name().prop_map(Move::Opened),
        1 => name().prop_map(Move::Failed),
        1 => name().prop_map(Move::Retry),
        5 => name().prop_map(Move::Return),
        2 => name().prop_map(Move::Unfit),
        2 => name().prop_map(Move::Leave),
        5 => Just(Move::Ended),
        4 => (0..8_u32, recall).prop_map(|(tokens, recall)| Move::Allot(tokens, recall)),
        1 => prop::option::of(0..4_u32).prop_map(Move::Bound),
        1 => Just(Move::Lapse),
        1 => Just(Move::Fence),
        2 => Just(Move::Revive),
        1 => (1..30_u64).prop_map(Move::Prolong),
        2 => Just(Move::Warm),
        1 => Just(Move::Reap),
        2 => (0..30_u64).prop_map(Move::Pass),
        2 => Just(Move::Report),
        1 => Just(Move::Settle),
    ]
}

/// What was true before a move.
struct Before {
    holding: u32,
    open: u32,
    lapsed: bool,
}

impl Before {
    fn of(table: &Table) -> Self {
        let levels = table.state.levels(table.now);
        Self {
            holding: levels.holding,
            open: levels.established + levels.opening + levels.closing,
            lapsed: table.state.is_lapsed(table.now),
        }
    }
}

fn check_invariants(table: &Table, play: Move, before: &Before, highest: u32) {
    let levels = table.state.levels(table.now);
    let open = levels.established + levels.opening + levels.closing;
    assert!(levels.holding >= open, "holding covers everything open");
    assert_eq!(levels.established, levels.in_use + levels.idle, "established is used or idle");
    assert!(levels.holding <= highest, "never more than the highest allotment");
    if levels.holding > before.holding {
        assert!(matches!(play, Move::Allot(..)), "the holding rises by an allotment only");
    }
    if before.lapsed {
        assert!(open <= before.open, "nothing opens past the deadline");
        assert!(levels.holding <= before.holding, "the holding does not rise past the deadline");
    }
    let statistics = table.state.statistics();
    assert_eq!(table.closing.len() as u32, levels.closing, "every close was begun");
    assert!(statistics.peak_open <= highest, "never more open than the highest allotment");
}

/// Lets every task finish; then nobody may wait, and nothing may be kept.
fn finish(table: &mut Table) {
    table.play(Move::Revive);
    table.play(Move::Prolong(1_000_000));
    table.play(Move::Allot(NAMES.len() as u32 + 8, Recall::None));
    for _ in 0..4 * NAMES.len() {
        for name in NAMES {
            table.play(Move::Poll(name));
            table.play(Move::Opened(name));
            if matches!(table.tasks.get(&name), Some(Task::Using(..))) {
                table.play(Move::Return(name));
            }
            table.play(Move::Ended);
        }
    }
    assert!(table.tasks.is_empty(), "no task is stuck: {:?}", table.tasks);
    let levels = table.state.levels(table.now);
    assert_eq!((levels.in_use, levels.opening, levels.closing, levels.waiting), (0, 0, 0, 0));
    table.play(Move::Close);
    while !table.closing.is_empty() {
        table.play(Move::Ended);
    }
    assert!(table.state.is_emptied(), "everything is given back");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_invariants_hold(minimum in 0..3_u32, moves in prop::collection::vec(moves(), 0..150)) {
        check(Table::new(Limits { maximum: 20, minimum }, Use::Connections), moves);
    }

    #[test]
    fn the_invariants_hold_for_tokens(moves in prop::collection::vec(moves(), 0..150)) {
        check(Table::new(Limits { maximum: 20, minimum: 0 }, Use::Tokens), moves);
    }
}

fn check(mut table: Table, moves: Vec<Move>) {
    let mut highest = 0;
    for play in moves {
        if let Move::Allot(tokens, _) = play {
            highest = highest.max(tokens);
        }
        let before = Before::of(&table);
        table.play(play);
        check_invariants(&table, play, &before, highest);
    }
    finish(&mut table);
}
