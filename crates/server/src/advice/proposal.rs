//! The indexes that a query asks for by its shape: fields that are compared with single values first, then those that it sorts by, then those
//! of which it wants a range. So the entries that an index reads stand beside each other and in the order in which the query wants them. A query with
//! an `$or` may ask for an index a branch, each with what stands beside the `$or`.

use quarry_bson::{Document, RawArray, RawDocument, RawValue};

/// An index of more fields is not proposed.
const FIELDS_MAX: usize = 6;
/// Conditions of a filter that are looked at, and how deep.
const CONDITIONS_MAX: usize = 100;
const DEPTH_MAX: usize = 8;
/// Branches of an `$or`; more of them get no index each.
const ALTERNATIVES_MAX: usize = 8;
/// Statements of one update or delete that are looked at.
const STATEMENTS_MAX: usize = 1_000;

/// The fields of a command, or of one of its statements, that a find has as well.
const OF_A_FIND: [&str; 2] = ["collation", "let"];

/// A part of a command that an index can serve, as the fields of a find.
pub struct Question {
    /// `{find, filter, sort, limit, ...}`.
    pub find: Document,
    /// The client names the index to be read.
    is_hinted: bool,
}

/// The keys of indexes that serve a query together.
pub type Proposal = Vec<Document>;

/// The parts of a command that an index can serve, and how many documents are wanted.
#[derive(Default)]
struct Asked<'q> {
    filter: Option<RawDocument<'q>>,
    sort: Option<RawDocument<'q>>,
    limit: Option<RawValue<'q>>,
}

/// The questions of a command: one of a read or a findAndModify, and one a statement of an update or a delete. Of an aggregate these are the
/// stages at its head. The error says why there is none.
pub fn questions_of(command: RawDocument<'_>) -> Result<Vec<Question>, &'static str> {
    const NONE: &str =
        "there is advice for find, count, distinct, aggregate, update, delete and findAndModify";
    let first = command.first().ok_or(NONE)?;
    let collection = first.value().as_str().ok_or(NONE)?;
    let document = |name| command.get_document(name);
    let asked = match &*first.name().to_string_lossy() {
        "find" => Asked {
            filter: document("filter"),
            sort: document("sort"),
            limit: command.get("limit"),
        },
        "count" | "distinct" => Asked {
            filter: document("query"),
            ..Asked::default()
        },
        "findAndModify" | "findandmodify" => Asked {
            filter: document("query"),
            sort: document("sort"),
            limit: Some(RawValue::Int32(1)),
        },
        "aggregate" => head(command),
        "update" => return Ok(of_statements(collection, command, "updates")),
        "delete" => return Ok(of_statements(collection, command, "deletes")),
        _ => return Err(NONE),
    };
    Ok(vec![Question::new(collection, &asked, command, command)])
}

fn of_statements(collection: &str, command: RawDocument<'_>, list: &str) -> Vec<Question> {
    let statements = command.get_array(list).unwrap_or(RawArray::EMPTY).iter();
    let statements = statements.filter_map(|statement| statement.as_document());
    let question = |statement: RawDocument<'_>| {
        let takes_all = match list {
            "updates" => matches!(statement.get("multi"), Some(RawValue::Boolean(true))),
            _ => statement.get("limit").and_then(|it| it.as_f64_lossy()) == Some(0.0),
        };
        let asked = Asked {
            filter: statement.get_document("q"),
            sort: statement.get_document("sort"),
            limit: (!takes_all).then_some(RawValue::Int32(1)),
        };
        Question::new(collection, &asked, statement, command)
    };
    statements.take(STATEMENTS_MAX).map(question).collect()
}

/// The `$match` and the `$sort` at the head of a pipeline.
fn head(command: RawDocument<'_>) -> Asked<'_> {
    let stages = command.get_array("pipeline").unwrap_or(RawArray::EMPTY);
    let mut stages = stages.iter().map_while(|stage| stage.as_document());
    let mut next = stages.next();
    let filter = next.and_then(|stage| stage.get_document("$match"));
    if filter.is_some() {
        next = stages.next();
    }
    Asked {
        filter,
        sort: next.and_then(|stage| stage.get_document("$sort")),
        limit: None,
    }
}

impl Question {
    /// `statement` is the command, or the part of it that holds the query.
    fn new(
        collection: &str,
        asked: &Asked<'_>,
        statement: RawDocument<'_>,
        command: RawDocument<'_>,
    ) -> Question {
        let find = Document::build(|find| {
            find.append("find", collection);
            for (name, part) in [("filter", asked.filter), ("sort", asked.sort)] {
                if let Some(part) = part {
                    find.append(name, part);
                }
            }
            if let Some(limit) = asked.limit {
                find.append("limit", limit);
            }
            for name in OF_A_FIND {
                if let Some(value) = statement.get(name).or_else(|| command.get(name)) {
                    find.append(name, value);
                }
            }
        });
        Question {
            find,
            is_hinted: statement.contains("hint"),
        }
    }
}

/// The fields that a filter constrains, by how.
#[derive(Clone, Default)]
struct Fields<'q> {
    points: Vec<String>,
    ranges: Vec<String>,
    /// The branches of the first `$or`.
    alternatives: Option<RawArray<'q>>,
    conditions: usize,
}

