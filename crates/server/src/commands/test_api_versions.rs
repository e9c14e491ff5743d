//! `testVersion2` and its kin: they answer with the API parameters that they were called with, so that drivers can test how a server holds
//! commands against an API version. Only in test mode. Version 2 is taken where the server was started with `acceptApiVersion2`.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

pub static DEPRECATION: Command = Command {
    is_in_api_1: true,
    is_deprecated_in_api_1: true,
    ..for_tests("testDeprecation", "is deprecated in API version 1")
};

pub static DEPRECATION_IN_VERSION_2: Command = Command {
    is_in_api_1: true,
    is_in_api_2: true,
    is_deprecated_in_api_2: true,
    ..for_tests(
        "testDeprecationInVersion2",
        "is of API versions 1 and 2, and deprecated in 2",
    )
};

pub static REMOVAL: Command = Command {
    is_in_api_1: true,
    ..for_tests("testRemoval", "is of API version 1, and not of 2")
};

pub static VERSION_2: Command = Command {
    is_in_api_2: true,
    ..for_tests("testVersion2", "is of API version 2 alone")
};

pub static VERSIONS_1_AND_2: Command = Command {
    is_in_api_1: true,
    is_in_api_2: true,
    ..for_tests("testVersions1And2", "is of API versions 1 and 2")
};

