//! The statements of a command that a session may send again: their ids, and what those that are done already are answered.

use std::ops::Range;

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_database::{RecordedStatement, RetryableWrite};
use quarry_query::ErrorCode;

use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::argument::Argument;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fail_points;
use crate::observe::counters::Counter;

/// The statements of one retryable write.
pub struct Statements<'i> {
    invocation: &'i Invocation<'i>,
    write: &'i RetryableWrite,
    ids: Ids,
    /// The ids of those that were done already.
    retried: Vec<i32>,
}

enum Ids {
    /// The id of the first; the others follow it.
    From(i32),
    Each(Vec<i32>),
}

impl<'i> Statements<'i> {
    /// The statements of a command that has so many; none where its session does not send it again.
    pub fn of(invocation: &'i Invocation<'i>, count: usize) -> Result<Option<Statements<'i>>> {
        let Some(write) = invocation.operation.retryable() else {
            return Ok(None);
        };
        Ok(Some(Statements {
            invocation,
            write,
            ids: Ids::parse(invocation, count)?,
            retried: Vec::new(),
        }))
    }

    /// Takes those out of the positions that are done already, and names the others.
    pub fn take_open(&mut self, positions: Range<usize>) -> Result<Vec<usize>> {
        let mut open = Vec::with_capacity(positions.len());
        for position in positions {
            let id = self.ids.of(position);
            match self.write.is_executed(id) {
                true => self.note_retried(id),
                false => {
                    fail_points::meet_statement(self.invocation)?;
                    open.push(position);
                }
            }
        }
        let ids = open.iter().map(|&position| self.ids.of(position));
        self.write.name_statements(ids);
        Ok(open)
    }

    /// The record of the statement at that position, if it is done already. It is as durable then as the command asks for.
    /// Otherwise the statement is named: what is written next is it.
    pub fn recorded(&mut self, position: usize) -> Result<Option<RecordedStatement>> {
        let id = self.ids.of(position);
        if !self.write.is_executed(id) {
            fail_points::meet_statement(self.invocation)?;
            self.write.name_statements([id]);
            return Ok(None);
        }
        let data = self.invocation.data();
        let recorded = data.recorded_statement(self.write, id)?;
        let recorded = recorded.ok_or_else(|| {
            let number = self.write.txn_number();
            let message = format!("Incomplete history detected for transaction {number}");
            CommandError::new(ErrorCode::INCOMPLETE_TRANSACTION_HISTORY, message)
        })?;
        data.settle(writes::level(self.invocation))?;
        self.note_retried(id);
        Ok(Some(recorded))
    }

    fn note_retried(&mut self, id: i32) {
        let (counters, lane) = (
            &self.invocation.server.counters,
            self.invocation.connection.id,
        );
        if self.retried.is_empty() {
            counters.add(lane, Counter::RetriedCommands, 1);
        }
        counters.add(lane, Counter::RetriedStatements, 1);
        self.retried.push(id);
    }

    /// How many were done already.
    pub fn retried(&self) -> usize {
        self.retried.len()
    }

    /// Appends the ids of those that were done already, if there are any.
    pub fn append_retried(&self, reply: &mut DocumentBuilder<'_>) {
        append_retried(&self.retried, reply);
    }

    /// Hands out the ids of those that were done already, for `append_retried`.
    pub fn into_retried(self) -> Vec<i32> {
        self.retried
    }

    /// The id of the only statement, if it was done already.
    pub fn only_retried(&self) -> Option<i32> {
        self.retried.first().copied()
    }
}

impl Ids {
    fn parse(invocation: &Invocation<'_>, count: usize) -> Result<Ids> {
        if !invocation.generic.names_statements {
            return Ok(Ids::From(0));
        }
        let id = |value: RawValue<'_>| {
            let id = value.as_i64_exact().and_then(|id| i32::try_from(id).ok());
            id.ok_or_else(|| CommandError::bad_value("a statement id is no Int32"))
        };
        let first = invocation.argument("stmtId");
        let Some(each) = invocation.argument("stmtIds") else {
            let first = first.map_or(Ok(0), |argument| id(argument.value()))?;
            return Ok(Ids::From(first));
        };
        if first.is_some() {
            let message = "May not specify both stmtId and stmtIds in write command";
            return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
        }
        let each = Argument::array(&each)?.iter().map(id);
        let each = each.collect::<Result<Vec<_>>>()?;
        if each.len() != count {
            let message = format!(
                "Number of statement ids must match the number of batch entries. Got {} statement ids but {count} operations.",
                each.len()
            );
            return Err(CommandError::new(ErrorCode::INVALID_LENGTH, message));
        }
        Ok(Ids::Each(each))
    }

    fn of(&self, position: usize) -> i32 {
        match self {
            // A batch is bounded far below what an Int32 counts; an id that a client begins with may be near its end.
            Ids::From(first) => first.wrapping_add(i32::try_from(position).unwrap_or(i32::MAX)),
            Ids::Each(ids) => ids[position],
        }
    }
}

