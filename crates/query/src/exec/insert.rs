//! `insert`: documents with their `_id` brought to the front, or made, and stored in pieces.

use quarry_bson::{DOCUMENT_BYTES_MAX, DocumentBuilder, ObjectId, RawDocument, RawValue};
use quarry_database::{
    Database, Error, Level, Namespace, Operation, PIECE_BYTES_MAX, PIECE_DOCUMENTS_MAX,
};

use super::error::Result;
use super::request::InsertOutcome;
use crate::error_code::ErrorCode;

pub fn insert(
    database: &Database,
    operation: &Operation,
    namespace: &Namespace,
    documents: &[RawDocument<'_>],
    is_ordered: bool,
    level: Level,
) -> Result<InsertOutcome> {
    let mut insertion = Insertion {
        database,
        operation,
        namespace,
        is_ordered,
        outcome: InsertOutcome::default(),
        lsn: None,
    };
    let result = insertion.run(documents);
    if let Some(lsn) = insertion.lsn {
        database.acknowledge(lsn, level)?;
    }
    result?;
    insertion
        .outcome
        .errors
        .sort_by_key(|(position, _)| *position);
    Ok(insertion.outcome)
}

struct Insertion<'i> {
    database: &'i Database,
    operation: &'i Operation,
    namespace: &'i Namespace,
    is_ordered: bool,
    outcome: InsertOutcome,
    lsn: Option<u64>,
}

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
            let mut staged = Vec::new();
            let mut positions = Vec::new();
            let mut bytes = 0;
            let mut stops = false;
            while position < documents.len()
                && staged.len() < PIECE_DOCUMENTS_MAX
                && (staged.is_empty() || bytes < PIECE_BYTES_MAX)
            {
                let document = documents[position];
                position += 1;
                match normal(document) {
                    Ok(document) => {
                        bytes += document.bytes().len();
                        staged.push(document);
                        positions.push(position - 1);
                    }
                    Err(error) => {
                        self.outcome.errors.push((position - 1, error.into()));
                        stops = self.is_ordered;
                        if stops {
                            break;
                        }
                    }
                }
            }
            if !self.piece(&staged, &positions)? || stops {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Stores one piece; says whether to go on.
    fn piece(&mut self, staged: &[Staged<'_>], positions: &[usize]) -> Result<bool> {
        if staged.is_empty() {
            return Ok(true);
        }
        let documents = staged
            .iter()
            .map(|document| Ok(RawDocument::new(document.bytes())?))
            .collect::<Result<Vec<_>>>()?;
        let inserted =
            self.database
                .insert_piece(self.operation, self.namespace, &documents, self.is_ordered);
        let inserted = match inserted {
            Ok(inserted) => inserted,
            Err(error) if self.outcome.inserted > 0 && is_of_documents(&error) => {
                self.outcome.errors.push((positions[0], error));
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.outcome.inserted += inserted.inserted;
        self.lsn = inserted.lsn.or(self.lsn);
        let goes_on = inserted.errors.is_empty() || !self.is_ordered;
        let errors = inserted.errors.into_iter();
        self.outcome
            .errors
            .extend(errors.map(|(at, error)| (positions[at], error)));
        Ok(goes_on)
    }
}

/// An error that can be told of one document while those before it stay.
fn is_of_documents(error: &Error) -> bool {
    !matches!(
        error,
        Error::OutcomeUnknown(_) | Error::Interrupted | Error::MaxTimeExpired | Error::ShuttingDown
    )
}

impl Staged<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Staged::AsGiven(document) => document.as_bytes(),
            Staged::Rewritten(bytes) => bytes,
        }
    }
}

/// The document with its `_id` first.
fn normal(document: RawDocument<'_>) -> crate::Result<Staged<'_>> {
    let id = document.get_element("_id");
    if let Some(id) = id {
        check_id(id.value())?;
    }
    if id.is_some() && document.first().is_some_and(|first| first.name() == "_id") {
        return Ok(Staged::AsGiven(document));
    }
    let mut bytes = Vec::with_capacity(document.as_bytes().len() + 17);
    let mut builder = DocumentBuilder::new(&mut bytes);
    match id {
        Some(id) => builder.append_element(id),
        None => builder.append("_id", ObjectId::generate()),
    };
    for element in document.iter().filter(|element| element.name() != "_id") {
        builder.append_element(element);
    }
    builder.finish();
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let text = format!(
            "object to insert too large. size in bytes: {}, max size: {DOCUMENT_BYTES_MAX}",
            bytes.len()
        );
        return Err(crate::Error::bad_value(text));
    }
    Ok(Staged::Rewritten(bytes))
}

fn check_id(id: RawValue<'_>) -> crate::Result<()> {
    let refused = match id {
        RawValue::Array(_) => "array",
        RawValue::Regex(_) => "regex",
        RawValue::Undefined => "undefined",
        _ => return Ok(()),
    };
    let text = format!("The '_id' value cannot be of type {refused}");
    Err(crate::Error::new(ErrorCode::INVALID_ID_FIELD, text))
}
