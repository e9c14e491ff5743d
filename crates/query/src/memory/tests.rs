//! Tests of what pipelines take of the allocator, measured there: a document that passes is held once, however many stages
//! there are, and whatever stages and expressions hoard ends at the bound.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use proptest::prelude::*;
use quarry_bson::{Document, RawDocument, RawValue, Value, doc, extjson};
use quarry_database::Operation;

use super::OPERATION_BYTES_MAX;
use crate::error::Result;
use crate::expression::bounds::VALUE_BYTES_MAX;
use crate::expression::{Context, Expression, ExpressionContext};
use crate::interrupts::run_as;
use crate::matcher::Matcher;
use crate::pipeline::{Collections, Pipeline, ReadId, Run, Source, SubFind};
use crate::projection::Projection;

/// The bytes that may be taken beyond the bound: the document that a stage is writing, and a value that grows beyond its own bound,
/// in its old buffer and in one of twice the size.
const BEYOND_BYTES_MAX: usize = 4 * VALUE_BYTES_MAX;

struct Documents(std::vec::IntoIter<Document>);

impl Source for Documents {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = self.0.next() else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }
}

/// One collection, whatever its name, and how far each read of it is.
struct Others {
    documents: Vec<Document>,
    reads: Vec<std::vec::IntoIter<Document>>,
}

impl Collections for Others {
    fn open(&mut self, _: &str, find: SubFind<'_>) -> Result<ReadId> {
        let matcher = Matcher::parse_in(find.filter, find.context)?;
        let mut found = Vec::new();
        for document in &self.documents {
            if matcher.try_matches(document.as_raw())? {
                found.push(document.clone());
            }
        }
        self.reads.push(found.into_iter());
        Ok(ReadId(self.reads.len() - 1))
    }

    fn next(&mut self, read: ReadId, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = self.reads[read.0].next() else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }

    fn close(&mut self, read: ReadId) {
        self.reads[read.0] = Vec::new().into_iter();
    }
}

/// Runs a pipeline over a few documents to its end, or as long as it is given; the code with which it failed, and the
/// most bytes that it took at a time.
fn run(stages: &str, given: Option<Duration>) -> (Option<i32>, usize) {
    let wrapped = extjson::parse_legacy(&format!("{{v: [{stages}]}}")).unwrap();
    let text = "t".repeat(20_000);
    let input: Vec<Document> = (0..40)
        .map(|id| doc! { "_id": id, "t": (text.as_str()), "n": (id % 3), "l": [1, 2, 3] })
        .collect();
    let mut others = Others {
        documents: input.clone(),
        reads: Vec::new(),
    };
    let operation = Operation::new(given.map(|given| Instant::now() + given));
    let _running = run_as(Arc::new(operation));
    let mut outcome = Ok(());
    // Of this thread alone.
    let taken = measure(|| {
        outcome = run_over(wrapped.get_array("v").unwrap(), input, &mut others);
    });
    assert_eq!(super::held(), 0, "all is given back: {stages}");
    let failed = outcome.err().map(|error| error.code());
    (failed, usize::try_from(taken.bytes_max).unwrap())
}

fn run_over(
    stages: quarry_bson::RawArray<'_>,
    input: Vec<Document>,
    others: &mut Others,
) -> Result<()> {
    let pipeline = Pipeline::parse(stages, &crate::expression::ExpressionContext::default())?;
    let (mut input, mut execution) = (Documents(input.into_iter()), pipeline.start());
    let mut out = Vec::new();
    loop {
        if !execution.next(&mut Run::new(&mut input, others), &mut out)? {
            return Ok(());
        }
        out = Vec::new();
    }
}

