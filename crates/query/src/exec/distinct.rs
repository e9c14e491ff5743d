//! `distinct`: the values that a path reaches in the documents that match, arrays by their elements, each once.

use hashbrown::HashSet;
use quarry_bson::{DOCUMENT_BYTES_MAX, RawDocument, RawValue, Value};
use quarry_database::{Operation, Scope};
use quarry_keystring::encode_id;

use super::collation::context_over;
use super::find::{plan, plan_of_values};
use super::request::DistinctRequest;
use super::view;
use crate::Collation;
use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::field_path::{FieldPath, PathPart};
use crate::interrupts::{self, units_collated, units_of};
use crate::plan::{Flow, Parsed, PlanContext, run};
use crate::planner::{Missing, Wanted};
use crate::query_shape::QueryParts;

/// The work of encoding a value and of looking whether it is known.
const UNITS_OF_A_VALUE: usize = 15;

/// MongoDB's number for an answer that fits no document.
const DISTINCT_TOO_BIG: i32 = 17_217;

/// Collects the distinct values of a path.
pub fn distinct(
    scope: Scope<'_>,
    operation: &Operation,
    request: DistinctRequest<'_>,
) -> Result<Vec<Value>> {
    let own = ExpressionContext::default();
    let context = request.context.unwrap_or(&own);
    let snapshot = scope.snapshot(request.namespace, operation)?;
    let collection = snapshot.as_ref().map(|snapshot| &*snapshot.collection);
    let mut held = None;
    let context = context_over(context, collection, &mut held);
    let parsed = Parsed::parse(request.filter, None, None, context)?;
    if request.key.contains('\0') {
        let text = "Key field cannot contain an embedded null byte";
        return Err(crate::Error::location(31032, text));
    }
    let path = FieldPath::parse_strictly(request.key)?;
    let Some(snapshot) = snapshot else {
        return Ok(Vec::new());
    };
    let mut found = Found {
        collation: context.collation().clone(),
        ..Found::default()
    };
    if snapshot.collection.view.is_some() {
        view::each_match(
            scope,
            operation,
            &snapshot.collection,
            request,
            &mut |document| found.collect(RawValue::Document(document), path.parts()),
        )?;
        return Ok(found.values);
    }
    let asked = QueryParts::of(request.filter, context.collation());
    let wanted = Wanted {
        asked: Some(&asked),
        settings: context.query_settings(),
        hint: request.hint,
        read: Some(std::slice::from_ref(&path)),
        ..Wanted::default()
    };
    let mut root = match plan_of_values(&snapshot, &parsed, (&path, Missing::IsNone), wanted)? {
        Some(root) => root,
        None => plan(&snapshot, &parsed, Some(operation), wanted)?,
    };
    let context = PlanContext {
        snapshot: &snapshot,
        operation,
        parsed: &parsed,
        is_replay: false,
    };
    run(&mut *root, &context, &mut |row| {
        let document = row.document.unwrap_or(RawDocument::EMPTY);
        found.collect(RawValue::Document(document), path.parts())?;
        Ok(Flow::Continue)
    })?;
    Ok(found.values)
}

#[derive(Default)]
struct Found {
    values: Vec<Value>,
    known: HashSet<Vec<u8>>,
    bytes: usize,
    key: Vec<u8>,
    /// By which values are different.
    collation: Collation,
}

impl Found {
    /// Follows `rest` from `value`; its depth is the path's.
    fn collect(&mut self, value: RawValue<'_>, rest: &[PathPart]) -> Result<()> {
        match (value, rest.split_first()) {
            (RawValue::Document(document), Some((part, after))) => {
                self.enter(document, part, after)
            }
            (RawValue::Array(array), Some((part, after))) => {
                if let Some(index) = part.index()
                    && let Some(element) = interrupts::element_at(array, index as usize)?
                {
                    self.collect(element, after)?;
                }
                for element in array {
                    interrupts::work(1)?;
                    if let RawValue::Document(document) = element {
                        self.enter(document, part, after)?;
                    }
                }
                Ok(())
            }
            (_, Some(_)) => Ok(()),
            (RawValue::Array(array), None) => {
                array.into_iter().try_for_each(|element| self.add(element))
            }
            (value, None) => self.add(value),
        }
    }

    fn enter(
        &mut self,
        document: RawDocument<'_>,
        part: &PathPart,
        after: &[PathPart],
    ) -> Result<()> {
        interrupts::work_on_bytes(document.len_bytes())?;
        match document.get(part.name()) {
            Some(value) => self.collect(value, after),
            None => Ok(()),
        }
    }

    fn add(&mut self, value: RawValue<'_>) -> Result<()> {
        let units = units_collated(&self.collation, units_of(value));
        interrupts::work(UNITS_OF_A_VALUE + units)?;
        self.key.clear();
        match self.collation.index_value(value) {
            None => encode_id(&mut self.key, value),
            Some(kept) => encode_id(&mut self.key, kept.as_raw()),
        }
        if self.known.contains(&self.key) {
            return Ok(());
        }
        let value = value.to_value();
        self.bytes += value.as_bytes().len();
        if self.bytes > DOCUMENT_BYTES_MAX {
            let text = "distinct too big, 16mb cap";
            return Err(crate::Error::location(DISTINCT_TOO_BIG, text));
        }
        self.known.insert(self.key.clone());
        self.values.push(value);
        Ok(())
    }
}
