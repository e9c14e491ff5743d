//! The table of what is audited: one row a command, with the events that a call of it leaves.
//!
//! An event shows the fields that its row names, and no others: a password is none of them. Its `result` is the code that the
//! command answered with. What MongoDB has no kind for has a kind by the command's own name.

use quarry_bson::{DocumentBuilder, RawArray, RawDocument, RawValue};
use quarry_query::pipeline::collections_written;
use quarry_wire::DocumentSequence;

use super::event::Deed;
use crate::access::store::{is_of_users_or_roles, keeps_users_or_roles};
use crate::dispatch::beginning::beginning_of;
use crate::dispatch::call::documents_of;

/// The events of one kind that a call leaves at most; the last one says how many more there would be. A collection has fewer
/// indexes, so that only a call that fails, or one that names an index again and again, comes to it.
const EVENTS_A_CALL_MAX: usize = 128;
/// A longer key pattern is shown as the beginning of its text.
const PATTERN_BYTES_MAX: usize = 4 << 10;

/// A call whose events are made.
pub struct Asked<'a> {
    /// The database that it was sent to.
    pub database: &'a str,
    /// The collection that it names, or whatever it names first.
    pub subject: &'a str,
    /// The whole of it, but for its sequences.
    pub body: RawDocument<'a>,
    /// Lists that are no part of the body.
    pub sequences: &'a [DocumentSequence<'a>],
}

/// A row of the table.
pub struct Row {
    /// The command.
    pub command: &'static str,
    /// The events of a call.
    pub deeds: fn(&Asked<'_>) -> Vec<Deed>,
}

/// The row of a command; none for one that leaves no event.
pub fn row(command: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.command == command)
}

const fn on(command: &'static str, deeds: fn(&Asked<'_>) -> Vec<Deed>) -> Row {
    Row { command, deeds }
}

/// Every command that is audited, whatever else is asked for.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    // Definitions.
    on("create", |asked| one("createCollection", asked, &[Show::Namespace, Show::Field("viewOn"), Show::Field("pipeline"), Show::Fields(OPTIONS)])),
    on("createIndexes", create_indexes),
    on("collMod", |asked| one("collMod", asked, &[Show::Namespace, Show::Field("index"), Show::Field("viewOn"), Show::Field("pipeline"), Show::Fields(OPTIONS)])),
    on("drop", |asked| one("dropCollection", asked, &[Show::Namespace])),
    on("dropDatabase", |asked| one("dropDatabase", asked, &[Show::DatabaseAs("ns")])),
    on("dropIndexes", drop_indexes),
    on("renameCollection", |asked| one("renameCollection", asked, &[Show::SubjectAs("old"), Show::FieldAs("to", "new")])),
    // Users.
    on("createUser", |asked| one("createUser", asked, &[Show::User, Show::Field("customData"), Show::Roles, Show::Restrictions])),
    on("updateUser", |asked| one("updateUser", asked, &[Show::User, Show::IsPasswordChanged, Show::Field("customData"), Show::Roles, Show::Restrictions])),
    on("dropUser", |asked| one("dropUser", asked, &[Show::User])),
    on("dropAllUsersFromDatabase", |asked| one("dropAllUsersFromDatabase", asked, &[Show::DatabaseAs("db")])),
    on("grantRolesToUser", |asked| one("grantRolesToUser", asked, &[Show::User, Show::Roles])),
    on("revokeRolesFromUser", |asked| one("revokeRolesFromUser", asked, &[Show::User, Show::Roles])),
    // Roles.
    on("createRole", |asked| one("createRole", asked, &[Show::Role, Show::Roles, Show::Field("privileges"), Show::Restrictions])),
    on("updateRole", |asked| one("updateRole", asked, &[Show::Role, Show::Roles, Show::Field("privileges"), Show::Restrictions])),
    on("dropRole", |asked| one("dropRole", asked, &[Show::Role])),
    on("dropAllRolesFromDatabase", |asked| one("dropAllRolesFromDatabase", asked, &[Show::DatabaseAs("db")])),
    on("grantRolesToRole", |asked| one("grantRolesToRole", asked, &[Show::Role, Show::Roles])),
    on("revokeRolesFromRole", |asked| one("revokeRolesFromRole", asked, &[Show::Role, Show::Roles])),
    on("grantPrivilegesToRole", |asked| one("grantPrivilegesToRole", asked, &[Show::Role, Show::Field("privileges")])),
    on("revokePrivilegesFromRole", |asked| one("revokePrivilegesFromRole", asked, &[Show::Role, Show::Field("privileges")])),
    // Users and roles, written past the commands that are for them.
    on("insert", |asked| direct_mutation(asked, "insert")),
    on("update", |asked| direct_mutation(asked, "update")),
    on("delete", |asked| direct_mutation(asked, "remove")),
    on("findAndModify", |asked| direct_mutation(asked, "update")),
    on("bulkWrite", direct_mutations_in_bulk),
    // The server.
    on("replSetInitiate", |asked| one("replSetReconfig", asked, &[Show::SubjectAs("new")])),
    on("replSetReconfig", |asked| one("replSetReconfig", asked, &[Show::SubjectAs("new")])),
    on("setParameter", |asked| one("setParameter", asked, &[Show::All])),
    on("setClusterParameter", |asked| one("setClusterParameter", asked, &[Show::SubjectAs("parameters")])),
    on("setQuerySettings", |asked| one("setQuerySettings", asked, &[Show::SubjectAs("query"), Show::Field("settings")])),
    on("removeQuerySettings", |asked| one("removeQuerySettings", asked, &[Show::SubjectAs("query")])),
    on("rotateCertificates", |asked| one("rotateCertificates", asked, &[Show::Field("message")])),
    on("logRotate", |asked| one("rotateLog", asked, &[])),
    on("logApplicationMessage", |asked| one("applicationMessage", asked, &[Show::SubjectAs("msg")])),
    on("shutdown", |asked| one("shutdown", asked, &[])),
];

