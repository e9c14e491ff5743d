//! `$set`, `$setOnInsert` and `$unset`: a value that the field takes, whatever stood there, or none.

use quarry_bson::{ElementType, RawValue, Value};

use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target, Within, depth};
use crate::update::write::{header, put};

#[derive(Debug)]
pub(in crate::update) struct Set(pub(in crate::update) Value);

#[derive(Debug)]
pub(super) struct SetOnInsert(Value);

#[derive(Debug)]
pub(super) struct Unset;

impl FromArgument for Set {
    fn from_argument(_: &FieldPath, argument: RawValue<'_>, _: &ExpressionContext) -> Result<Set> {
        Ok(Set(argument.to_value()))
    }
}

impl Modifier for Set {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(found.name(), self.0.as_raw(), out);
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

impl FromArgument for SetOnInsert {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        _: &ExpressionContext,
    ) -> Result<SetOnInsert> {
        Ok(SetOnInsert(argument.to_value()))
    }
}

impl Modifier for SetOnInsert {
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        match target.insert {
            true => put(found.name(), self.0.as_raw(), out),
            false => found.keep(out),
        }
        Ok(())
    }

    fn creates(&self, target: &Target<'_>) -> bool {
        target.insert
    }

    fn create(&self, name: &[u8], target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        if target.insert {
            put(name, self.0.as_raw(), out);
        }
        Ok(())
    }

    fn tolerates_blocked_path(&self, target: &Target<'_>) -> bool {
        !target.insert
    }

    fn depth(&self) -> usize {
        depth(self.0.as_raw())
    }
}

impl FromArgument for Unset {
    fn from_argument(_: &FieldPath, _: RawValue<'_>, _: &ExpressionContext) -> Result<Unset> {
        Ok(Unset)
    }
}

impl Modifier for Unset {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        // The positions behind an array's element keep their numbers.
        if found.within == Within::Array {
            header(ElementType::Null, found.name(), out);
        }
        Ok(())
    }

    fn tolerates_blocked_path(&self, _: &Target<'_>) -> bool {
        true
    }
}
