//! The configuration of a set of one: what `replSetGetConfig` shows, `replSetReconfig` changes, and the data directory keeps.
//!
//! A configuration has one member. Its host is either named, by `--advertise` or by a reconfiguration, or it is left to each
//! connection: then the member is called by the address that the client connected to, so that the name reaches the server
//! through container networks and forwarded addresses. A host that is named is taken as it is, where MongoDB looks whether it leads
//! to this very server: it has to lead here from where the clients are, which nobody can try from here. What MongoDB's configurations can say of several members is refused.

use quarry_bson::{Document, ObjectId, RawDocument, RawElement, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};
use crate::replication::address::Address;

/// The term of the only election that a set of one has.
pub const TERM: i64 = 1;
/// The tags of a member.
const TAGS_MAX: usize = 64;
const MEMBER_ID_MAX: i64 = 255;

/// The configuration of the set.
#[derive(Clone, Debug, PartialEq)]
pub struct SetConfig {
    pub version: i64,
    /// The member's number; a reconfiguration may not change it.
    pub member_id: i32,
    /// The member's host where one is named.
    pub host: Option<Address>,
    /// The tags that clients select the member by.
    pub tags: Document,
    pub priority: f64,
    /// Tells this set from another one of its name.
    pub replica_set_id: ObjectId,
}

impl SetConfig {
    /// The configuration that a set gives itself.
    pub fn initial(host: Option<Address>) -> SetConfig {
        SetConfig {
            version: 1,
            member_id: 0,
            host,
            tags: Document::new(),
            priority: 1.0,
            replica_set_id: ObjectId::generate(),
        }
    }

    /// The whole document, with `host` for a member whose host is not named.
    pub fn to_document(&self, name: &str, host: &str) -> Document {
        Document::build(|config| {
            config.append("_id", name);
            config.append("version", i32::try_from(self.version).unwrap_or(i32::MAX));
            config.append("term", TERM);
            let mut members = config.array("members");
            let mut member = members.document();
            member.append("_id", self.member_id);
            member.append("host", self.host.as_ref().map_or(host, Address::as_str));
            member.append("arbiterOnly", false);
            member.append("buildIndexes", true);
            member.append("hidden", false);
            member.append("priority", self.priority);
            member.append("tags", &self.tags);
            member.append("secondaryDelaySecs", 0i64);
            member.append("votes", 1);
            member.finish();
            members.finish();
            config.append("protocolVersion", 1i64);
            config.append("writeConcernMajorityJournalDefault", true);
            let mut settings = config.document("settings");
            settings.append("chainingAllowed", true);
            settings.append("heartbeatIntervalMillis", 2000);
            settings.append("heartbeatTimeoutSecs", 10);
            settings.append("electionTimeoutMillis", 10_000);
            settings.append("catchUpTimeoutMillis", -1);
            settings.append("catchUpTakeoverDelayMillis", 30_000);
            settings.document("getLastErrorModes").finish();
            let mut default = settings.document("getLastErrorDefaults");
            default.append("w", 1);
            default.append("wtimeout", 0);
            default.finish();
            settings.append("replicaSetId", self.replica_set_id);
            settings.finish();
        })
    }

    /// Reads a configuration that the data directory keeps. A host that is empty is left to each connection.
    pub fn from_stored(stored: RawDocument<'_>) -> Option<SetConfig> {
        let member = stored.get_array("members")?.get(0)?.as_document()?;
        let host = member.get_str("host")?;
        Some(SetConfig {
            version: stored.get("version")?.as_i64_exact()?,
            member_id: member.get_i32("_id")?,
            host: match host {
                "" => None,
                host => Some(Address::parse(host).ok()?),
            },
            tags: member.get_document("tags")?.to_owned_document(),
            priority: member.get_f64("priority")?,
            replica_set_id: stored
                .get_document("settings")?
                .get_object_id("replicaSetId")?,
        })
    }