#[test]
fn a_document_that_passes_is_held_once() {
    // Half a megabyte in each.
    let large = "{$project: {r: {$range: [0, 40000]}}}";
    let passing = [
        "{$addFields: {a: 1}}",
        "{$project: {_id: 0}}",
        "{$unset: 'x'}",
        "{$match: {x: null}}",
        "{$replaceRoot: {newRoot: '$$ROOT'}}",
        "{$unwind: {path: '$x', preserveNullAndEmptyArrays: true, includeArrayIndex: 'i'}}",
        "{$lookup: {from: 'c', localField: '_id', foreignField: '_id', as: 'found'}}, {$unset: 'found'}",
        "{$lookup: {from: 'c', let: {i: '$_id'}, pipeline: [{$match: {$expr: {$eq: ['$_id', '$$i']}}}], as: 'found'}}, {$unset: 'found'}",
        "{$graphLookup: {from: 'c', startWith: '$_id', connectFromField: 'none', connectToField: '_id', as: 'found'}}, {$unset: 'found'}",
        "{$unionWith: {coll: 'c', pipeline: [{$match: {_id: -1}}]}}",
        "{$skip: 0}",
        "{$limit: 100}",
        "{$group: {_id: '$_id', r: {$first: '$r'}}}",
        "{$sort: {_id: 1}}",
    ];
    for stage in passing {
        // Blocking stages would hold all input.
        let head = format!("{{$limit: 1}}, {large}");
        let (failed, few) = run(&format!("{head}, {stage}, {stage}"), None);
        assert_eq!(failed, None, "{stage}");
        let (failed, many) = run(&format!("{head}, {}", vec![stage; 60].join(", ")), None);
        assert_eq!(failed, None, "{stage}");
        let grown = many.saturating_sub(few);
        assert!(
            grown < 2_000_000,
            "60 {stage} take {grown} bytes more than two"
        );
    }
}

#[test]
fn what_is_hoarded_ends_at_the_bound() {
    let wide = "{$range: [0, 70000]}";
    let nested = (0..40).fold("[1]".to_owned(), |inner, _| {
        format!("{{$concatArrays: [{wide}, {{$slice: [{inner}, 1]}}]}}")
    });
    let variables: Vec<String> = (0..50).map(|n| format!("v{n}: {wide}")).collect();
    let variables = variables.join(", ");
    let texts: Vec<String> = (0..100)
        .map(|n| format!("t{n}: {{$toUpper: '$long'}}"))
        .collect();
    let texts = texts.join(", ");
    let long = "{$project: {long: {$reduce: {input: {$range: [0, 30]}, initialValue: '$t', in: {$concat: ['$$value', '$t']}}}}}";
    let hoarders = [
        // Values of expressions, held by arguments, variables and results.
        (146, format!("{{$project: {{x: {nested}}}}}")),
        (146, format!("{{$project: {{x: {{$let: {{vars: {{{variables}}}, in: 1}}}}}}}}")),
        (146, format!("{long}, {{$project: {{x: {{$let: {{vars: {{{texts}}}, in: 1}}}}}}}}")),
        (146, format!("{{$project: {{x: [{wide}, {wide}, {wide}, {wide}]}}}}")),
        (146, format!("{{$project: {{x: {{$map: {{input: {wide}, in: {wide}}}}}}}}}")),
        (
            146,
            "{$project: {x: {$reduce: {input: {$range: [0, 64]}, initialValue: [1], in: {$concatArrays: ['$$value', '$$value']}}}}}"
                .to_owned(),
        ),
        (
            146,
            format!("{{$project: {{x: {{$mergeObjects: [{{a: {wide}}}, {{b: {wide}}}]}}}}}}"),
        ),
        // What stages hold.
        (292, format!("{{$project: {{x: {wide}}}}}, {{$sort: {{_id: -1}}}}")),
        (292, format!("{{$project: {{x: {wide}}}}}, {{$sample: {{size: 40}}}}")),
        (292, format!("{{$project: {{x: {wide}}}}}, {{$group: {{_id: '$_id', x: {{$first: '$x'}}}}}}")),
        (146, format!("{{$project: {{x: {wide}}}}}, {{$group: {{_id: 1, x: {{$push: '$x'}}}}}}")),
        (
            292,
            format!("{{$project: {{x: [{wide}, '$_id']}}}}, {{$group: {{_id: 1, x: {{$addToSet: '$x'}}}}}}"),
        ),
        (
            292,
            "{$project: {x: {$range: [0, 50000]}}}, {$unwind: '$x'}, {$group: {_id: {a: '$x', b: '$_id'}}}".to_owned(),
        ),
        (
            146,
            "{$lookup: {from: 'c', localField: 'l', foreignField: 'l', as: 'a'}}, {$addFields: {b: '$a'}}".to_owned(),
        ),
        (
            146,
            format!("{{$lookup: {{from: 'c', pipeline: [{{$addFields: {{x: {wide}}}}}], as: 'a'}}}}"),
        ),
        (292, format!("{{$project: {{x: {wide}}}}}, {{$facet: {{a: []}}}}")),
        (4_031_700, format!("{{$facet: {{a: [{{$project: {{x: {wide}}}}}]}}}}")),
        (
            146,
            "{$unwind: '$l'}, {$graphLookup: {from: 'c', startWith: '$_id', connectFromField: 'n', connectToField: 'n', as: 'a'}}, {$addFields: {b: '$a', c: '$a', d: '$a', e: '$a'}}".to_owned(),
        ),
    ];
    for (code, stages) in &hoarders {
        let (failed, taken) = run(stages, None);
        assert!(failed == Some(*code), "{failed:?}: {stages:.300}");
        assert!(
            taken <= OPERATION_BYTES_MAX + BEYOND_BYTES_MAX,
            "{taken} bytes: {stages:.300}"
        );
    }
}

