//! The end of a connection: why it came, and the line that says so.

use std::io;

use crate::net::connections::Connection;
use crate::net::foreign::ForeignProtocol;
use crate::observe::log;
use crate::server::Server;

/// Why a connection ended.
pub enum End {
    /// The client or a stop of the server ended it between two messages.
    Closed,
    /// Its bytes are no message.
    Malformed(String),
    /// The first bytes are of another protocol.
    ForeignProtocol(ForeignProtocol),
    /// The handshake of TLS came to nothing.
    NoHandshake(String),
    /// No share of the request memory became free in time, or the client was too slow for those who waited for its own.
    NoMemory,
    /// Its client took nothing of a large reply while others waited for memory.
    Untaken,
    /// A message did not come whole in time.
    Late,
    Failed(io::Error),
    /// A write's outcome is unknown, and an answer would claim one.
    Unanswerable(String),
    /// A defect; the panic has its own line.
    Panicked,
}

/// Writes the line of a connection's end.
pub fn log_end(server: &Server, connection: &Connection, end: End) {
    note_logout(server, connection);
    let client = connection.peer.to_string();
    let id = connection.id;
    match end {
        End::Malformed(why) => log::warning(
            "network",
            "connection ended: malformed message",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", why.into()),
            ],
        ),
        End::ForeignProtocol(foreign) => log::warning(
            "network",
            "connection ended: its client speaks another protocol",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", foreign.reason().unwrap_or("unknown").into()),
            ],
        ),
        End::NoHandshake(why) => log::warning(
            "network",
            "connection ended: the TLS handshake failed",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", why.into()),
            ],
        ),
        End::NoMemory => log::warning(
            "network",
            "connection ended: the memory for large requests is taken, and others wait for it",
            &[("client", client.into()), ("connectionId", id.into())],
        ),
        End::Untaken => log::warning(
            "network",
            "connection ended: its client takes no reply, and others wait for the memory",
            &[("client", client.into()), ("connectionId", id.into())],
        ),
        End::Late => log::warning(
            "network",
            "connection ended: a message did not come whole in time",
            &[("client", client.into()), ("connectionId", id.into())],
        ),
        End::Unanswerable(why) => log::error(
            "network",
            "connection ended: the outcome of a write is unknown",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", why.into()),
            ],
        ),
        End::Panicked => log::error(
            "network",
            "connection ended: a defect of the server",
            &[("client", client.into()), ("connectionId", id.into())],
        ),
        End::Failed(error) if !server.is_quiet() => log::info(
            "network",
            "connection ended",
            &[
                ("client", client.into()),
                ("connectionId", id.into()),
                ("reason", error.to_string().into()),
            ],
        ),
        End::Closed if !server.is_quiet() => {
            let mut attributes = vec![("client", client.into()), ("connectionId", id.into())];
            if !connection.has_asked() {
                let reason = "nothing was sent, as by a health check or a scan of ports";
                attributes.push(("reason", reason.into()));
            }
            log::info("network", "connection ended", &attributes);
        }
        End::Failed(_) | End::Closed => {}
    }
}

/// Leaves in the audit log that the connection's user is gone with it.
fn note_logout(server: &Server, connection: &Connection) {
    let Some(audit) = &server.audit else {
        return;
    };
    // Not in the condition: the lock would be held while the event is written.
    let user = connection.login.lock().user.take();
    if let Some(user) = user {
        // Nobody waits for an answer; the log says what became of the event.
        let _ = audit.note_logout(connection, &user, "The client has disconnected");
    }
}
