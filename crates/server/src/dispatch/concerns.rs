//! Read and write concerns, as a standalone and as a set of one understand them.
//!
//! Keeps true: a level that cannot be given is refused, never lowered. Which sync a write waits for follows from its
//! write concern and from the server's durability policy. A standalone refuses what needs other members; a set runs the
//! command and tells of it beside the result, as MongoDB does.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Timestamp};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};
use crate::process::config::Durability;

/// The most members that a number in `w` may mean.
const MEMBERS_MAX: f64 = 50.0;

/// The write concern: what a client asked to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteConcern<'a> {
    /// `{w: 0}`: the client wants no answer.
    pub is_unacknowledged: bool,
    /// `{j: true}` or `{w: "majority"}`: survive power loss.
    pub is_durable: bool,
    /// The client named one itself.
    pub is_given: bool,
    /// The part that one member alone cannot satisfy.
    beyond: Option<Beyond<'a>>,
    /// The document that the client sent.
    sent: Option<RawDocument<'a>>,
}

/// A part of a write concern that asks something of other members.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beyond<'a> {
    /// `w` of more than one member, or of tags.
    Members,
    Tags,
    /// A named mode of the set's configuration, which has none.
    Mode(&'a str),
}

impl<'a> WriteConcern<'a> {
    pub fn parse(concern: RawDocument<'a>) -> Result<WriteConcern<'a>> {
        let mut parsed = WriteConcern {
            is_given: true,
            sent: Some(concern),
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

    /// Refuses what a standalone cannot wait for: nothing is there but its own disk.
    pub fn check_standalone(&self) -> Result<()> {
        match self.beyond {
            None => Ok(()),
            Some(Beyond::Members) => Err(CommandError::bad_value(
                "cannot use 'w' > 1 when a host is not replicated",
            )),
            Some(Beyond::Tags) => Err(CommandError::bad_value(
                "cannot use tags in 'w' when a host is not a member of a replica set",
            )),
            Some(Beyond::Mode(mode)) => Err(CommandError::bad_value(format!(
                "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica set"
            ))),
        }
    }

    /// The write concern of a write in a set, whose default says whether a write survives power loss where the client names
    /// none.
    pub fn in_set(self, is_durable_by_default: bool) -> WriteConcern<'a> {
        WriteConcern {
            is_durable: self.is_durable || (!self.is_given && is_durable_by_default),
            ..self
        }
    }

    /// Whether it asks something of other members.
    pub fn asks_for_others(&self) -> bool {
        self.beyond.is_some()
    }

    /// Whether the write waits for a sync under the server's policy.
    pub fn waits_for_sync(&self, durability: Durability) -> bool {
        !self.is_unacknowledged && (self.is_durable || durability == Durability::Strict)
    }

    /// The error of a write command, with the `writeConcernError` of what a set of one cannot satisfy: as in MongoDB a command that
    /// failed waits for its write concern as well, since it may have written something before.
    #[cold]
    pub fn beside(&self, error: CommandError) -> CommandError {
        if !self.asks_for_others() {
            return error;
        }
        let details = Document::build(|details| {
            for element in error.details.iter().flat_map(|details| details.as_raw()) {
                details.append_element(element);
            }
            self.append_error(details);
        });
        CommandError {
            details: Some(Box::new(details)),
            ..error
        }
    }

    /// Appends the `writeConcernError` of what a set of one cannot satisfy. The write itself stays.
    pub fn append_error(&self, reply: &mut DocumentBuilder<'_>) {
        let (code, message) = match self.beyond {
            None => return,
            Some(Beyond::Members | Beyond::Tags) => (
                ErrorCode::UNSATISFIABLE_WRITE_CONCERN,
                "Not enough data-bearing nodes".to_owned(),
            ),
            Some(Beyond::Mode(mode)) => (
                ErrorCode::UNKNOWN_REPL_WRITE_CONCERN,
                format!("No write concern mode named '{mode}' found in replica set configuration"),
            ),
        };
        let mut error = reply.document("writeConcernError");
        error.append("code", code.0);
        error.append("codeName", &*code.name());
        error.append("errmsg", message.as_str());
        let mut info = error.document("errInfo");
        let mut concern = info.document("writeConcern");
        for element in self.sent.unwrap_or(RawDocument::EMPTY) {
            concern.append_element(element);
        }
        concern.append("provenance", "clientSupplied");
        concern.finish();
        info.finish();
        error.finish();
    }

    fn read_w(&mut self, value: RawValue<'a>) -> Result<()> {
        match value {
            RawValue::String(mode) if mode == "majority" => self.is_durable = true,
            RawValue::String(mode) => self.beyond = Some(Beyond::Mode(mode.as_str()?)),
            RawValue::Document(_) => self.beyond = Some(Beyond::Tags),
            _ => match value.as_f64_lossy() {
                Some(0.0) => self.is_unacknowledged = true,
                Some(1.0) => {}
                Some(number) if (0.0..=MEMBERS_MAX).contains(&number) => {
                    self.beyond = Some(Beyond::Members);
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

/// One node has nobody but its own disk to wait for: the write waits until the level asked for is reached, and
/// the limit is only checked to be one.
fn check_timeout(value: RawValue<'_>) -> Result<()> {
    if value.is_number() {
        return Ok(());
    }
    Err(CommandError::failed_to_parse("wtimeout must be a number"))
}

/// The level of a read concern: what a read may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    #[default]
    Local,
    Available,
    /// Answered only once what it saw is durable.
    Majority,
    /// Like `Majority`; with one node that sees every write, that is the last one before it.
    Linearizable,
    /// All of it sees one moment.
    Snapshot,
}

impl ReadLevel {
    /// The name by which clients ask for it.
    pub fn name(self) -> &'static str {
        match self {
            ReadLevel::Local => "local",
            ReadLevel::Available => "available",
            ReadLevel::Majority => "majority",
            ReadLevel::Linearizable => "linearizable",
            ReadLevel::Snapshot => "snapshot",
        }
    }
}

/// The read concern of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadConcern {
    pub level: ReadLevel,
    /// `afterClusterTime`: the read sees all writes up to this time.
    pub after_cluster_time: Option<Timestamp>,
    /// `atClusterTime`: the read sees exactly the writes up to this time.
    pub at_cluster_time: Option<Timestamp>,
}

impl ReadConcern {
    pub fn parse(concern: RawDocument<'_>) -> Result<ReadConcern> {
        let mut parsed = ReadConcern::default();
        for element in concern {
            let value = element.value();
            match element.name().as_bytes() {
                b"level" => parsed.level = ReadConcern::parse_level(value)?,
                b"afterClusterTime" => {
                    parsed.after_cluster_time = Some(time("afterClusterTime", value)?);
                }
                b"atClusterTime" => parsed.at_cluster_time = Some(time("atClusterTime", value)?),
                b"provenance" => {}
                _ => {
                    return Err(CommandError::unknown_field(
                        "readConcern",
                        &element.name().to_string_lossy(),
                    ));
                }
            }
        }
        let waits_by_time = !matches!(parsed.level, ReadLevel::Linearizable | ReadLevel::Available);
        if parsed.after_cluster_time.is_some() && !waits_by_time {
            return Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                "afterClusterTime field can be set only if level is equal to majority, local, or snapshot",
            ));
        }
        if parsed.after_cluster_time.is_some() && parsed.at_cluster_time.is_some() {
            return Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                "Specifying a timestamp for readConcern snapshot in a causally consistent session is not allowed. See \
                 https://docs.mongodb.com/manual/core/read-isolation-consistency-recency/#causal-consistency",
            ));
        }
        Ok(parsed)
    }

