//! The single operations, and the collection that they work on.

use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;
use quarry_bson::{Document, Value, doc};

use super::{DATABASE, Side};

/// The documents of the collection.
pub(super) const PRELOADED: u64 = 100_000;

const COLLECTION: &str = "things";

/// Names of things; each is that of twenty.
const NAMES: u64 = PRELOADED / 20;
/// Things of one group.
const IN_GROUP: u64 = 100;
const GROUPS: u64 = PRELOADED / IN_GROUP;
/// The values of a field that an index of its own is for; each is that of ten things.
const VALUES: u64 = PRELOADED / 10;
/// Words that texts consist of, eight at a time.
const WORDS: u64 = 2_000;
/// Documents that a search or a page of a list gives.
const PAGE: i32 = 20;

/// The operations of a bulk write: inserts of new documents, updates of others, deletes of some of the new ones.
const INSERTED: u64 = 500;
const UPDATED: u64 = 300;
const DELETED: u64 = 200;

/// Spreads the numbers of commands over all documents.
const STRIDE: u64 = 7919;

/// One kind of operation.
pub(super) struct Operation {
    pub name: &'static str,
    /// The n-th command.
    command: fn(u64) -> Document,
    /// Fails unless the reply to it is right.
    check: fn(&Side) -> bool,
}

pub(super) static OPERATIONS: [Operation; 12] = [
    Operation {
        name: "update with arrayFilters",
        command: update_filtered,
        check: has_changed_one,
    },
    Operation {
        name: "update by a pipeline",
        command: update_by_pipeline,
        check: has_changed_one,
    },
    Operation {
        name: "collated equality",
        command: collated_equality,
        check: has_a_page,
    },
    Operation {
        name: "collated sort",
        command: collated_sort,
        check: has_a_page,
    },
    Operation {
        name: "wildcard index",
        command: wildcard,
        check: has_a_page,
    },
    Operation {
        name: "text search, best 20",
        command: text,
        check: has_a_page,
    },
    Operation {
        name: "nearest 20",
        command: near,
        check: has_a_page,
    },
    Operation {
        name: "$or of two indexes",
        command: or,
        check: has_a_page,
    },
    Operation {
        name: "covered query of 100",
        command: covered,
        check: |side| side.documents() == IN_GROUP as usize,
    },
    Operation {
        name: "distinct of 1,000 by index",
        command: distinct,
        check: |side| {
            let values = side.client.reply().get_array("values");
            values.is_some_and(|values| values.iter().count() == GROUPS as usize)
        },
    },
    Operation {
        name: "count of 10,000 by index",
        command: count,
        check: |side| side.number("n").ok() == Some(100 * IN_GROUP),
    },
    Operation {
        name: "bulkWrite of 1,000",
        command: bulk_write,
        check: |side| {
            let numbers = ["nInserted", "nModified", "nDeleted"].map(|name| side.number(name).ok());
            numbers == [INSERTED, UPDATED, DELETED].map(Some)
        },
    },
];

impl Operation {
    /// Runs the operation so often on one side.
    pub fn take_turn(
        &self,
        side: &mut Side,
        turn: u32,
        times: &mut Histogram<u64>,
    ) -> io::Result<()> {
        for _ in 0..turn {
            side.sent += 1;
            let command = (self.command)(side.sent);
            let begun = Instant::now();
            side.client.command(&command)?;
            times.saturating_record(begun.elapsed().as_nanos() as u64);
            if !(self.check)(side) {
                let text = format!(
                    "{}: {} answers {:?}",
                    self.name,
                    side.name,
                    side.client.reply()
                );
                return Err(io::Error::other(text));
            }
        }
        Ok(())
    }
}

fn has_changed_one(side: &Side) -> bool {
    side.number("nModified").ok() == Some(1)
}

fn has_a_page(side: &Side) -> bool {
    side.documents() == PAGE as usize
}