/// The options of a collection that say what it takes and keeps.
const OPTIONS: &[&str] = &[
    "capped",
    "size",
    "max",
    "validator",
    "validationLevel",
    "validationAction",
    "collation",
    "clusteredIndex",
    "timeseries",
    "expireAfterSeconds",
    "changeStreamPreAndPostImages",
];

/// A part of an event's details.
enum Show {
    /// `ns`: the collection.
    Namespace,
    /// The database, under this name.
    DatabaseAs(&'static str),
    /// The value that the command's name has, under this name.
    SubjectAs(&'static str),
    /// A field of the command, where it is there.
    Field(&'static str),
    /// Each of these fields of the command that is there.
    Fields(&'static [&'static str]),
    /// A field of the command, under another name.
    FieldAs(&'static str, &'static str),
    /// `user` and `db`.
    User,
    /// `role` and `db`.
    Role,
    /// `roles`, each with its database.
    Roles,
    /// `authenticationRestrictions`.
    Restrictions,
    /// `passwordChanged`.
    IsPasswordChanged,
    /// Every field that is the command's own.
    All,
}

fn one(kind: &'static str, asked: &Asked<'_>, shown: &[Show]) -> Vec<Deed> {
    vec![Deed::new(kind, |param| {
        for show in shown {
            show.append(asked, param);
        }
    })]
}

impl Show {
    fn append(&self, asked: &Asked<'_>, param: &mut DocumentBuilder<'_>) {
        let body = asked.body;
        match *self {
            Show::Namespace => {
                param.append("ns", asked.namespace().as_str());
            }
            Show::DatabaseAs(name) => {
                param.append(name, asked.database);
            }
            Show::SubjectAs(name) => {
                if let Some(subject) = body.first() {
                    param.append(name, subject.value());
                }
            }
            Show::Field(name) => append_field(body, name, name, param),
            Show::Fields(names) => {
                for name in names {
                    append_field(body, name, name, param);
                }
            }
            Show::FieldAs(name, shown) => append_field(body, name, shown, param),
            Show::User => append_name("user", asked, param),
            Show::Role => append_name("role", asked, param),
            Show::Roles => {
                if let Some(roles) = body.get_array("roles") {
                    append_roles(roles, asked.database, param);
                }
            }
            Show::Restrictions => {
                let name = "authenticationRestrictions";
                append_field(body, name, name, param);
            }
            Show::IsPasswordChanged => {
                param.append("passwordChanged", body.get("pwd").is_some());
            }
            Show::All => {
                let is_own = |name: &[u8]| !name.starts_with(b"$") && name != b"lsid";
                for element in body.iter().skip(1) {
                    if is_own(element.name().as_bytes()) {
                        param.append_element(element);
                    }
                }
            }
        }
    }
}

impl<'a> Asked<'a> {
    fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.subject)
    }

