//! A filter with the names of fields changed: what it asks behind a stage, asked in front of it or within.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

use crate::error::Result;
use crate::interrupts;

/// Gives a path that a filter asks for its other name; None where it has none.
pub(super) type Rename<'r> = dyn Fn(&str) -> Option<String> + 'r;

/// Appends the filter with all paths renamed; false, and what was appended is of no use, where a path has no other name or the filter
/// holds more than conditions on fields, alone and within `$and`, `$or` and `$nor`. As deep as the filter, which was parsed.
pub(super) fn append(
    filter: RawDocument<'_>,
    rename: &Rename<'_>,
    out: &mut DocumentBuilder<'_>,
) -> Result<bool> {
    for condition in filter {
        interrupts::work_on_bytes(condition.as_bytes().len())?;
        let Ok(name) = condition.name().as_str() else {
            return Ok(false);
        };
        match (name, condition.value()) {
            ("$and" | "$or" | "$nor", RawValue::Array(branches)) => {
                let mut renamed = out.array(name);
                for branch in branches {
                    let RawValue::Document(branch) = branch else {
                        return Ok(false);
                    };
                    if !append(branch, rename, &mut renamed.document())? {
                        return Ok(false);
                    }
                }
                renamed.finish();
            }
            _ if name.starts_with('$') => return Ok(false),
            _ => {
                let Some(other) = rename(name) else {
                    return Ok(false);
                };
                out.append_renamed(other, condition);
            }
        }
    }
    Ok(true)
}
