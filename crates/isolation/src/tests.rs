//! Tests: each anomaly is found by its name, and what is allowed is not.

use super::{Action, History, Outcome, Recorded, check, parse};

fn read(key: &str, list: &[i64]) -> Action {
    Action::Read(key.to_owned(), list.to_vec())
}

fn append(key: &str, value: i64) -> Action {
    Action::Append(key.to_owned(), value)
}

fn recorded(begun: u64, ended: u64, actions: Vec<Action>) -> Recorded {
    Recorded {
        actions,
        outcome: Outcome::Committed,
        begun,
        ended,
        client: String::new(),
    }
}

fn ended_as(outcome: Outcome, recorded: Recorded) -> Recorded {
    Recorded {
        outcome,
        ..recorded
    }
}

/// Judges a history where the list `a` and the list `b` are these in the end.
fn found(done: Vec<Recorded>, lists: [&[i64]; 2]) -> Vec<String> {
    let names = ["a", "b"].map(str::to_owned).into_iter();
    let lists = names.zip(lists.map(<[i64]>::to_vec)).collect();
    check(&History { done, lists })
}

#[track_caller]
fn assert_found(wanted: &str, done: Vec<Recorded>, lists: [&[i64]; 2]) {
    let found = found(done, lists);
    assert!(
        found.iter().any(|anomaly| anomaly.contains(wanted)),
        "{wanted}: {found:?}"
    );
}

#[track_caller]
fn assert_isolated(done: Vec<Recorded>, lists: [&[i64]; 2]) {
    assert_eq!(found(done, lists), Vec::<String>::new());
}

#[test]
fn write_skew_is_no_anomaly() {
    let done = vec![
        recorded(0, 10, vec![read("a", &[]), append("b", 1)]),
        recorded(1, 11, vec![read("b", &[]), append("a", 2)]),
    ];
    assert_isolated(done, [&[2], &[1]]);
}

#[test]
fn transactions_that_meet_in_two_lists_in_two_orders_are_a_g0() {
    let done = vec![
        recorded(0, 10, vec![append("a", 1), append("b", 2)]),
        recorded(1, 11, vec![append("a", 3), append("b", 4)]),
    ];
    assert_found("cycle, G0:", done, [&[1, 3], &[4, 2]]);
}

#[test]
fn two_that_read_each_other_are_a_g1c() {
    let done = vec![
        recorded(0, 10, vec![append("a", 1), read("b", &[2])]),
        recorded(1, 11, vec![append("b", 2), read("a", &[1])]),
    ];
    assert_found("cycle, G1c:", done, [&[1], &[2]]);
}

#[test]
fn read_skew_lost_updates_and_old_reads_are_cycles() {
    let skew = vec![
        recorded(0, 10, vec![read("a", &[]), read("b", &[2])]),
        recorded(1, 9, vec![append("a", 1), append("b", 2)]),
    ];
    assert_found("cycle, G-single", skew, [&[1], &[2]]);
    let lost = vec![
        recorded(0, 10, vec![read("a", &[]), append("a", 1)]),
        recorded(1, 11, vec![read("a", &[]), append("a", 2)]),
    ];
    assert_found("cycle, G-single", lost, [&[1, 2], &[]]);
    let twice = vec![
        recorded(0, 10, vec![read("a", &[]), read("a", &[1])]),
        recorded(1, 9, vec![append("a", 1)]),
    ];
    assert_found("cycle, G-single", twice, [&[1], &[]]);
    let old = vec![
        recorded(0, 1, vec![append("a", 1)]),
        recorded(2, 3, vec![read("a", &[])]),
    ];
    assert_found("cycle, a read of the past", old, [&[1], &[]]);
}

#[test]
fn readers_that_see_two_writes_in_two_orders_are_a_cycle() {
    let done = vec![
        recorded(0, 10, vec![append("a", 1)]),
        recorded(0, 10, vec![append("b", 2)]),
        recorded(1, 9, vec![read("a", &[1]), read("b", &[])]),
        recorded(1, 9, vec![read("a", &[]), read("b", &[2])]),
    ];
    assert_found("cycle, G-nonadjacent", done, [&[1], &[2]]);
}

#[test]
fn a_reader_that_goes_back_is_a_read_of_the_past() {
    let done = vec![
        recorded(0, 10, vec![append("a", 1)]),
        recorded(1, 2, vec![read("a", &[1])]),
        recorded(3, 4, vec![read("a", &[])]),
    ];
    assert_found("cycle, a read of the past", done, [&[1], &[]]);
}

