//! `bulkWrite`: inserts, updates and deletes of several collections in one command.
//!
//! Operations run one after the other, as the statements of `insert`, `update` and `delete` do. Inserts into one collection that
//! follow each other go in together. What came of each operation is a document of a cursor.

use std::ops::Range;

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::Namespace;
use quarry_journal::Level;
use quarry_query::exec::{self, DeleteRequest, InsertRequest, UpdateOutcome, UpdateRequest};
use quarry_timing::OperationKind;

use super::bulk_operation::{BulkOperation, BulkWrite, parse_collections};
use super::bulk_replies::{BulkReplies, Counted};
use crate::commands::first_batch::{FirstBatch, answer};
use crate::commands::statements::{Statements, append_retried, refuse_many};
use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array, flag, number, object};
use crate::dispatch::privilege::{Action, Requires, Resource};
use crate::dispatch::read_only_views;
use crate::dispatch::transaction_arguments::SessionUse;
use crate::observe::counters::Counter;
use crate::sessions::client_cursor::ClientCursor;

/// The collection that the cursor is said to be over.
const NAMESPACE: &str = "admin.$cmd.bulkWrite";

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        array("ops"),
        array("nsInfo"),
        flag("ordered"),
        flag("errorsOnly"),
        flag("bypassDocumentValidation"),
        object("let"),
        object("cursor"),
        number("stmtId"),
        array("stmtIds"),
    ]),
    kind: OperationKind::Command,
    is_admin_only: true,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::Retryable,
    ..Command::new(
        "bulkWrite",
        "inserts, updates and deletes documents of several collections",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let collections = parse_collections(&invocation.documents("nsInfo")?)?;
    let documents = invocation.documents("ops")?;
    writes::check_batch(documents.len())?;
    let context = writes::context(invocation)?;
    let operations = documents
        .iter()
        .map(|operation| BulkOperation::parse(*operation, &collections, &context))
        .collect::<Result<Vec<_>>>()?;
    check_access(invocation, &collections, &operations)?;
    let batch = FirstBatch::parse_or(invocation, u64::MAX)?;
    let steps = match step_at(&operations, 0).len() == operations.len() {
        true => 1,
        false => operations.len(),
    };
    let mut bulk = Bulk {
        steps,
        level: writes::statement_level(writes::level(invocation), steps),
        is_ordered: !invocation.generic.is_unordered,
        statements: Statements::of(invocation, operations.len())?,
        replies: BulkReplies::new(invocation.boolean("errorsOnly")?),
        collections: &collections,
        operations: &operations,
        invocation,
    };
    bulk.run()?;
    let retried = bulk.statements.map_or(Vec::new(), Statements::into_retried);
    let (totals, replies) = (bulk.replies.totals(), bulk.replies);
    let is_in_users = |namespace: &Namespace| namespace.database() == invocation.generic.database;
    invocation.spares_own_database = !collections.iter().any(is_in_users);
    invocation.has_write_errors = totals.errors > 0;
    let session = invocation.generic.session;
    let cursor = ClientCursor::new(NAMESPACE.into(), session, replies.into_source());
    answer(cursor, invocation, batch, reply)?;
    totals.append(reply);
    append_retried(&retried, reply);
    Ok(())
}

