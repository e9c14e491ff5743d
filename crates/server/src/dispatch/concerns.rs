//! Read and write concerns as a standalone understands them.
//!
//! Keeps true: a level that cannot be given is refused, never lowered. Which sync a write waits for follows from its
//! write concern and from the server's durability policy.

use quarry_bson::{RawDocument, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};
use crate::process::config::Durability;

/// The write concern: what a client asked to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteConcern {
    /// `{w: 0}`: the client wants no answer.
    pub is_unacknowledged: bool,
    /// `{j: true}` or `{w: "majority"}`: survive power loss.
    pub is_durable: bool,
    /// The client named one itself.
    pub is_given: bool,
}

impl WriteConcern {
    pub fn parse(concern: RawDocument<'_>) -> Result<WriteConcern> {
        let mut parsed = WriteConcern {
            is_given: true,
            ..WriteConcern::default()
        };
        for element in concern {
            let value = element.value();
            match element.name().as_bytes() {
                b"w" => parsed.read_w(value)?,
                b"j" | b"fsync" => {
                    if value.is_truthy() {
                        parsed.is_durable = true;
                    }
                }
                b"wtimeout" => check_timeout(value)?,
                b"wtimeoutMS" | b"provenance" | b"getLastError" => {}
                _ => {
                    let message = format!("unrecognized write concern field: {}", element.name());
                    return Err(CommandError::failed_to_parse(message));
                }
            }
        }
        if parsed.is_unacknowledged && parsed.is_durable {
            return Err(CommandError::bad_value("cannot use w: 0 with j: true"));
        }
        Ok(parsed)
    }

    /// Whether the write waits for a sync under the server's policy.
    pub fn waits_for_sync(&self, durability: Durability) -> bool {
        !self.is_unacknowledged && (self.is_durable || durability == Durability::Strict)
    }

    fn read_w(&mut self, value: RawValue<'_>) -> Result<()> {
        match value {
            RawValue::String(mode) if mode == "majority" => self.is_durable = true,
            RawValue::String(mode) => {
                return Err(CommandError::bad_value(format!(
                    "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica set"
                )));
            }
            RawValue::Document(_) => {
                return Err(CommandError::bad_value(
                    "cannot use tags in 'w' when a host is not a member of a replica set",
                ));
            }
            _ => match value.as_f64_lossy() {
                Some(0.0) => self.is_unacknowledged = true,
                Some(1.0) => {}
                Some(number) if (0.0..=50.0).contains(&number) => {
                    return Err(CommandError::bad_value(
                        "cannot use 'w' > 1 when a host is not replicated",
                    ));
                }
                Some(_) => {
                    return Err(CommandError::failed_to_parse(
                        "w has to be a non-negative number and not greater than 50",
                    ));
                }
                None => {
                    let found = value.element_type().alias();
                    return Err(CommandError::failed_to_parse(format!(
                        "w has to be a number, string, or object; found: {found}"
                    )));
                }
            },
        }
        Ok(())
    }
}

/// A standalone has nobody but its own disk to wait for: the write waits until the level asked for is reached, and
/// the limit is only checked to be one.
fn check_timeout(value: RawValue<'_>) -> Result<()> {
    if value.is_number() {
        return Ok(());
    }
    Err(CommandError::failed_to_parse("wtimeout must be a number"))
}

/// The read concern: what a read may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadConcern {
    #[default]
    Local,
    Available,
    /// Answered only once what it saw is durable.
    Majority,
}

impl ReadConcern {
    pub fn parse(concern: RawDocument<'_>) -> Result<ReadConcern> {
        let mut level = ReadConcern::Local;
        for element in concern {
            match element.name().as_bytes() {
                b"level" => level = ReadConcern::parse_level(element.value())?,
                b"afterClusterTime" | b"atClusterTime" => {
                    return Err(CommandError::new(
                        ErrorCode::ILLEGAL_OPERATION,
                        format!(
                            "Cannot specify {} readConcern without replication enabled",
                            element.name()
                        ),
                    ));
                }
                b"provenance" => {}
                _ => {
                    return Err(CommandError::unknown_field(
                        "readConcern",
                        &element.name().to_string_lossy(),
                    ));
                }
            }
        }
        Ok(level)
    }

    fn parse_level(value: RawValue<'_>) -> Result<ReadConcern> {
        match value.as_str() {
            Some("local") => Ok(ReadConcern::Local),
            Some("available") => Ok(ReadConcern::Available),
            Some("majority") => Ok(ReadConcern::Majority),
            Some(level @ ("linearizable" | "snapshot")) => Err(CommandError::new(
                ErrorCode::NOT_A_REPLICA_SET,
                format!("node needs to be a replica set member to use readConcern level '{level}'"),
            )),
            Some(level) => Err(CommandError::bad_value(format!(
                "Enumeration value '{level}' for field 'readConcern.level' is not a valid value."
            ))),
            None => Err(CommandError::field_type(
                "readConcern",
                "level",
                value.element_type().alias(),
                "string",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn a_standalone_refuses_what_needs_replicas() {
        let code = |concern: quarry_bson::Document| {
            WriteConcern::parse(concern.as_raw()).unwrap_err().code
        };
        assert_eq!(code(doc! { "w": 2 }), 2);
        assert_eq!(code(doc! { "w": "tag" }), 2);
        assert_eq!(code(doc! { "w": { "dc": 1 } }), 2);
        assert_eq!(code(doc! { "w": 51 }), 9);
        assert_eq!(code(doc! { "x": 1 }), 9);
        assert_eq!(code(doc! { "w": 0, "j": true }), 2);
        assert_eq!(
            ReadConcern::parse(doc! { "level": "linearizable" }.as_raw())
                .unwrap_err()
                .code,
            123
        );
        assert_eq!(
            ReadConcern::parse(doc! { "level": "snapshot" }.as_raw())
                .unwrap_err()
                .code,
            123
        );
    }

    #[test]
    fn levels_follow_the_concern_and_the_policy() {
        let waits = |concern: quarry_bson::Document, durability| {
            WriteConcern::parse(concern.as_raw())
                .unwrap()
                .waits_for_sync(durability)
        };
        assert!(!waits(doc! { "w": 1 }, Durability::Journaled));
        assert!(waits(doc! { "w": "majority" }, Durability::Journaled));
        assert!(waits(doc! { "j": true }, Durability::Relaxed));
        assert!(waits(doc! { "w": 1 }, Durability::Strict));
        assert!(!waits(doc! { "w": 0 }, Durability::Strict));
    }
}