    /// The configuration that a client asks for in place of this one. `shown_host` is the address by which that client
    /// knows the member: sent back as it was shown, it names no host.
    pub fn changed_to(
        &self,
        name: &str,
        asked: RawDocument<'_>,
        shown_host: &Address,
        is_forced: bool,
    ) -> Result<SetConfig> {
        let mut next = self.clone();
        let mut has_members = false;
        let mut version = None;
        for element in asked {
            match element.name().as_bytes() {
                b"_id" if element.value().as_str() == Some(name) => {}
                b"_id" => {
                    return Err(incompatible(format!(
                        "New and old configurations differ in the setting of set name; old was {name}"
                    )));
                }
                b"version" => version = element.value().as_i64_exact(),
                b"members" => {
                    next.read_members(element, shown_host)?;
                    has_members = true;
                }
                // What a set of one cannot have differently.
                b"term"
                | b"configsvr"
                | b"protocolVersion"
                | b"settings"
                | b"writeConcernMajorityJournalDefault" => {
                    let current = self.to_document(name, shown_host.as_str());
                    check_unchanged("config", element, current.get(element.name().as_bytes()))?;
                }
                _ => return Err(unknown("config", element)),
            }
        }
        let Some(version) = version.filter(|version| (1..=i64::from(i32::MAX)).contains(version))
        else {
            return Err(invalid(
                "a configuration needs a version from 1 to 2147483647",
            ));
        };
        if !has_members {
            return Err(invalid("a configuration needs its members"));
        }
        // A forced reconfiguration skips ahead, so that it wins over any that others have.
        next.version = match is_forced {
            true => self.version.max(version - 1).saturating_add(1),
            false if version > self.version => version,
            false => {
                return Err(incompatible(format!(
                    "New replica set configuration version must be greater than old, but {version} is not greater than {} \
                     for replica set {name}",
                    self.version
                )));
            }
        };
        Ok(next)
    }

    fn read_members(&mut self, members: RawElement<'_>, shown_host: &Address) -> Result<()> {
        let Some(members) = members.value().as_array() else {
            return Err(invalid("the members of a configuration are an array"));
        };
        let mut members = members.iter();
        let (Some(RawValue::Document(member)), None) = (members.next(), members.next()) else {
            return Err(CommandError::not_supported(
                "a replica set of another number of members than one",
            ));
        };
        let mut host = None;
        self.tags = Document::new();
        self.priority = 1.0;
        for element in member {
            let value = element.value();
            match element.name().as_bytes() {
                b"_id" => self.check_member_id(value)?,
                b"host" => {
                    let text = value.as_str().unwrap_or_default();
                    let parsed = Address::parse(text)
                        .map_err(|why| invalid(format!("the member's host: {why}")))?;
                    host = Some(parsed);
                }
                b"tags" => self.tags = tags(value)?,
                b"priority" => {
                    let priority = value.as_f64_lossy();
                    self.priority = priority
                        .filter(|priority| *priority > 0.0 && *priority <= 1000.0)
                        .ok_or_else(|| {
                            invalid("the only member needs a priority above 0 and up to 1000")
                        })?;
                }
                b"arbiterOnly" | b"hidden" if !value.is_truthy() => {}
                b"buildIndexes" if value.is_truthy() => {}
                b"votes" if value.as_i64_exact() == Some(1) => {}
                b"secondaryDelaySecs" if value.as_i64_exact() == Some(0) => {}
                b"arbiterOnly"
                | b"hidden"
                | b"buildIndexes"
                | b"votes"
                | b"secondaryDelaySecs"
                | b"horizons" => {
                    let what = format!("{}: {value} of the only member of a set", element.name());
                    return Err(CommandError::not_supported(what));
                }
                _ => return Err(unknown("config.members", element)),
            }
        }
        let Some(host) = host else {
            return Err(invalid("the member of a configuration needs a host"));
        };
        // Shown and sent back: the member is still called as each client calls it.
        let was_shown = self.host.is_none() && host == *shown_host;
        self.host = (!was_shown).then_some(host);
        Ok(())
    }

    fn check_member_id(&self, value: RawValue<'_>) -> Result<()> {
        match value.as_i64_exact() {
            Some(id) if id == i64::from(self.member_id) => Ok(()),
            Some(0..=MEMBER_ID_MAX) => Err(incompatible(format!(
                "New and old configurations differ in the _id of the member; old was {}",
                self.member_id
            ))),
            _ => Err(invalid("a member's _id is a number from 0 to 255")),
        }
    }
}

/// Tags: names and values that are strings.
fn tags(value: RawValue<'_>) -> Result<Document> {
    let tags = value.as_document();
    let tags = tags.filter(|tags| tags.iter().all(|tag| tag.value().as_str().is_some()));
    match tags {
        Some(tags) if tags.iter().count() <= TAGS_MAX => Ok(tags.to_owned_document()),
        _ => Err(invalid(format!(
            "tags are a document of at most {TAGS_MAX} strings"
        ))),
    }
}

/// Accepts a field of a configuration that stands as it was: numbers compare by value, whatever their types.
fn check_unchanged(of: &str, asked: RawElement<'_>, current: Option<RawValue<'_>>) -> Result<()> {
    let is_same = current.is_some_and(|current| is_same(asked.value(), current));
    match is_same {
        true => Ok(()),
        false => Err(CommandError::not_supported(format!(
            "{of}.{}: {} in a set of one member",
            asked.name(),
            asked.value()
        ))),
    }
}

