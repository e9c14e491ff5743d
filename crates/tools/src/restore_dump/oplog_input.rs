//! The oplog of a dump on its way to the server.

use std::fmt;
use std::path::Path;

use quarry_bson::RawDocument;

use super::packed_file::{Packing, open};
use super::replay::Replay;
use super::replayed_command::Destination;
use super::{NAMED_MAX, Restorer, takes};
use crate::bson_file::Source;
use crate::error::{Error, Result};

impl Restorer<'_> {
    /// Whether the oplog of the dump is applied. One that is not is told of.
    pub(super) fn takes_oplog(&self) -> bool {
        let is_taken = self.replay.is_some() && self.options.oplog_file.is_none();
        if !is_taken && !self.options.quiet {
            eprintln!("the dump's oplog is left out: --oplogReplay applies it");
        }
        is_taken
    }

    /// Refuses to apply an oplog that there is not.
    pub(super) fn check_oplog(&self, has_oplog: bool, dump: impl fmt::Display) -> Result<()> {
        match self.replay.is_some() && self.options.oplog_file.is_none() && !has_oplog {
            true => Err(Error::usage(format!(
                "`{dump}` has no oplog: --oplogReplay goes with a dump that was made with --oplog"
            ))),
            false => Ok(()),
        }
    }

    /// Applies the entries of a file.
    pub(super) fn apply_file(&mut self, path: &Path) -> Result<()> {
        let (reader, _) = open(path, Packing::ByName)?;
        let mut source = Source::new(reader, path.display().to_string());
        let mut entry = Vec::new();
        while source.document(&mut entry)? {
            let document = RawDocument::new(&entry);
            self.apply(document.map_err(|error| Error::damaged(path.display(), error))?)?;
            entry.clear();
        }
        Ok(())
    }

    /// Applies an entry of the oplog, when all documents are there.
    pub(super) fn apply(&mut self, entry: RawDocument<'_>) -> Result<()> {
        self.settle()?;
        self.with_replay(|replay, to| replay.apply(entry, to))
    }

    fn with_replay(
        &mut self,
        run: impl FnOnce(&mut Replay, &mut Destination<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(mut replay) = self.replay.take() else {
            return Ok(());
        };
        let selection = &self.selection;
        let mut to = Destination {
            connection: self.writing.as_mut().map(|writing| &mut writing.connection),
            later: &mut self.later,
            accounts: &mut self.accounts,
            takes: &|from| takes(selection, from),
        };
        let result = run(&mut replay, &mut to);
        self.replay = Some(replay);
        result
    }

    /// Brings the oplog to its end.
    pub(super) fn finish_replay(&mut self) -> Result<()> {
        self.with_replay(Replay::finish)?;
        let Some(replay) = &self.replay else {
            return Ok(());
        };
        for (namespace, id) in &replay.refused {
            self.refused += 1;
            if self.refused <= NAMED_MAX {
                eprintln!("`{namespace}`: a unique index refuses the document of _id {id}");
            }
        }
        if !self.options.quiet {
            eprintln!("{} changes of the oplog applied", replay.applied);
        }
        Ok(())
    }
}