/// A buffer that is doubled is held twice while it is copied, and what a reply says behind its documents doubles none.
#[test]
fn a_large_document_is_held_once_in_a_reply() {
    let mut reply = vec![0; 64];
    let document = vec![1; 15 << 20];
    let taken = measure(|| {
        super::append_document(&mut reply, &document);
        reply.extend_from_slice(&[0; 1000]);
    });
    assert!(
        taken.bytes_max < (document.len() + (1 << 16)) as u64,
        "{taken:?}"
    );
    // Many of them are not copied once each.
    let mut reply = Vec::new();
    let taken = measure(|| {
        for part in document.chunks(1 << 20) {
            super::append_document(&mut reply, part);
        }
    });
    assert!(taken.count_total < 8, "{taken:?}");
    assert!(
        reply.capacity() < (17 << 20) && reply == document,
        "{}",
        reply.capacity()
    );
}

/// Binds variables and gives them to expressions; the code with which that failed, the most bytes that it took at a time,
/// and the most that the expressions kept.
fn bind(variables: &Document, expressions: &[Value]) -> (Option<i32>, usize, usize) {
    let _running = run_as(Arc::new(Operation::new(None)));
    let (mut outcome, mut kept) = (Ok(()), 0);
    let taken = measure(|| {
        let mut context = ExpressionContext::default();
        outcome = context.bind_let(variables.as_raw()).and_then(|()| {
            let mut parsed = Vec::new();
            let taken = measure(|| {
                let all = expressions.iter();
                parsed = all
                    .map(|text| Expression::parse(text.as_raw(), &context))
                    .collect();
            });
            kept = usize::try_from(taken.bytes_current).unwrap();
            for expression in parsed {
                expression?.evaluate(&mut Context::new(RawDocument::EMPTY))?;
            }
            Ok(())
        });
    });
    assert_eq!(super::held(), 0, "all is given back");
    let failed = outcome.err().map(|error| error.code());
    (failed, usize::try_from(taken.bytes_max).unwrap(), kept)
}

/// A request of a few bytes that names a variable again and again holds its value once, and cannot multiply it.
#[test]
fn variables_of_a_command_end_at_the_bound() {
    let hundred = |name: &str| Value::from(vec![Value::from(name); 100]);
    let mut chain = doc! { "a": ("x".repeat(1000)) };
    for [name, earlier] in [["b", "$$a"], ["c", "$$b"], ["d", "$$c"], ["e", "$$d"]] {
        chain.append(name, hundred(earlier));
    }
    let mut ranges = Document::new();
    for n in 0..1000 {
        let range: Value = [0, 40_000].into_iter().map(Value::from).collect();
        ranges.append(format!("v{n}").as_str(), doc! { "$range": range });
    }
    for (variables, code) in [(chain, 146), (ranges, 146)] {
        let (failed, taken, _) = bind(&variables, &[]);
        assert_eq!(failed, Some(code), "{variables:.200}");
        assert!(taken <= VALUE_BYTES_MAX + BEYOND_BYTES_MAX, "{taken} bytes");
    }

    let text = "x".repeat(VALUE_BYTES_MAX / 4);
    let regex = quarry_bson::RawRegex {
        pattern: text.as_str().into(),
        options: "".into(),
    };
    let large = [
        doc! { "v": { "t": (text.clone()) } },
        doc! { "v": (RawValue::JavaScript(text.as_str().into()).to_value()) },
        doc! { "v": (RawValue::Regex(regex).to_value()) },
    ];
    for (n, path) in [(0, "$$v"), (0, "$$v.t"), (1, "$$v"), (2, "$$v")] {
        let (failed, _, kept) = bind(&large[n], &vec![Value::from(path); 400]);
        assert_eq!(failed, None);
        assert!(kept < VALUE_BYTES_MAX / 2, "{path} keeps {kept} bytes");
    }
}

