//! Stages that outgrow their memory: with room on disk they give what they give in memory, and without it they fail.
//!
//! The room is in memory here and can be made to fail. The bounds are those of the process, so that every test of this file
//! runs under the tiny ones, and one lock keeps them apart.

mod random_pipeline;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use quarry_bson::{Document, RawDocument, doc, extjson};
use quarry_database::Operation;
use quarry_query::expression::ExpressionContext;
use quarry_query::memory_budget::BUDGET;
use quarry_query::parameters::{ALLOW_DISK_USE_BY_DEFAULT, GROUP_MEMORY_BYTES, SORT_MEMORY_BYTES};
use quarry_query::pipeline::{Execution, NoCollections, Pipeline, Run, Source};
use quarry_query::spilling::{self, BLOCK_BYTES, BlockPlace, SORTS, SpillFile, SpillSpace};
use quarry_query::{Error, ErrorCode, Result, interrupts};

/// The files that are open, the most that were, and how many more blocks may be written.
static FILES: AtomicUsize = AtomicUsize::new(0);
static FILES_PEAK: AtomicUsize = AtomicUsize::new(0);
static BLOCKS_LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

struct InMemory;

struct Blocks(Vec<Vec<u8>>);

impl SpillSpace for InMemory {
    fn create(&self) -> Result<Box<dyn SpillFile>> {
        let open = FILES.fetch_add(1, Relaxed) + 1;
        FILES_PEAK.fetch_max(open, Relaxed);
        Ok(Box::new(Blocks(Vec::new())))
    }
}

impl SpillFile for Blocks {
    fn end(&self) -> BlockPlace {
        BlockPlace {
            number: self.0.len() as u32,
            position: 0,
        }
    }

    fn append(&mut self, block: &[u8]) -> Result<u64> {
        assert!(block.len() <= BLOCK_BYTES);
        let left = BLOCKS_LEFT.load(Relaxed);
        if left == 0 {
            return Err(Error::new(ErrorCode::OUT_OF_DISK_SPACE, "the disk is full"));
        }
        BLOCKS_LEFT.store(left - 1, Relaxed);
        self.0.push(block.to_vec());
        Ok(block.len() as u64)
    }

    fn read_block(&mut self, place: &mut BlockPlace, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.0[place.number as usize]);
        place.number += 1;
        Ok(())
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        FILES.fetch_sub(1, Relaxed);
    }
}

