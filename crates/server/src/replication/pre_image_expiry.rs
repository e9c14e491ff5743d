//! The cluster parameter `changeStreamOptions`: how long a change stream tells documents as they were before a change.
//!
//! The journal holds pre-images and lets them go with its segments. One that has expired is told to nobody from that moment on,
//! and its bytes go when its segment does: whoever wants the space back earlier keeps less of the journal.

use quarry_bson::{DateTime, Document, RawDocument, RawValue, Timestamp, doc};
use quarry_database::Database;

use crate::dispatch::error::{CommandError, Result};
use crate::replication::settings;

/// The name of the parameter.
pub const NAME: &str = "changeStreamOptions";
const COLLECTION: &str = "clusterParameters";
const PATH: &str = "preAndPostImages.expireAfterSeconds";

/// The parameter as it is set, or its default.
pub fn read(database: &Database) -> Result<Document> {
    let set = settings::read(database, COLLECTION, NAME)?;
    Ok(set.unwrap_or_else(|| document(Timestamp::default(), RawValue::from("off"))))
}

/// Pre-images of changes before this time, in milliseconds since 1970, have expired.
pub fn expired_before_ms(database: &Database) -> Result<i64> {
    let set = read(database)?;
    let seconds = set
        .get_path(PATH)
        .and_then(|seconds| seconds.as_i64_exact());
    Ok(seconds.map_or(i64::MIN, |seconds| {
        DateTime::now()
            .0
            .saturating_sub(seconds.saturating_mul(1000))
    }))
}

/// Sets the parameter to `value`, durably; `time` is the cluster time of now.
pub fn set(database: &Database, value: RawDocument<'_>, time: Timestamp) -> Result<()> {
    let bad = |why: &str| CommandError::bad_value(format!("Invalid value for '{NAME}': {why}"));
    let mut expires = RawValue::from("off");
    for field in value {
        let (b"preAndPostImages", RawValue::Document(images)) =
            (field.name().as_bytes(), field.value())
        else {
            return Err(CommandError::unknown_field(
                NAME,
                &field.name().to_string_lossy(),
            ));
        };
        for option in images {
            if option.name() != "expireAfterSeconds" {
                let name = option.name().to_string_lossy();
                return Err(CommandError::unknown_field("preAndPostImages", &name));
            }
            expires = option.value();
        }
    }
    match expires {
        RawValue::String(off) if off == "off" => {}
        RawValue::String(_) => {
            return Err(bad(
                "Expected a number or 'off' for 'preAndPostImages.expireAfterSeconds'",
            ));
        }
        seconds if seconds.as_i64_exact().is_some_and(|seconds| seconds > 0) => {}
        _ => {
            return Err(bad(
                "Expected a positive integer for 'preAndPostImages.expireAfterSeconds'",
            ));
        }
    }
    settings::keep(database, COLLECTION, &document(time, expires))
}

fn document(time: Timestamp, expires: RawValue<'_>) -> Document {
    doc! {
        "_id": NAME, "clusterParameterTime": (RawValue::Timestamp(time)),
        "preAndPostImages": { "expireAfterSeconds": expires },
    }
}