/// A value that is computed where a projection is parsed is kept only if it is small.
#[test]
fn a_projection_keeps_about_what_its_request_has() {
    let mut fields = Document::new();
    for n in 0..2000 {
        let range: Value = [0, 1000].into_iter().map(Value::from).collect();
        fields.append(format!("f{n}").as_str(), doc! { "$range": range });
    }
    let mut parsed = None;
    let taken = measure(|| parsed = Some(Projection::parse(fields.as_raw(), None).unwrap()));
    let (kept, asked) = (taken.bytes_current as usize, fields.as_bytes().len());
    assert!(kept < 32 * asked, "{asked} bytes of a request keep {kept}");
}

/// Each variable has the one before within it: no value of an expression nests deeper than a document may.
#[test]
fn variables_of_a_command_nest_no_deeper_than_documents() {
    for step in [1, 90] {
        let mut variables = doc! { "v0": { "a": 1 } };
        for n in 1..=quarry_bson::DEPTH_MAX / step + 1 {
            let before = Value::from(format!("$$v{}", n - 1));
            let nest = |inner, _| Value::from(doc! { "a": inner });
            let value = (0..step).fold(before, nest);
            variables.append(format!("v{n}").as_str(), value);
        }
        let (failed, ..) = bind(&variables, &[]);
        assert_eq!(failed, Some(15), "{step} levels a variable");
    }
}

/// An expression of a few levels over the fields that the documents have.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("'$t'".to_owned()),
        Just("'$l'".to_owned()),
        Just("'$$ROOT'".to_owned()),
        Just("'$x'".to_owned()),
        (0..100_000).prop_map(|n| format!("{{$range: [0, {n}]}}")),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
            two.clone().prop_map(|(a, b)| format!("{{a: {a}, b: {b}}}")),
            two.clone()
                .prop_map(|(a, b)| format!("{{$concatArrays: [[{a}], [{b}]]}}")),
            two.clone()
                .prop_map(|(a, b)| format!("{{$mergeObjects: [{{a: {a}}}, {{b: {b}}}]}}")),
            two.clone().prop_map(|(a, b)| format!(
                "{{$let: {{vars: {{v: {a}}}, in: [{b}, '$$v', '$$v']}}}}"
            )),
            two.clone()
                .prop_map(|(a, b)| format!("{{$map: {{input: [{a}, 1, 2], in: {b}}}}}")),
            two.clone().prop_map(|(a, b)| format!(
                "{{$reduce: {{input: [1, 2, 3, 4, 5], initialValue: {a}, in: ['$$value', {b}]}}}}"
            )),
            two.prop_map(|(a, b)| format!("{{$ifNull: [{{$arrayElemAt: [[{a}], 0]}}, {b}]}}")),
            inner
                .clone()
                .prop_map(|a| format!("{{$reverseArray: {{$ifNull: [[{a}], 1]}}}}")),
            inner
                .clone()
                .prop_map(|a| format!("{{$objectToArray: {{o: {a}}}}}")),
            inner.prop_map(|a| format!("{{$filter: {{input: [{a}, {a}], cond: true}}}}")),
        ]
    })
}