/// The indexes that would serve the query best, in the order in which they are worth a trial; the error says why there are none.
pub fn propose(question: &Question) -> Result<Vec<Proposal>, &'static str> {
    if question.is_hinted {
        return Err(
            "it says by `hint` how it is to be read, so that no other index would be taken",
        );
    }
    let mut fields = Fields::default();
    fields.read(question.find.get_document("filter").unwrap_or_default(), 0);
    let sort = question.find.get_document("sort").unwrap_or_default();
    let single = fields.key(sort);
    if is_of_id(&single) {
        return Err("it asks for `_id`, which has its index already");
    }
    let mut proposals = Vec::new();
    if !single.is_empty() {
        proposals.push(vec![single]);
    }
    match fields.alternatives {
        None => {}
        Some(branches) => match fields.keys_of_branches(branches, sort) {
            Ok(keys) => proposals.push(keys),
            Err(why) if proposals.is_empty() => return Err(why),
            Err(_) => {}
        },
    }
    if proposals.is_empty() {
        return Err("it has no condition and no order that an index over values could serve");
    }
    Ok(proposals)
}

fn is_of_id(key: &Document) -> bool {
    key.as_raw().sole_element("_id").is_some()
}

impl<'q> Fields<'q> {
    /// The key of an index over these fields, in the order `sort`.
    fn key(&self, sort: RawDocument<'_>) -> Document {
        let mut key: Vec<(String, i32)> = Vec::new();
        let mut add = |name: &str, way: i32| {
            if key.len() < FIELDS_MAX && !key.iter().any(|(known, _)| known == name) {
                key.push((name.to_owned(), way));
            }
        };
        self.points.iter().for_each(|name| add(name, 1));
        for element in sort {
            let name = element.name().to_string_lossy();
            let way = element.value().as_f64_lossy().unwrap_or(1.0);
            if !name.starts_with('$') {
                add(&name, if way < 0.0 { -1 } else { 1 });
            }
        }
        self.ranges.iter().for_each(|name| add(name, 1));
        Document::build(|index| {
            for (name, way) in &key {
                index.append(name, *way);
            }
        })
    }

