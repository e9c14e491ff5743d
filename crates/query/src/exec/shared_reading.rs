//! A long pipeline over a scan, read by several threads.
//!
//! A pipeline is read by its own thread alone until it has read `documents_alone` documents. Then it looks whether processors are idle, and
//! again after as many. The threads that it gets read ahead of it (`parts`), make rows of what they read (`pipeline/shared_input.rs`), and leave
//! when somebody else wants their processors: then its own thread reads on alone. A short pipeline pays a comparison for every chunk that it reads.
//!
//! Keeps true: rows and documents come in the order of the collection, each document once, and all from the snapshot of the batch. What
//! was examined is counted with the rows, so that the counts are those of one thread.
//!
//! Leaves out: finds, and every plan but a scan of a whole collection forwards that is not capped; transactions and pipelines that write, which
//! take no turns and so get no help; pipelines with a stage in front of the group that is no function of one document; and explain, which runs a
//! pipeline by one thread, so that the figures of its stages are those of the pipeline's own.

use quarry_database::{CollectionSnapshot, Operation};

use super::helper_threads::{Help, HelperThreads};
use super::parts::Next;
use super::reading::Reading;
use super::thread_bounds::ThreadBounds;
use crate::error::Result;
use crate::pipeline::{GatherFor, Part};
use crate::turns::TURNS;

/// The state of a read that several threads may share, for one batch.
pub(super) struct Sharing {
    bounds: ThreadBounds,
    /// Somebody takes the documents in parts.
    has_begun: bool,
    helpers: Option<HelperThreads>,
    /// The documents that were examined before its own thread began the part that it reads, if that is a whole one.
    part_begun_at: Option<u64>,
}

fn examined(reading: &mut Reading) -> u64 {
    reading.scan().map_or(0, |scan| scan.docs_examined())
}

impl Sharing {
    pub fn new(bounds: ThreadBounds) -> Sharing {
        Sharing {
            bounds,
            has_begun: false,
            helpers: None,
            part_begun_at: None,
        }
    }

    /// Whether more than one thread may work on the pipeline.
    pub fn is_allowed(&self) -> bool {
        self.bounds.helpers_max() > 0
    }

    /// From now on its documents come in parts.
    pub fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Whether its documents come in parts.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The documents that are read before help is looked for.
    pub fn documents_alone(&self) -> u64 {
        self.bounds.documents_alone
    }

    /// Says what follows where the reading has come to an end.
    pub fn next_part(
        &mut self,
        reading: &mut Reading,
        snapshot: &mut CollectionSnapshot,
        operation: &Operation,
        gather: &mut GatherFor<'_>,
    ) -> Result<Part> {
        if !self.has_begun {
            return Ok(Part::End);
        }
        let Some(helpers) = &mut self.helpers else {
            return self.look_for_help(reading, snapshot, operation, gather);
        };
        if let Some(before) = self.part_begun_at.take() {
            helpers.learn(examined(reading) - before);
        }
        let part = match helpers.next(snapshot)? {
            Next::End => Part::End,
            Next::Read(range) => {
                self.part_begun_at = Some(examined(reading));
                reading.go_to(range);
                Part::Documents
            }
            Next::ReadRest(range) => {
                reading.go_to(range);
                Part::Documents
            }
            Next::ReadAlone(range) => {
                self.helpers = None;
                reading.go_to(range);
                reading.read_at_most(self.bounds.documents_alone);
                Part::Documents
            }
            Next::Take(piece) => {
                operation.count_examined(0, piece.docs_examined);
                TURNS.count_helped(piece.docs_examined);
                if let Some(scan) = reading.scan() {
                    scan.count(piece.docs_examined, piece.returned);
                }
                Part::Rows(piece.rows)
            }
        };
        Ok(part)
    }

    fn look_for_help(
        &mut self,
        reading: &mut Reading,
        snapshot: &mut CollectionSnapshot,
        operation: &Operation,
        gather: &mut GatherFor<'_>,
    ) -> Result<Part> {
        if reading.is_finished() {
            return Ok(Part::End);
        }
        let help = HelperThreads::begin(reading, snapshot, operation, self.bounds, gather)?;
        match help {
            Help::Come(helpers, own) => {
                self.helpers = Some(helpers);
                self.part_begun_at = Some(examined(reading));
                reading.go_to(own);
                reading.read_at_most(u64::MAX);
            }
            Help::NotNow => reading.read_at_most(self.bounds.documents_alone),
            Help::Never => reading.read_at_most(u64::MAX),
        }
        Ok(Part::Documents)
    }
}