/// Refuses the command unless its client may do to each collection what the operations do, and nothing is written where a set
/// shows its log.
fn check_access(
    invocation: &Invocation<'_>,
    collections: &[Namespace],
    operations: &[BulkOperation<'_>],
) -> Result<()> {
    // By collection: whether an operation inserts, updates, removes.
    let mut uses = vec![[false; 3]; collections.len()];
    for operation in operations {
        let [inserts, updates, removes] = &mut uses[operation.collection];
        match &operation.write {
            BulkWrite::Insert(_) => *inserts = true,
            BulkWrite::Update(request) => {
                *updates = true;
                *inserts |= request.is_upsert;
            }
            BulkWrite::Delete(_) => *removes = true,
        }
    }
    let is_set = invocation.server.replica_set.is_some();
    let bypasses = invocation.boolean("bypassDocumentValidation")?;
    for (namespace, [inserts, updates, removes]) in collections.iter().zip(uses) {
        let is_used = inserts || updates || removes;
        if is_used {
            read_only_views::refuse_write(is_set, namespace.database(), namespace.collection())?;
        }
        let resource = Resource::Collection(namespace.database(), namespace.collection());
        for (action, is_needed) in [
            (Action::Insert, inserts),
            (Action::Update, updates),
            (Action::Remove, removes),
            (Action::BypassDocumentValidation, is_used && bypasses),
        ] {
            if is_needed {
                invocation.require(action, resource)?;
            }
        }
    }
    Ok(())
}

/// The operations from a place on that go to the database together.
fn step_at(operations: &[BulkOperation<'_>], start: usize) -> Range<usize> {
    let first = &operations[start];
    if !matches!(first.write, BulkWrite::Insert(_)) {
        return start..start + 1;
    }
    let others = operations[start..].iter().take_while(|other| {
        matches!(other.write, BulkWrite::Insert(_)) && other.collection == first.collection
    });
    start..start + others.count()
}

/// The operations at work.
struct Bulk<'b> {
    invocation: &'b Invocation<'b>,
    collections: &'b [Namespace],
    operations: &'b [BulkOperation<'b>],
    /// Where the session may send the command again.
    statements: Option<Statements<'b>>,
    is_ordered: bool,
    /// One, or an upper bound.
    steps: usize,
    /// How each step is acknowledged: one alone as the command is.
    level: Level,
    replies: BulkReplies,
}

