//! `insert`: documents with their `_id` brought to the front, or made, and stored in pieces.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use quarry_bson::{DOCUMENT_BYTES_MAX, DocumentBuilder, ObjectId, RawDocument, STORED_DEPTH_MAX};
use quarry_database::{
    Inserted, Level, Namespace, Operation, PIECE_BYTES_MAX, PIECE_DOCUMENTS_MAX, Scope,
    StatementKind, Temporary,
};
use smallvec::SmallVec;

use super::recorded::{self, Statements};
use super::request::{InsertOutcome, InsertRequest};
use crate::empty_timestamps;
use crate::error::Result;
use crate::error_code::ErrorCode;
use crate::interrupts::{self, units_of_search};
use crate::stored_id::check_id;

/// Inserts documents. Refused ones are named in the outcome.
pub fn insert(
    scope: Scope<'_>,
    operation: &Operation,
    request: InsertRequest<'_>,
    level: Level,
) -> Result<InsertOutcome> {
    let mut insertion = Insertion {
        scope,
        operation,
        level,
        namespace: request.namespace,
        is_ordered: request.is_ordered,
        keeps_empty_timestamps: request.keeps_empty_timestamps,
        may_be_too_deep: request.may_be_too_deep,
        into: request.into,
        statements: recorded::named(operation, StatementKind::Insert),
        outcome: InsertOutcome::default(),
        lsn: None,
    };
    let result = insertion.run(request.documents);
    scope.settle(insertion.lsn, level)?;
    result?;
    insertion
        .outcome
        .errors
        .sort_by_key(|(position, _)| *position);
    Ok(insertion.outcome)
}

struct Insertion<'i> {
    scope: Scope<'i>,
    operation: &'i Operation,
    level: Level,
    namespace: &'i Namespace,
    is_ordered: bool,
    keeps_empty_timestamps: bool,
    may_be_too_deep: bool,
    into: Option<&'i Temporary>,
    /// The statement that each document is, where they are recorded; empty otherwise.
    statements: Statements,
    outcome: InsertOutcome,
    lsn: Option<u64>,
}

/// The bytes of a document's length, in front of its elements.
const LENGTH_BYTES: usize = 4;

/// One document of a piece.
enum Staged<'d> {
    AsGiven(RawDocument<'d>),
    Rewritten(Vec<u8>),
}

