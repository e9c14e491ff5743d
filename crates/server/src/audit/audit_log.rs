//! The audit log of a server that keeps one: which events there are, and what a client is told when one cannot be written.

use std::io;

use quarry_bson::{Document, RawDocument};
use quarry_query::ErrorCode;
use quarry_query::matcher::Matcher;
use sha2::{Digest, Sha256};

use super::command_events::{Asked, row, targets};
use super::event::{self, ARGUMENTS_BYTES_MAX, Deed, Doer, append_local_end, bounded};
use super::made_collections;
use super::trail::Trail;
use crate::access::name::Name;
use crate::access::user::User;
use crate::dispatch::call::{Call, Outcome, without_secrets};
use crate::dispatch::error::{CommandError, Result};
use crate::net::connections::Connection;
use crate::process::config::{AuditDestination, AuditFormat, AuditOptions, BadOptions, LogRotate};

/// How a call is held against its user's privileges.
#[derive(Clone, Copy)]
pub struct Check {
    /// It is noted where the user may run it, too.
    pub is_success_noted: bool,
    /// The command is one on a collection.
    pub is_of_collection: bool,
}

/// The audit log of one server.
pub struct AuditLog {
    trail: Trail,
    format: AuditFormat,
    filter: Option<Matcher>,
    is_moved_by_others: bool,
    /// From which the UUIDs of connections are made.
    secret: [u8; 32],
}

impl AuditLog {
    /// Opens the log, whose file is rotated as the server's log is. A file that cannot be written and a filter that is no query
    /// refuse the start.
    pub fn open(options: &AuditOptions, rotate: LogRotate) -> Result<AuditLog, BadOptions> {
        let filter = options.filter.as_ref();
        let filter = filter.map(|filter| Matcher::parse(filter.as_raw()));
        let filter = filter
            .transpose()
            .map_err(|error| BadOptions(format!("auditFilter: {error}")))?;
        let trail = Trail::open(&options.destination).map_err(|error| {
            let path = match &options.destination {
                AuditDestination::File(path) => path.display().to_string(),
                AuditDestination::Console => "the standard output".into(),
            };
            BadOptions(format!("auditPath: {path}: {error}"))
        })?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the kernel gives random bytes");
        Ok(AuditLog {
            trail,
            format: options.format,
            filter,
            is_moved_by_others: rotate == LogRotate::Reopen,
            secret,
        })
    }

