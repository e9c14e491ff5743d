//! One call of a command, and what came of it: what the dispatcher is given, and what it leaves for those who log and
//! count.

use std::sync::Arc;
use std::time::Instant;

use quarry_bson::{Document, RawArray, RawDocument, RawElement};
use quarry_database::Operation;
use quarry_timing::OperationKind;
use quarry_wire::DocumentSequence;

use crate::dispatch::error::CommandError;
use crate::sessions::cursor_origin::CursorOrigin;

/// One message that asks for a command.
pub struct Call<'a> {
    pub body: RawDocument<'a>,
    pub sequences: &'a [DocumentSequence<'a>],
    /// A document may nest deeper than what may be stored.
    pub has_deep_documents: bool,
    pub is_exhaust_allowed: bool,
    /// No: the request holds a share of the request memory, which others may need.
    pub may_wait: bool,
    /// When its first byte came.
    pub started: Instant,
}

/// The documents of a list, which stands in the body of a command or beside it.
pub fn documents_of<'a>(
    body: RawDocument<'a>,
    sequences: &'a [DocumentSequence<'a>],
    list: &'static str,
) -> impl Iterator<Item = RawDocument<'a>> {
    let in_body = body.get_array(list).unwrap_or(RawArray::EMPTY);
    let in_body = in_body.iter().filter_map(|value| value.as_document());
    let beside = sequences.iter();
    let beside = beside.filter(move |sequence| sequence.identifier == list);
    in_body.chain(beside.flat_map(DocumentSequence::documents))
}

#[cfg(test)]
impl<'a> Call<'a> {
    /// The call of a client that sends this alone.
    pub fn of(body: RawDocument<'a>) -> Call<'a> {
        Call {
            body,
            sequences: &[],
            has_deep_documents: false,
            is_exhaust_allowed: false,
            may_wait: true,
            started: Instant::now(),
        }
    }
}

/// The outcome of a call: what the connection does after the reply, and what the slow-operation line says.
pub struct Outcome<'a> {
    pub kind: OperationKind,
    pub command_name: &'static str,
    /// Only the name of the command may be shown.
    pub has_secrets: bool,
    pub database: &'a str,
    pub collection: &'a str,
    /// The hash of database and collection; 0 for an operation that never began.
    pub namespace_hash: u64,
    pub asked: Asked<'a>,
    pub error: Option<CommandError>,
    pub is_exhaust: bool,
    /// The command was not run: its client asked what it does.
    pub is_help: bool,
    pub returned: u64,
    pub keys_examined: u64,
    pub docs_examined: u64,
    pub opid: u32,
    /// The operation as the layers below saw it; none if it never began.
    pub operation: Option<Arc<Operation>>,
    pub cursor: CursorRead,
}

/// The cursor that a command made or read.
#[derive(Default)]
pub struct CursorRead {
    /// The cursor's number; none where a command has made no cursor that stays open.
    pub id: Option<i64>,
    /// The batch was its last one.
    pub is_exhausted: bool,
    /// The command that made it, if another one did.
    pub origin: Option<Arc<CursorOrigin>>,
}

impl Default for Outcome<'_> {
    /// The outcome of a command that is not known yet.
    fn default() -> Self {
        Outcome {
            kind: OperationKind::Command,
            command_name: "",
            has_secrets: false,
            database: "",
            collection: "",
            namespace_hash: 0,
            asked: Asked::default(),
            error: None,
            is_exhaust: false,
            is_help: false,
            returned: 0,
            keys_examined: 0,
            docs_examined: 0,
            opid: 0,
            operation: None,
            cursor: CursorRead::default(),
        }
    }
}

impl Outcome<'_> {
    /// `database.collection`, or `database.$cmd` of a command that is on no collection.
    pub fn namespace(&self) -> String {
        match self.collection {
            "" => format!("{}.$cmd", self.database),
            collection => format!("{}.{collection}", self.database),
        }
    }

    /// The connection ends without an answer.
    pub fn is_unanswerable(&self) -> bool {
        self.error
            .as_ref()
            .is_some_and(|error| error.is_unanswerable)
    }
}

/// Leaves of a command that holds secrets only what may be shown: its name, its database and its session. A document that
/// stands for its subject, which is the command that an explain holds, is shown empty.
pub fn without_secrets(body: RawDocument<'_>) -> Document {
    let is_open = |element: &RawElement<'_>| matches!(element.name().as_bytes(), b"$db" | b"lsid");
    let rest = body.iter().skip(1).filter(is_open);
    Document::build(|shown| {
        match body.first() {
            Some(first) if first.value().as_document().is_some() => {
                shown.append(&*first.name().to_string_lossy(), RawDocument::EMPTY);
            }
            Some(first) => {
                shown.append_element(first);
            }
            None => {}
        }
        for element in rest {
            shown.append_element(element);
        }
    })
}

/// The questions of a command, as found in its body: a filter or query, a sort, a pipeline.
#[derive(Clone, Copy, Default)]
pub struct Asked<'a> {
    pub filter: Option<RawDocument<'a>>,
    pub sort: Option<RawDocument<'a>>,
    pub pipeline: Option<RawArray<'a>>,
}

impl<'a> Asked<'a> {
    /// Looks at one field of the command.
    #[inline]
    pub fn note(&mut self, field: RawElement<'a>) {
        match field.name().as_bytes() {
            b"filter" | b"query" => self.filter = field.value().as_document(),
            b"sort" => self.sort = field.value().as_document(),
            b"pipeline" => self.pipeline = field.value().as_array(),
            _ => {}
        }
    }
}
