//! The collections that `$lookup` reads beside its own: a snapshot of each while a batch is made.

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{CollectionSnapshot, Namespace, Operation, Scope};

use super::error::Result;
use super::executor::matches;
use super::find::Parsed;
use super::scan::{Flow, Scan};
use crate::expression::ExpressionContext;
use crate::pipeline::ForeignCollections;

#[derive(Default)]
pub(super) struct Foreign {
    collections: Vec<(Namespace, Option<CollectionSnapshot>)>,
}

/// The collections as one request lends them.
pub(super) struct Lent<'l> {
    foreign: &'l Foreign,
    operation: &'l Operation,
}

impl Foreign {
    pub fn open<'n>(
        scope: Scope<'_>,
        operation: &Operation,
        database_name: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Foreign> {
        let mut foreign = Foreign::default();
        for name in names {
            let namespace = Namespace::new(database_name, name)?;
            let is_known = foreign
                .collections
                .iter()
                .any(|(known, _)| *known == namespace);
            if !is_known {
                let snapshot = scope.snapshot(&namespace, operation)?;
                foreign.collections.push((namespace, snapshot));
            }
        }
        Ok(foreign)
    }

    pub fn save(&mut self) {
        for (_, snapshot) in &mut self.collections {
            *snapshot = None;
        }
    }

    pub fn restore(&mut self, scope: Scope<'_>, operation: &Operation) -> Result<()> {
        for (namespace, snapshot) in &mut self.collections {
            *snapshot = scope.snapshot(namespace, operation)?;
        }
        Ok(())
    }

    pub fn lend<'l>(&'l self, operation: &'l Operation) -> Lent<'l> {
        Lent {
            foreign: self,
            operation,
        }
    }
}

impl ForeignCollections for Lent<'_> {
    fn find_equal(
        &self,
        collection: &str,
        foreign_field: &str,
        value: RawValue<'_>,
        each: &mut dyn FnMut(RawDocument<'_>) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let mut collections = self.foreign.collections.iter();
        let found = collections.find(|(namespace, _)| namespace.collection() == collection);
        let Some((_, Some(snapshot))) = found else {
            return Ok(());
        };
        // `$eq` keeps a value that looks like an operator or a regular expression from being one.
        let filter = quarry_bson::Document::build(|filter| {
            let mut condition = filter.document(foreign_field);
            condition.append("$eq", value);
            condition.finish();
        });
        let parsed = Parsed::parse(filter.as_raw(), None, None, &ExpressionContext::default())?;
        let mut scan = Scan::new(parsed.plan(snapshot, None)?);
        scan.run(snapshot, self.operation, &mut |_, document| {
            if matches(&parsed, document)? {
                each(document)?;
            }
            Ok(Flow::Continue)
        })?;
        Ok(())
    }
}
