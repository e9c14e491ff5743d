//! The numbers that `$queryStats` shows: how often queries of each shape were run, how long they took, and how many documents they returned.
//!
//! It is off, as in MongoDB, until `internalQueryStatsRateLimit` lets so many queries a second be recorded (-1: all of them). Off, it
//! costs a find one relaxed load. A query is recorded when its cursor ends: all its batches count, and the time between them does
//! not. The server's own timing (`quarry_timing`) measures every operation, always, and knows phases; it keeps the busiest
//! shapes alone, as hashes. Here a shape can be read, and its numbers are MongoDB's.
//!
//! Keeps true: what is kept takes no more than `BYTES_MAX`; beyond it the shapes go that were not met for the longest time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use quarry_bson::{DateTime, Document, DocumentBuilder, RawDocument, RawValue};
use quarry_database::Operation;
use quarry_query::parameters::QUERY_STATS_RATE_LIMIT;

/// The memory that all shapes take.
const BYTES_MAX: usize = if cfg!(test) { 8 << 10 } else { 16 << 20 };
/// A longer shape is not recorded.
const KEY_BYTES_MAX: usize = BYTES_MAX / 64;
/// The memory of a shape beside its key, which is held once as the key and once in the map.
const ENTRY_BYTES: usize = 512;

/// The shapes that were met, and the numbers of each.
#[derive(Default)]
pub struct QueryStats {
    /// The second that queries are counted in, and how many were recorded in it, in the low half.
    window: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By the shape. Clients choose the keys, and the map has a seed of its own.
    shapes: HashMap<Arc<[u8]>, Numbers>,
    bytes: usize,
    /// Counts the queries that were recorded.
    turn: u64,
}

/// The sum, the extremes and the sum of squares of something.
#[derive(Default, Clone)]
struct Spread {
    sum: u64,
    max: u64,
    min: u64,
    squares: u128,
}

/// The numbers of one shape.
#[derive(Clone)]
struct Numbers {
    executions: u64,
    last_micros: u64,
    total_micros: Spread,
    first_micros: Spread,
    returned: Spread,
    keys_examined: Spread,
    docs_examined: Spread,
    first_seen: DateTime,
    last_seen: DateTime,
    last_turn: u64,
}

/// A query that is recorded, from its command to the end of its cursor, which drops it.
pub struct RecordedQuery {
    stats: &'static QueryStats,
    key: Box<[u8]>,
    /// The batch that is being made.
    batch: Option<(Instant, Arc<Operation>)>,
    micros: u64,
    first_micros: Option<u64>,
    keys_examined: u64,
    docs_examined: u64,
    /// The documents returned so far.
    pub returned: u64,
}

impl QueryStats {
    /// Whether queries are recorded at all.
    #[inline]
    pub fn is_on() -> bool {
        QUERY_STATS_RATE_LIMIT.get() != 0
    }

