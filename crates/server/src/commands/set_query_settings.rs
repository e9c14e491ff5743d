//! `setQuerySettings`: says how the queries of a shape are planned, or that they are refused, durably. What it does not name stays as it is
//! for that shape.

use std::sync::Arc;

use quarry_bson::{DocumentBuilder, Timestamp};
use quarry_query::ErrorCode;
use quarry_query::query_settings::QuerySettings;

use super::named_shape::{NamedShape, settings_of};
use super::query_settings::{stage_never_rejected, why_without};
use super::query_shape::ShapedQuery;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::replication::query_settings::ShapeSettings;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[object("settings").required()]),
    is_admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        "setQuerySettings",
        "says how the queries of a shape are planned, or refuses them",
        Requires::Each(&[need(Action::QuerySettings, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let table = settings_of(invocation)?;
    let named = invocation.required("settings")?.document()?;
    if named.is_empty() {
        let message = "settings field in setQuerySettings command cannot be empty";
        return Err(CommandError::new(ErrorCode(8_727_502), message));
    }
    let named = QuerySettings::parse(named)?;
    let shape = NamedShape::read(invocation)?;
    if let Some(query) = &shape.query {
        check(query, &named)?;
    }
    let database = &invocation.server.database;
    let time = Timestamp::from_u64(database.cluster_time());
    let changed = table.change(database, time, |by_shape| {
        let before = by_shape.remove(&shape.hash);
        let (settings, query) = match before {
            Some(before) => (QuerySettings::clone(&before.settings), before.query),
            None => (QuerySettings::default(), None),
        };
        let settings = Arc::new(settings.merged(named).checked()?);
        let own = shape.query.map(|own| own.body.to_owned_document());
        let query = own.or(query);
        let changed = ShapeSettings { settings, query };
        by_shape.insert(shape.hash, changed.clone());
        Ok(changed)
    })?;
    changed.append(shape.hash, reply);
    Ok(())
}

/// Refuses settings for a query that cannot have them.
fn check(query: &ShapedQuery<'_>, settings: &QuerySettings) -> Result<()> {
    if let Some(refusal) = why_without(query) {
        return Err(refusal);
    }
    match stage_never_rejected(query.body) {
        Some(stage) if settings.rejects() => {
            let message =
                format!("Setting {{reject:true}} is forbidden for query containing stage: {stage}");
            Err(CommandError::new(ErrorCode(8_705_200), message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, Value, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    fn in_set() -> &'static Server {
        Box::leak(Box::new(Server::in_memory_with(&["--replSet", "rs"])))
    }

    fn set(server: &'static Server, subject: impl Into<Value>, settings: Document) -> Document {
        let command = doc! { "setQuerySettings": subject, "settings": settings, "$db": "admin" };
        answer(server, &command)
    }

    fn find(value: i32) -> Document {
        doc! { "find": "c", "filter": { "a": value }, "$db": "db" }
    }

    #[test]
    fn a_shape_is_refused_whatever_its_values_until_its_settings_go() {
        let server = in_set();
        let reply = set(server, find(1), doc! { "reject": true });
        assert_eq!(reply.get_f64("ok"), Some(1.0), "{reply}");
        assert_eq!(
            reply.get_document("settings"),
            Some(doc! { "reject": true }.as_raw())
        );
        assert_eq!(
            reply.get_document("representativeQuery"),
            Some(find(1).as_raw())
        );
        let code = |command: &Document| answer(server, command).get_i32("code");
        assert_eq!(code(&find(1)), Some(411));
        assert_eq!(code(&find(2)), Some(411));
        let other = doc! { "find": "c", "filter": { "a": "x" }, "$db": "db" };
        assert_eq!(code(&other), None);
        let explain = doc! { "explain": (find(3)), "$db": "db" };
        let explained = answer(server, &explain);
        let shown = explained
            .as_raw()
            .get_path("queryPlanner.querySettings.reject");
        assert_eq!(
            shown.and_then(|shown| shown.as_bool()),
            Some(true),
            "{explained}"
        );
        let hash = reply.get_str("queryShapeHash");
        assert_eq!(explained.get_str("queryShapeHash"), hash);
        let remove = doc! { "removeQuerySettings": (hash.unwrap()), "$db": "admin" };
        assert_eq!(code(&remove), None);
        assert_eq!(code(&find(1)), None);
        // There is nothing left to be removed, which is no error.
        assert_eq!(code(&remove), None);
    }

    #[test]
    fn settings_are_merged_by_hash_and_by_query() {
        let server = in_set();
        let reply = set(server, find(1), doc! { "queryFramework": "classic" });
        let hash = reply.get_str("queryShapeHash").unwrap().to_owned();
        let reply = set(
            server,
            hash.as_str(),
            doc! { "reject": true, "comment": "slow" },
        );
        let both = doc! { "queryFramework": "classic", "reject": true, "comment": "slow" };
        assert_eq!(
            reply.get_document("settings"),
            Some(both.as_raw()),
            "{reply}"
        );
        let reply = set(server, find(7), doc! { "reject": false });
        let left = doc! { "queryFramework": "classic", "comment": "slow" };
        assert_eq!(
            reply.get_document("settings"),
            Some(left.as_raw()),
            "{reply}"
        );
        assert_eq!(
            reply.get_document("representativeQuery"),
            Some(find(7).as_raw())
        );
        // A hash alone, which no query has named yet, has no representative.
        let unknown = "0".repeat(64);
        let reply = set(server, unknown.as_str(), doc! { "reject": true });
        assert_eq!(reply.get_str("queryShapeHash"), Some(&*unknown), "{reply}");
        assert!(reply.get("representativeQuery").is_none());
    }

    #[test]
    fn what_cannot_have_settings_is_refused_with_mongodbs_codes() {
        let server = in_set();
        let reject = || doc! { "reject": true };
        let aggregate =
            |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "$db": "db" };
        for (subject, settings, code) in [
            (Value::from(find(1)), doc! {}, 8_727_502),
            (find(1).into(), doc! { "comment": "x" }, 7_746_604),
            (1.into(), reject(), 14),
            ("short".into(), reject(), 2),
            ("AB".into(), reject(), 16),
            (
                doc! { "count": "c", "$db": "db" }.into(),
                reject(),
                7_746_402,
            ),
            (doc! { "find": "c" }.into(), reject(), 40_414),
            (doc! { "find": 1, "$db": "db" }.into(), reject(), 7_746_605),
            (
                doc! { "distinct": 1, "key": "a", "$db": "db" }.into(),
                reject(),
                7_919_501,
            ),
            (
                doc! { "find": "c", "filter": { "a": { "$no": 1 } }, "$db": "db" }.into(),
                reject(),
                2,
            ),
            (
                doc! { "find": "c", "unknown": 1, "$db": "db" }.into(),
                reject(),
                40_415,
            ),
            (
                doc! { "find": "c", "filter": { "_id": 1 }, "$db": "db" }.into(),
                reject(),
                7_746_606,
            ),
            (
                doc! { "find": "c", "filter": { "_id": { "$eq": 1 } }, "$db": "db" }.into(),
                reject(),
                7_746_606,
            ),
            (
                doc! { "find": "c", "$db": "admin" }.into(),
                reject(),
                8_584_900,
            ),
            (
                doc! { "find": "system.js", "$db": "db" }.into(),
                reject(),
                8_584_901,
            ),
            (
                aggregate(doc! { "$collStats": {} }).into(),
                reject(),
                8_705_200,
            ),
            (aggregate(doc! { "$no": {} }).into(), reject(), 40_324),
            (
                aggregate(doc! { "$changeStream": {} }).into(),
                reject(),
                238,
            ),
        ] {
            let reply = set(server, subject.clone(), settings);
            assert_eq!(reply.get_i32("code"), Some(code), "{subject:?}: {reply}");
        }
        let by_id_with_more = doc! { "find": "c", "filter": { "_id": 1 }, "skip": 1, "$db": "db" };
        assert_eq!(set(server, by_id_with_more, reject()).get_i32("code"), None);
    }

    #[test]
    fn a_standalone_has_no_settings() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        let reply = set(server, find(1), doc! { "reject": true });
        assert_eq!(reply.get_i32("code"), Some(20), "{reply}");
        let remove = doc! { "removeQuerySettings": (find(1)), "$db": "admin" };
        assert_eq!(answer(server, &remove).get_i32("code"), Some(20));
    }
}