/// Has the process spill stages that hold more than this, until it is dropped.
struct Bounded(#[allow(dead_code, reason = "held for its drop")] MutexGuard<'static, ()>);

fn bounded(bytes: i64) -> Bounded {
    static LOCK: LazyLock<Mutex<()>> = LazyLock::new(|| {
        spilling::install(Box::new(InMemory));
        Mutex::new(())
    });
    let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    BLOCKS_LEFT.store(usize::MAX, Relaxed);
    SORT_MEMORY_BYTES.set(bytes);
    GROUP_MEMORY_BYTES.set(bytes);
    Bounded(guard)
}

impl Drop for Bounded {
    fn drop(&mut self) {
        SORT_MEMORY_BYTES.set(100 << 20);
        GROUP_MEMORY_BYTES.set(100 << 20);
    }
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

fn start(stages: &str, context: &ExpressionContext) -> Execution {
    let wrapped = extjson::parse(&format!("{{\"v\": {stages}}}")).unwrap();
    let stages = wrapped.get_array("v").unwrap();
    Pipeline::parse(stages, context).unwrap().start()
}

fn next(execution: &mut Execution, input: &mut Documents<'_>) -> Result<Option<Document>> {
    let (mut collections, mut out) = (NoCollections, Vec::new());
    let found = execution.next(&mut Run::new(input, &mut collections), &mut out)?;
    Ok(found.then(|| RawDocument::validated(&out).unwrap().to_owned_document()))
}

fn results_in(
    stages: &str,
    input: &[Document],
    context: &ExpressionContext,
) -> Result<Vec<String>> {
    let (mut execution, mut input) = (start(stages, context), Documents(input.iter()));
    let mut found = Vec::new();
    while let Some(document) = next(&mut execution, &mut input)? {
        found.push(extjson::canonical(document.as_raw()));
    }
    Ok(found)
}

fn results(stages: &str, input: &[Document]) -> Result<Vec<String>> {
    results_in(stages, input, &ExpressionContext::default())
}

/// The results in memory, and those under a bound.
fn both(bytes: i64, stages: &str, input: &[Document]) -> (Vec<String>, Vec<String>) {
    let in_memory = {
        let _bounded = bounded(100 << 20);
        results(stages, input).unwrap()
    };
    let _bounded = bounded(bytes);
    let before = FILES.load(Relaxed);
    let spilled = results(stages, input).unwrap();
    assert_eq!(FILES.load(Relaxed), before, "a file is still open");
    (in_memory, spilled)
}

fn documents(count: i32) -> Vec<Document> {
    let document = |n: i32| {
        let mixed = n.wrapping_mul(0x9E37_79B9_u32 as i32).rotate_left(11);
        doc! { "_id": n, "k": (mixed.rem_euclid(97)), "v": (mixed % 1000), "pad": ("x".repeat(40)) }
    };
    (0..count).map(document).collect()
}

#[test]
fn a_sort_that_spills_many_runs_is_stable_and_whole() {
    let input = documents(5000);
    for stages in [
        r#"[{"$sort": {"k": 1}}]"#,
        r#"[{"$sort": {"v": -1, "k": 1}}]"#,
        r#"[{"$sort": {"k": 1}}, {"$limit": 1200}]"#,
        r#"[{"$sort": {"pad": 1}}]"#,
        r#"[{"$bucketAuto": {"groupBy": "$v", "buckets": 7}}]"#,
        r#"[{"$setWindowFields": {"partitionBy": {"$mod": ["$k", 3001]}, "sortBy": {"v": 1},
            "output": {"sum": {"$sum": "$v", "window": {"documents": ["unbounded", "current"]}}}}}]"#,
    ] {
        // 4,000 bytes are some thirty rows: runs of runs are merged.
        let (in_memory, spilled) = both(4000, stages, &input);
        assert_eq!(in_memory, spilled, "{stages}");
    }
    assert!(SORTS.counts.spills.load(Relaxed) > 100);
}

