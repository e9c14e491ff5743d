//! The set of one: its name, its configuration, and what `hello` says of it.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::RwLock;
use quarry_bson::{Document, DocumentBuilder, ObjectId, RawDocument, RawValue, Timestamp};
use quarry_database::{Database, Namespace, Operation, Scope};
use quarry_journal::Level;
use quarry_query::exec::{FindAndModifyRequest, FindRequest};

use crate::data::Data;
use crate::dispatch::error::Result;
use crate::replication::address::Address;
use crate::replication::cluster_clock::{ClusterClock, ClusterTimes, date_of};
use crate::replication::default_concerns::DefaultConcerns;
use crate::replication::query_settings::SettingsByShape;
use crate::replication::set_config::{SetConfig, TERM};
use crate::replication::topology::Topology;
use crate::sessions::client_cursor::Source;

/// The collection that keeps the configuration, as with mongod.
const CONFIG_DATABASE: &str = "local";
const CONFIG_COLLECTION: &str = "system.replset";
/// Marks an id as one of an election by term; the term follows in eight bytes.
const ELECTION_PREFIX: [u8; 4] = [0x7f, 0xff, 0xff, 0xff];

/// A set whose only member is this server.
pub struct ReplicaSet {
    pub name: String,
    /// The configuration; written with the topology's next version.
    config: RwLock<SetConfig>,
    pub topology: Topology,
    pub clock: ClusterClock,
    /// The concerns of commands that name none.
    pub default_concerns: DefaultConcerns,
    /// The settings of queries by their shape.
    pub query_settings: SettingsByShape,
    /// When this life of the server became the primary.
    pub elected: Timestamp,
}

impl ReplicaSet {
    /// Opens the set that the data directory keeps, or initiates it. `advertised` replaces the member's host.
    ///
    /// # Errors
    /// A directory of a set of another name, a configuration that cannot be read or written: one line for the log.
    pub fn open(
        name: &str,
        advertised: Option<&Address>,
        database: &Database,
    ) -> std::result::Result<ReplicaSet, String> {
        let config = match stored(database).map_err(|error| error.to_string())? {
            None => {
                let initial = SetConfig::initial(advertised.cloned());
                store(database, name, &initial).map_err(|error| error.to_string())?;
                initial
            }
            Some(document) => {
                let stored_name = document.get_str("_id").unwrap_or_default();
                if stored_name != name {
                    return Err(format!(
                        "replSet: the data belongs to the replica set `{stored_name}`, not to `{name}`"
                    ));
                }
                let config = SetConfig::from_stored(document.as_raw())
                    .ok_or("replSet: the configuration in local.system.replset cannot be read")?;
                advertise(database, name, config, advertised)?
            }
        };
        let default_concerns =
            DefaultConcerns::open(database).map_err(|error| error.to_string())?;
        let query_settings = SettingsByShape::open(database).map_err(|error| error.to_string())?;
        let clock = ClusterClock::default();
        let elected = clock.times(database.journal()).written;
        Ok(ReplicaSet {
            name: name.to_owned(),
            config: RwLock::new(config),
            topology: Topology::new().map_err(|error| error.to_string())?,
            clock,
            default_concerns,
            query_settings,
            elected,
        })
    }

    /// The configuration of now.
    pub fn config(&self) -> SetConfig {
        self.config.read().clone()
    }

    /// The member's address as the client at the other end of a connection knows it; `local` is that connection's own end.
    pub fn host(&self, local: Option<SocketAddr>) -> Address {
        match (&self.config.read().host, local) {
            (Some(named), _) => named.clone(),
            (None, Some(local)) => Address::of(local),
            // A socket that has just been closed: nobody reads the answer.
            (None, None) => Address::of(SocketAddr::from(([127, 0, 0, 1], 0))),
        }
    }

    /// Changes the configuration to what `change` makes of it: durable first, then seen, and told to those who wait.
    pub fn reconfigure(
        &self,
        database: &Database,
        change: impl FnOnce(&SetConfig) -> Result<SetConfig>,
    ) -> Result<()> {
        // Held over the write, so that of two reconfigurations the second begins from the first.
        let mut config = self.config.write();
        let next = change(&config)?;
        store(database, &self.name, &next)?;
        let told = self.topology.change(|| *config = next);
        // The configuration has changed; without a descriptor for the next version waiting clients learn it at their time's end.
        drop(told);
        Ok(())
    }

    /// The times of replies, from where the journal has come.
    pub fn times(&self, database: &Database) -> ClusterTimes {
        self.clock.times(database.journal())
    }

