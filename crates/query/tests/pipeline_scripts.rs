//! Runs the scripts in `tests/pipeline_scripts/`: a request on one line, input on the next, and behind each `=>`
//! what comes of it. `cargo test -p quarry-query --test pipeline_scripts -- --nocapture` counts the cases, and with
//! `UPDATE=1` writes the results anew.
//!
//! ```text
//! eval EXPRESSION     each document: the expression's value, with its types; nothing at all is MISSING
//! let VARIABLES       the `let` of the requests below
//! collation SPEC      how the requests below compare strings
//! foreign NAME [..]   the documents of a collection, for the pipelines below
//! run PIPELINE        each array of documents: the documents that come out
//! needs PIPELINE      what the head of the pipeline asks of a find, the fields needed, and explain
//! ```
//! A request that is refused is followed by a line `=> error`.

mod script;

use std::collections::{BTreeMap, VecDeque};

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value, extjson};
use quarry_database::parse_collation;
use quarry_query::expression::{Context, Expression, ExpressionContext};
use quarry_query::matcher::Matcher;
use quarry_query::pipeline::{Collections, Pipeline, ReadId, Run, Source, SubFind};
use quarry_query::sort::SortPattern;
use quarry_query::{Error, Result};
use script::Language;

/// 2024-01-02T03:04:05.678Z.
const NOW_MS: i64 = 1_704_164_645_678;

/// The scripts have no fewer cases than this.
const CASES_MIN: usize = 3700;

#[test]
fn scripts() {
    script::run_all("pipeline_scripts", CASES_MIN, || Requests {
        request: None,
        foreign: OtherCollections::default(),
        context: ExpressionContext::at(NOW_MS),
    });
}

enum Request {
    Eval(Expression),
    Run(Pipeline),
    Needs(Pipeline),
}

/// The request that was read last, unless it was refused, and what those before it have set.
struct Requests {
    request: Option<Request>,
    foreign: OtherCollections,
    context: ExpressionContext,
}

impl Language for Requests {
    fn request(&mut self, line: &str) -> Option<String> {
        let (verb, rest) = line.split_once(' ').unwrap();
        match verb {
            "let" => {
                self.context = ExpressionContext::at(NOW_MS);
                let variables = value_of(rest);
                let bound = self.context.bind_let(variables.as_document().unwrap());
                bound.err().map(|error| shown(&error))
            }
            "collation" => {
                let specification = value_of(rest);
                let collation = parse_collation(specification.as_document().unwrap());
                self.context.set_collation(collation.unwrap());
                None
            }
            "foreign" => {
                let (name, documents) = rest.split_once(' ').unwrap();
                self.foreign
                    .documents
                    .insert(name.to_owned(), documents_of(documents));
                None
            }
            _ => match parse(verb, rest, &self.context) {
                Ok(Request::Needs(pipeline)) => Some(needs(&pipeline)),
                Ok(parsed) => {
                    self.request = Some(parsed);
                    None
                }
                Err(error) => {
                    self.request = None;
                    Some(shown(&error))
                }
            },
        }
    }

    fn answer(&mut self, input: &str) -> String {
        match &self.request {
            Some(request) => answer(request, input, &mut self.foreign),
            None => "no request".to_owned(),
        }
    }
}

fn parse(verb: &str, rest: &str, context: &ExpressionContext) -> Result<Request> {
    let value = value_of(rest);
    Ok(match verb {
        "eval" => Request::Eval(Expression::parse(value.as_raw(), context)?),
        "run" => Request::Run(Pipeline::parse(value.as_array().unwrap(), context)?),
        "needs" => Request::Needs(Pipeline::parse(value.as_array().unwrap(), context)?),
        other => panic!("unknown request {other}"),
    })
}

/// Strict Extended JSON where it can be read so, the shell's notation otherwise.
fn value_of(text: &str) -> Value {
    let (strict, shell) = (format!("{{\"v\": {text}}}"), format!("{{v: {text}}}"));
    let read = extjson::parse(&strict).or_else(|_| extjson::parse_legacy(&shell));
    let read = read.unwrap_or_else(|error| panic!("{text}: {error}"));
    Value::from(read.get("v").unwrap())
}

fn documents_of(text: &str) -> Vec<Document> {
    let array = value_of(text);
    array
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_document().unwrap().to_owned_document())
        .collect()
}

fn answer(request: &Request, input: &str, foreign: &mut OtherCollections) -> String {
    match request {
        Request::Eval(expression) => {
            let document = value_of(input);
            let mut context = Context::new(document.as_document().unwrap());
            match expression.evaluate(&mut context) {
                Ok(value) => value.as_raw().map_or_else(|| "MISSING".to_owned(), typed),
                Err(error) => shown(&error),
            }
        }
        Request::Run(pipeline) => {
            let results = results_of(pipeline, &documents_of(input), foreign);
            results.unwrap_or_else(|error| shown(&error))
        }
        Request::Needs(_) => "no input is read".to_owned(),
    }
}