    /// Whether events wait that could not be written. Then calls are held against `admit_late` before they run.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.trail.is_behind()
    }

    /// Refuses a call that would leave an event, unless events can be written again. `is_there` says of a namespace whether it is a
    /// collection already: a write into one leaves no event.
    #[cold]
    pub fn admit_late(
        &self,
        connection: &Connection,
        call: &Call<'_>,
        outcome: &Outcome<'_>,
        check: Check,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let asked = Asked::of(call, outcome);
        let mut deeds = row(outcome.command_name).map_or_else(Vec::new, |row| (row.deeds)(&asked));
        if check.is_success_noted {
            deeds.push(authorization(call.body, outcome, check.is_of_collection));
        }
        for target in targets(outcome.command_name, &asked) {
            if target.is_replaced || !is_there(&target.namespace) {
                deeds.push(created(&target.namespace));
            }
        }
        let user = connection.login.lock().user.clone();
        let doer = Doer::Client(connection, user.as_deref());
        if !deeds
            .iter()
            .any(|deed| self.event(deed, &doer, 0).is_some())
        {
            return Ok(());
        }
        self.trail.catch_up().map_err(|error| {
            let message = format!(
                "'{}' is refused: its audit event could not be written: {error}",
                outcome.command_name
            );
            CommandError::new(ErrorCode::OPERATION_FAILED, message)
        })
    }

    /// Writes what a call leaves: its refusal, or the events of its row; its authorization too, where successes are asked for.
    #[cold]
    pub fn note_call(
        &self,
        connection: &Connection,
        call: &Call<'_>,
        outcome: &Outcome<'_>,
        error: Option<&CommandError>,
        check: Check,
    ) -> Result<()> {
        let made = made_collections::take();
        let code = error.map_or(0, |error| error.code);
        let is_refused = code == ErrorCode::UNAUTHORIZED.0;
        if outcome.opid == 0 && !is_refused {
            // It was no call of a command, or one that nobody has been authorized for.
            return Ok(());
        }
        let mut noted = Vec::new();
        if is_refused || check.is_success_noted {
            let result = if is_refused { code } else { 0 };
            let deed = authorization(call.body, outcome, check.is_of_collection);
            noted.push((deed, result));
        }
        if !is_refused {
            noted.extend(made.iter().map(|namespace| (created(namespace), 0)));
            let deeds = row(outcome.command_name).map(|row| (row.deeds)(&Asked::of(call, outcome)));
            let deeds = deeds.into_iter().flatten();
            noted.extend(deeds.map(|deed| (deed, code)));
        }
        let user = connection.login.lock().user.clone();
        let doer = Doer::Client(connection, user.as_deref());
        let mut first = Ok(());
        for (deed, result) in &noted {
            // Those behind one that could not be written are kept for later, or counted as lost, as well.
            let written = self.note(deed, &doer, *result);
            first = first.and(written);
        }
        first
    }

    /// Writes that somebody has logged in, or has failed to.
    pub fn note_login(
        &self,
        connection: &Connection,
        name: Option<&Name>,
        mechanism: &str,
        result: i32,
    ) -> Result<()> {
        let deed = Deed::new("authenticate", |param| {
            param.append("user", name.map_or("", |name| &name.name));
            param.append("db", name.map_or("", |name| &name.database));
            param.append("mechanism", mechanism);
        });
        let user = connection.login.lock().user.clone();
        self.note(&deed, &Doer::Client(connection, user.as_deref()), result)
    }

    /// Writes that a user is not logged in any more.
    pub fn note_logout(&self, connection: &Connection, user: &User, reason: &str) -> Result<()> {
        let deed = Deed::new("logout", |param| {
            param.append("reason", reason);
            let mut users = param.array("initialUsers");
            if let Some(name) = &user.name {
                let mut shown = users.document();
                shown.append("user", name.name.as_str());
                shown.append("db", name.database.as_str());
                shown.finish();
            }
            users.finish();
            param.array("updatedUsers").finish();
        });
        self.note(&deed, &Doer::Client(connection, Some(user)), 0)
    }

    /// Writes what a client says of itself.
    pub fn note_metadata(&self, connection: &Connection, metadata: RawDocument<'_>) -> Result<()> {
        let deed = Deed::new("clientMetadata", |param| {
            append_local_end("localEndpoint", Some(connection), param);
            param.append("clientMetadata", metadata);
        });
        self.note(&deed, &Doer::Client(connection, None), 0)
    }

    /// Writes that the server has made a user with these roles by itself.
    pub fn note_own_user(&self, user: &Name, roles: &[Name]) -> Result<()> {
        let deed = Deed::new("createUser", |param| {
            param.append("user", user.name.as_str());
            param.append("db", user.database.as_str());
            let mut listed = param.array("roles");
            for role in roles {
                let mut shown = listed.document();
                shown.append("role", role.name.as_str());
                shown.append("db", role.database.as_str());
                shown.finish();
            }
            listed.finish();
        });
        self.note(&deed, &Doer::Server, 0)
    }

    /// Writes that the server starts, with these options.
    pub fn note_start(&self, options: &Document) -> Result<()> {
        let deed = Deed::new("startup", |param| {
            param.append("options", options.as_raw());
        });
        self.note(&deed, &Doer::Server, 0)
    }

    /// Writes that the server stops by itself or for a signal.
    pub fn note_stop(&self) -> Result<()> {
        let deed = Deed::new("shutdown", |_| ());
        self.note(&deed, &Doer::Server, 0)
    }

    /// Begins a new file, or opens the file again where others move it.
    pub fn rotate(&self) -> io::Result<()> {
        self.trail.rotate(self.is_moved_by_others)
    }

    /// The event of a deed; none where the filter drops it.
    fn event(&self, deed: &Deed, doer: &Doer<'_>, result: i32) -> Option<Document> {
        let event = event::document(deed, doer, self.uuid_of(doer), result);
        // An event that the filter cannot be held against is kept.
        let is_kept = |filter: &Matcher| filter.try_matches(event.as_raw()).unwrap_or(true);
        self.filter.as_ref().is_none_or(is_kept).then_some(event)
    }

    fn note(&self, deed: &Deed, doer: &Doer<'_>, result: i32) -> Result<()> {
        let Some(event) = self.event(deed, doer, result) else {
            return Ok(());
        };
        let written = match self.format {
            AuditFormat::Json => self
                .trail
                .append(event::json_line(event.as_raw()).as_bytes()),
            AuditFormat::Bson => self.trail.append(event.as_raw().as_bytes()),
        };
        written.map_err(|error| {
            let message = format!(
                "the audit event '{}' could not be written: {error}; what it tells of may have happened all the same",
                deed.kind
            );
            CommandError::new(ErrorCode::OPERATION_FAILED, message)
        })
    }

    /// The UUID of a connection, by which all its events are found.
    fn uuid_of(&self, doer: &Doer<'_>) -> [u8; 16] {
        let id = match doer {
            Doer::Server => 0,
            Doer::Client(connection, _) => connection.id,
        };
        let digest = Sha256::new().chain_update(self.secret);
        let digest = digest.chain_update(id.to_le_bytes()).finalize();
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&digest[..16]);
        // Version 4: nothing but chance is in it.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }
}

impl<'a> Asked<'a> {
    fn of(call: &Call<'a>, outcome: &Outcome<'a>) -> Asked<'a> {
        Asked {
            database: outcome.database,
            subject: outcome.collection,
            body: call.body,
            sequences: call.sequences,
        }
    }
}

fn created(namespace: &str) -> Deed {
    Deed::new("createCollection", |param| {
        param.append("ns", namespace);
    })
}