    /// Appends what `hello` says of the set; `primary` is the name of the field that tells the primary.
    pub fn append_hello(
        &self,
        primary: &str,
        local: Option<SocketAddr>,
        database: &Database,
        reply: &mut DocumentBuilder<'_>,
    ) {
        let host = self.host(local);
        let host = host.as_str();
        let config = self.config.read();
        let mut hosts = reply.array("hosts");
        hosts.push(host);
        hosts.finish();
        reply.append("setName", self.name.as_str());
        reply.append("setVersion", config_version(&config));
        reply.append(primary, true);
        reply.append("secondary", false);
        reply.append("primary", host);
        reply.append("me", host);
        if !config.tags.is_empty() {
            reply.append("tags", &config.tags);
        }
        drop(config);
        reply.append("electionId", election_id());
        let times = self.times(database);
        let mut last_write = reply.document("lastWrite");
        append_optime("opTime", times.written, &mut last_write);
        last_write.append("lastWriteDate", date_of(times.written));
        append_optime("majorityOpTime", times.durable, &mut last_write);
        last_write.append("majorityWriteDate", date_of(times.durable));
        last_write.finish();
    }
}

/// The version of a configuration, as replies carry it.
pub fn config_version(config: &SetConfig) -> i32 {
    i32::try_from(config.version).unwrap_or(i32::MAX)
}

/// Appends `name: {ts, t}`, the place of a write in the set's history.
pub fn append_optime(name: &str, time: Timestamp, out: &mut DocumentBuilder<'_>) {
    let mut optime = out.document(name);
    optime.append("ts", time);
    optime.append("t", TERM);
    optime.finish();
}

/// The id of the election that made the member the primary.
pub fn election_id() -> ObjectId {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&ELECTION_PREFIX);
    bytes[4..].copy_from_slice(&TERM.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// Gives the member the host that the command line names, which is a new version of the configuration if it had another.
fn advertise(
    database: &Database,
    name: &str,
    mut config: SetConfig,
    advertised: Option<&Address>,
) -> std::result::Result<SetConfig, String> {
    if let Some(host) = advertised
        && config.host.as_ref() != Some(host)
    {
        config.host = Some(host.clone());
        config.version += 1;
        store(database, name, &config).map_err(|error| error.to_string())?;
    }
    Ok(config)
}

fn namespace() -> Result<Namespace> {
    Ok(Namespace::new(CONFIG_DATABASE, CONFIG_COLLECTION)?)
}

/// The document of the configuration that the data directory keeps.
fn stored(database: &Database) -> Result<Option<Document>> {
    let operation = Arc::new(Operation::default());
    let namespace = namespace()?;
    let request = FindRequest {
        limit: Some(1),
        ..FindRequest::new(&namespace)
    };
    let mut found = Vec::new();
    let Source::Executor(mut executor) = Scope::from(database).find(&operation, request)? else {
        return Ok(None);
    };
    if !executor.next(&operation, &mut found)? {
        return Ok(None);
    }
    Ok(Some(RawDocument::new(&found)?.to_owned_document()))
}

/// Makes a configuration durable, in place of the one before.
fn store(database: &Database, name: &str, config: &SetConfig) -> Result<()> {
    let namespace = namespace()?;
    let document = config.to_document(name, "");
    let filter = quarry_bson::doc! { "_id": name };
    let request = FindAndModifyRequest {
        filter: filter.as_raw(),
        update: Some(RawValue::Document(document.as_raw())),
        is_upsert: true,
        ..FindAndModifyRequest::new(&namespace)
    };
    Scope::from(database).find_and_modify(&Operation::default(), request, Level::Durable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_initiates_itself_once_and_keeps_what_it_was_told() {
        let database = Database::open_in_memory().unwrap();
        let first = ReplicaSet::open("rs0", None, &database).unwrap();
        let next = SetConfig {
            version: 5,
            ..first.config()
        };
        let changed = next.clone();
        first.reconfigure(&database, |_| Ok(changed)).unwrap();
        assert_eq!(first.topology.version().counter, 1);
        drop(first);
        let again = ReplicaSet::open("rs0", None, &database).unwrap();
        assert_eq!(again.config(), next);
        let host = Address::parse("db:1").unwrap();
        let advertised = ReplicaSet::open("rs0", Some(&host), &database).unwrap();
        assert_eq!(
            (advertised.config().version, advertised.config().host),
            (6, Some(host))
        );
        let error = ReplicaSet::open("rs1", None, &database).err().unwrap();
        assert!(error.contains("`rs0`"), "{error}");
    }

    #[test]
    fn a_member_without_a_named_host_is_called_as_its_client_calls_it() {
        let database = Database::open_in_memory().unwrap();
        let set = ReplicaSet::open("rs0", None, &database).unwrap();
        let local = "10.1.2.3:4000".parse().ok();
        assert_eq!(set.host(local).as_str(), "10.1.2.3:4000");
        let named = Address::parse("db:1").unwrap();
        let set = ReplicaSet::open("rs0", Some(&named), &database).unwrap();
        assert_eq!(set.host(local), named);
    }
}