    fn documents(&self, list: &'static str) -> impl Iterator<Item = RawDocument<'a>> {
        documents_of(self.body, self.sequences, list)
    }
}

/// One event each, as far as a call may leave so many.
fn several<T>(mut items: impl Iterator<Item = T>, deed: impl Fn(T) -> Deed) -> Vec<Deed> {
    let first = items.by_ref().take(EVENTS_A_CALL_MAX);
    let mut deeds: Vec<Deed> = first.map(deed).collect();
    let left_out = items.count();
    if left_out > 0
        && let Some(last) = deeds.last_mut()
    {
        last.param.append("eventsLeftOut", left_out as i64);
    }
    deeds
}

fn append_field(body: RawDocument<'_>, name: &str, shown: &str, param: &mut DocumentBuilder<'_>) {
    if let Some(value) = body.get(name) {
        param.append(shown, value);
    }
}

fn append_name(field: &str, asked: &Asked<'_>, param: &mut DocumentBuilder<'_>) {
    param.append(field, asked.subject);
    param.append("db", asked.database);
}

/// Appends the roles; one that is a name alone is of the command's own database.
fn append_roles(roles: RawArray<'_>, database: &str, param: &mut DocumentBuilder<'_>) {
    let mut listed = param.array("roles");
    for role in roles {
        match role {
            RawValue::Document(_) => {
                listed.push(role);
            }
            other => {
                let mut shown = listed.document();
                shown.append("role", other);
                shown.append("db", database);
                shown.finish();
            }
        }
    }
    listed.finish();
}

/// One event an index.
fn create_indexes(asked: &Asked<'_>) -> Vec<Deed> {
    let of_index = |index: RawDocument<'_>| {
        Deed::new("createIndex", |param| {
            param.append("ns", asked.namespace().as_str());
            append_field(index, "name", "indexName", param);
            param.append("indexSpec", index);
        })
    };
    several(asked.documents("indexes"), of_index)
}

/// One event an index that is named; `*` stands for all but `_id_`.
fn drop_indexes(asked: &Asked<'_>) -> Vec<Deed> {
    let of_index = |index: RawValue<'_>| {
        let name = match index {
            RawValue::String(_) => index.as_str().unwrap_or_default().to_owned(),
            pattern => beginning_of(&pattern, PATTERN_BYTES_MAX),
        };
        Deed::new("dropIndex", |param| {
            param.append("ns", asked.namespace().as_str());
            param.append("indexName", name.as_str());
        })
    };
    match asked.body.get("index") {
        Some(RawValue::Array(indexes)) => several(indexes.iter(), of_index),
        Some(index) => vec![of_index(index)],
        None => Vec::new(),
    }
}

/// A write into the collections of users and roles; any other write leaves no event here.
fn direct_mutation(asked: &Asked<'_>, operation: &str) -> Vec<Deed> {
    match keeps_users_or_roles(asked.database, asked.subject) {
        true => vec![mutation_of(&asked.namespace(), operation)],
        false => Vec::new(),
    }
}

fn direct_mutations_in_bulk(asked: &Asked<'_>) -> Vec<Deed> {
    let named = asked.documents("nsInfo");
    let named = named.filter_map(|info| info.get_str("ns"));
    let of_access = named.filter(|namespace| is_of_users_or_roles(namespace));
    several(of_access, |namespace| mutation_of(namespace, "bulkWrite"))
}