const fn for_tests(name: &'static str, help: &'static str) -> Command {
    Command {
        is_for_tests: true,
        ..Command::new(name, help, Requires::Login, run)
    }
}

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    for name in ["apiVersion", "apiStrict", "apiDeprecationErrors"] {
        if let Some(value) = invocation.body.get(name) {
            reply.append(name, value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, Value, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    const ALL: [&str; 5] = [
        "testDeprecation",
        "testDeprecationInVersion2",
        "testRemoval",
        "testVersion2",
        "testVersions1And2",
    ];

    fn call(server: &'static Server, name: &str, given: &Document) -> Document {
        let command = Document::build(|command| {
            command.append(name, 1);
            for field in given.as_raw() {
                command.append(field.name(), field.value());
            }
            command.append("$db", "db");
        });
        answer(server, &command)
    }

    fn server(flags: &[&str]) -> &'static Server {
        let mut all = vec!["--setParameter", "enableTestCommands=1"];
        all.extend(flags);
        Box::leak(Box::new(Server::in_memory_with(&all)))
    }

    #[test]
    fn commands_are_held_against_the_api_version_that_is_asked_for() {
        let server = server(&[]);
        let strict = doc! { "apiVersion": "1", "apiStrict": true };
        let careful = doc! { "apiVersion": "1", "apiDeprecationErrors": true };
        let careless = doc! { "apiVersion": "1", "apiDeprecationErrors": false };
        for name in ALL {
            let code = |given: &Document| call(server, name, given).get_i32("code");
            assert_eq!(code(&doc! {}), None, "{name}");
            assert_eq!(code(&doc! { "apiVersion": "1" }), None, "{name}");
            assert_eq!(code(&careless), None, "{name}");
            let of_strict = (name == "testVersion2").then_some(323);
            assert_eq!(code(&strict), of_strict, "{name}");
            let of_careful = (name == "testDeprecation").then_some(324);
            assert_eq!(code(&careful), of_careful, "{name}");
            assert_eq!(code(&doc! { "apiVersion": "2" }), Some(322), "{name}");
            assert_eq!(code(&doc! { "apiVersion": "3" }), Some(322), "{name}");
            for alone in ["apiStrict", "apiDeprecationErrors"] {
                let given = Document::build(|given| {
                    given.append(alone, false);
                });
                assert_eq!(code(&given), Some(4_886_600), "{name} {alone}");
            }
        }
        let refused = call(server, "testVersion2", &strict);
        let text = "Provided apiStrict:true, but the command testVersion2 is not in API Version 1. Information on supported \
                    commands and migrations in API Version 1 can be found at https://dochub.mongodb.org/core/manual-versioned-api.";
        assert_eq!(refused.get_str("errmsg"), Some(text));
        let refused = call(server, "testVersion2", &doc! { "apiVersion": "2" });
        let text = "Cannot accept API version 2";
        assert_eq!(refused.get_str("errmsg"), Some(text));
        let taken = call(server, "testVersions1And2", &strict);
        assert_eq!(taken.get_str("apiVersion"), Some("1"));
        assert_eq!(taken.get_bool("apiStrict"), Some(true));
    }

    #[test]
    fn version_2_is_taken_where_the_server_was_started_for_it() {
        let server = server(&["--setParameter", "acceptApiVersion2=true"]);
        let strict = doc! { "apiVersion": "2", "apiStrict": true };
        let careful = doc! { "apiVersion": "2", "apiDeprecationErrors": true };
        for name in ALL {
            let code = |given: &Document| call(server, name, given).get_i32("code");
            assert_eq!(code(&doc! { "apiVersion": "2" }), None, "{name}");
            let is_of_1_alone = matches!(name, "testDeprecation" | "testRemoval");
            assert_eq!(code(&strict), is_of_1_alone.then_some(323), "{name}");
            let is_deprecated = name == "testDeprecationInVersion2";
            assert_eq!(code(&careful), is_deprecated.then_some(324), "{name}");
            assert_eq!(code(&doc! { "apiVersion": "3" }), Some(322), "{name}");
        }
        // What is served for more than tests is in version 1 alone.
        assert_eq!(call(server, "ping", &strict).get_i32("code"), Some(323));
        let refused = call(server, "testDeprecationInVersion2", &careful);
        let text = "Provided apiDeprecationErrors:true, but the command testDeprecationInVersion2 is deprecated in API Version 2.";
        assert_eq!(refused.get_str("errmsg"), Some(text));
        let list = call(server, "listCommands", &doc! {});
        let versions = |name: &str, field: &str| {
            let path = format!("commands.{name}.{field}");
            let versions = list
                .get_path(path.as_str())
                .and_then(|list| list.as_array());
            versions.map_or(0, |versions| versions.iter().count())
        };
        assert_eq!(versions("testVersions1And2", "apiVersions"), 2);
        assert_eq!(
            versions("testDeprecationInVersion2", "deprecatedApiVersions"),
            1
        );
        assert_eq!(
            (
                versions("ping", "apiVersions"),
                versions("fsync", "apiVersions")
            ),
            (1, 0)
        );
    }

    #[test]
    fn a_server_may_require_a_version() {
        let server = server(&["--setParameter", "requireApiVersion=true"]);
        let version = doc! { "apiVersion": "1" };
        let refused = call(server, "ping", &doc! {});
        assert_eq!(refused.get_i32("code"), Some(498_870), "{refused}");
        let text =
            "The apiVersion parameter is required, please configure your MongoClient's API version";
        assert_eq!(refused.get_str("errmsg"), Some(text));
        assert_eq!(call(server, "ping", &version).get_f64("ok"), Some(1.0));
        let set = |is_on: bool, versioned: bool| {
            let set = Document::build(|set| {
                set.append("setParameter", 1);
                set.append("requireApiVersion", is_on);
                if versioned {
                    set.append("apiVersion", "1");
                }
                set.append("$db", "admin");
            });
            answer(server, &set)
        };
        assert_eq!(set(false, false).get_i32("code"), Some(498_870));
        assert_eq!(set(false, true).get_bool("was"), Some(true));
        assert_eq!(call(server, "ping", &doc! {}).get_f64("ok"), Some(1.0));
    }

    #[test]
    fn a_cursor_goes_on_by_the_parameters_that_it_began_with() {
        let server = server(&[]);
        let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }], "$db": "db" };
        assert_eq!(answer(server, &insert).get_i32("n"), Some(3));
        let with = |command: Document, given: &Document| {
            let mut command = command;
            for field in given.as_raw() {
                command.append(field.name(), field.value());
            }
            answer(server, &command)
        };
        let all = [
            doc! {},
            doc! { "apiVersion": "1" },
            doc! { "apiVersion": "1", "apiStrict": false },
            doc! { "apiVersion": "1", "apiStrict": true },
            doc! { "apiVersion": "1", "apiDeprecationErrors": true },
        ];
        for first in &all {
            let find = doc! { "find": "c", "batchSize": 1, "$db": "db" };
            let found = with(find, first);
            let id = found.get_path("cursor.id").and_then(|id| id.as_i64_exact());
            let id = id.unwrap();
            let more = || doc! { "getMore": (Value::from(id)), "collection": "c", "$db": "db" };
            for other in all.iter().filter(|other| *other != first) {
                let refused = with(more(), other);
                assert_eq!(refused.get_i32("code"), Some(347), "{refused}");
                assert_eq!(refused.get_str("codeName"), Some("APIMismatchError"));
            }
            // It is as it was.
            let rest = with(more(), first);
            let rest = rest
                .get_path("cursor.nextBatch")
                .and_then(|rest| rest.as_array());
            assert_eq!(rest.map(|rest| rest.iter().count()), Some(2));
        }
        let found = with(doc! { "find": "c", "batchSize": 1, "$db": "db" }, &all[3]);
        let id = found
            .get_path("cursor.id")
            .and_then(|id| id.as_i64_exact())
            .unwrap();
        let refused = with(
            doc! { "getMore": (Value::from(id)), "collection": "c", "$db": "db" },
            &all[0],
        );
        let text = "API parameter mismatch: getMore used params {}, the cursor-creating command used { apiVersion: \"1\", apiStrict: true }";
        assert_eq!(refused.get_str("errmsg"), Some(text));
    }

    #[test]
    fn a_server_that_is_for_no_tests_does_not_have_them() {
        let server = Box::leak(Box::new(Server::in_memory()));
        for name in ALL {
            let reply = call(server, name, &doc! {});
            assert_eq!(reply.get_i32("code"), Some(59), "{reply}");
        }
    }
}