    /// The keys of an index for each branch of an `$or`, with what stands beside it, but for those that another one begins with.
    fn keys_of_branches(
        &self,
        branches: RawArray<'_>,
        sort: RawDocument<'_>,
    ) -> Result<Vec<Document>, &'static str> {
        if branches.len() > ALTERNATIVES_MAX {
            return Err("it has more alternatives (`$or`) than get an index each");
        }
        let mut keys: Vec<Document> = Vec::new();
        for branch in branches.iter().filter_map(|branch| branch.as_document()) {
            let mut of_branch = Fields::default();
            of_branch.read(branch, 0);
            if of_branch.points.is_empty() && of_branch.ranges.is_empty() {
                return Err(
                    "one of its alternatives (`$or`) has no condition that an index over values could serve, and all documents are read for it",
                );
            }
            of_branch.points = [&self.points[..], &of_branch.points[..]].concat();
            of_branch.ranges.extend_from_slice(&self.ranges);
            keys.push(of_branch.key(sort));
        }
        let is_needed = |place: usize| {
            let key = &keys[place];
            !is_of_id(key)
                && !keys.iter().enumerate().any(|(other, longer)| {
                    other != place && begins_with(longer, key) && (longer != key || other < place)
                })
        };
        let needed: Vec<Document> = (0..keys.len())
            .filter(|place| is_needed(*place))
            .map(|place| keys[place].clone())
            .collect();
        match needed.is_empty() {
            true => Err("its alternatives (`$or`) ask for `_id`, which has its index already"),
            false => Ok(needed),
        }
    }

    fn read(&mut self, filter: RawDocument<'q>, depth: usize) {
        for element in filter {
            self.conditions += 1;
            if self.conditions > CONDITIONS_MAX || depth > DEPTH_MAX {
                return;
            }
            let name = element.name().to_string_lossy();
            match (&*name, element.value()) {
                ("$and", RawValue::Array(parts)) => {
                    for part in parts.iter().filter_map(|part| part.as_document()) {
                        self.read(part, depth + 1);
                    }
                }
                ("$or", RawValue::Array(branches)) => {
                    self.alternatives.get_or_insert(branches);
                }
                (operator, _) if operator.starts_with('$') => {}
                (_, condition) => self.note(&name, condition),
            }
        }
    }

    fn note(&mut self, name: &str, condition: RawValue<'_>) {
        let document = match condition {
            RawValue::Document(document) => document,
            RawValue::Regex(_) => return self.ranges.push(name.to_owned()),
            _ => return self.points.push(name.to_owned()),
        };
        let is_operator = |first: &str| first.starts_with('$');
        let Some(first) = document.first() else {
            return self.points.push(name.to_owned());
        };
        if !is_operator(&first.name().to_string_lossy()) {
            return self.points.push(name.to_owned());
        }
        let has = |operators: &[&str]| {
            document
                .iter()
                .any(|element| operators.iter().any(|name| element.name() == *name))
        };
        if has(&["$eq", "$in"]) {
            self.points.push(name.to_owned());
        } else if has(&["$gt", "$gte", "$lt", "$lte", "$regex", "$type", "$exists"]) {
            self.ranges.push(name.to_owned());
        }
    }
}

/// Whether the first fields of a key are those of the other one.
fn begins_with(longer: &Document, key: &Document) -> bool {
    let mut fields = longer.as_raw().iter();
    key.as_raw().iter().all(|field| {
        let other = fields.next();
        other.is_some_and(|other| other.name() == field.name() && other.value() == field.value())
    })
}

#[cfg(test)]
mod tests {
    use quarry_bson::extjson;

    use super::*;

    /// The proposals of each question of a command, or why there are none.
    fn proposed(command: &str) -> String {
        let command = extjson::parse_legacy(command).unwrap();
        let questions = match questions_of(command.as_raw()) {
            Ok(questions) => questions,
            Err(reason) => return reason.into(),
        };
        let told: Vec<String> = questions.iter().map(told).collect();
        told.join("; ")
    }

    fn told(question: &Question) -> String {
        let proposals = match propose(question) {
            Ok(proposals) => proposals,
            Err(reason) => return reason.into(),
        };
        let keys = |keys: &Proposal| {
            let keys: Vec<String> = keys
                .iter()
                .map(|key| extjson::relaxed(key.as_raw()))
                .collect();
            keys.join(" ")
        };
        let told: Vec<String> = proposals.iter().map(keys).collect();
        told.join(" or ")
    }