/// Whether two values are equal, or documents whose fields in the first are in the second as well.
fn is_same(asked: RawValue<'_>, current: RawValue<'_>) -> bool {
    match (asked, current) {
        (RawValue::Document(asked), RawValue::Document(current)) => asked.iter().all(|element| {
            let name = element.name();
            (current.get(name.as_bytes())).is_some_and(|current| is_same(element.value(), current))
        }),
        _ => {
            asked == current
                || asked
                    .as_i64_exact()
                    .is_some_and(|asked| current.as_i64_exact() == Some(asked))
        }
    }
}

fn unknown(of: &str, element: RawElement<'_>) -> CommandError {
    CommandError::unknown_field(of, &element.name().to_string_lossy())
}

fn invalid(message: impl Into<String>) -> CommandError {
    CommandError::new(ErrorCode::INVALID_REPLICA_SET_CONFIG, message)
}

fn incompatible(message: impl Into<String>) -> CommandError {
    CommandError::new(
        ErrorCode::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE,
        message,
    )
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn a_configuration_survives_being_stored() {
        let mut config = SetConfig::initial(None);
        config.version = 7;
        config.tags = doc! { "dc": "east" };
        assert_eq!(
            SetConfig::from_stored(config.to_document("rs0", "").as_raw()),
            Some(config.clone())
        );
        config.host = Some(address("db:1"));
        assert_eq!(
            SetConfig::from_stored(config.to_document("rs0", "").as_raw()),
            Some(config)
        );
    }

    #[test]
    fn what_is_shown_can_be_sent_back_with_a_higher_version() {
        let config = SetConfig::initial(None);
        let seen = address("10.0.0.1:27017");
        let shown = config.to_document("rs0", seen.as_str());
        let code = |asked: &Document| {
            config
                .changed_to("rs0", asked.as_raw(), &seen, false)
                .unwrap_err()
                .code
        };
        assert_eq!(code(&shown), 103);
        let raised = Document::build(|raised| {
            for element in &shown {
                match element.name() == "version" {
                    true => raised.append("version", 2.0),
                    false => raised.append_element(element),
                };
            }
        });
        let next = config
            .changed_to("rs0", raised.as_raw(), &seen, false)
            .unwrap();
        assert_eq!((next.version, next.host), (2, None));
        assert!(
            config
                .changed_to("rs1", raised.as_raw(), &seen, false)
                .is_err()
        );
        // Another host than the one that was shown is named.
        let other = config
            .changed_to("rs0", raised.as_raw(), &address("elsewhere:1"), false)
            .unwrap();
        assert_eq!(other.host, Some(seen.clone()));
        let forced = config.changed_to("rs0", shown.as_raw(), &seen, true);
        assert_eq!(forced.unwrap().version, 2);
    }

    #[test]
    fn what_a_set_of_one_cannot_be_is_refused() {
        let config = SetConfig::initial(None);
        let seen = address("db:1");
        let code = |asked: Document| {
            config
                .changed_to("rs0", asked.as_raw(), &seen, false)
                .err()
                .map(|error| error.code)
        };
        let member = || doc! { "_id": 0, "host": "db:1" };
        assert_eq!(
            code(doc! { "_id": "rs0", "version": 2, "members": [(member())] }),
            None
        );
        for (asked, expected) in [
            (doc! { "_id": "rs0", "version": 2 }, 93),
            (doc! { "_id": "rs0", "members": [(member())] }, 93),
            (
                doc! { "_id": "rs0", "version": 2, "members": [(member()), (member())] },
                238,
            ),
            (doc! { "_id": "rs0", "version": 2, "members": [] }, 238),
            (
                doc! { "_id": "rs0", "version": 2, "members": [{ "_id": 1, "host": "db:1" }] },
                103,
            ),
            (
                doc! { "_id": "rs0", "version": 2, "members": [{ "_id": 0, "host": "a b" }] },
                93,
            ),
            (
                doc! { "_id": "rs0", "version": 2, "members": [{ "_id": 0, "host": "db:1", "votes": 0 }] },
                238,
            ),
            (
                doc! { "_id": "rs0", "version": 2, "members": [{ "_id": 0, "host": "db:1", "tags": { "a": 1 } }] },
                93,
            ),
            (
                doc! { "_id": "rs0", "version": 2, "members": [(member())], "x": 1 },
                40415,
            ),
            (
                doc! { "_id": "rs0", "version": 2, "members": [(member())], "settings": { "chainingAllowed": false } },
                238,
            ),
        ] {
            assert_eq!(code(asked.clone()), Some(expected), "{asked}");
        }
    }
}
