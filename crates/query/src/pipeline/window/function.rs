//! The trait of window functions: one is parsed once, and started for each partition.

use std::sync::Arc;

use quarry_bson::{RawDocument, RawValue, Value};
use quarry_keystring::Direction;

use super::super::stage::Specification;
use super::bounds::Bounds;
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::sort::SortPattern;

/// A function at work on one partition.
pub trait RunningFunction: Send {
    /// The value for a row; None for Missing. It is asked for the rows of the partition in their order, each once.
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>>;
}

/// Starts a function on a partition.
pub type Start = Box<dyn Fn() -> Box<dyn RunningFunction> + Send + Sync>;

/// A function as it is given for one field.
#[derive(Clone)]
pub struct Given<'s> {
    /// The name, `$` included.
    pub name: &'s str,
    /// The argument.
    pub value: RawValue<'s>,
    /// The window, if one is given.
    pub window: Option<Bounds>,
    /// The order of the stage.
    pub sort: Option<&'s Arc<SortPattern>>,
    /// The stage's.
    pub specification: Specification<'s>,
}

impl<'s> Given<'s> {
    /// Parses an expression of the argument.
    pub fn expression(&self, value: RawValue<'_>) -> Result<Expression> {
        self.specification.expression(value)
    }

    /// Refuses a window.
    pub fn without_window(&self) -> Result<()> {
        if self.window.is_none() {
            return Ok(());
        }
        let text = format!("{} does not accept a 'window' field", self.name);
        Err(Error::location(5_371_601, text))
    }

    /// Refuses a stage without an order.
    pub fn sorted(&self) -> Result<()> {
        if self.sort.is_some() {
            return Ok(());
        }
        let text = format!("{} requires a sortBy", self.name);
        Err(Error::location(5_371_602, text))
    }

    /// Refuses all but an order by one field.
    pub fn sorted_by_one(&self) -> Result<()> {
        if self.sort.is_some_and(|sort| sort.fields().len() == 1) {
            return Ok(());
        }
        let text = format!(
            "{} must be specified with a top level sortBy expression with exactly one element",
            self.name
        );
        Err(Error::location(5_371_602, text))
    }

    /// Refuses all but an ascending order by one field.
    pub fn sorted_by_one_ascending(&self) -> Result<()> {
        self.sorted_by_one()?;
        let fields = self.sort.map_or(&[][..], |sort| sort.fields());
        if fields
            .iter()
            .all(|field| field.direction == Direction::Ascending)
        {
            return Ok(());
        }
        let text = format!("{} requires an ascending sortBy", self.name);
        Err(Error::location(8_947_401, text))
    }

    /// The argument as a document of these fields and no others; each may be missing.
    pub fn options<const N: usize>(&self, names: [&str; N]) -> Result<[Option<RawValue<'s>>; N]> {
        let RawValue::Document(document) = self.value else {
            let text = format!("Argument to {} must be an object", self.name);
            return Err(Error::failed_to_parse(text));
        };
        let document: RawDocument<'s> = document;
        let mut found = [None; N];
        for option in document {
            let place = names.iter().position(|name| option.name() == *name);
            let Some(place) = place else {
                let text = format!("{} got unexpected argument: {}", self.name, option.name());
                return Err(Error::failed_to_parse(text));
            };
            found[place] = Some(option.value());
        }
        Ok(found)
    }

    /// The value of an option that must be there.
    pub fn need<'v>(&self, value: Option<RawValue<'v>>, name: &str) -> Result<RawValue<'v>> {
        value.ok_or_else(|| {
            let text = format!("{} requires '{name}'", self.name);
            Error::failed_to_parse(text)
        })
    }
}