    /// Whether the read is answered only once what it saw is durable.
    #[inline]
    pub fn waits_for_sync(&self) -> bool {
        matches!(
            self.level,
            ReadLevel::Majority | ReadLevel::Linearizable | ReadLevel::Snapshot
        )
    }

    /// The read concern of a transaction's first command. A transaction reads one moment at every level, so that `snapshot`
    /// adds to `local` what `majority` does: what it saw is durable. The time that it may name is of the transaction's snapshot.
    pub fn in_transaction(self) -> Result<ReadConcern> {
        match self.level {
            ReadLevel::Snapshot => Ok(ReadConcern {
                level: ReadLevel::Majority,
                at_cluster_time: None,
                ..self
            }),
            ReadLevel::Local | ReadLevel::Majority => Ok(self),
            ReadLevel::Available | ReadLevel::Linearizable => Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a transaction",
            )),
        }
    }

    /// Refuses what a standalone has no name for: other members, and a time that all of them share.
    pub fn check_standalone(&self) -> Result<()> {
        let time = match (self.after_cluster_time, self.at_cluster_time) {
            (Some(_), _) => "afterClusterTime",
            (_, Some(_)) => "atClusterTime",
            (None, None) => {
                let level = match self.level {
                    ReadLevel::Linearizable => "linearizable",
                    ReadLevel::Snapshot => "snapshot",
                    _ => return Ok(()),
                };
                let message = format!(
                    "node needs to be a replica set member to use readConcern level '{level}'"
                );
                return Err(CommandError::new(ErrorCode::NOT_A_REPLICA_SET, message));
            }
        };
        Err(CommandError::new(
            ErrorCode::ILLEGAL_OPERATION,
            format!("Cannot specify {time} readConcern without replication enabled"),
        ))
    }

    /// Checks it in a set whose cluster time is `now`. A time that is not later has been written by this node, the only one:
    /// nothing needs to be waited for.
    pub fn check_set(&self, now: Timestamp) -> Result<()> {
        let asked = [
            ("afterClusterTime", self.after_cluster_time),
            ("atClusterTime", self.at_cluster_time),
        ];
        for (field, time) in asked {
            let Some(time) = time.filter(|&time| time > now) else {
                continue;
            };
            let shown = |time: Timestamp| format!("Timestamp({}, {})", time.time, time.increment);
            return Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                format!(
                    "readConcern {field} value must not be greater than the current clusterTime. Requested \
                     clusterTime: {}; current clusterTime: {}",
                    shown(time),
                    shown(now)
                ),
            ));
        }
        if self.at_cluster_time.is_some() && self.level != ReadLevel::Snapshot {
            return Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                "readConcern atClusterTime can only be used with readConcern level 'snapshot'",
            ));
        }
        Ok(())
    }

    /// Appends it as a client gave it.
    pub fn append(&self, name: &str, out: &mut DocumentBuilder<'_>) {
        let mut shown = out.document(name);
        shown.append("level", self.level.name());
        for (field, time) in [
            ("afterClusterTime", self.after_cluster_time),
            ("atClusterTime", self.at_cluster_time),
        ] {
            if let Some(time) = time {
                shown.append(field, time);
            }
        }
        shown.finish();
    }

    fn parse_level(value: RawValue<'_>) -> Result<ReadLevel> {
        match value.as_str() {
            Some("local") => Ok(ReadLevel::Local),
            Some("available") => Ok(ReadLevel::Available),
            Some("majority") => Ok(ReadLevel::Majority),
            Some("linearizable") => Ok(ReadLevel::Linearizable),
            Some("snapshot") => Ok(ReadLevel::Snapshot),
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

/// A cluster time of a read concern.
fn time(field: &str, value: RawValue<'_>) -> Result<Timestamp> {
    match value {
        RawValue::Timestamp(time) if time == Timestamp::default() => Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            format!("{field} cannot be a null timestamp"),
        )),
        RawValue::Timestamp(time) => Ok(time),
        _ => {
            let found = value.element_type().alias();
            Err(CommandError::field_type(
                "readConcern",
                field,
                found,
                "timestamp",
            ))
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
            let parsed = WriteConcern::parse(concern.as_raw());
            let checked = parsed.and_then(|concern| concern.check_standalone());
            checked.unwrap_err().code
        };
        assert_eq!(code(doc! { "w": 2 }), 2);
        assert_eq!(code(doc! { "w": "tag" }), 2);
        assert_eq!(code(doc! { "w": { "dc": 1 } }), 2);
        assert_eq!(code(doc! { "w": 51 }), 9);
        assert_eq!(code(doc! { "x": 1 }), 9);
        assert_eq!(code(doc! { "w": 0, "j": true }), 2);
        let code = |concern: quarry_bson::Document| {
            let parsed = ReadConcern::parse(concern.as_raw()).unwrap();
            parsed.check_standalone().err().map(|error| error.code)
        };
        let time = || RawValue::Timestamp(Timestamp::from_u64(1));
        assert_eq!(code(doc! { "level": "linearizable" }), Some(123));
        assert_eq!(code(doc! { "level": "snapshot" }), Some(123));
        assert_eq!(code(doc! { "afterClusterTime": (time()) }), Some(20));
        assert_eq!(code(doc! { "level": "majority" }), None);
    }

    #[test]
    fn a_set_tells_of_what_it_cannot_satisfy_and_keeps_the_write() {
        let told = |concern: quarry_bson::Document| {
            let reply = quarry_bson::Document::build(|reply| {
                let parsed = WriteConcern::parse(concern.as_raw()).unwrap();
                parsed.in_set(true).append_error(reply);
            });
            let error = reply.get_document("writeConcernError");
            error.and_then(|error| error.get_i32("code"))
        };
        assert_eq!(told(doc! { "w": 2 }), Some(100));
        assert_eq!(told(doc! { "w": "tag" }), Some(79));
        assert_eq!(told(doc! { "w": { "dc": 1 } }), Some(100));
        assert_eq!(told(doc! { "w": "majority" }), None);
        let concern = doc! { "w": 2 };
        let concern = WriteConcern::parse(concern.as_raw()).unwrap();
        let mut failed = CommandError::bad_value("no");
        failed.details = Some(Box::new(doc! { "keyPattern": { "a": 1 } }));
        let reply = quarry_bson::Document::build(|reply| concern.beside(failed).write(reply));
        let codes =
            ["code", "writeConcernError.code"].map(|path| reply.get_path(path)?.as_i64_exact());
        assert_eq!(codes, [Some(2), Some(100)], "{reply}");
        assert!(reply.contains("keyPattern"));
        assert!(WriteConcern::default().in_set(true).is_durable);
        let given = doc! { "w": 1 };
        assert!(
            !WriteConcern::parse(given.as_raw())
                .unwrap()
                .in_set(true)
                .is_durable
        );
    }

    #[test]
    fn a_set_refuses_a_time_that_has_not_come() {
        let now = Timestamp::from_u64(7 << 32);
        let code = |after: u64| {
            let after = RawValue::Timestamp(Timestamp::from_u64(after));
            let concern = doc! { "level": "majority", "afterClusterTime": after };
            let parsed = ReadConcern::parse(concern.as_raw()).unwrap();
            parsed.check_set(now).err().map(|error| error.code)
        };
        assert_eq!((code(7 << 32), code(7 << 32 | 1)), (None, Some(72)));
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