/// Appends the ids of statements that were done already, if there are any.
pub fn append_retried(ids: &[i32], reply: &mut DocumentBuilder<'_>) {
    if ids.is_empty() {
        return;
    }
    let mut list = reply.array("retriedStmtIds");
    for id in ids {
        list.push(*id);
    }
    list.finish();
}

/// Refuses a statement for many documents, which cannot be sent again: what of it was done nobody could say.
pub fn refuse_many(statements: Option<&Statements<'_>>, is_many: bool, asked: &str) -> Result<()> {
    if is_many && statements.is_some() {
        let message = format!("Cannot use (or request) retryable writes with {asked}");
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, RawValue, Value, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;
    use crate::sessions::session::SessionId;

    pub struct Session {
        pub server: &'static Server,
        lsid: Document,
    }

    impl Session {
        fn new() -> Session {
            Session {
                server: Box::leak(Box::new(Server::in_memory())),
                lsid: Document::build(|out| SessionId::generate().append("lsid", out)),
            }
        }

        fn plain(&self, mut command: Document) -> Document {
            command.append("$db", "db");
            answer(self.server, &command)
        }

        fn write(&self, number: i64, mut command: Document) -> Document {
            command.append("lsid", self.lsid.get_document("lsid").unwrap());
            command.append("txnNumber", number);
            self.plain(command)
        }

        fn count(&self) -> Option<i32> {
            self.plain(doc! { "count": "c" }).get_i32("n")
        }
    }

    fn code(reply: &Document) -> Option<i32> {
        reply.get_i32("code")
    }

    /// Without what tells that it was sent again.
    fn same(reply: &Document) -> Document {
        let mut same = Document::new();
        for element in reply.as_raw() {
            if !element
                .name()
                .to_string_lossy()
                .starts_with("retriedStmtId")
            {
                same.append(element.name().as_bytes(), element.value());
            }
        }
        same
    }

    #[test]
    fn what_is_sent_again_is_answered_again_and_changes_nothing() {
        let session = Session::new();
        session.plain(doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }] });
        let increment = doc! { "$inc": { "n": 1 } };
        let commands = [
            doc! { "insert": "c", "documents": [{ "_id": 2, "n": 0 }, { "_id": 3 }] },
            doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": (increment.clone()) }] },
            doc! { "update": "c", "updates": [{ "q": { "_id": 9 }, "u": (increment.clone()), "upsert": true }] },
            doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": (increment.clone()), "new": true },
            doc! { "findAndModify": "c", "query": { "_id": 8 }, "update": (increment.clone()), "upsert": true },
            doc! { "findAndModify": "c", "query": { "_id": 8 }, "remove": true },
            doc! { "delete": "c", "deletes": [{ "q": { "_id": 3 }, "limit": 1 }] },
        ];
        for (number, command) in (1..).zip(&commands) {
            let first = session.write(number, command.clone());
            assert_eq!(first.get_f64("ok"), Some(1.0), "{first}");
            let state = session.plain(doc! { "find": "c", "sort": { "_id": 1 } });
            let again = session.write(number, command.clone());
            assert_ne!(first, again, "it is told that it came again");
            assert_eq!(same(&again), first, "{command}");
            let now = session.plain(doc! { "find": "c", "sort": { "_id": 1 } });
            assert_eq!(now, state, "{command}");
        }
    }

    fn set() -> Document {
        doc! { "$set": { "n": 1 } }
    }

    /// A findAndModify that sets `n`, with these flags.
    fn setting(id: i32, flags: &[&str]) -> Document {
        let mut command = doc! { "findAndModify": "c", "query": { "_id": id } };
        command.append("update", set());
        for flag in flags {
            command.append(*flag, true);
        }
        command
    }

    fn removing(id: i32) -> Document {
        doc! { "findAndModify": "c", "query": { "_id": id }, "remove": true }
    }

    #[test]
    fn a_find_and_modify_that_comes_again_in_another_shape_is_refused() {
        let session = Session::new();
        session.plain(doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] });
        let upserting = || setting(4, &["upsert"]);
        let cases = [
            (setting(1, &[]), setting(1, &["new"]), 40_611),
            (setting(2, &["new"]), setting(2, &[]), 40_612),
            (setting(1, &[]), removing(1), 40_606),
            (setting(2, &["new"]), removing(2), 40_606),
            (removing(2), setting(2, &[]), 40_606),
            (setting(3, &["upsert"]), setting(3, &[]), 40_608),
            (upserting(), setting(4, &["upsert", "new"]), 40_611),
        ];
        for (number, (first, again, refused)) in (1..).zip(cases) {
            // So that the statement changes something, and is recorded.
            session.plain(doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "n": 0 } }, "multi": true }] });
            let reply = session.write(number, first.clone());
            assert_eq!(reply.get_f64("ok"), Some(1.0), "{reply}");
            let refusal = session.write(number, again.clone());
            assert_eq!(code(&refusal), Some(refused), "{first} {again}: {refusal}");
            assert_eq!(same(&session.write(number, first)), reply);
        }
        // Who has the new document of an upsert can be told that there was none before.
        let upserted = session.write(20, setting(5, &["upsert", "new"]));
        assert!(upserted.get_document("value").is_some(), "{upserted}");
        let before = session.write(20, setting(5, &["upsert"]));
        assert_eq!(before.get("value"), Some(RawValue::Null), "{before}");
    }

    #[test]
    fn a_find_and_modify_that_comes_again_for_another_command_is_refused() {
        let session = Session::new();
        let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }] };
        let update = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": (set()) }] };
        let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] };
        let shapes = [removing(1), setting(1, &["new"]), setting(1, &[])];
        for (number, (first, codes)) in (1..).zip([
            (insert, [40_608; 3]),
            (update, [40_606, 40_611, 40_612]),
            (delete, [40_607, 40_606, 40_606]),
        ]) {
            let reply = session.write(number, first);
            assert_eq!(reply.get_i32("n"), Some(1), "{reply}");
            for (again, refused) in shapes.iter().zip(codes) {
                let refusal = session.write(number, again.clone());
                assert_eq!(code(&refusal), Some(refused), "{again}: {refusal}");
            }
        }
    }

    #[test]
    fn only_the_statements_that_failed_run_again() {
        let session = Session::new();
        session.plain(doc! { "insert": "c", "documents": [{ "_id": 2 }] });
        let insert = doc! {
            "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }], "ordered": false,
        };
        let first = session.write(1, insert.clone());
        assert_eq!(first.get_i32("n"), Some(2));
        let again = session.write(1, insert.clone());
        assert_eq!(same(&again), first, "the error has its own index");
        session.plain(doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] });
        assert_eq!(session.write(1, insert).get_i32("n"), Some(3));
        assert_eq!(session.count(), Some(3));
    }

    #[test]
    fn a_statement_that_changed_nothing_runs_again() {
        let session = Session::new();
        let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] };
        assert_eq!(session.write(1, delete.clone()).get_i32("n"), Some(0));
        session.plain(doc! { "insert": "c", "documents": [{ "_id": 1 }] });
        assert_eq!(session.write(1, delete).get_i32("n"), Some(1));
    }

    #[test]
    fn numbers_go_up_and_statements_for_many_are_refused() {
        let session = Session::new();
        let insert = |id: i32| doc! { "insert": "c", "documents": [{ "_id": id }] };
        assert_eq!(session.write(5, insert(1)).get_i32("n"), Some(1));
        assert_eq!(code(&session.write(4, insert(2))), Some(225));
        let many = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } }, "multi": true }] };
        let reply = session.write(6, many);
        let error = reply.get_path("writeErrors.0.code");
        assert_eq!(
            error.and_then(|code| code.as_i64_exact()),
            Some(72),
            "{reply}"
        );
        assert_eq!(code(&session.write(7, doc! { "find": "c" })), Some(50_768));
        let without = doc! { "insert": "c", "documents": [{}], "txnNumber": (Value::from(1i64)) };
        assert_eq!(code(&session.plain(without)), Some(72));
        assert_eq!(session.count(), Some(1));
    }

    #[test]
    fn a_session_that_has_ended_leaves_nothing_behind() {
        let session = Session::new();
        session.write(3, doc! { "insert": "c", "documents": [{ "_id": 1 }] });
        let id = SessionId::parse(session.lsid.get_document("lsid").unwrap()).unwrap();
        let database = &session.server.database;
        assert!(database.stored_session(&id.0).unwrap().is_some());
        let lsid = session
            .lsid
            .get_document("lsid")
            .unwrap()
            .to_owned_document();
        session.plain(doc! { "endSessions": [(lsid)] });
        for ended in session.server.sessions.take_forgotten(10) {
            session.server.sessions.forget(ended, database).unwrap();
        }
        assert!(database.stored_session(&id.0).unwrap().is_none());
        assert_eq!(session.server.sessions.len(), 0);
        let again = session.write(1, doc! { "insert": "c", "documents": [{ "_id": 2 }] });
        assert_eq!(again.get_i32("n"), Some(1), "it begins anew: {again}");
    }
}