impl Insertion<'_> {
    fn run(&mut self, documents: &[RawDocument<'_>]) -> Result<()> {
        let mut position = 0;
        while position < documents.len() {
            self.operation.check()?;
            let most = (documents.len() - position).min(PIECE_DOCUMENTS_MAX);
            let mut staged: SmallVec<[Staged<'_>; 1]> = SmallVec::with_capacity(most);
            let mut positions: SmallVec<[usize; 1]> = SmallVec::with_capacity(most);
            let mut bytes = 0;
            let mut stops = false;
            while position < documents.len()
                && staged.len() < PIECE_DOCUMENTS_MAX
                && (staged.is_empty() || bytes < PIECE_BYTES_MAX)
            {
                let document = documents[position];
                position += 1;
                match self.stage(document) {
                    Ok(document) => {
                        bytes += document.bytes().len();
                        staged.push(document);
                        positions.push(position - 1);
                    }
                    // Not the document's error: nothing behind it is tried.
                    Err(error) if error.ends_operation() => return Err(error),
                    Err(error) => {
                        self.outcome.errors.push((position - 1, error));
                        stops = self.is_ordered;
                        if stops {
                            break;
                        }
                    }
                }
            }
            let (taken, goes_on) = self.piece(&staged, &positions)?;
            if let Some(&next) = positions.get(taken)
                && goes_on
            {
                // What was refused behind it is looked at again.
                position = next;
                (self.outcome.errors).retain(|(position, _)| *position < next);
            } else if !goes_on || stops {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The document as it is to be stored. Its size is judged as it came: an `_id` that is made for it has room beyond the
    /// limit for clients' documents.
    fn stage<'d>(&self, document: RawDocument<'d>) -> crate::Result<Staged<'d>> {
        check_bytes(document.as_bytes().len())?;
        if self.may_be_too_deep {
            check_levels(document)?;
        }
        normal(document, self.keeps_empty_timestamps)
    }

    /// Stores one piece; says how many of the documents it has, and whether to go on.
    fn piece(&mut self, staged: &[Staged<'_>], positions: &[usize]) -> Result<(usize, bool)> {
        if staged.is_empty() {
            return Ok((0, true));
        }
        let documents = staged
            .iter()
            .map(|document| Ok(RawDocument::new(document.bytes())?))
            .collect::<Result<SmallVec<[RawDocument<'_>; 1]>>>()?;
        if let Some(write) = self.operation.retryable() {
            let named = positions.iter().map(|&position| self.statements[position]);
            write.name_statements(named);
        }
        let inserted = match self.insert_piece(&documents) {
            Ok(inserted) => inserted,
            // In a transaction such an error ends all of it, and none of its documents stay.
            Err(error)
                if self.outcome.inserted > 0
                    && !error.ends_operation()
                    && !self.scope.is_in_transaction() =>
            {
                let refused = match self.is_ordered {
                    true => &positions[..1],
                    false => positions,
                };
                let error = crate::Error::from(error);
                let errors = refused.iter().map(|&position| (position, error.clone()));
                self.outcome.errors.extend(errors);
                return Ok((staged.len(), !self.is_ordered));
            }
            Err(error) => return Err(error.into()),
        };
        self.outcome.inserted += inserted.inserted;
        self.lsn = inserted.lsn.or(self.lsn);
        let goes_on = inserted.errors.is_empty() || !self.is_ordered;
        let errors = inserted.errors.into_iter();
        self.outcome
            .errors
            .extend(errors.map(|(at, error)| (positions[at], error.into())));
        Ok((inserted.taken, goes_on))
    }

    fn insert_piece(&self, documents: &[RawDocument<'_>]) -> quarry_database::Result<Inserted> {
        let (operation, is_ordered, level) = (self.operation, self.is_ordered, self.level);
        match self.into {
            None => {
                let scope = self.scope;
                scope.insert_piece(operation, self.namespace, documents, is_ordered, level)
            }
            Some(into) => {
                let database = self.scope.outside_transactions()?;
                database.insert_piece_into(operation, into, documents, is_ordered, level)
            }
        }
    }
}

fn check_bytes(bytes: usize) -> crate::Result<()> {
    if bytes <= DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "object to insert too large. size in bytes: {bytes}, max size: {DOCUMENT_BYTES_MAX}"
    );
    Err(crate::Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, text))
}

#[cold]
fn check_levels(document: RawDocument<'_>) -> crate::Result<()> {
    let is_storable = RawDocument::validated_storable(document.as_bytes()).is_some();
    interrupts::work(units_of_search(document))?;
    if is_storable {
        return Ok(());
    }
    let text =
        format!("cannot insert document because it exceeds {STORED_DEPTH_MAX} levels of nesting");
    Err(crate::Error::new(ErrorCode::OVERFLOW, text))
}

impl Staged<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Staged::AsGiven(document) => document.as_bytes(),
            Staged::Rewritten(bytes) => bytes,
        }
    }
}

/// Whether the elements behind the first one have to be looked at one by one, because another one may be called `_id`, or
/// be an empty timestamp. To search for bytes costs a small part of that.
fn is_special(elements: &[u8]) -> bool {
    static ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"_id\0"));
    empty_timestamps::may_hold_one(elements) || ID.find(elements).is_some()
}

/// The document with its `_id` first and, unless they are kept, without empty timestamps.
fn normal(document: RawDocument<'_>, keeps_empty_timestamps: bool) -> crate::Result<Staged<'_>> {
    if let Some(first) = document.first().filter(|first| first.name() == "_id")
        && !is_special(&document.as_bytes()[LENGTH_BYTES + first.as_bytes().len()..])
    {
        check_id(first.value())?;
        return Ok(Staged::AsGiven(document));
    }
    let (mut id, mut is_filled) = (None, false);
    for element in document {
        if element.name() == "_id" && id.replace(element).is_some() {
            let text = "can't have multiple _id fields in one document";
            return Err(crate::Error::bad_value(text));
        }
        is_filled |= empty_timestamps::asks(element);
    }
    is_filled &= !keeps_empty_timestamps;
    if let Some(id) = id {
        check_id(id.value())?;
    }
    let is_first = document.first().is_some_and(|first| first.name() == "_id");
    if is_first && !is_filled {
        return Ok(Staged::AsGiven(document));
    }
    let mut bytes = Vec::with_capacity(document.as_bytes().len() + 17);
    let mut builder = DocumentBuilder::new(&mut bytes);
    match id {
        Some(id) => builder.append_element(id),
        None => builder.append("_id", ObjectId::generate()),
    };
    for element in document.iter().filter(|element| element.name() != "_id") {
        if is_filled {
            empty_timestamps::append(&mut builder, element);
        } else {
            builder.append_element(element);
        }
    }
    builder.finish();
    Ok(Staged::Rewritten(bytes))
}
