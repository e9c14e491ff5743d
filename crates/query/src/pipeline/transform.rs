//! `$project`, `$addFields`, `$set` and `$unset` at work: the stages around what `find`'s projection does, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument};

use super::execution::{Buffer, Fork, RunningStage, Show, Upstream, show_made};
use super::stage::{DocumentMap, Modifies, Picks, Reads, Stage};
use crate::error::Result;
use crate::expression::Expression;
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::matcher::MatchDetails;
use crate::metadata::MetadataKinds;
use crate::projection::{Fields, Mode, Node};

/// The work of putting one path into the tree.
const UNITS_OF_A_LEAF: usize = 30;

#[derive(Debug)]
pub(super) struct Transform {
    name: &'static str,
    specification: Document,
    fields: Fields,
    /// The metadata that its expressions read, which comes with the documents then.
    metadata: MetadataKinds,
}

/// The rule that a specification gives for one path.
#[derive(Debug)]
pub(super) struct Leaf {
    pub path: FieldPath,
    /// None for a field that is included or excluded.
    pub computed: Option<Expression>,
}

impl Transform {
    pub(super) fn new(
        name: &'static str,
        specification: Document,
        mode: Mode,
        leaves: Vec<Leaf>,
        metadata: MetadataKinds,
    ) -> Result<Transform> {
        let mut fields = Fields::new(mode);
        for Leaf { path, computed } in leaves {
            interrupts::work(UNITS_OF_A_LEAF)?;
            let plain = match mode {
                Mode::Drop => Node::Include,
                Mode::Keep | Mode::Add => Node::Exclude,
            };
            fields.insert(&path, computed.map_or(plain, Node::Computed))?;
        }
        Ok(Transform {
            name,
            specification,
            fields,
            metadata,
        })
    }
}

impl Stage for Transform {
    fn name(&self) -> &'static str {
        self.name
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name, self.specification.as_raw());
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Transforming {
            stage: self,
            buffer: Buffer::default(),
        })
    }

    fn as_map(&self) -> Option<&dyn DocumentMap> {
        Some(self)
    }

    fn metadata(&self) -> MetadataKinds {
        self.metadata
    }

    fn modifies(&self) -> Modifies {
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect();
        match self.fields.mode() {
            Mode::Drop => Modifies::AllBut(names(&mut self.fields.fields_kept())),
            Mode::Keep | Mode::Add => Modifies::Fields(names(&mut self.fields.fields_named())),
        }
    }

    fn renames(&self) -> Vec<(&str, &str)> {
        self.fields.renamed().collect()
    }

    fn picks(&self) -> Option<Picks> {
        let mut read = BTreeSet::new();
        let is_known = self.fields.add_fields_read(&mut read);
        let is_pick = is_known && self.fields.mode() == Mode::Drop;
        is_pick.then(|| Picks {
            taken: self.fields.fields_taken().map(str::to_owned).collect(),
            read,
        })
    }

    fn add_fields_made(&self, fields: &mut BTreeSet<String>) {
        let made = self.fields.fields_made();
        fields.extend(made.map(str::to_owned));
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        if !self.fields.add_fields_read(fields) {
            return Reads::Everything;
        }
        match self.fields.mode() {
            Mode::Drop => {
                fields.extend(self.fields.fields_taken().map(str::to_owned));
                Reads::Only
            }
            Mode::Keep | Mode::Add => Reads::Passes,
        }
    }
}

impl DocumentMap for Transform {
    fn map(&self, document: RawDocument<'_>, out: &mut Vec<u8>) -> Result<()> {
        let details = MatchDetails::default();
        match self.metadata.is_empty() {
            true => self.fields.apply(document, &details, false, out),
            false => self.fields.apply_attached(document, (&details, false), out),
        }
    }
}

struct Transforming {
    stage: Arc<Transform>,
    buffer: Buffer,
}

impl RunningStage for Transforming {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = upstream.read(&mut self.buffer)? else {
            return Ok(false);
        };
        self.stage.map(document, out)?;
        self.buffer.empty();
        Ok(true)
    }

    fn as_fork(&self) -> Option<&dyn Fork> {
        Some(self)
    }

    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        let Transforming { stage, buffer } = self;
        upstream.each(&mut |document| show_made(buffer, show, |out| stage.map(document, out)))?;
        buffer.empty();
        Ok(())
    }
}

impl Fork for Transforming {
    fn fork(&self) -> Box<dyn RunningStage> {
        Arc::clone(&self.stage).start(&[])
    }
}