/// Double, Int64 and Decimal128 in full, everything else as the shell shows it.
fn typed(value: RawValue<'_>) -> String {
    match value {
        RawValue::Double(d) => format!("{d:?}"),
        RawValue::Int64(n) => format!("NumberLong({n})"),
        RawValue::Decimal128(d) => format!("NumberDecimal({d})"),
        RawValue::Array(array) => format!(
            "[{}]",
            array.iter().map(typed).collect::<Vec<_>>().join(", ")
        ),
        RawValue::Document(document) => {
            let fields = document
                .iter()
                .map(|element| format!("{}: {}", element.name(), typed(element.value())));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn results_of(
    pipeline: &Pipeline,
    input: &[Document],
    foreign: &mut OtherCollections,
) -> Result<String> {
    let mut input = Documents(input.iter());
    let mut execution = pipeline.start();
    let mut results = Vec::new();
    loop {
        let mut out = Vec::new();
        if !execution.next(&mut Run::new(&mut input, foreign), &mut out)? {
            assert_eq!(foreign.open, 0, "a read was left open");
            return Ok(format!("[{}]", results.join(", ")));
        }
        results.push(typed(RawValue::Document(RawDocument::validated(&out)?)));
    }
}

fn needs(pipeline: &Pipeline) -> String {
    let leading = pipeline.leading();
    let filter = leading
        .filter
        .map_or_else(String::new, |filter| filter.to_string());
    let sort = leading
        .sort_specification
        .map_or_else(String::new, |sort| sort.to_string());
    let mut explained = Vec::new();
    let mut array = quarry_bson::ArrayBuilder::new(&mut explained);
    pipeline.explain(leading.stages, &mut array);
    array.finish();
    let explained = RawArray::from_document(RawDocument::validated(&explained).unwrap());
    format!(
        "filter {filter}, sort {sort}, skip {:?}, limit {:?}, fields {:?}, rest {}",
        leading.skip,
        leading.limit,
        pipeline.required_fields(0),
        typed(RawValue::Array(explained)),
    )
}

fn shown(error: &Error) -> String {
    format!("error {}: {}", error.code(), error.message)
}

struct Documents<'d>(std::slice::Iter<'d, Document>);

impl Source for Documents<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = self.0.next() else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }
}

/// The documents of collections by name, and those that open reads have left.
#[derive(Default)]
struct OtherCollections {
    documents: BTreeMap<String, Vec<Document>>,
    reads: Vec<VecDeque<Document>>,
    open: usize,
}

impl Collections for OtherCollections {
    fn open(&mut self, collection: &str, find: SubFind<'_>) -> Result<ReadId> {
        let matcher = Matcher::parse_in(find.filter, find.context)?;
        let documents = self
            .documents
            .get(collection)
            .map_or(&[][..], Vec::as_slice);
        let matching = documents
            .iter()
            .filter(|document| matcher.matches(document.as_raw()));
        let mut found: Vec<Document> = matching.cloned().collect();
        if let Some(sort) = find.sort {
            let pattern = SortPattern::parse(sort)?;
            found.sort_by_cached_key(|document| {
                let mut key = Vec::new();
                pattern.key(document.as_raw(), &mut key).unwrap();
                key
            });
        }
        let skip = usize::try_from(find.skip).unwrap();
        let limit = find
            .limit
            .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
        self.reads
            .push(found.into_iter().skip(skip).take(limit).collect());
        self.open += 1;
        Ok(ReadId(self.reads.len() - 1))
    }

    fn next(&mut self, read: ReadId, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = self.reads[read.0].pop_front() else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }

    fn close(&mut self, _: ReadId) {
        self.open -= 1;
    }
}

#[test]
fn a_sample_has_its_size_and_no_document_twice() {
    let documents: Vec<Document> = (0..50).map(|n| quarry_bson::doc! { "_id": n }).collect();
    for (size, expected) in [(5, 5), (50, 50), (80, 50)] {
        let stages = value_of(&format!("[{{\"$sample\": {{\"size\": {size}}}}}]"));
        let pipeline =
            Pipeline::parse(stages.as_array().unwrap(), &ExpressionContext::default()).unwrap();
        let text = results_of(&pipeline, &documents, &mut OtherCollections::default()).unwrap();
        let mut ids: Vec<&str> = text
            .split("_id: ")
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap())
            .collect();
        assert_eq!(ids.len(), expected);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), expected);
    }
}

/// No request may build without end.
#[test]
fn growth_is_bounded() {
    let doubling = r#"{"$reduce": {"input": {"$range": [0, 64]}, "initialValue": [1], "in": {"$concatArrays": ["$$value", "$$value"]}}}"#;
    let nesting = r#"{"$reduce": {"input": {"$range": [0, 1000]}, "initialValue": 1, "in": {"a": "$$value"}}}"#;
    let range = r#"{"$range": [0, 2147483647]}"#;
    for (text, code) in [(doubling, 146), (nesting, 15), (range, 146)] {
        let value = value_of(text);
        let expression = Expression::parse(value.as_raw(), &ExpressionContext::default()).unwrap();
        let result = expression.evaluate(&mut Context::new(RawDocument::EMPTY));
        assert_eq!(
            result.map(|_| ()).map_err(|error| error.code()),
            Err(code),
            "{text}"
        );
    }
    let deep = (0..150).fold("1".to_owned(), |inner, _| format!("{{\"$abs\": {inner}}}"));
    let value = value_of(&deep);
    let error = Expression::parse(value.as_raw(), &ExpressionContext::default()).unwrap_err();
    assert_eq!(error.code(), 15);
}