/// Fills the collection and makes its indexes.
pub(super) fn prepare(side: &mut Side) -> io::Result<()> {
    side.client
        .command(&doc! { "dropDatabase": 1, "$db": DATABASE })?;
    side.fill(COLLECTION, PRELOADED, thing)?;
    let indexes = vec![
        doc! { "name": "a", "key": doc! { "a": 1 } },
        doc! { "name": "b", "key": doc! { "b": 1 } },
        doc! { "name": "groups", "key": doc! { "group": 1, "score": 1 } },
        doc! { "name": "names", "key": doc! { "name": 1 }, "collation": collation() },
        doc! { "name": "attributes", "key": doc! { "attributes.$**": 1 } },
        doc! { "name": "texts", "key": doc! { "text": "text" }, "default_language": "none" },
        doc! { "name": "places", "key": doc! { "place": "2dsphere" } },
    ];
    side.client
        .command(&doc! { "createIndexes": COLLECTION, "indexes": indexes, "$db": DATABASE })?;
    side.fill("bulk", UPDATED, |n| doc! { "_id": (n as i64), "times": 0 })
}

fn thing(n: u64) -> Document {
    let items: Vec<Value> = (0..3_i32)
        .map(|item| doc! { "kind": item, "quantity": (n % 50) as i32 }.into())
        .collect();
    let mut attributes = Document::new();
    attributes.append(format!("a{}", n % 5), attribute(n));
    let place: Vec<Value> = vec![longitude(n).into(), latitude(n).into()];
    doc! {
        "_id": (n as i64), "a": (n % VALUES) as i64, "b": (n.wrapping_mul(STRIDE) % VALUES) as i64,
        "group": (n % GROUPS) as i64, "score": ((n / GROUPS) as i64), "name": (name(n)),
        "items": items, "attributes": attributes, "text": (words(n)),
        "place": { "type": "Point", "coordinates": place }
    }
}

fn name(n: u64) -> String {
    format!("Thing {}", n % NAMES)
}

/// An attribute that a hundred documents one after the other share, a fifth of them under each name.
fn attribute(n: u64) -> i64 {
    (n / (5 * PAGE as u64)) as i64
}

fn words(n: u64) -> String {
    let words: Vec<String> = (0..8)
        .map(|place| {
            format!(
                "word{}",
                n.wrapping_mul(place * 2 + 1).wrapping_add(place * 37) % WORDS
            )
        })
        .collect();
    words.join(" ")
}

fn longitude(n: u64) -> f64 {
    (n.wrapping_mul(STRIDE) % 360_000) as f64 / 1_000.0 - 180.0
}

fn latitude(n: u64) -> f64 {
    (n.wrapping_mul(104_729) % 160_000) as f64 / 1_000.0 - 80.0
}

/// English, without regard to case.
fn collation() -> Document {
    doc! { "locale": "en", "strength": 2 }
}

fn picked(n: u64) -> u64 {
    n.wrapping_mul(STRIDE) % PRELOADED
}

fn update(statement: Document) -> Document {
    let updates: Vec<Value> = vec![statement.into()];
    doc! { "update": COLLECTION, "updates": updates, "$db": DATABASE }
}

fn find(filter: Document) -> Document {
    doc! { "find": COLLECTION, "filter": filter, "limit": PAGE, "$db": DATABASE }
}

fn update_filtered(n: u64) -> Document {
    update(doc! {
        "q": { "_id": (picked(n) as i64) }, "u": { "$inc": { "items.$[item].quantity": 1 } },
        "arrayFilters": [{ "item.kind": 1 }]
    })
}

fn update_by_pipeline(n: u64) -> Document {
    update(doc! {
        "q": { "_id": (picked(n) as i64) },
        "u": [{ "$set": { "times": { "$add": [{ "$ifNull": ["$times", 0] }, 1] } } }]
    })
}

fn collated_equality(n: u64) -> Document {
    let mut command = find(doc! { "name": (name(picked(n)).to_uppercase()) });
    command.append("collation", collation());
    command
}

