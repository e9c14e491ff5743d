//! A history as lines of JSON: one for each transaction or command, in any order, and one for the lists in the end.
//!
//! ```text
//! {"client": "3", "begun": 17, "ended": 29, "outcome": "committed", "actions": [["append", "a", 7], ["read", "b", [1, 2]]]}
//! {"lists": {"a": [7], "b": [1, 2]}}
//! ```
//!
//! `outcome` is `committed`, `given up` or `unknown`; `ended` is null where nobody knows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::{Action, History, Outcome, Recorded};

/// Reads a history.
///
/// # Errors
/// Names the first line that is none of a history, or says that the lists are missing.
pub fn parse(text: &str) -> Result<History, String> {
    let mut history = History::default();
    let mut has_lists = false;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| format!("line {number}: {what}");
        let line: Value = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
        if let Some(lists) = line.get("lists") {
            history.lists = lists_of(lists).ok_or_else(|| wrong("no lists of numbers"))?;
            has_lists = true;
        } else {
            let recorded = recorded(&line).ok_or_else(|| wrong("no transaction"))?;
            history.done.push(recorded);
        }
    }
    match has_lists {
        true => Ok(history),
        false => Err("the lists in the end are missing".to_owned()),
    }
}

fn recorded(line: &Value) -> Option<Recorded> {
    let actions = line.get("actions")?.as_array()?;
    let ended = line.get("ended")?;
    Some(Recorded {
        actions: actions.iter().map(action).collect::<Option<_>>()?,
        outcome: match line.get("outcome")?.as_str()? {
            "committed" => Outcome::Committed,
            "given up" => Outcome::GivenUp,
            "unknown" => Outcome::Unknown,
            _ => return None,
        },
        begun: line.get("begun")?.as_u64()?,
        ended: match ended {
            Value::Null => u64::MAX,
            ended => ended.as_u64()?,
        },
        client: line.get("client")?.as_str()?.to_owned(),
    })
}

fn action(action: &Value) -> Option<Action> {
    let [kind, key, value] = action.as_array()?.as_slice() else {
        return None;
    };
    let key = key.as_str()?.to_owned();
    match kind.as_str()? {
        "append" => Some(Action::Append(key, value.as_i64()?)),
        "read" => Some(Action::Read(key, numbers(value)?)),
        _ => None,
    }
}

fn lists_of(lists: &Value) -> Option<BTreeMap<String, Vec<i64>>> {
    let lists = lists.as_object()?.iter();
    lists
        .map(|(key, list)| Some((key.clone(), numbers(list)?)))
        .collect()
}

fn numbers(list: &Value) -> Option<Vec<i64>> {
    list.as_array()?.iter().map(Value::as_i64).collect()
}
