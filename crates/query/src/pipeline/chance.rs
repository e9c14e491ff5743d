//! Stages and operators whose results differ from run to run. What holds one of them is not run once instead of several times,
//! nor moved to where it runs another number of times.

use quarry_bson::RawValue;

const BY_CHANCE: [&[u8]; 3] = [b"$rand", b"$sample", b"$sampleRate"];

/// Whether a name anywhere in a value is that of such a stage or operator. Recursion is bounded by the depth of the value,
/// which was validated.
pub(super) fn draws_lots(value: RawValue<'_>) -> bool {
    let elements = match value {
        RawValue::Document(document) => document,
        RawValue::Array(array) => array.as_document(),
        _ => return false,
    };
    let mut elements = elements.iter();
    elements.any(|element| {
        BY_CHANCE.contains(&element.name().as_bytes()) || draws_lots(element.value())
    })
}
