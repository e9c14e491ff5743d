//! `$min` and `$max`: the field becomes the lesser or the greater one of what it is and of the argument.

use quarry_bson::{RawValue, Value};

use crate::Collation;
use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target, depth};
use crate::update::write::put;

#[derive(Debug)]
pub(super) struct Min(Value, Collation);

#[derive(Debug)]
pub(super) struct Max(Value, Collation);

impl FromArgument for Min {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<Min> {
        Ok(Min(argument.to_value(), context.collation().clone()))
    }
}

impl Modifier for Min {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        match self
            .1
            .compare(self.0.as_raw(), found.element.value())
            .is_lt()
        {
            true => put(found.name(), self.0.as_raw(), out),
            false => found.keep(out),
        }
        Ok(())
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(name, self.0.as_raw(), out);
        Ok(())
    }

    fn depth(&self) -> usize {
        depth(self.0.as_raw())
    }
}

impl FromArgument for Max {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<Max> {
        Ok(Max(argument.to_value(), context.collation().clone()))
    }
}

impl Modifier for Max {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        match self
            .1
            .compare(self.0.as_raw(), found.element.value())
            .is_gt()
        {
            true => put(found.name(), self.0.as_raw(), out),
            false => found.keep(out),
        }
        Ok(())
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(name, self.0.as_raw(), out);
        Ok(())
    }

    fn depth(&self) -> usize {
        depth(self.0.as_raw())
    }
}