/// A collection that a call writes into.
pub struct Target {
    /// `database.collection`.
    pub namespace: String,
    /// The call makes the collection also where there is one, in whose place the new one comes.
    pub is_replaced: bool,
}

/// The collections that a call of the command makes where they are not there.
pub fn targets(command: &str, asked: &Asked<'_>) -> Vec<Target> {
    let is_upsert = |document: RawDocument<'_>| {
        let upsert = document.get("upsert");
        upsert.is_some_and(|value| value.is_truthy())
    };
    let own = |makes: bool| match makes {
        true => vec![Target::of(asked.namespace())],
        false => Vec::new(),
    };
    match command {
        "insert" => own(true),
        "update" => own(asked.documents("updates").any(is_upsert)),
        "findAndModify" => own(is_upsert(asked.body)),
        "bulkWrite" => {
            let named = asked.documents("nsInfo").take(EVENTS_A_CALL_MAX);
            let named = named.filter_map(|info| info.get_str("ns"));
            named.map(|name| Target::of(name.to_owned())).collect()
        }
        "aggregate" => {
            let pipeline = asked.body.get_array("pipeline").unwrap_or(RawArray::EMPTY);
            let written = collections_written(pipeline).into_iter();
            let target = written.map(|written| Target {
                namespace: format!(
                    "{}.{}",
                    written.database.unwrap_or(asked.database),
                    written.collection
                ),
                is_replaced: written.removes,
            });
            target.collect()
        }
        _ => Vec::new(),
    }
}

impl Target {
    fn of(namespace: String) -> Target {
        Target {
            namespace,
            is_replaced: false,
        }
    }
}