/// Makes the event of an authorization: the command, on what, and its arguments where they hold no secrets.
fn authorization(body: RawDocument<'_>, outcome: &Outcome<'_>, is_of_collection: bool) -> Deed {
    Deed::new("authCheck", |param| {
        param.append("command", outcome.command_name);
        let namespace = match is_of_collection && !outcome.collection.is_empty() {
            true => outcome.namespace(),
            false => outcome.database.to_owned(),
        };
        param.append("ns", namespace.as_str());
        let arguments = match outcome.has_secrets {
            true => without_secrets(body),
            false => bounded(body, ARGUMENTS_BYTES_MAX),
        };
        param.append("args", arguments.as_raw());
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_bson::doc;

    use super::*;
    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    /// A server whose audit log is on a disk that is full.
    fn server(filter: Option<Document>) -> (&'static Server, Arc<AuditLog>) {
        let audit = Arc::new(AuditLog {
            trail: Trail::of_room(0),
            format: AuditFormat::Json,
            filter: filter.map(|filter| Matcher::parse(filter.as_raw()).unwrap()),
            is_moved_by_others: false,
            secret: [0; 32],
        });
        let mut server = Server::in_memory();
        server.audit = Some(Arc::clone(&audit));
        (Box::leak(Box::new(server)), audit)
    }

    fn code(server: &'static Server, command: &Document) -> i32 {
        let mut command = command.clone();
        if command.get("$db").is_none() {
            command.append("$db", "db");
        }
        answer(server, &command).get_i32("code").unwrap_or(0)
    }

    const REFUSED: i32 = 96;

    #[test]
    fn all_events_of_a_call_are_kept_where_one_cannot_be_written() {
        let (server, audit) = server(None);
        let index = |field: &str| doc! { "key": { field: 1 }, "name": field };
        let indexes = vec![index("one"), index("two"), index("three")];
        let create = doc! { "createIndexes": "c", "indexes": indexes };
        assert_eq!(code(server, &create), REFUSED);
        audit.trail.make_room(1 << 20);
        audit.trail.catch_up().unwrap();
        let written = String::from_utf8(audit.trail.make_room(0)).unwrap();
        for name in ["one", "two", "three"] {
            let shown = format!(r#""indexName":"{name}""#);
            assert!(written.contains(&shown), "{name}: {written}");
        }
    }

    #[test]
    fn what_leaves_no_event_goes_on_while_the_disk_is_full() {
        let (server, audit) = server(None);
        assert_eq!(code(server, &doc! { "create": "c" }), REFUSED);
        assert!(audit.is_behind());
        let update = |upsert: bool| doc! { "q": { "_id": 1 }, "u": { "a": 1 }, "upsert": upsert };
        for goes_on in [
            doc! { "insert": "c", "documents": [{ "_id": 1 }] },
            doc! { "update": "c", "updates": [update(true)] },
            doc! { "update": "none", "updates": [update(false)] },
            doc! { "findAndModify": "c", "query": {}, "update": { "b": 1 } },
            doc! { "bulkWrite": 1, "ops": [{ "delete": 0, "filter": {} }], "nsInfo": [{ "ns": "db.c" }], "$db": "admin" },
            doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "aggregate": "c", "pipeline": [{ "$merge": "c" }], "cursor": {} },
            doc! { "find": "c" },
        ] {
            assert_eq!(code(server, &goes_on), 0, "{goes_on}");
        }
        for refused in [
            doc! { "insert": "made", "documents": [{ "_id": 1 }] },
            doc! { "update": "made", "updates": [update(true)] },
            doc! { "findAndModify": "made", "query": {}, "update": { "b": 1 }, "upsert": true },
            doc! { "aggregate": "c", "pipeline": [{ "$out": "c" }], "cursor": {} },
            doc! { "aggregate": "c", "pipeline": [{ "$merge": "made" }], "cursor": {} },
            doc! { "insert": "system.users", "documents": [{ "_id": 1 }], "$db": "admin" },
            doc! { "bulkWrite": 1, "ops": [{ "delete": 0, "filter": {} }], "nsInfo": [{ "ns": "admin.system.roles" }], "$db": "admin" },
            doc! { "drop": "c" },
        ] {
            assert_eq!(code(server, &refused), REFUSED, "{refused}");
        }
        let listed = server.database.list_collections("db").unwrap();
        assert_eq!(listed.len(), 1, "nothing was made");
        audit.trail.make_room(1 << 20);
        assert_eq!(code(server, &doc! { "drop": "c" }), 0);
    }

    #[test]
    fn what_the_filter_drops_goes_on_while_the_disk_is_full() {
        let (server, _) = server(Some(doc! { "param.ns": "db.kept" }));
        assert_eq!(code(server, &doc! { "create": "kept" }), REFUSED);
        for command in ["create", "drop"] {
            assert_eq!(code(server, &doc! { command: "other" }), 0, "{command}");
            assert_eq!(code(server, &doc! { command: "kept" }), REFUSED);
        }
    }
}
