//! `testVersion2` and its kin: they answer with the API parameters that they were called with, so that drivers can test how a server holds
//! commands against an API version. Only in test mode. Version 1 is the only one that is served, as MongoDB 8.0 serves no other
//! unless a test asks for it (`acceptApiVersion2`, which is not served).

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
    ..for_tests(
        "testDeprecationInVersion2",
        "is of API versions 1 and 2, and deprecated in 2",
    )
};

pub static REMOVAL: Command = Command {
    is_in_api_1: true,
    ..for_tests("testRemoval", "is of API version 1, and not of 2")
};

pub static VERSION_2: Command = for_tests("testVersion2", "is of API version 2 alone");

pub static VERSIONS_1_AND_2: Command = Command {
    is_in_api_1: true,
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
    use quarry_bson::{Document, doc};

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

    #[test]
    fn commands_are_held_against_the_api_version_that_is_asked_for() {
        let flags = ["--setParameter", "enableTestCommands=1"];
        let server = Box::leak(Box::new(Server::in_memory_with(&flags)));
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
        }
        let refused = call(server, "testVersion2", &strict);
        let text = "Provided apiStrict:true, but the command testVersion2 is not in API Version 1";
        assert_eq!(refused.get_str("errmsg"), Some(text));
        let taken = call(server, "testVersions1And2", &strict);
        assert_eq!(taken.get_str("apiVersion"), Some("1"));
        assert_eq!(taken.get_bool("apiStrict"), Some(true));
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
