//! Runs the scripts in `tests/scripts/`: a request on one line, documents on the next, and behind each `=>` what comes
//! of it. `cargo test -p quarry-query --test language_scripts -- --nocapture` counts the cases, and with `UPDATE=1`
//! writes the results anew.
//!
//! ```text
//! match FILTER                 each document: yes or no, with the position that `$` would mean
//! validate FILTER              each document: ok, or why the filter as a validator refuses it
//! update UPDATE                each document: what it becomes
//! update UPDATE where FILTER   the same, `$` found by the filter
//! update UPDATE with FILTERS   the same, with arrayFilters
//! upsert UPDATE where FILTER   no documents: what is inserted
//! project PROJECTION           each document: what is returned
//! project PROJECTION where FILTER
//! sort PATTERN                 each array of documents: in order
//! collation SPECIFICATION      how the requests below compare strings
//! ```
//! Text is strict Extended JSON where it can be read so (only there is `{"$regex": ..}` an operator), and the
//! shell's notation otherwise. `update!` and `upsert!` print every type. A request that is refused is followed by a line `=> error`.

mod script;

use quarry_bson::{Document, RawValue, extjson};
use quarry_database::parse_collation;
use quarry_query::expression::ExpressionContext;
use quarry_query::matcher::{MatchDetails, Matcher};
use quarry_query::projection::Projection;
use quarry_query::sort::SortPattern;
use quarry_query::update::{Beside, Update};
use quarry_query::{Error, Result};
use script::Language;

/// 2024-01-02T03:04:05.678Z.
const NOW_MS: i64 = 1_704_164_645_678;

/// The scripts have no fewer cases than this.
const CASES_MIN: usize = 3000;

#[test]
fn scripts() {
    script::run_all("scripts", CASES_MIN, Requests::default);
}

/// The request that was read last, unless it was refused, and the context of those that follow.
#[derive(Default)]
struct Requests(Option<Request>, ExpressionContext);

impl Language for Requests {
    fn request(&mut self, line: &str) -> Option<String> {
        if let Some(specification) = line.strip_prefix("collation ") {
            let parsed = parse_collation(document(specification).as_raw());
            return match parsed {
                Ok(collation) => {
                    self.1.set_collation(collation);
                    None
                }
                Err(error) => Some(shown(&error.into())),
            };
        }
        match Request::parse(line, &self.1) {
            Ok(request) => {
                let said = request.upserted();
                self.0 = Some(request);
                said
            }
            Err(error) => {
                self.0 = None;
                Some(shown(&error))
            }
        }
    }

    fn answer(&mut self, input: &str) -> String {
        match &self.0 {
            Some(request) => answer(request, input).unwrap_or_else(|error| shown(&error)),
            None => "no request".to_owned(),
        }
    }
}

enum Request {
    Match(Matcher),
    Validate {
        matcher: Matcher,
        source: Document,
    },
    Update {
        update: Update,
        filter: Option<Matcher>,
        exact: bool,
    },
    Upsert {
        update: Update,
        filter: Matcher,
        exact: bool,
    },
    Project {
        projection: Projection,
        filter: Option<Matcher>,
    },
    Sort(SortPattern),
}

impl Request {
    /// The document that an upsert inserts.
    fn upserted(&self) -> Option<String> {
        let Request::Upsert {
            update,
            filter,
            exact,
        } = self
        else {
            return None;
        };
        let made = update.upsert_document(filter, NOW_MS);
        let made = made.map_or_else(|error| shown(&error), |made| print(&made, *exact));
        Some(hide_generated_id(made))
    }

