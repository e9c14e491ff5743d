//! `$min` and `$max`: the field becomes the lesser or the greater one of what it is and of the argument.

use quarry_bson::{RawValue, Value};

use crate::Collation;
use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target, depth};
use crate::update::write::put;

/// The argument, and the order by which it is compared with the field.
#[derive(Debug)]
pub(super) struct Bound<const IS_GREATEST: bool>(Value, Collation);

pub(super) type Min = Bound<false>;
pub(super) type Max = Bound<true>;

impl<const IS_GREATEST: bool> FromArgument for Bound<IS_GREATEST> {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        context: &ExpressionContext,
    ) -> Result<Self> {
        Ok(Bound(argument.to_value(), context.collation().clone()))
    }
}

impl<const IS_GREATEST: bool> Modifier for Bound<IS_GREATEST> {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let order = self.1.compare(self.0.as_raw(), found.element.value());
        let takes_its_place = match IS_GREATEST {
            true => order.is_gt(),
            false => order.is_lt(),
        };
        match takes_its_place {
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