    #[test]
    fn points_come_before_the_order_and_ranges_behind_it() {
        for (command, index) in [
            ("{find: 'c', filter: {a: 5}}", r#"{"a":1}"#),
            (
                "{find: 'c', filter: {r: {$gt: 1}, a: 5}, sort: {s: -1}}",
                r#"{"a":1,"s":-1,"r":1}"#,
            ),
            (
                "{find: 'c', filter: {a: {$in: [1, 2]}, b: {$eq: 1, $gt: 0}}}",
                r#"{"a":1,"b":1}"#,
            ),
            (
                "{find: 'c', filter: {$and: [{a: 1}, {b: /x/}]}, sort: {a: 1}}",
                r#"{"a":1,"b":1}"#,
            ),
            ("{find: 'c', filter: {d: {x: 1}}}", r#"{"d":1}"#),
            ("{count: 'c', query: {a: 1}}", r#"{"a":1}"#),
            ("{distinct: 'c', key: 'k', query: {a: 1}}", r#"{"a":1}"#),
            (
                "{aggregate: 'c', pipeline: [{$match: {a: 1}}, {$sort: {b: -1}}, {$limit: 5}]}",
                r#"{"a":1,"b":-1}"#,
            ),
            (
                "{aggregate: 'c', pipeline: [{$sort: {b: 1}}]}",
                r#"{"b":1}"#,
            ),
        ] {
            assert_eq!(proposed(command), index, "{command}");
        }
    }

    #[test]
    fn what_a_write_looks_for_is_a_question_a_statement() {
        for (command, index) in [
            (
                "{update: 'c', updates: [{q: {a: 1, t: {$lt: 5}}, u: {$set: {a: 2}}, multi: true}, {q: {b: 1}, u: {}}]}",
                r#"{"a":1,"t":1}; {"b":1}"#,
            ),
            (
                "{delete: 'c', deletes: [{q: {a: 1}, limit: 0}]}",
                r#"{"a":1}"#,
            ),
            (
                "{findAndModify: 'c', query: {state: 'new'}, sort: {at: 1}, update: {$set: {state: 'taken'}}}",
                r#"{"state":1,"at":1}"#,
            ),
            (
                "{findandmodify: 'c', query: {a: 1}, remove: true}",
                r#"{"a":1}"#,
            ),
        ] {
            assert_eq!(proposed(command), index, "{command}");
        }
        let limits = |command: &str| -> Vec<bool> {
            let command = extjson::parse_legacy(command).unwrap();
            let questions = questions_of(command.as_raw()).unwrap();
            questions
                .iter()
                .map(|one| one.find.contains("limit"))
                .collect()
        };
        assert_eq!(
            limits("{update: 'c', updates: [{q: {a: 1}, u: {}}, {q: {a: 1}, u: {}, multi: true}]}"),
            [true, false]
        );
        assert_eq!(
            limits("{delete: 'c', deletes: [{q: {a: 1}, limit: 1}, {q: {a: 1}, limit: 0}]}"),
            [true, false]
        );
        assert_eq!(
            limits("{findAndModify: 'c', query: {a: 1}, remove: true}"),
            [true]
        );
    }

    #[test]
    fn branches_of_an_or_get_an_index_each() {
        for (filter, index) in [
            ("{$or: [{a: 1}, {b: {$gt: 1}}]}", r#"{"a":1} {"b":1}"#),
            // What stands beside it bounds each branch, or may be enough alone.
            (
                "{t: {$gt: 0}, x: 1, $or: [{a: 1}, {b: 1}]}",
                r#"{"x":1,"t":1} or {"x":1,"a":1,"t":1} {"x":1,"b":1,"t":1}"#,
            ),
            (
                "{$and: [{$or: [{a: 1}, {b: 1}]}, {x: 1}]}",
                r#"{"x":1} or {"x":1,"a":1} {"x":1,"b":1}"#,
            ),
            ("{$or: [{a: 1}, {a: 2}]}", r#"{"a":1}"#),
            ("{$or: [{a: 1}, {a: 2, b: 1}]}", r#"{"a":1,"b":1}"#),
            ("{$or: [{_id: 1}, {b: 1}]}", r#"{"b":1}"#),
        ] {
            assert_eq!(
                proposed(&format!("{{find: 'c', filter: {filter}}}")),
                index,
                "{filter}"
            );
        }
        let sorted = "{find: 'c', filter: {$or: [{a: 1}, {b: 1}]}, sort: {s: 1}}";
        assert_eq!(
            proposed(sorted),
            r#"{"s":1} or {"a":1,"s":1} {"b":1,"s":1}"#
        );
        let many = (0..9)
            .map(|n| format!("{{f{n}: 1}}"))
            .collect::<Vec<_>>()
            .join(", ");
        for (branches, why) in [
            ("{a: 1}, {b: {$ne: 1}}", "one of its alternatives"),
            ("{_id: 1}, {_id: 2}", "already"),
            (&*many, "more alternatives"),
        ] {
            let told = proposed(&format!("{{find: 'c', filter: {{$or: [{branches}]}}}}"));
            assert!(told.contains(why), "{branches}: {told}");
        }
    }

    #[test]
    fn what_no_index_serves_gets_none() {
        for command in ["{ping: 1}", "{aggregate: 1, pipeline: []}", "{}"] {
            assert!(
                proposed(command).starts_with("there is advice for"),
                "{command}"
            );
        }
        for command in [
            "{find: 'c'}",
            "{find: 'c', filter: {}}",
            "{find: 'c', filter: {a: {$ne: 1}}}",
            "{aggregate: 'c', pipeline: [{$group: {_id: 1}}]}",
            "{update: 'c', updates: [{q: {}, u: {$set: {a: 1}}, multi: true}]}",
        ] {
            assert!(proposed(command).contains("no condition"), "{command}");
        }
        assert!(proposed("{find: 'c', filter: {_id: {$gt: 1}}}").contains("already"));
        assert!(proposed("{find: 'c', filter: {a: 1}, hint: {$natural: 1}}").contains("hint"));
    }
}