impl Bulk<'_> {
    fn run(&mut self) -> Result<()> {
        let mut place = 0;
        let mut goes_on = true;
        while goes_on && place < self.operations.len() {
            let step = step_at(self.operations, place);
            place = step.end;
            goes_on = self.step(step)?;
        }
        let level = writes::level(self.invocation);
        writes::settle(self.invocation, level, self.steps)
    }

    /// Runs one step; says whether those behind it are run, too.
    fn step(&mut self, step: Range<usize>) -> Result<bool> {
        let place = step.start;
        let operation = &self.operations[place];
        let counted = match &operation.write {
            BulkWrite::Update(_) => Counted::Changes,
            _ => Counted::Documents,
        };
        if let Some(error) = self.replies.room_error() {
            self.replies.failed(place, counted, &error);
            return Ok(false);
        }
        let lane = self.invocation.connection.id;
        let counters = &self.invocation.server.counters;
        let outcome = match &operation.write {
            BulkWrite::Insert(_) => return self.insert(step),
            BulkWrite::Update(request) => {
                counters.add(lane, Counter::Update, 1);
                self.update(place, *request).map(|outcome| {
                    counters.add(lane, Counter::DocumentsUpdated, outcome.modified);
                    self.replies.updated(place, &outcome);
                })
            }
            BulkWrite::Delete(request) => {
                counters.add(lane, Counter::Delete, 1);
                self.delete(place, *request).map(|count| {
                    counters.add(lane, Counter::DocumentsDeleted, count);
                    self.replies.deleted(place, count);
                })
            }
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) => self.fail(place, counted, &error),
        }
    }

    fn update(&mut self, place: usize, request: UpdateRequest<'_>) -> Result<UpdateOutcome> {
        refuse_many(self.statements.as_ref(), request.is_multi, "multi=true")?;
        if let Some(statements) = &mut self.statements
            && let Some(recorded) = statements.recorded(place)?
        {
            return Ok(exec::update_again(&recorded)?);
        }
        let request = UpdateRequest {
            keeps_empty_timestamps: self.invocation.generic.keeps_empty_timestamps,
            ..request
        };
        let data = self.invocation.data();
        Ok(data.update(self.invocation.operation, request, self.level)?)
    }

    fn delete(&mut self, place: usize, request: DeleteRequest<'_>) -> Result<u64> {
        refuse_many(self.statements.as_ref(), request.is_multi, "multi=true")?;
        if let Some(statements) = &mut self.statements
            && statements.recorded(place)?.is_some()
        {
            // Only a delete that has removed its document is recorded.
            return Ok(1);
        }
        let data = self.invocation.data();
        Ok(data.delete(self.invocation.operation, request, self.level)?)
    }

    /// Inserts the documents of a step.
    fn insert(&mut self, step: Range<usize>) -> Result<bool> {
        let open: Vec<usize> = match &mut self.statements {
            Some(statements) => statements.take_open(step.clone())?,
            None => step.clone().collect(),
        };
        let namespace = &self.collections[self.operations[step.start].collection];
        let documents: Vec<RawDocument<'_>> = open.iter().map(|&at| self.document(at)).collect();
        let stops = self.is_ordered || self.invocation.data().is_in_transaction();
        let request = InsertRequest {
            is_ordered: stops,
            keeps_empty_timestamps: self.invocation.generic.keeps_empty_timestamps,
            may_be_too_deep: self.invocation.has_deep_documents,
            ..InsertRequest::new(namespace, &documents)
        };
        let counters = &self.invocation.server.counters;
        let lane = self.invocation.connection.id;
        counters.add(lane, Counter::Insert, documents.len() as u64);
        let mut errors: Vec<(usize, CommandError)> = Vec::new();
        if documents.is_empty() {
            // All of them are there already; they are to be as durable as the command asks for.
            self.invocation.data().settle(self.level)?;
        } else {
            let data = self.invocation.data();
            match data.insert(self.invocation.operation, request, self.level) {
                Ok(outcome) => {
                    counters.add(lane, Counter::DocumentsInserted, outcome.inserted);
                    let named =
                        |(at, error): (usize, quarry_query::Error)| (open[at], error.into());
                    errors.extend(outcome.errors.into_iter().map(named));
                }
                // None of them is there.
                Err(error) => {
                    let error = CommandError::from(error);
                    errors.extend(open.iter().map(|&at| (at, error.clone())));
                }
            }
        }
        let mut errors = errors.into_iter().peekable();
        for place in step {
            match errors.next_if(|(at, _)| *at == place) {
                None => self.replies.inserted(place),
                Some((_, error)) => {
                    if !self.fail(place, Counted::Documents, &error)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// The document that the operation at that place inserts.
    fn document(&self, place: usize) -> RawDocument<'_> {
        match &self.operations[place].write {
            BulkWrite::Insert(document) => *document,
            // A step of inserts has nothing else.
            _ => RawDocument::EMPTY,
        }
    }

    /// Notes that an operation has failed; says whether those behind it are run.
    fn fail(&mut self, place: usize, counted: Counted, error: &CommandError) -> Result<bool> {
        let goes_on = writes::goes_on_behind(error, self.invocation, self.is_ordered)?;
        let errors = &self.invocation.server.errors;
        let namespace = &self.collections[self.operations[place].collection];
        errors.note(error, || namespace.to_string());
        self.replies.failed(place, counted, error);
        Ok(goes_on)
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, RawValue, Value, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;
    use crate::sessions::session::SessionId;

    struct Fixture {
        server: &'static Server,
        lsid: Document,
    }

    fn fixture() -> Fixture {
        Fixture {
            server: Box::leak(Box::new(Server::in_memory())),
            lsid: Document::build(|out| SessionId::generate().append("lsid", out)),
        }
    }

    impl Fixture {
        fn run(&self, mut command: Document, database: &str) -> Document {
            command.append("$db", database);
            answer(self.server, &command)
        }

        /// Runs the operations on `a.c` (0) and `b.c` (1), with further fields.
        fn bulk(&self, operations: &[Document], more: &Document) -> Document {
            let operations: Vec<Value> = operations.iter().cloned().map(Value::from).collect();
            let mut command = doc! { "bulkWrite": 1 };
            command.append("ops", operations);
            command.append(
                "nsInfo",
                doc! { "n": [{ "ns": "a.c" }, { "ns": "b.c" }] }
                    .get("n")
                    .unwrap(),
            );
            for element in more.as_raw() {
                command.append(element.name().as_bytes(), element.value());
            }
            self.run(command, "admin")
        }

        fn in_session(&self, more: &Document) -> Document {
            let mut in_session = more.clone();
            in_session.append("lsid", self.lsid.get_document("lsid").unwrap());
            in_session
        }

        fn found(&self, database: &str) -> Vec<Document> {
            let reply = self.run(doc! { "find": "c", "sort": { "_id": 1 } }, database);
            documents(&reply, "firstBatch")
        }
    }

    fn documents(reply: &Document, batch: &str) -> Vec<Document> {
        let cursor = reply
            .get_document("cursor")
            .unwrap_or_else(|| panic!("{reply}"));
        let batch = cursor.get_array(batch).unwrap();
        let document = |value: RawValue<'_>| value.as_document().unwrap().to_owned_document();
        batch.iter().map(document).collect()
    }

    fn results(reply: &Document) -> Vec<Document> {
        documents(reply, "firstBatch")
    }

    /// nErrors, nInserted, nMatched, nModified, nUpserted, nDeleted.
    fn sums(reply: &Document) -> [i32; 6] {
        [
            "nErrors",
            "nInserted",
            "nMatched",
            "nModified",
            "nUpserted",
            "nDeleted",
        ]
        .map(|name| {
            reply
                .get_i32(name)
                .unwrap_or_else(|| panic!("{name} of {reply}"))
        })
    }

    #[test]
    fn operations_of_several_collections_run_in_their_order() {
        let fixture = fixture();
        let operations = [
            doc! { "insert": 0, "document": { "_id": 1, "n": 1 } },
            doc! { "insert": 0, "document": { "_id": 2, "n": 1 } },
            doc! { "insert": 1, "document": { "_id": 3 } },
            doc! { "update": 0, "filter": { "n": 1 }, "updateMods": { "$inc": { "n": 1 } }, "multi": true },
            doc! { "update": 1, "filter": { "_id": 4 }, "updateMods": { "$set": { "x": 1 } }, "upsert": true },
            doc! { "update": 0, "filter": {}, "sort": { "_id": (-1) }, "updateMods": { "last": true } },
            doc! { "delete": 1, "filter": { "_id": 3 } },
            doc! { "delete": 0, "filter": { "_id": 9 } },
        ];
        let reply = fixture.bulk(&operations, &doc! {});
        assert_eq!(sums(&reply), [0, 3, 3, 3, 1, 1]);
        assert_eq!(
            results(&reply),
            [
                doc! { "ok": 1.0, "idx": 0, "n": 1 },
                doc! { "ok": 1.0, "idx": 1, "n": 1 },
                doc! { "ok": 1.0, "idx": 2, "n": 1 },
                doc! { "ok": 1.0, "idx": 3, "n": 2, "nModified": 2 },
                doc! { "ok": 1.0, "idx": 4, "n": 1, "nModified": 0, "upserted": { "_id": 4 } },
                doc! { "ok": 1.0, "idx": 5, "n": 1, "nModified": 1 },
                doc! { "ok": 1.0, "idx": 6, "n": 1 },
                doc! { "ok": 1.0, "idx": 7, "n": 0 },
            ]
        );
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get_str("ns"), Some("admin.$cmd.bulkWrite"));
        assert_eq!(
            fixture.found("a"),
            [doc! { "_id": 1, "n": 2 }, doc! { "_id": 2, "last": true }]
        );
        assert_eq!(fixture.found("b"), [doc! { "_id": 4, "x": 1 }]);
        let short = fixture.bulk(&operations[2..3], &doc! { "errorsOnly": true });
        assert_eq!(sums(&short), [0, 1, 0, 0, 0, 0]);
        assert!(results(&short).is_empty());
    }

    #[test]
    fn an_ordered_bulk_ends_with_its_first_error_and_another_one_goes_on() {
        let insert = |id: i32| doc! { "insert": 0, "document": { "_id": id } };
        let operations = [
            insert(1),
            insert(1),
            insert(2),
            doc! { "update": 0, "filter": {}, "updateMods": { "$inc": { "_id": "x" } } },
            insert(3),
        ];
        for (is_ordered, expected, failed) in [
            (true, [1, 1, 0, 0, 0, 0], vec![(1, 11_000)]),
            (false, [2, 3, 0, 0, 0, 0], vec![(1, 11_000), (3, 14)]),
        ] {
            let fixture = fixture();
            let more = doc! { "ordered": is_ordered, "errorsOnly": true };
            let reply = fixture.bulk(&operations, &more);
            assert_eq!(sums(&reply), expected, "{reply}");
            let errors = results(&reply);
            let of = |error: &Document| {
                (
                    error.get_i32("idx").unwrap(),
                    error.get_i32("code").unwrap(),
                )
            };
            assert_eq!(errors.iter().map(of).collect::<Vec<_>>(), failed);
            assert_eq!(errors[0].get_f64("ok"), Some(0.0));
            assert_eq!(errors[0].get_i32("n"), Some(0));
            assert_eq!(
                errors[0].get_document("keyValue"),
                Some(doc! { "_id": 1 }.as_raw())
            );
            assert_eq!(fixture.found("a").len(), expected[1] as usize);
        }
    }

    #[test]
    fn the_results_come_in_batches() {
        let fixture = fixture();
        let operations: Vec<Document> = (0..5)
            .map(|id| doc! { "insert": 0, "document": { "_id": id } })
            .collect();
        // A retryable write's cursor outlives the command: a getMore has no txnNumber.
        let more = fixture
            .in_session(&doc! { "cursor": { "batchSize": 2 }, "txnNumber": (Value::from(1i64)) });
        let reply = fixture.bulk(&operations, &more);
        assert_eq!(sums(&reply), [0, 5, 0, 0, 0, 0]);
        let mut all = results(&reply);
        assert_eq!(all.len(), 2);
        let id = reply.get_document("cursor").unwrap().get("id").unwrap();
        let get_more = doc! { "getMore": id, "collection": "$cmd.bulkWrite" };
        let rest = fixture.run(fixture.in_session(&get_more), "admin");
        all.extend(documents(&rest, "nextBatch"));
        let places: Vec<_> = all.iter().map(|result| result.get_i32("idx")).collect();
        assert_eq!(places, (0..5).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_sent_again_is_answered_again_and_changes_nothing() {
        let fixture = fixture();
        let operations = [
            doc! { "insert": 0, "document": { "_id": 1, "n": 0 } },
            doc! { "insert": 0, "document": { "_id": 2 } },
            doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$inc": { "n": 1 } } },
            doc! { "update": 1, "filter": { "_id": 7 }, "updateMods": { "$inc": { "n": 1 } }, "upsert": true },
            doc! { "delete": 0, "filter": { "_id": 2 } },
        ];
        let more = fixture.in_session(&doc! { "txnNumber": (Value::from(5i64)) });
        let first = fixture.bulk(&operations, &more);
        assert_eq!(sums(&first), [0, 2, 1, 1, 1, 1], "{first}");
        let again = fixture.bulk(&operations, &more);
        assert_eq!(sums(&again), sums(&first), "{again}");
        assert_eq!(results(&again), results(&first));
        let retried = again.get_array("retriedStmtIds").unwrap();
        assert_eq!(retried.len(), 5);
        assert_eq!(fixture.found("a"), [doc! { "_id": 1, "n": 1 }]);
        assert_eq!(fixture.found("b"), [doc! { "_id": 7, "n": 1 }]);
        // Half of it was done: the other half is done now.
        let more = fixture.in_session(&doc! { "txnNumber": (Value::from(6i64)) });
        let inserts: Vec<Document> = (10..14)
            .map(|id| doc! { "insert": 1, "document": { "_id": id } })
            .collect();
        fixture.bulk(&inserts[..2], &more);
        let whole = fixture.bulk(&inserts, &more);
        assert_eq!(sums(&whole), [0, 4, 0, 0, 0, 0], "{whole}");
        assert_eq!(fixture.found("b").len(), 5);
        let many = doc! { "delete": 0, "filter": {}, "multi": true };
        let more = fixture.in_session(&doc! { "txnNumber": (Value::from(7i64)) });
        let refused = fixture.bulk(&[many], &more);
        assert_eq!(results(&refused)[0].get_i32("code"), Some(72), "{refused}");
    }

    #[test]
    fn an_error_ends_the_transaction_that_it_is_in() {
        let fixture = fixture();
        let operations = [
            doc! { "insert": 0, "document": { "_id": 1 } },
            doc! { "insert": 1, "document": { "_id": 2 } },
            doc! { "insert": 1, "document": { "_id": 2 } },
            doc! { "insert": 1, "document": { "_id": 3 } },
        ];
        let number = |number: i64| {
            fixture.in_session(&doc! {
                "txnNumber": (Value::from(number)), "autocommit": false,
            })
        };
        let start = |of: i64| {
            let mut start = number(of);
            start.append("startTransaction", true);
            start
        };
        let commit = |of: i64| {
            let mut commit = doc! { "commitTransaction": 1 };
            for element in number(of).as_raw() {
                commit.append(element.name().as_bytes(), element.value());
            }
            fixture.run(commit, "admin")
        };
        let mut more = start(1);
        more.append("ordered", false);
        let reply = fixture.bulk(&operations, &more);
        assert_eq!(sums(&reply)[..2], [1, 2], "{reply}");
        assert_eq!(commit(1).get_i32("code"), Some(251));
        assert!(fixture.found("a").is_empty() && fixture.found("b").is_empty());
        let reply = fixture.bulk(&operations[..2], &start(2));
        assert_eq!(sums(&reply), [0, 2, 0, 0, 0, 0], "{reply}");
        assert!(fixture.found("a").is_empty());
        assert_eq!(commit(2).get_f64("ok"), Some(1.0));
        assert_eq!((fixture.found("a").len(), fixture.found("b").len()), (1, 1));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_is_written() {
        let fixture = fixture();
        let insert = doc! { "insert": 0, "document": { "_id": 1 } };
        for (operation, code) in [
            (doc! { "insert": 2, "document": {} }, 2),
            (doc! { "insert": (-1), "document": {} }, 2),
            (doc! { "insert": 0 }, 40_414),
            (doc! { "insert": 0, "document": {}, "multi": true }, 40_415),
            (doc! { "update": 0, "filter": {} }, 40_414),
            (doc! { "update": 0, "filter": {}, "updateMods": 1 }, 9),
            (doc! { "delete": 0, "filter": {}, "limit": 1 }, 40_415),
            (doc! { "replace": 0, "filter": {} }, 40_415),
            (doc! {}, 9),
        ] {
            let reply = fixture.bulk(&[insert.clone(), operation.clone()], &doc! {});
            assert_eq!(reply.get_i32("code"), Some(code), "{operation}: {reply}");
        }
        let reply = fixture.bulk(&[], &doc! {});
        assert_eq!(reply.get_i32("code"), Some(16), "{reply}");
        assert!(fixture.found("a").is_empty());
        let bad = doc! { "bulkWrite": 1, "ops": [(insert.clone())], "nsInfo": [{ "ns": "none" }] };
        assert_eq!(fixture.run(bad, "admin").get_i32("code"), Some(73));
        let elsewhere = doc! { "bulkWrite": 1, "ops": [(insert)], "nsInfo": [{ "ns": "a.c" }] };
        assert_eq!(fixture.run(elsewhere, "db").get_i32("code"), Some(13));
    }

    #[test]
    fn results_that_take_too_much_room_end_the_bulk() {
        let fixture = fixture();
        let operations: Vec<Document> = (0..500)
            .map(|id| doc! { "delete": 0, "filter": { "_id": id } })
            .collect();
        let reply = fixture.bulk(&operations, &doc! { "ordered": false });
        let results = results(&reply);
        let last = results.last().unwrap();
        assert!(results.len() < 300, "{}", results.len());
        assert_eq!(last.get_i32("code"), Some(146), "{last}");
        assert_eq!(sums(&reply)[0], 1);
    }
}
