//! Views: names that mean a pipeline over another collection, or over another view, of the same database.
//!
//! A view has an entry of the catalog as a collection has, with `viewOn` and `pipeline` among its options; nothing ever stands
//! under its ident. This crate runs no pipelines: it says what a view is and refuses whatever would write to one.

use quarry_bson::{RawArray, RawDocument, RawValue, Value};

/// The option that makes a view of an entry: the collection that it reads.
pub const VIEW_ON: &str = "viewOn";
/// The option with a view's stages.
pub const VIEW_PIPELINE: &str = "pipeline";

/// The definition of a view.
#[derive(Debug, Clone)]
pub struct View {
    /// The collection or view that it reads, in its own database.
    pub on: Box<str>,
    pipeline: Value,
}

impl View {
    /// The view that an entry with these options is; none of a collection.
    pub(crate) fn of(options: RawDocument<'_>) -> Option<View> {
        let on = options.get_str(VIEW_ON)?;
        let pipeline = options.get_array(VIEW_PIPELINE).unwrap_or(RawArray::EMPTY);
        Some(View {
            on: on.into(),
            pipeline: Value::from(pipeline),
        })
    }

    /// Its stages.
    pub fn pipeline(&self) -> RawArray<'_> {
        match self.pipeline.as_raw() {
            RawValue::Array(stages) => stages,
            _ => RawArray::EMPTY,
        }
    }
}