/// The documents stay out of it: they hold what passwords are checked by.
fn mutation_of(namespace: &str, operation: &str) -> Deed {
    Deed::new("directAuthMutation", |param| {
        param.append("ns", namespace);
        param.append("operation", operation);
    })
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc, extjson};

    use super::*;
    use crate::commands;

    fn shown(body: &Document) -> Vec<String> {
        let first = body.as_raw().first().unwrap();
        let asked = Asked {
            database: "db",
            subject: first.value().as_str().unwrap_or_default(),
            body: body.as_raw(),
            sequences: &[],
        };
        let row = row(first.name().as_str().unwrap()).unwrap();
        let deeds = (row.deeds)(&asked).into_iter();
        deeds
            .map(|deed| format!("{} {}", deed.kind, extjson::relaxed(deed.param.as_raw())))
            .collect()
    }

    #[test]
    fn every_row_is_of_a_command_and_every_command_that_changes_access_has_one() {
        for row in ROWS {
            assert!(commands::find(row.command).is_some(), "{}", row.command);
        }
        let changes_access = |name: &str| {
            let verbs = ["create", "update", "drop", "grant", "revoke"];
            let is_of_access = name.contains("User") || name.contains("Role");
            verbs.iter().any(|verb| name.starts_with(verb)) && is_of_access
        };
        for command in commands::COMMANDS {
            if changes_access(command.name) {
                assert!(row(command.name).is_some(), "{}", command.name);
            }
        }
    }

    #[test]
    fn details_are_those_of_the_manual_and_no_password() {
        for (body, expected) in [
            (
                doc! { "createUser": "u", "pwd": "geheim", "roles": ["read", doc! { "role": "root", "db": "admin" }] },
                &[
                    r#"createUser {"user":"u","db":"db","roles":[{"role":"read","db":"db"},{"role":"root","db":"admin"}]}"#,
                ][..],
            ),
            (
                doc! { "updateUser": "u", "pwd": "geheim" },
                &[r#"updateUser {"user":"u","db":"db","passwordChanged":true}"#],
            ),
            (
                doc! { "createIndexes": "c", "indexes": [doc! { "key": { "a": 1 }, "name": "a_1" }] },
                &[
                    r#"createIndex {"ns":"db.c","indexName":"a_1","indexSpec":{"key":{"a":1},"name":"a_1"}}"#,
                ],
            ),
            (
                doc! { "dropIndexes": "c", "index": ["a_1", "b_1"] },
                &[
                    r#"dropIndex {"ns":"db.c","indexName":"a_1"}"#,
                    r#"dropIndex {"ns":"db.c","indexName":"b_1"}"#,
                ],
            ),
            (
                doc! { "renameCollection": "db.a", "to": "db.b", "dropTarget": true },
                &[r#"renameCollection {"old":"db.a","new":"db.b"}"#],
            ),
            (
                doc! { "collMod": "c", "validator": { "a": 1 }, "validationAction": "warn", "changeStreamPreAndPostImages": { "enabled": true } },
                &[
                    r#"collMod {"ns":"db.c","validator":{"a":1},"validationAction":"warn","changeStreamPreAndPostImages":{"enabled":true}}"#,
                ],
            ),
            (
                doc! { "create": "c", "capped": true, "size": 4096, "validationLevel": "moderate" },
                &[
                    r#"createCollection {"ns":"db.c","capped":true,"size":4096,"validationLevel":"moderate"}"#,
                ],
            ),
            (doc! { "dropDatabase": 1 }, &[r#"dropDatabase {"ns":"db"}"#]),
            (doc! { "insert": "c", "documents": [] }, &[]),
            (
                doc! { "bulkWrite": 1, "nsInfo": [doc! { "ns": "admin.system.users" }, doc! { "ns": "a.b" }] },
                &[r#"directAuthMutation {"ns":"admin.system.users","operation":"bulkWrite"}"#],
            ),
        ] {
            assert_eq!(shown(&body), expected, "{body}");
        }
    }

    #[test]
    fn a_call_leaves_no_more_events_than_it_may() {
        let names = vec!["a_1"; EVENTS_A_CALL_MAX + 7];
        let events = shown(&doc! { "dropIndexes": "c", "index": names });
        assert_eq!(events.len(), EVENTS_A_CALL_MAX);
        let last = r#"dropIndex {"ns":"db.c","indexName":"a_1","eventsLeftOut":7}"#;
        assert_eq!(events.last().unwrap(), last);
        assert!(!events[0].contains("eventsLeftOut"));
        let spec = doc! { "key": { "a": 1 }, "name": "a_1" };
        let specs = vec![spec; 2 * EVENTS_A_CALL_MAX];
        let events = shown(&doc! { "createIndexes": "c", "indexes": specs });
        assert_eq!(events.len(), EVENTS_A_CALL_MAX);
    }

    #[test]
    fn the_collections_that_a_call_may_make_are_known_before_it_runs() {
        let targets = |body: Document| -> Vec<String> {
            let first = body.as_raw().first().unwrap();
            let asked = Asked {
                database: "db",
                subject: first.value().as_str().unwrap_or_default(),
                body: body.as_raw(),
                sequences: &[],
            };
            let found = targets(first.name().as_str().unwrap(), &asked).into_iter();
            found
                .map(|target| format!("{} {}", target.namespace, target.is_replaced))
                .collect()
        };
        let update = |upsert: bool| doc! { "update": "c", "updates": [doc! { "q": {}, "u": {}, "upsert": upsert }] };
        assert_eq!(targets(doc! { "insert": "c" }), ["db.c false"]);
        assert_eq!(targets(update(true)), ["db.c false"]);
        assert!(targets(update(false)).is_empty());
        assert!(targets(doc! { "find": "c" }).is_empty());
        let bulk = doc! { "bulkWrite": 1, "nsInfo": [doc! { "ns": "a.b" }] };
        assert_eq!(targets(bulk), ["a.b false"]);
        let out = doc! { "aggregate": "c", "pipeline": [doc! { "$out": "d" }] };
        assert_eq!(targets(out), ["db.d true"]);
        let merge = doc! { "aggregate": "c", "pipeline": [doc! { "$merge": "d" }] };
        assert_eq!(targets(merge), ["db.d false"]);
    }
}
