//! `$rename`: a field takes the value of another, which goes. One argument makes two modifiers, one at each path.

use crate::error::Result;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, Modifier, Target, Within};
use crate::update::write::put;

/// The field takes the value of another; where that is missing, it stays as it is.
#[derive(Debug)]
pub(in crate::update) struct RenameFrom(pub(in crate::update) FieldPath);

/// The field whose value goes to another.
#[derive(Debug)]
pub(in crate::update) struct RenamedAway;

impl Modifier for RenameFrom {
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        match target.root.get_path(self.0.as_str()) {
            Some(source) => put(found.name(), source, out),
            None => found.keep(out),
        }
        Ok(())
    }

    fn creates(&self, target: &Target<'_>) -> bool {
        target.root.get_path(self.0.as_str()).is_some()
    }

    fn create(&self, name: &[u8], target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        if let Some(source) = target.root.get_path(self.0.as_str()) {
            put(name, source, out);
        }
        Ok(())
    }

    fn tolerates_blocked_path(&self, target: &Target<'_>) -> bool {
        !self.creates(target)
    }
}

impl Modifier for RenamedAway {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, _: &mut Vec<u8>) -> Result<()> {
        debug_assert_eq!(
            found.within,
            Within::Document,
            "a path of $rename goes through no array"
        );
        Ok(())
    }

    fn tolerates_blocked_path(&self, _: &Target<'_>) -> bool {
        true
    }
}
