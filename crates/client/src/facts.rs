//! The first exchange of a connection: what the client says of itself, and what it goes by of what the server says.

use quarry_bson::{Document, ObjectId, RawValue, Value, doc};
use quarry_wire::Compressor;

use crate::{Address, ConnectionString, Mechanism};

/// The parts of a server's hello that a client goes by.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub has_sessions: bool,
    /// Whether the server knows a write that is sent again by its transaction number.
    pub knows_numbers: bool,
    pub is_writable: bool,
    pub is_secondary: bool,
    /// Whether the server is a member of a set that does not know its set yet, or no longer.
    pub is_ghost: bool,
    pub set_name: Option<String>,
    /// The members of the set.
    pub hosts: Vec<Address>,
    pub primary: Option<Address>,
    pub compressor: Option<Compressor>,
    pub mechanisms: Vec<Mechanism>,
    /// A number that the server's process made when it began.
    pub process: Option<ObjectId>,
}

/// The command that begins a connection.
pub fn hello(settings: &ConnectionString) -> Document {
    let mut client = Document::new();
    if let Some(name) = &settings.app_name {
        client.append("application", doc! { "name": (name.as_str()) });
    }
    client.append(
        "driver",
        doc! { "name": "quarry-client", "version": (env!("CARGO_PKG_VERSION")) },
    );
    client.append("os", doc! { "type": (std::env::consts::OS) });
    let mut command = doc! { "hello": 1, "helloOk": true, "client": client };
    if !settings.compressors.is_empty() {
        let names = settings.compressors.iter().map(|one| one.name());
        command.append("compression", names.map(Value::from).collect::<Value>());
    }
    if let Some(login) = &settings.login
        && login.mechanism.is_none()
    {
        let user = format!("{}.{}", login.source, login.user);
        command.append("saslSupportedMechs", user);
    }
    command
}

impl Facts {
    /// Reads the reply.
    pub fn of(hello: &Document) -> Facts {
        let texts = |name: &str| -> Vec<&str> {
            let listed = hello.get_array(name);
            let texts = listed.iter().flat_map(quarry_bson::RawArray::iter);
            texts.filter_map(|text| text.as_str()).collect()
        };
        let set_name = hello.get_str("setName").map(str::to_owned);
        let is_router = hello.get_str("msg") == Some("isdbgrid");
        let is_true = |name| hello.get_bool(name) == Some(true);
        Facts {
            has_sessions: hello.contains("logicalSessionTimeoutMinutes"),
            knows_numbers: set_name.is_some() || is_router,
            is_writable: is_true("isWritablePrimary") || is_true("ismaster"),
            is_secondary: is_true("secondary"),
            is_ghost: set_name.is_none() && is_true("isreplicaset"),
            set_name,
            hosts: texts("hosts")
                .into_iter()
                .filter_map(Address::parse)
                .collect(),
            primary: hello.get_str("primary").and_then(Address::parse),
            compressor: texts("compression")
                .into_iter()
                .find_map(Compressor::from_name),
            mechanisms: texts("saslSupportedMechs")
                .into_iter()
                .filter_map(Mechanism::named)
                .collect(),
            process: match hello.get_path("topologyVersion.processId") {
                Some(RawValue::ObjectId(process)) => Some(process),
                _ => None,
            },
        }
    }
}
