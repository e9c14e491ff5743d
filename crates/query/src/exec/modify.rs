//! What update, delete and findAndModify share: finding the records that match, a piece at a time, and changing
//! those that still match under their locks.

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{
    Change, Database, Error, Ident, Modified, Namespace, Operation, PIECE_BYTES_MAX,
    PIECE_DOCUMENTS_MAX, View,
};
use quarry_timing::{Phase, phase};

use super::error::Result;
use super::executor::matches;
use super::find::{Parsed, only_id};
use super::scan::{Flow, Scan};
use super::sorter::Sorter;
use crate::matcher::MatchDetails;

/// How often a single change looks for another document when others changed the one it found.
const ATTEMPTS_MAX: u32 = 1000;

/// The records a write is meant for.
pub(super) struct Target<'t> {
    pub database: &'t Database,
    pub operation: &'t Operation,
    pub namespace: &'t Namespace,
    pub filter: RawDocument<'t>,
    pub parsed: &'t Parsed,
    pub hint: Option<RawValue<'t>>,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub matched: u64,
    pub modified: u64,
    pub deleted: u64,
    pub error: Option<Error>,
    /// Of the last commit.
    pub lsn: Option<u64>,
}

/// Computes the change of a document that matches.
pub(super) type Compute<'c> =
    dyn FnMut(RawDocument<'_>, &MatchDetails, &mut Vec<u8>) -> Result<Change> + 'c;

impl Target<'_> {
    /// Changes the first document that matches, or none.
    pub fn modify_one(&self, compute: &mut Compute<'_>) -> Result<Totals> {
        let mut totals = Totals::default();
        if let Some(id) = only_id(self.filter).filter(|_| self.hint.is_none()) {
            let Some(collection) = self.database.collection(self.namespace)? else {
                return Ok(totals);
            };
            if collection.is_clustered() {
                let key = Database::record_key(&collection, id);
                self.piece(collection.ident, &[key], compute, &mut totals)?;
                return Ok(totals);
            }
        }
        for _ in 0..ATTEMPTS_MAX {
            self.operation.check()?;
            let Some((ident, key)) = self.first()? else {
                return Ok(totals);
            };
            self.piece(ident, &[key], compute, &mut totals)?;
            if totals.matched > 0 || totals.error.is_some() {
                return Ok(totals);
            }
        }
        Err(Error::WriteConflict)
    }

    /// Changes every document that matches.
    pub fn modify_all(&self, compute: &mut Compute<'_>) -> Result<Totals> {
        let mut totals = Totals::default();
        let Some(view) = self.database.view(self.namespace)? else {
            return Ok(totals);
        };
        let ident = view.collection.ident;
        let plan = self.parsed.plan(&view, self.hint)?;
        let mut scan = Scan::new(plan).remember_all();
        let mut view = Some(view);
        loop {
            let Some(current) = view.take() else {
                return Ok(totals);
            };
            if current.collection.ident != ident {
                let text = format!("collection dropped. UUID of {} has changed", self.namespace);
                return Err(Error::QueryPlanKilled(text));
            }
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let mut bytes = 0;
            let more = scan.run(&current, self.operation, &mut |key, document| {
                if !matches(self.parsed, document)? {
                    return Ok(Flow::Continue);
                }
                keys.push(key.to_vec());
                bytes += document.as_bytes().len();
                let is_full = keys.len() == PIECE_DOCUMENTS_MAX || bytes >= PIECE_BYTES_MAX;
                Ok(if is_full { Flow::Stop } else { Flow::Continue })
            })?;
            drop(current);
            if !keys.is_empty() {
                self.piece(ident, &keys, compute, &mut totals)?;
            }
            if !more || totals.error.is_some() {
                return Ok(totals);
            }
            self.operation.check()?;
            view = self.database.view(self.namespace)?;
        }
    }

    fn piece(
        &self,
        ident: Ident,
        keys: &[Vec<u8>],
        compute: &mut Compute<'_>,
        totals: &mut Totals,
    ) -> Result<()> {
        let mut change = |_: usize, document: RawDocument<'_>, out: &mut Vec<u8>| {
            let details = self.parsed.matcher.try_match_details(document)?;
            let Some(details) = details else {
                return Ok(Change::NoMatch);
            };
            let _scope = phase(Phase::Splice);
            compute(document, &details, out)
        };
        let outcome =
            self.database
                .modify_piece(self.operation, self.namespace, ident, keys, &mut change);
        let Modified {
            matched,
            modified,
            deleted,
            error,
            lsn,
        } = match outcome {
            // What was committed before is waited for all the same.
            Err(error) if totals.lsn.is_some() => {
                totals.error = Some(error);
                return Ok(());
            }
            outcome => outcome?,
        };
        totals.matched += matched;
        totals.modified += modified;
        totals.deleted += deleted;
        totals.error = error;
        totals.lsn = lsn.or(totals.lsn);
        Ok(())
    }

    /// The record key of the first document that matches, in the wanted order.
    fn first(&self) -> Result<Option<(Ident, Vec<u8>)>> {
        let Some(view) = self.database.view(self.namespace)? else {
            return Ok(None);
        };
        let mut scan = Scan::new(self.parsed.plan(&view, self.hint)?);
        let found = if scan.plan().is_sorted {
            self.first_in_scan(&view, &mut scan)?
        } else {
            self.first_in_order(&view, &mut scan)?
        };
        Ok(found.map(|key| (view.collection.ident, key)))
    }

    fn first_in_scan(&self, view: &View, scan: &mut Scan) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        scan.run(view, self.operation, &mut |key, document| {
            if !matches(self.parsed, document)? {
                return Ok(Flow::Continue);
            }
            found = Some(key.to_vec());
            Ok(Flow::Stop)
        })?;
        Ok(found)
    }

    fn first_in_order(&self, view: &View, scan: &mut Scan) -> Result<Option<Vec<u8>>> {
        let mut sorter = Sorter::new(Some(1));
        let mut sort_key = Vec::new();
        scan.run(view, self.operation, &mut |key, document| {
            if matches(self.parsed, document)? {
                sort_key.clear();
                if let Some(sort) = &self.parsed.sort {
                    sort.key(document, &mut sort_key)?;
                }
                sorter.push(&sort_key, key)?;
            }
            Ok(Flow::Continue)
        })?;
        let mut found = None;
        sorter.finish().next(|key| {
            found = Some(key.to_vec());
            Ok(())
        })?;
        Ok(found)
    }
}

impl Totals {
    /// Waits for what was committed, then tells the error, if any.
    pub fn settle(&mut self, database: &Database, level: quarry_database::Level) -> Result<()> {
        if let Some(lsn) = self.lsn {
            database.acknowledge(lsn, level)?;
        }
        self.error.take().map_or(Ok(()), Err)
    }
}