#[test]
fn the_reads_of_what_was_given_up_are_judged_too() {
    let torn = recorded(0, 10, vec![read("a", &[]), read("b", &[2])]);
    let done = vec![
        ended_as(Outcome::GivenUp, torn),
        recorded(1, 9, vec![append("a", 1), append("b", 2)]),
    ];
    assert_found("cycle, G-single", done, [&[1], &[2]]);
}

#[test]
fn reads_of_what_was_given_up_or_is_not_whole_are_told() {
    let given_up = ended_as(Outcome::GivenUp, recorded(0, 5, vec![append("a", 1)]));
    let reads = recorded(1, 6, vec![read("a", &[1])]);
    assert_found("given up", vec![given_up, reads], [&[], &[]]);
    let twice = recorded(0, 5, vec![append("a", 1), append("a", 2)]);
    let reads = recorded(1, 6, vec![read("a", &[1])]);
    assert_found("amid", vec![twice, reads], [&[1, 2], &[]]);
    let given_up = ended_as(Outcome::GivenUp, recorded(0, 5, vec![append("a", 1)]));
    assert_found("is there and was given up", vec![given_up], [&[1], &[]]);
}

#[test]
fn what_is_committed_is_there_once_in_its_list() {
    let one = || recorded(0, 1, vec![append("a", 1)]);
    assert_isolated(vec![one()], [&[1], &[]]);
    assert_found("is lost", vec![one()], [&[], &[]]);
    assert_found("is lost", vec![one()], [&[], &[1]]);
    assert_found("2 times", vec![one()], [&[1, 1], &[]]);
    assert_found("nobody", vec![one()], [&[1, 7], &[]]);
    assert_found("two clients", vec![one(), one()], [&[1], &[]]);
}

#[test]
fn what_has_no_known_outcome_is_there_as_a_whole_or_not_at_all() {
    let unknown = |ended| {
        let both = recorded(0, ended, vec![append("a", 1), append("b", 2)]);
        ended_as(Outcome::Unknown, both)
    };
    assert_isolated(vec![unknown(9)], [&[1], &[2]]);
    assert_isolated(vec![unknown(9)], [&[], &[]]);
    assert_found("others of its transaction", vec![unknown(9)], [&[1], &[]]);
    // Who reads it makes it one that must be there.
    let reads = || recorded(10, 11, vec![read("a", &[1])]);
    assert_isolated(vec![unknown(9), reads()], [&[1], &[2]]);
    assert_found("given up", vec![unknown(9), reads()], [&[], &[]]);
    // It comes when a reader has missed it: only as long as it may still be under way.
    let misses = || recorded(10, 11, vec![read("a", &[])]);
    assert_isolated(vec![unknown(u64::MAX), misses()], [&[1], &[2]]);
    assert_found("the past", vec![unknown(9), misses()], [&[1], &[2]]);
}

#[test]
fn a_long_history_is_judged_in_a_moment() {
    let count = 20_000_i64;
    let all: Vec<i64> = (0..count).collect();
    let one = |n: i64| {
        let begun = n.unsigned_abs() * 10;
        recorded(begun, begun + 5, vec![append("a", n), read("b", &[])])
    };
    assert_isolated((0..count).map(one).collect(), [&all, &[]]);
}

#[test]
fn a_history_is_read_from_lines() {
    let text = r#"{"client": "3", "begun": 1, "ended": 2, "outcome": "committed", "actions": [["append", "a", 7], ["read", "b", []]]}
{"client": "4", "begun": 3, "ended": null, "outcome": "unknown", "actions": [["append", "a", 8]]}
{"lists": {"a": [7, 8]}}"#;
    let history = parse(text).unwrap();
    assert_eq!(check(&history), Vec::<String>::new());
    assert_eq!(history.done[1].ended, u64::MAX);
    let lost = parse(&text.replace("[7, 8]", "[8]")).unwrap();
    assert!(check(&lost)[0].contains("7 of 0 is lost"));
    for (line, error) in [
        ("{}", "line 1: no transaction"),
        ("", "the lists in the end are missing"),
        (r#"{"lists": {"a": ["x"]}}"#, "line 1: no lists of numbers"),
    ] {
        assert_eq!(parse(line).err().as_deref(), Some(error));
    }
}