    /// Begins to record a query, unless too many were recorded in this second. `key` writes what tells its shape.
    #[cold]
    pub fn begin(
        &'static self,
        operation: &Arc<Operation>,
        key: impl FnOnce(&mut DocumentBuilder<'_>) -> quarry_query::Result<()>,
    ) -> Option<Box<RecordedQuery>> {
        if !self.has_room(QUERY_STATS_RATE_LIMIT.get()) {
            return None;
        }
        let started = Instant::now();
        let mut made = Ok(());
        let key = Document::build(|out| made = key(out));
        // What cannot be shown is answered by the command itself.
        made.ok()?;
        let key = key.as_raw().as_bytes();
        (key.len() <= KEY_BYTES_MAX).then(|| {
            Box::new(RecordedQuery {
                stats: self,
                key: key.into(),
                batch: Some((started, Arc::clone(operation))),
                micros: 0,
                first_micros: None,
                keys_examined: 0,
                docs_examined: 0,
                returned: 0,
            })
        })
    }

    /// Takes a place in this second; false if there is none left.
    fn has_room(&self, rate: i64) -> bool {
        let Ok(rate) = u32::try_from(rate) else {
            return rate < 0;
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let second = since.map_or(0, |since| since.as_secs()) << 32;
        let taken = self.window.fetch_update(Relaxed, Relaxed, |window| {
            match window >> 32 == second >> 32 {
                true if window as u32 >= rate => None,
                true => Some(window + 1),
                false => Some(second | 1),
            }
        });
        taken.is_ok()
    }

    fn record(&self, query: &RecordedQuery, first_micros: u64) {
        let now = DateTime::now();
        let mut table = self.table.lock();
        table.turn += 1;
        let turn = table.turn;
        let key = &*query.key;
        if !table.shapes.contains_key(key) {
            table.bytes += key.len() + ENTRY_BYTES;
            table.shapes.insert(key.into(), Numbers::first_seen(now));
        }
        let Some(numbers) = table.shapes.get_mut(key) else {
            return;
        };
        let is_first = numbers.executions == 0;
        numbers.executions += 1;
        (numbers.last_micros, numbers.last_seen) = (query.micros, now);
        numbers.last_turn = turn;
        for (spread, value) in [
            (&mut numbers.total_micros, query.micros),
            (&mut numbers.first_micros, first_micros),
            (&mut numbers.returned, query.returned),
            (&mut numbers.keys_examined, query.keys_examined),
            (&mut numbers.docs_examined, query.docs_examined),
        ] {
            spread.add(value, is_first);
        }
        if table.bytes > BYTES_MAX {
            table.evict();
        }
    }

    /// The shapes with their numbers, as documents of `key` and `metrics`. Each is charged to the operation that asks. Queries that end wait
    /// for a list of shares in the shapes and then for one shape at a time, never for `show`; a shape that goes meanwhile is left out.
    pub fn list(
        &self,
        show: &mut dyn FnMut(RawDocument<'_>, Document) -> quarry_query::Result<()>,
    ) -> quarry_query::Result<()> {
        let keys: Vec<Arc<[u8]>> = self.table.lock().shapes.keys().cloned().collect();
        for key in keys {
            let numbers = self.table.lock().shapes.get(&key).cloned();
            if let (Ok(shape), Some(numbers)) = (RawDocument::new(&key), numbers) {
                show(shape, numbers.to_document())?;
            }
        }
        Ok(())
    }
}

impl Table {
    /// Forgets the quarter of the shapes that was not met for the longest time.
    fn evict(&mut self) {
        let mut turns: Vec<u64> = self.shapes.values().map(|it| it.last_turn).collect();
        turns.sort_unstable();
        let Some(&until) = turns.get(turns.len() / 4) else {
            return;
        };
        self.shapes.retain(|_, numbers| numbers.last_turn > until);
        let bytes = self.shapes.keys().map(|key| key.len() + ENTRY_BYTES);
        self.bytes = bytes.sum();
    }
}

impl Spread {
    fn add(&mut self, value: u64, is_first: bool) {
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
        self.min = if is_first { value } else { self.min.min(value) };
        let square = u128::from(value) * u128::from(value);
        self.squares = self.squares.saturating_add(square);
    }

    fn append(&self, name: &str, out: &mut DocumentBuilder<'_>) {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut spread = out.document(name);
        spread.append("sum", signed(self.sum));
        spread.append("max", signed(self.max));
        spread.append("min", signed(self.min));
        let squares = quarry_bson::Decimal128::parse_rounded(&self.squares.to_string());
        if let Ok(squares) = squares {
            spread.append("sumOfSquares", RawValue::Decimal128(squares));
        }
        spread.finish();
    }
}

impl Numbers {
    fn first_seen(now: DateTime) -> Numbers {
        Numbers {
            executions: 0,
            last_micros: 0,
            total_micros: Spread::default(),
            first_micros: Spread::default(),
            returned: Spread::default(),
            keys_examined: Spread::default(),
            docs_examined: Spread::default(),
            first_seen: now,
            last_seen: now,
            last_turn: 0,
        }
    }

    fn to_document(&self) -> Document {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        Document::build(|out| {
            out.append("lastExecutionMicros", signed(self.last_micros));
            out.append("execCount", signed(self.executions));
            self.total_micros.append("totalExecMicros", out);
            self.first_micros.append("firstResponseExecMicros", out);
            self.returned.append("docsReturned", out);
            self.keys_examined.append("keysExamined", out);
            self.docs_examined.append("docsExamined", out);
            out.append("firstSeenTimestamp", self.first_seen);
            out.append("latestSeenTimestamp", self.last_seen);
        })
    }
}

impl RecordedQuery {
    /// Another batch is being made.
    pub fn begin_batch(&mut self, operation: &Arc<Operation>) {
        self.batch = Some((Instant::now(), Arc::clone(operation)));
    }

    /// The batch is made.
    pub fn end_batch(&mut self) {
        let Some((started, operation)) = self.batch.take() else {
            return;
        };
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros = self.micros.saturating_add(micros);
        self.first_micros.get_or_insert(micros);
        self.keys_examined += operation.keys_examined.load(Relaxed);
        self.docs_examined += operation.docs_examined.load(Relaxed);
    }
}

impl Drop for RecordedQuery {
    /// The cursor has ended. One that failed before its first batch was no execution.
    fn drop(&mut self) {
        if let Some(first_micros) = self.first_micros {
            self.end_batch();
            self.stats.record(self, first_micros);
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn run(stats: &'static QueryStats, number: i32, returned: u64) {
        let operation = Arc::new(Operation::default());
        operation.docs_examined.store(returned * 2, Relaxed);
        let mut query = RecordedQuery {
            stats,
            key: doc! { "n": number }.as_raw().as_bytes().into(),
            batch: None,
            micros: 0,
            first_micros: None,
            keys_examined: 0,
            docs_examined: 0,
            returned,
        };
        query.begin_batch(&operation);
        query.end_batch();
    }

    fn stats() -> &'static QueryStats {
        Box::leak(Box::default())
    }

    fn metrics(stats: &QueryStats) -> Vec<Document> {
        let mut listed = Vec::new();
        let list = stats.list(&mut |_, metrics| {
            listed.push(metrics);
            Ok(())
        });
        list.unwrap();
        listed
    }

    #[test]
    fn executions_of_a_shape_are_added_up() {
        let stats = stats();
        run(stats, 1, 3);
        run(stats, 1, 5);
        let [metrics] = &metrics(stats)[..] else {
            panic!("two executions of one shape are one entry");
        };
        let metrics = metrics.as_raw();
        assert_eq!(metrics.get_i64("execCount"), Some(2));
        let number = |path: &str| metrics.get_path(path).unwrap().as_i64_exact();
        assert_eq!(number("docsReturned.sum"), Some(8));
        assert_eq!(number("docsReturned.max"), Some(5));
        assert_eq!(number("docsReturned.min"), Some(3));
        assert_eq!(number("docsReturned.sumOfSquares"), Some(34));
        assert_eq!(number("docsExamined.sum"), Some(16));
    }

    #[test]
    fn the_memory_is_bounded_and_what_is_met_again_stays() {
        let stats = stats();
        for number in 0..200 {
            run(stats, number, 1);
            run(stats, 0, 1);
            assert!(stats.table.lock().bytes <= BYTES_MAX);
        }
        let first = doc! { "n": 0 };
        let table = stats.table.lock();
        assert_eq!(table.shapes[first.as_raw().as_bytes()].executions, 201);
        assert!(table.shapes.len() < 20);
    }

    #[test]
    fn queries_end_while_the_shapes_are_shown() {
        let stats = stats();
        (0..5).for_each(|number| run(stats, number, 1));
        let mut shown = 0;
        let list = stats.list(&mut |_, metrics| {
            shown += 1;
            // The first one pushes all others out.
            (100..300).for_each(|number| run(stats, number, 1));
            assert_eq!(metrics.as_raw().get_i64("execCount"), Some(1));
            Ok(())
        });
        list.unwrap();
        assert_eq!(shown, 1);
    }

    #[test]
    fn no_more_are_recorded_in_a_second_than_the_limit_says() {
        let stats = stats();
        let taken = (0..10_000).filter(|_| stats.has_room(5)).count();
        // The loop may see a second end.
        assert!((5..=10).contains(&taken), "{taken}");
        assert!(stats.has_room(-1) && !stats.has_room(0));
    }
}
