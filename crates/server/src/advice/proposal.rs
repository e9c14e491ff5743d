//! The index that a query asks for by its shape: fields that are compared with single values first, then those that it sorts by, then those
//! of which it wants a range. So the entries that it reads stand beside each other and in the order in which it wants them.

use quarry_bson::{Document, RawDocument, RawValue};

/// An index of more fields is not proposed.
const FIELDS_MAX: usize = 6;
/// Conditions of a filter that are looked at, and how deep.
const CONDITIONS_MAX: usize = 100;
const DEPTH_MAX: usize = 8;

/// The part of a command that an index can serve, as the fields of a find.
pub struct Question {
    /// The collection.
    pub collection: String,
    /// `{find, filter, sort, limit, ...}`.
    pub find: Document,
}

impl Question {
    /// Reads a find, count, distinct or aggregate; of the last the stages at its head. None where there is no filter and no sort.
    pub fn of(command: RawDocument<'_>) -> Option<Question> {
        let first = command.first()?;
        let collection = first.value().as_str()?.to_owned();
        let (filter, sort) = match first.name().as_str().ok()? {
            "find" => (command.get_document("filter"), command.get_document("sort")),
            "count" | "distinct" => (command.get_document("query"), None),
            "aggregate" => head(command)?,
            _ => return None,
        };
        let is_empty = |part: Option<RawDocument<'_>>| part.is_none_or(|part| part.is_empty());
        if is_empty(filter) && is_empty(sort) {
            return None;
        }
        let find = Document::build(|find| {
            find.append("find", collection.as_str());
            for (name, part) in [("filter", filter), ("sort", sort)] {
                if let Some(part) = part {
                    find.append(name, part);
                }
            }
            for name in ["limit", "collation", "let"] {
                let is_limit_of_other = name == "limit" && first.name() != "find";
                if let Some(value) = command.get(name).filter(|_| !is_limit_of_other) {
                    find.append(name, value);
                }
            }
        });
        Some(Question { collection, find })
    }
}

/// The `$match` and the `$sort` at the head of a pipeline.
fn head(command: RawDocument<'_>) -> Option<(Option<RawDocument<'_>>, Option<RawDocument<'_>>)> {
    let mut stages = command.get_array("pipeline")?.iter();
    let first = stages.next()?.as_document()?;
    let Some(filter) = first.get_document("$match") else {
        return Some((None, first.get_document("$sort")));
    };
    let second = stages.next().and_then(|stage| stage.as_document());
    Some((
        Some(filter),
        second.and_then(|stage| stage.get_document("$sort")),
    ))
}

/// The fields that a filter constrains, by how.
#[derive(Default)]
struct Fields {
    points: Vec<String>,
    ranges: Vec<String>,
    /// A part of the filter that no single index serves.
    has_alternatives: bool,
    conditions: usize,
}

/// The key of the index that would serve the query best; the error says why there is none.
pub fn propose(question: &Question) -> Result<Document, &'static str> {
    let mut fields = Fields::default();
    if let Some(filter) = question.find.get_document("filter") {
        fields.read(filter, 0);
    }
    let sort = question.find.get_document("sort").unwrap_or_default();
    let mut key: Vec<(String, i32)> = fields.points.iter().map(|name| (name.clone(), 1)).collect();
    for element in sort {
        let name = element.name().to_string_lossy();
        let way = element.value().as_f64_lossy().unwrap_or(1.0);
        if !name.starts_with('$') {
            key.push((name.into_owned(), if way < 0.0 { -1 } else { 1 }));
        }
    }
    key.extend(fields.ranges.iter().map(|name| (name.clone(), 1)));
    let mut known: Vec<String> = Vec::new();
    key.retain(|(name, _)| {
        let is_new = !known.contains(name);
        known.push(name.clone());
        is_new
    });
    key.truncate(FIELDS_MAX);
    if key.is_empty() {
        return Err(match fields.has_alternatives {
            true => "its conditions are alternatives, each of which would need an index of its own",
            false => "it has no condition and no order that an index over values could serve",
        });
    }
    if key.len() == 1 && key[0].0 == "_id" {
        return Err("it asks for `_id`, which has its index already");
    }
    Ok(Document::build(|index| {
        for (name, way) in &key {
            index.append(name, *way);
        }
    }))
}

impl Fields {
    fn read(&mut self, filter: RawDocument<'_>, depth: usize) {
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
                (operator, _) if operator.starts_with('$') => {
                    self.has_alternatives |= operator == "$or";
                }
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

#[cfg(test)]
mod tests {
    use quarry_bson::extjson;

    use super::*;

    fn proposed(command: &str) -> String {
        let command = extjson::parse_legacy(command).unwrap();
        let Some(question) = Question::of(command.as_raw()) else {
            return "nothing to ask".into();
        };
        match propose(&question) {
            Ok(index) => extjson::relaxed(index.as_raw()),
            Err(reason) => reason.into(),
        }
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
    fn what_no_single_index_serves_gets_none() {
        for command in [
            "{find: 'c'}",
            "{find: 'c', filter: {}}",
            "{ping: 1}",
            "{aggregate: 1, pipeline: []}",
            "{aggregate: 'c', pipeline: [{$group: {_id: 1}}]}",
        ] {
            assert_eq!(proposed(command), "nothing to ask", "{command}");
        }
        assert!(proposed("{find: 'c', filter: {$or: [{a: 1}, {b: 1}]}}").contains("alternatives"));
        assert!(proposed("{find: 'c', filter: {a: {$ne: 1}}}").contains("no condition"));
        assert!(proposed("{find: 'c', filter: {_id: {$gt: 1}}}").contains("already"));
    }
}