fn stage() -> impl Strategy<Value = String> {
    prop_oneof![
        expression().prop_map(|e| format!("{{$addFields: {{x: {e}}}}}")),
        expression().prop_map(|e| format!("{{$project: {{t: 1, l: 1, x: {e}}}}}")),
        expression().prop_map(|e| format!(
            "{{$group: {{_id: {e}, x: {{$push: '$x'}}, l: {{$addToSet: '$t'}}}}}}"
        )),
        expression().prop_map(|e| format!(
            "{{$group: {{_id: '$_id', x: {{$last: {e}}}, t: {{$max: '$t'}}}}}}"
        )),
        expression().prop_map(|e| format!("{{$replaceWith: {{x: {e}, t: '$t', l: [1, 2]}}}}")),
        expression().prop_map(|e| format!("{{$match: {{$expr: {e}}}}}")),
        Just("{$unwind: {path: '$x', preserveNullAndEmptyArrays: true}}".to_owned()),
        Just("{$unwind: '$l'}".to_owned()),
        Just("{$sort: {x: 1, t: -1}}".to_owned()),
        Just("{$sort: {n: 1}}, {$limit: 5}".to_owned()),
        Just("{$sample: {size: 30}}".to_owned()),
        Just("{$lookup: {from: 'c', localField: 'l', foreignField: 'l', as: 'x'}}".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the stages are, the allocator gives no more than the bound and a little, and time is kept.
    #[test]
    fn no_pipeline_outgrows_the_bound(stages in prop::collection::vec(stage(), 1..6)) {
        let stages = stages.join(", ");
        let (failed, taken) = run(&stages, Some(Duration::from_millis(60)));
        prop_assert!(taken <= OPERATION_BYTES_MAX + BEYOND_BYTES_MAX, "{} bytes, {:?}: {}", taken, failed, stages);
    }
}

/// A value in a variable is held until the expression is over, and no longer.
#[test]
fn what_is_held_is_given_back() {
    let value = Value::from("x".repeat(1000));
    let charge = super::Charge::of(value.as_bytes().len());
    assert_eq!(super::held(), value.as_bytes().len());
    let mut account = super::Account::default();
    let outer = account.enter();
    assert_eq!(super::held(), 0);
    let inner = super::Charge::of(5000);
    account.leave(outer);
    assert_eq!(super::held(), value.as_bytes().len());
    drop(charge);
    let outer = account.enter();
    assert_eq!(super::held(), 5000);
    drop(inner);
    account.leave(outer);
    assert_eq!(super::held(), 0);
}

#[test]
fn what_is_taken_from_the_budget_of_the_process_is_given_back() {
    const MIB: usize = 1 << 20;
    let taken = || super::LEVEL.with(|level| level.granted.get() - super::FREE_BYTES);
    let operation = Arc::new(Operation::new(None));
    let running = run_as(operation);
    let mut charge = super::Charge::default();
    charge.grow(MIB).unwrap();
    assert_eq!(taken(), 0, "small operations take nothing");
    charge.grow(1).unwrap();
    assert_eq!(taken(), MIB);
    // A cursor's own account takes for itself, and gives back what it does not hold when it is put aside.
    let mut account = super::Account::default();
    let outer = account.enter();
    assert_eq!(taken(), 0);
    let mut inner = super::Charge::default();
    inner.grow(3 * MIB).unwrap();
    assert_eq!(taken(), 2 * MIB);
    inner.shrink(MIB);
    account.shrink();
    assert_eq!(taken(), MIB);
    account.leave(outer);
    assert_eq!((taken(), account.granted), (MIB, 2 * MIB));
    drop(account);
    drop(charge);
    // A reply stays counted when its operation has ended.
    super::check_reply(3 * MIB).unwrap();
    drop(running);
    let kept = || super::LEVEL.with(|level| level.kept.get());
    assert_eq!((taken(), kept()), (0, 2 * MIB));
    super::forget_reply();
    assert_eq!(kept(), 0);
    // More than an operation may hold is refused, whatever there is.
    let mut charge = super::Charge::default();
    assert!(charge.grow(OPERATION_BYTES_MAX + 1).is_err());
    assert!(!super::has_room(0));
    drop(charge);
    assert!(super::has_room(OPERATION_BYTES_MAX) && !super::has_room(OPERATION_BYTES_MAX + 1));
    super::forget_all();
    assert_eq!(taken(), 0);
}

#[test]
fn a_panic_within_an_account_leaves_the_count_of_the_thread_as_it_was() {
    const MIB: usize = 1 << 20;
    let granted = || super::LEVEL.with(|level| level.granted.get());
    let running = run_as(Arc::new(Operation::new(None)));
    let mut outer = super::Charge::default();
    outer.grow(2 * MIB).unwrap();
    let before = (super::held(), granted());
    let mut account = super::Account::default();
    let entered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _outer = account.enter();
        let mut inner = super::Charge::default();
        inner.grow(3 * MIB).unwrap();
        // What is held goes with the cursor, later.
        std::mem::forget(inner);
        panic!("a defect");
    }));
    assert!(entered.is_err());
    assert_eq!((super::held(), granted()), before);
    assert_eq!(account.granted, super::FREE_BYTES);
    drop((outer, running));
}

#[test]
fn a_reply_that_was_refused_is_not_taken_off_the_next_one() {
    let running = run_as(Arc::new(Operation::new(None)));
    assert!(super::check_reply(OPERATION_BYTES_MAX + 1).is_err());
    drop(running);
    let running = run_as(Arc::new(Operation::new(None)));
    let held = super::Charge::of(5000);
    super::check_reply(1000).unwrap();
    assert_eq!(super::held(), 6000);
    drop((held, running));
    super::forget_reply();
}
