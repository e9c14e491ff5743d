//! One event: what was done, when, over which connection, by whom, and what came of it, as MongoDB's manual shows it
//! ("mongo Schema Audit Messages").

use std::fmt::Write as _;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use quarry_bson::{DateTime, Document, DocumentBuilder, RawBinary, RawDocument, RawValue, extjson};

use crate::access::user::User;
use crate::dispatch::beginning::beginning_of;
use crate::net::connections::Connection;
use crate::net::peer::Peer;
use crate::observe::log;

/// Longer details are shown as the beginning of their text.
const PARAM_BYTES_MAX: usize = 16 << 10;
/// A longer command is shown as the beginning of its text.
pub const ARGUMENTS_BYTES_MAX: usize = 8 << 10;
/// The bytes of the names of roles that an event shows at most.
const ROLES_BYTES_MAX: usize = 16 << 10;
/// The subtype of a UUID.
const UUID_SUBTYPE: u8 = 4;

/// The part of an event that says what was done.
pub struct Deed {
    /// The kind, as MongoDB names it.
    pub kind: &'static str,
    /// The details of that kind.
    pub param: Document,
}

impl Deed {
    /// A deed whose details `build` writes.
    pub fn new(kind: &'static str, build: impl FnOnce(&mut DocumentBuilder<'_>)) -> Deed {
        Deed {
            kind,
            param: Document::build(build),
        }
    }
}

/// Whose event it is.
pub enum Doer<'a> {
    /// The server's own.
    Server,
    /// A client's, and the user that it was.
    Client(&'a Connection, Option<&'a User>),
}

/// Puts the event together. `uuid` is that of the connection.
pub fn document(deed: &Deed, doer: &Doer<'_>, uuid: [u8; 16], result: i32) -> Document {
    Document::build(|event| {
        event.append("atype", deed.kind);
        event.append("ts", DateTime::now());
        let uuid = RawBinary {
            subtype: UUID_SUBTYPE,
            bytes: &uuid,
        };
        event.append("uuid", RawValue::Binary(uuid));
        let connection = match doer {
            Doer::Server => None,
            Doer::Client(connection, _) => Some(*connection),
        };
        append_local_end("local", connection, event);
        append_remote_end(connection, event);
        let user = match doer {
            Doer::Server => None,
            Doer::Client(_, user) => *user,
        };
        append_user(user, event);
        event.append(
            "param",
            bounded(deed.param.as_raw(), PARAM_BYTES_MAX).as_raw(),
        );
        event.append("result", result);
    })
}

/// Appends the server's end of a connection: an address, or the path of a socket.
pub fn append_local_end(
    name: &str,
    connection: Option<&Connection>,
    event: &mut DocumentBuilder<'_>,
) {
    let mut shown = event.document(name);
    match connection {
        Some(Connection {
            peer: Peer::Unix(path),
            ..
        }) => {
            shown.append("unix", &*path.to_string_lossy());
        }
        _ => append_address(
            connection.and_then(|connection| connection.transport.local_address()),
            &mut shown,
        ),
    }
    shown.finish();
}

fn append_remote_end(connection: Option<&Connection>, event: &mut DocumentBuilder<'_>) {
    let mut shown = event.document("remote");
    match connection.map(|connection| &connection.peer) {
        Some(Peer::Unix(_)) => {
            shown.append("unix", "anonymous");
        }
        peer => append_address(peer.and_then(Peer::internet), &mut shown),
    }
    shown.finish();
}

/// Appends an address; without one it is the server itself.
fn append_address(address: Option<SocketAddr>, shown: &mut DocumentBuilder<'_>) {
    match address {
        Some(address) => {
            shown.append("ip", address.ip().to_canonical().to_string().as_str());
            shown.append("port", i32::from(address.port()));
        }
        None => {
            shown.append("isSystemUser", true);
        }
    }
}

/// Appends the user, with all the roles that it has by itself and by others, in MongoDB's lists.
fn append_user(user: Option<&User>, event: &mut DocumentBuilder<'_>) {
    let mut users = event.array("users");
    if let Some(name) = user.and_then(|user| user.name.as_ref()) {
        let mut shown = users.document();
        shown.append("user", name.name.as_str());
        shown.append("db", name.database.as_str());
        shown.finish();
    }
    users.finish();
    let mut roles = event.array("roles");
    for role in user.map_or(&[][..], |user| &user.inherited_roles) {
        if roles.len_bytes() > ROLES_BYTES_MAX {
            break;
        }
        let mut shown = roles.document();
        shown.append("role", role.name.as_str());
        shown.append("db", role.database.as_str());
        shown.finish();
    }
    roles.finish();
}

/// The document, or the beginning of its text where it is long: an event has a bound, whatever a client sends.
pub fn bounded(document: RawDocument<'_>, bytes_max: usize) -> Document {
    if document.len_bytes() <= bytes_max {
        return document.to_owned_document();
    }
    let text = beginning_of(&document, bytes_max / 2);
    Document::build(|shown| {
        shown.append("$truncated", text.as_str());
    })
}

/// The event as one line of JSON, in which time and UUID are written as MongoDB's manual has them.
pub fn json_line(event: RawDocument<'_>) -> String {
    let mut line = String::with_capacity(512);
    for element in event {
        line.push(if line.is_empty() { '{' } else { ',' });
        let _ = write!(
            line,
            "{}:",
            log::json_text(&element.name().to_string_lossy())
        );
        let _ = match element.value() {
            RawValue::DateTime(time) => {
                let time = DateTime(time).to_string();
                let time = time.strip_suffix('Z').unwrap_or(&time);
                write!(line, r#"{{"$date":"{time}+00:00"}}"#)
            }
            RawValue::Binary(uuid) => {
                let bytes = BASE64.encode(uuid.bytes);
                write!(line, r#"{{"$binary":"{bytes}","$type":"04"}}"#)
            }
            other => write!(line, "{}", extjson::relaxed_value(other)),
        };
    }
    line.push_str("}\n");
    line
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn an_event_is_one_line_in_the_shape_of_the_manual() {
        let deed = Deed::new("dropUser", |param| {
            param.append("user", "a\nb");
            param.append("db", "admin");
        });
        let event = document(&deed, &Doer::Server, [0; 16], 11);
        let line = json_line(event.as_raw());
        let (head, rest) = line.split_once(r#""uuid":"#).unwrap();
        assert!(
            head.starts_with(r#"{"atype":"dropUser","ts":{"$date":"2"#)
                && head.ends_with("+00:00\"},"),
            "{head}"
        );
        let expected = concat!(
            r#"{"$binary":"AAAAAAAAAAAAAAAAAAAAAA==","$type":"04"},"local":{"isSystemUser":true},"#,
            r#""remote":{"isSystemUser":true},"users":[],"roles":[],"param":{"user":"a\nb","db":"admin"},"result":11}"#,
            "\n"
        );
        assert_eq!(rest, expected);
    }

    #[test]
    fn an_event_is_bounded_whatever_a_client_sends() {
        // Each of the second takes four bytes as text.
        for long in ["\u{e9}", "\u{1}"] {
            let deed = Deed {
                kind: "authCheck",
                param: doc! { "args": { "a": long.repeat(1 << 20) } },
            };
            let line = json_line(document(&deed, &Doer::Server, [0; 16], 13).as_raw());
            assert!(line.len() < 2 * PARAM_BYTES_MAX && line.contains("$truncated"));
        }
    }
}
