//! The picture that `quarry top` shows of one moment: read from the server's replies, rates from two of them.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use quarry_bson::{Document, RawDocument, RawValue, doc};

use crate::tools::link::Link;

/// Lines of the lists below the table.
const LINES_MAX: usize = 10;

/// One kind of operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    pub name: String,
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// The phases and their shares of the wall, in order.
    pub shares: Vec<(String, f64)>,
}

/// One collection, by its share of all time.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    pub name: String,
    pub count: u64,
    pub mean_us: f64,
    pub share: f64,
}

/// One operation that runs now.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningOperation {
    pub opid: i64,
    pub op: String,
    pub namespace: String,
    pub phase: String,
    pub micros: f64,
    /// Told by work that knows how long it is, such as an index build.
    pub progress: Option<Progress>,
}

/// How far a running operation has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub message: String,
    /// From 0 to 1.
    pub share: f64,
}

/// One moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    pub operations: Vec<Operation>,
    pub collections: Vec<Collection>,
    pub running: Vec<RunningOperation>,
    pub is_enabled: bool,
}

/// Asks the server again and again; keeps what rates are made of.
#[derive(Default)]
pub struct Watcher {
    counts: HashMap<String, u64>,
    asked: Option<Instant>,
}

impl Watcher {
    pub fn look(&mut self, link: &mut Link) -> io::Result<Picture> {
        let all = link.run(&doc! { "getOpTiming": 1, "window": "sinceStart", "summary": true })?;
        let minute =
            link.run(&doc! { "getOpTiming": 1, "window": "lastMinute", "collections": true })?;
        let current = link.run(&doc! { "currentOp": 1 })?;
        let rates = self.rates(&all);
        Ok(Picture {
            operations: operations(&minute, &rates),
            collections: collections(&minute),
            running: running(&current),
            is_enabled: minute.get_bool("enabled").unwrap_or(true),
        })
    }

    /// Operations a second since the last look; none at the first.
    fn rates(&mut self, all: &Document) -> HashMap<String, f64> {
        let now = Instant::now();
        let seconds = self
            .asked
            .replace(now)
            .map(|asked| now.duration_since(asked).as_secs_f64());
        let mut rates = HashMap::new();
        for operation in all.get_document("operations").unwrap_or_default() {
            let name = operation.name().to_string_lossy().into_owned();
            let count = number(operation.value(), "count") as u64;
            let before = self.counts.insert(name.clone(), count);
            if let Some(seconds) = seconds {
                let grown = count.saturating_sub(before.unwrap_or(0));
                rates.insert(name, grown as f64 / seconds.max(1e-3));
            }
        }
        rates
    }
}

fn operations(minute: &Document, rates: &HashMap<String, f64>) -> Vec<Operation> {
    let list = minute.get_document("operations").unwrap_or_default();
    let operation = |element: quarry_bson::RawElement<'_>| {
        let name = element.name().to_string_lossy().into_owned();
        let value = element.value();
        let wall = number(value, "phases.wall.totalMicros").max(1e-9);
        let phases = value.as_document()?.get_document("phases")?;
        let shares = phases.iter().filter(|phase| phase.name() != "wall");
        Some(Operation {
            per_second: rates
                .get(&name)
                .copied()
                .unwrap_or_else(|| number(value, "opsPerSecond")),
            p50_us: number(value, "phases.wall.p50Micros"),
            p99_us: number(value, "phases.wall.p99Micros"),
            shares: shares
                .map(|phase| {
                    let name = phase.name().to_string_lossy().into_owned();
                    (name, number(phase.value(), "totalMicros") / wall)
                })
                .collect(),
            name,
        })
    };
    list.iter().filter_map(operation).collect()
}

fn collections(minute: &Document) -> Vec<Collection> {
    let Some(list) = minute.get_array("collections") else {
        return Vec::new();
    };
    let wall = |entry: RawValue<'_>| number(entry, "phases.wall.totalMicros");
    let all: f64 = list.iter().map(wall).sum();
    let collection = |entry: RawValue<'_>| {
        Some(Collection {
            name: entry.as_document()?.get_str("ns")?.to_owned(),
            count: number(entry, "count") as u64,
            mean_us: number(entry, "phases.wall.meanMicros"),
            share: wall(entry) / all.max(1e-9),
        })
    };
    list.iter().filter_map(collection).take(LINES_MAX).collect()
}

/// The longest first, without the question itself and without a hello that waits for news.
fn running(current: &Document) -> Vec<RunningOperation> {
    let Some(list) = current.get_array("inprog") else {
        return Vec::new();
    };
    let mut running: Vec<RunningOperation> = list
        .iter()
        .filter_map(|entry| one_running(entry.as_document()?))
        .collect();
    running.sort_by(|a, b| b.micros.total_cmp(&a.micros));
    running.truncate(LINES_MAX);
    running
}

fn one_running(entry: RawDocument<'_>) -> Option<RunningOperation> {
    let command = entry.get_document("command")?.first()?;
    if ["currentOp", "hello", "isMaster"].contains(&&*command.name().to_string_lossy()) {
        return None;
    }
    let text = |path: &str| {
        let value = entry.get_path(path).and_then(|value| value.as_str());
        value.unwrap_or("-").to_owned()
    };
    Some(RunningOperation {
        opid: entry.get("opid")?.as_i64_exact()?,
        op: text("op"),
        namespace: text("ns"),
        phase: text("quarry.phase"),
        micros: entry.get("microsecs_running")?.as_f64_lossy()?,
        progress: progress(entry),
    })
}

/// Read from `progress: {done, total}` and the message beside it. A total that is reached before the end stays full.
fn progress(entry: RawDocument<'_>) -> Option<Progress> {
    let steps = entry.get("progress")?;
    let (done, total) = (number(steps, "done"), number(steps, "total"));
    let message = entry.get_str("msg").unwrap_or_default();
    (total > 0.0).then(|| Progress {
        message: message.to_owned(),
        share: (done / total).clamp(0.0, 1.0),
    })
}

fn number(value: RawValue<'_>, path: &str) -> f64 {
    value
        .as_document()
        .and_then(|document| document.get_path(path))
        .and_then(|value| value.as_f64_lossy())
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_where_an_operation_tells_of_it() {
        let operation = |opid: i64, command: Document, progress: Document| {
            let message = "Index Build: scanning collection";
            doc! {
                "opid": opid, "op": "command", "ns": "db.c", "command": command, "microsecs_running": opid,
                "msg": message, "progress": progress,
            }
        };
        let building = || doc! { "createIndexes": "c" };
        let inprog = vec![
            operation(5, building(), doc! { "done": 1, "total": 4 }),
            operation(4, building(), doc! { "done": 9, "total": 4 }),
            operation(3, building(), doc! { "done": 0, "total": 0 }),
            operation(2, doc! { "find": "c" }, doc! {}),
            operation(1, doc! { "currentOp": 1 }, doc! {}),
        ];
        let shares: Vec<Option<f64>> = running(&doc! { "inprog": inprog })
            .into_iter()
            .map(|one| one.progress.map(|progress| progress.share))
            .collect();
        assert_eq!(shares, [Some(0.25), Some(1.0), None, None]);
    }
}