    fn parse(line: &str, context: &ExpressionContext) -> Result<Request> {
        let (verb, rest) = line.split_once(' ').unwrap();
        let exact = verb.ends_with('!');
        let (first, filters) = rest
            .split_once(" with ")
            .map_or((rest, None), |(first, last)| (first, Some(last)));
        let (first, filter) = first
            .split_once(" where ")
            .map_or((first, None), |(first, last)| (first, Some(last)));
        let filter = filter
            .map(|filter| Matcher::parse_in(document(filter).as_raw(), context))
            .transpose()?;
        let parsed = document(&format!(
            "{{\"v\": {first}, \"f\": {}}}",
            filters.unwrap_or("null")
        ));
        let (value, filters) = (parsed.get("v").unwrap(), parsed.get_array("f"));
        let beside = Beside {
            array_filters: filters,
            constants: None,
        };
        let as_document = || value.as_document().unwrap();
        Ok(match verb.trim_end_matches('!') {
            "match" => Request::Match(Matcher::parse_in(as_document(), context)?),
            "validate" => Request::Validate {
                matcher: Matcher::parse(as_document())?,
                source: as_document().to_owned_document(),
            },
            "update" => Request::Update {
                update: Update::parse_in(value, beside, context)?,
                filter,
                exact,
            },
            "upsert" => Request::Upsert {
                update: Update::parse_in(value, beside, context)?,
                filter: filter.unwrap(),
                exact,
            },
            "project" => Request::Project {
                projection: Projection::parse_in(as_document(), filter.as_ref(), context)?,
                filter,
            },
            "sort" => {
                let collation = context.collation();
                Request::Sort(SortPattern::parse_in(as_document(), collation)?)
            }
            other => panic!("unknown request {other}"),
        })
    }
}

fn answer(request: &Request, input: &str) -> Result<String> {
    let mut out = Vec::new();
    match request {
        Request::Match(matcher) => {
            Ok(match matcher.try_match_details(document(input).as_raw())? {
                None => "no".to_owned(),
                Some(MatchDetails { array_index: None }) => "yes".to_owned(),
                Some(MatchDetails {
                    array_index: Some(index),
                }) => format!("yes, {index}"),
            })
        }
        Request::Validate { matcher, source } => {
            let document = document(input);
            // Where it fails, the document does not suit it.
            if matcher.try_matches(document.as_raw()) == Ok(true) {
                return Ok("ok".to_owned());
            }
            let context = ExpressionContext::default();
            let details = Matcher::failure(source.as_raw(), document.as_raw(), &context)?;
            Ok(print(&details, false))
        }
        Request::Update {
            update,
            filter,
            exact,
        } => {
            let before = document(input);
            let details = details(filter.as_ref(), &before);
            let outcome = update.apply(before.as_raw(), &details, false, NOW_MS, &mut out)?;
            let after = Document::from_bytes(out).unwrap();
            assert_eq!(outcome.modified, before.as_bytes() != after.as_bytes());
            let after = print(&after, *exact);
            Ok(if outcome.modified {
                after
            } else {
                "same".to_owned()
            })
        }
        Request::Upsert { .. } => Ok("no document is wanted".to_owned()),
        Request::Project { projection, filter } => {
            let before = document(input);
            projection.project(
                before.as_raw(),
                &details(filter.as_ref(), &before),
                &mut out,
            )?;
            Ok(print(&Document::from_bytes(out).unwrap(), false))
        }
        Request::Sort(pattern) => {
            let list = document(&format!("{{\"list\": {input}}}"));
            let mut rows = Vec::new();
            for document in list
                .get_array("list")
                .unwrap()
                .iter()
                .filter_map(|value| value.as_document())
            {
                let mut key = Vec::new();
                pattern.key(document, &mut key)?;
                rows.push((key, RawValue::Document(document)));
            }
            rows.sort_by(|a, b| a.0.cmp(&b.0));
            for pair in rows.windows(2) {
                let (a, b) = (
                    pair[0].1.as_document().unwrap(),
                    pair[1].1.as_document().unwrap(),
                );
                assert_eq!(pattern.compare(a, b)?, pair[0].0.cmp(&pair[1].0));
            }
            let shown: Vec<String> = rows
                .iter()
                .map(|(_, value)| extjson::relaxed(value.as_document().unwrap()))
                .collect();
            Ok(shown.join(" "))
        }
    }
}

fn document(text: &str) -> Document {
    let read = extjson::parse(text).or_else(|_| extjson::parse_legacy(text));
    read.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn details(filter: Option<&Matcher>, document: &Document) -> MatchDetails {
    filter
        .and_then(|filter| filter.try_match_details(document.as_raw()).unwrap_or(None))
        .unwrap_or_default()
}

fn print(document: &Document, exact: bool) -> String {
    if exact {
        extjson::canonical(document.as_raw())
    } else {
        extjson::relaxed(document.as_raw())
    }
}

/// Stands in for the one value that is new each time.
fn hide_generated_id(text: String) -> String {
    const PREFIX: &str = "{\"_id\":{\"$oid\":\"";
    match text
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once("\"}"))
    {
        Some((_, rest)) => format!("{{\"_id\":NEW{rest}"),
        None => text,
    }
}

fn shown(error: &Error) -> String {
    format!("error {} {}", error.code(), error.message)
}