/// Descriptors are few where many sort at once.
#[test]
fn a_sort_of_hundreds_of_runs_has_a_handful_of_files() {
    let _bounded = bounded(4000);
    let (before, spills) = (FILES.load(Relaxed), SORTS.counts.spills.load(Relaxed));
    FILES_PEAK.store(before, Relaxed);
    let input = documents(20_000);
    assert_eq!(
        results(r#"[{"$sort": {"k": 1}}]"#, &input).unwrap().len(),
        input.len()
    );
    assert!(SORTS.counts.spills.load(Relaxed) - spills > 500);
    // A generation each, of 32 runs to one of the next, and the one that is being written.
    let peak = FILES_PEAK.load(Relaxed) - before;
    assert!(peak <= 3, "{peak} files");
}

#[test]
fn a_group_that_spills_has_every_group_once() {
    let mut input = documents(3000);
    input.push(doc! { "_id": "nothing" });
    input.push(doc! { "_id": "null", "k": null, "v": 1.5 });
    for (id, fields) in [
        // Some groups with values that grow, many with those that do not.
        ("$k", r#""all": {"$push": "$v"}, "n": {"$sum": 1}"#),
        (
            "$_id",
            r#""first": {"$first": "$v"}, "sum": {"$sum": "$v"}"#,
        ),
        (
            "$v",
            r#""ids": {"$push": "$_id"}, "last": {"$last": "$_id"}, "avg": {"$avg": "$k"}"#,
        ),
        (
            "$v",
            r#""top": {"$topN": {"n": 2, "sortBy": {"_id": -1}, "output": "$_id"}}"#,
        ),
        ("$v", ""),
        (
            "$nothing",
            r#""all": {"$push": "$missing"}, "set": {"$addToSet": "$k"}"#,
        ),
    ] {
        let comma = if fields.is_empty() { "" } else { "," };
        let stages = format!(r#"[{{"$group": {{"_id": "{id}"{comma} {fields}}}}}]"#);
        let (mut in_memory, mut spilled) = both(6000, &stages, &input);
        in_memory.sort();
        spilled.sort();
        assert_eq!(in_memory, spilled, "{stages}");
    }
}

#[test]
fn a_command_that_denies_the_disk_gets_the_error() {
    let _bounded = bounded(4000);
    let input = documents(500);
    let denied = ExpressionContext::default();
    denied.set_disk_use(false);
    for stages in [
        r#"[{"$sort": {"k": 1}}]"#,
        r#"[{"$group": {"_id": "$_id"}}]"#,
        r#"[{"$facet": {"a": [{"$sort": {"k": 1}}, {"$limit": 100}]}}]"#,
    ] {
        let error = results_in(stages, &input, &denied).unwrap_err();
        assert_eq!(error.code(), 292, "{stages}: {error}");
        assert!(results(stages, &input).is_ok(), "{stages}");
    }
    // A limit whose documents fit needs no disk.
    let few = r#"[{"$sort": {"k": 1}}, {"$limit": 5}]"#;
    assert_eq!(results_in(few, &input, &denied).unwrap().len(), 5);
    ALLOW_DISK_USE_BY_DEFAULT.set(0);
    let error = results(r#"[{"$sort": {"k": 1}}]"#, &input).unwrap_err();
    ALLOW_DISK_USE_BY_DEFAULT.set(1);
    assert_eq!(error.code(), 292);
}

#[test]
fn a_sample_that_spills_draws_each_document_once() {
    let _bounded = bounded(4000);
    let input = documents(1000);
    let mut drawn = results(r#"[{"$sample": {"size": 400}}]"#, &input).unwrap();
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), 400);
}

/// Makes documents as they are asked for.
struct Made {
    left: i32,
    text: String,
}

impl Source for Made {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.left -= 1;
        let document =
            doc! { "_id": (self.left), "k": (self.left * 7 % 31), "text": (self.text.as_str()) };
        if self.left >= 0 {
            out.extend_from_slice(document.as_bytes());
        }
        Ok(self.left >= 0)
    }
}

fn sorted_keys(input: &mut Made) -> Result<Vec<i64>> {
    let (mut collections, mut found) = (NoCollections, Vec::new());
    let mut execution = start(r#"[{"$sort": {"k": 1}}]"#, &ExpressionContext::default());
    let mut out = Vec::new();
    while execution.next(&mut Run::new(input, &mut collections), &mut out)? {
        let document = RawDocument::validated(&out).unwrap();
        found.push(document.get("k").unwrap().as_i64_exact().unwrap());
        out.clear();
    }
    Ok(found)
}

#[test]
fn a_sort_of_very_large_documents_merges_as_many_as_memory_has_room_for() {
    let _bounded = bounded(1 << 20);
    let before = FILES.load(Relaxed);
    // Each is more than the memory of the stage, so that there are as many runs. A row of each would be 240 MB.
    let mut input = Made {
        left: 40,
        text: "x".repeat(6_000_000),
    };
    let found = sorted_keys(&mut input).unwrap();
    assert_eq!(found.len(), 40);
    assert!(found.is_sorted());
    assert_eq!(FILES.load(Relaxed), before);
}

#[test]
fn a_sort_that_finds_no_memory_left_spills_if_it_may_and_waits_if_not() {
    struct Budget;
    impl Drop for Budget {
        fn drop(&mut self) {
            BUDGET.set_bytes_max(usize::MAX);
        }
    }
    let _bounded = bounded(100 << 20);
    let (_budget, input) = (Budget, documents(20_000));
    let stages = r#"[{"$sort": {"k": 1}}, {"$project": {"_id": 1}}]"#;
    let (allowed, denied) = (ExpressionContext::default(), ExpressionContext::default());
    denied.set_disk_use(false);
    // What an operation was granted is given back when it ends.
    let run = |context| {
        let _running = interrupts::run_as(Arc::new(Operation::new(None)));
        results_in(stages, &input, context)
    };
    let whole = run(&allowed).unwrap();
    // What a thread holds without asking is all that there is.
    BUDGET.set_bytes_max(0);
    assert!(run(&allowed).unwrap() == whole);
    let error = run(&denied).map(drop).unwrap_err();
    assert_eq!(error.code, ErrorCode::EXCEEDED_MEMORY_LIMIT, "{error}");
}

#[test]
fn a_full_disk_ends_the_operation_and_gives_the_files_back() {
    let _bounded = bounded(4000);
    let before = FILES.load(Relaxed);
    BLOCKS_LEFT.store(20, Relaxed);
    for stages in [
        r#"[{"$sort": {"k": 1}}]"#,
        r#"[{"$group": {"_id": "$_id", "all": {"$push": "$pad"}}}]"#,
    ] {
        let error = results(stages, &documents(3000)).unwrap_err();
        assert_eq!(error.code, ErrorCode::OUT_OF_DISK_SPACE, "{stages}");
        assert_eq!(FILES.load(Relaxed), before, "{stages}");
    }
}

#[test]
fn a_merge_hears_killop_and_a_dropped_cursor_gives_its_files_back() {
    let _bounded = bounded(4000);
    let before = FILES.load(Relaxed);
    let input = documents(20_000);
    let mut input = Documents(input.iter());
    let operation = Arc::new(Operation::new(None));
    let running = interrupts::run_as(Arc::clone(&operation));
    let mut execution = start(r#"[{"$sort": {"k": 1}}]"#, &ExpressionContext::default());
    assert!(next(&mut execution, &mut input).unwrap().is_some());
    assert!(FILES.load(Relaxed) > before, "the cursor holds its runs");
    operation.kill();
    let ended = loop {
        match next(&mut execution, &mut input) {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error.code()),
        }
    };
    assert_eq!(ended, Some(11_601));
    drop(execution);
    assert_eq!(FILES.load(Relaxed), before);
    drop(running);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn spilled_and_unspilled_are_the_same(
        values in prop::collection::vec((0..20_i32, 0..4_u8), 0..400),
        bytes in 600..20_000_i64,
        limit in prop::option::of(1..300_i32),
    ) {
        let input: Vec<Document> = (values.iter().enumerate())
            .map(|(n, (key, kind))| {
                let mut document = doc! { "_id": (n as i32) };
                match kind {
                    0 => document.append("k", *key),
                    1 => document.append("k", f64::from(*key)),
                    2 => document.append("k", format!("{key}")),
                    _ => return document,
                };
                document
            })
            .collect();
        let limit = limit.map_or(String::new(), |limit| format!(r#", {{"$limit": {limit}}}"#));
        let (in_memory, spilled) = both(bytes, &format!(r#"[{{"$sort": {{"k": -1}}}}{limit}]"#), &input);
        prop_assert_eq!(in_memory, spilled);
        let group = r#"[{"$group": {"_id": "$k", "ids": {"$push": "$_id"}}}]"#;
        let (mut in_memory, mut spilled) = both(bytes, group, &input);
        in_memory.sort();
        spilled.sort();
        prop_assert_eq!(in_memory, spilled);
    }

    /// Sorts that go to disk change no pipeline. (Groups that do come out in another order.)
    #[test]
    fn a_pipeline_whose_sorts_spill_is_the_same(
        input in random_pipeline::listed_documents(),
        other in random_pipeline::documents(),
        stages in random_pipeline::stages(),
        bytes in 200..3000_i64,
    ) {
        let in_memory = {
            let _bounded = bounded(100 << 20);
            random_pipeline::results_of_each(&stages, &input, &other)
        };
        let _bounded = bounded(bytes);
        GROUP_MEMORY_BYTES.set(100 << 20);
        let spilled = random_pipeline::results(&stages, &input, &other);
        if let Ok(in_memory) = in_memory {
            prop_assert_eq!(spilled.unwrap(), in_memory);
        }
    }
}