fn collated_sort(n: u64) -> Document {
    let mut command = find(doc! { "name": { "$gte": (name(picked(n)).to_lowercase()) } });
    command.append("sort", doc! { "name": 1 });
    command.append("collation", collation());
    command
}

fn wildcard(n: u64) -> Document {
    let n = picked(n);
    let mut filter = Document::new();
    filter.append(format!("attributes.a{}", n % 5), attribute(n));
    find(filter)
}

fn text(n: u64) -> Document {
    let sought = format!("word{} word{}", picked(n) % WORDS, picked(n + 1) % WORDS);
    let mut command = find(doc! { "$text": { "$search": sought } });
    command.append("sort", doc! { "score": { "$meta": "textScore" } });
    command
}

fn near(n: u64) -> Document {
    let n = picked(n);
    let place: Vec<Value> = vec![longitude(n).into(), latitude(n).into()];
    find(doc! { "place": { "$near": { "$geometry": { "type": "Point", "coordinates": place } } } })
}

/// The ten of the one value and the ten of the other are never the same.
fn or(n: u64) -> Document {
    let a = picked(n) % VALUES;
    let b = (a.wrapping_mul(STRIDE) + 1) % VALUES;
    find(doc! { "$or": [{ "a": (a as i64) }, { "b": (b as i64) }] })
}

fn covered(n: u64) -> Document {
    let group = picked(n) % GROUPS;
    doc! {
        "find": COLLECTION, "filter": { "group": (group as i64) }, "projection": { "_id": 0, "group": 1, "score": 1 },
        "singleBatch": true, "batchSize": (IN_GROUP as i32), "$db": DATABASE
    }
}

fn distinct(_: u64) -> Document {
    doc! { "distinct": COLLECTION, "key": "group", "$db": DATABASE }
}

fn count(n: u64) -> Document {
    let first = picked(n) % (GROUPS - 100);
    let range = doc! { "$gte": (first as i64), "$lt": (first as i64 + 100) };
    doc! { "count": COLLECTION, "query": { "group": range }, "$db": DATABASE }
}

fn bulk_write(n: u64) -> Document {
    let new = (n + 1) * 1_000_000;
    let inserts = (0..INSERTED).map(|one| {
        doc! { "insert": 0, "document": { "_id": ((new + one) as i64), "times": 0 } }
    });
    let updates = (0..UPDATED).map(|one| {
        doc! { "update": 0, "filter": { "_id": (one as i64) }, "updateMods": { "$inc": { "times": 1 } } }
    });
    let deletes =
        (0..DELETED).map(|one| doc! { "delete": 0, "filter": { "_id": ((new + one) as i64) } });
    let ops: Vec<Value> = (inserts.chain(updates).chain(deletes))
        .map(Value::from)
        .collect();
    doc! {
        "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": (format!("{DATABASE}.bulk")) }], "errorsOnly": true, "$db": "admin"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_as_many_as_the_operations_expect() {
        let things: Vec<Document> = (0..PRELOADED).map(thing).collect();
        let number = |thing: &Document, path: &str| {
            let value = thing.get_path(path);
            value.and_then(|value| value.as_i64_exact())
        };
        let count = |path: &str, wanted: u64| {
            let has = |thing: &&Document| number(thing, path) == Some(wanted as i64);
            things.iter().filter(has).count()
        };
        for n in [1, 77, 4_711].map(picked) {
            let of_attribute = format!("attributes.a{}", n % 5);
            assert_eq!(count(&of_attribute, attribute(n) as u64), PAGE as usize);
            assert_eq!(count("group", n % GROUPS), IN_GROUP as usize);
            let a = n % VALUES;
            let b = (a * STRIDE + 1) % VALUES;
            assert_eq!((count("a", a), count("b", b)), (10, 10));
            let both = |thing: &&Document| {
                (number(thing, "a"), number(thing, "b")) == (Some(a as i64), Some(b as i64))
            };
            assert_eq!(things.iter().find(both).map(Document::as_bytes), None);
        }
    }
}
