//! A new user meets the terminal, the warnings and the sizes of a server that was just started.

use std::process::{Command, Stdio};
use std::time::Duration;

use quarry_bson::doc;

use crate::client::Client;
use crate::server::{Directory, Server, wait_for};

const WAIT: Duration = Duration::from_secs(20);

/// The text that the server writes to a terminal until it stops.
fn on_terminal(arguments: &str) -> String {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let line = format!(
        "exec {} serve --engine memory --port 0 --dbpath {} {arguments}",
        env!("CARGO_BIN_EXE_quarry"),
        data.display()
    );
    // `script` gives it a terminal of its own.
    let child = Command::new("script")
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(WAIT, || data.join("quarry.port").exists().then_some(())).expect("the server starts");
    let pid = std::fs::read_to_string(data.join("quarry.lock")).unwrap();
    assert!(
        Command::new("kill")
            .args(["-TERM", pid.trim()])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn a_terminal_is_told_how_to_connect_in_three_lines() {
    let said = on_terminal("--adminPort 0");
    let greeting: Vec<&str> = said.lines().filter(|line| line.starts_with("  ")).collect();
    let [connect, console, options] = greeting[..] else {
        panic!("{said}");
    };
    let port = |line: &str, scheme: &str| -> u16 {
        let rest = line
            .split_once(scheme)
            .unwrap_or_else(|| panic!("{line}"))
            .1;
        rest.trim_start_matches("127.0.0.1:")
            .trim_end_matches('/')
            .parse()
            .unwrap_or_else(|_| panic!("{line}"))
    };
    assert_ne!(port(connect, "mongodb://"), port(console, "http://"));
    assert!(options.ends_with("quarry serve --help"), "{options}");
    // Lines for people, not JSON, and nothing for programs that look for mongod's.
    assert!(!said.contains("{\"t\""), "{said}");
    assert!(said.contains("listening"), "{said}");
}

#[test]
fn an_open_server_without_access_control_warns_in_the_log_and_in_the_shell() {
    let server = Server::start(&["--bind_ip", "0.0.0.0", "--logFormat", "json"]);
    let warning = server.line("Access control is not enabled for the database");
    assert!(warning.contains(r#""s":"W""#), "{warning}");
    let shown = Client::connect(server.port).run(&doc! { "getLog": "startupWarnings" });
    let lines: Vec<String> = shown
        .get_array("log")
        .unwrap()
        .iter()
        .filter_map(|line| Some(line.as_str()?.to_owned()))
        .collect();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("Access control is not enabled")),
        "{lines:?}"
    );
    // With it, or for this machine alone, nobody is warned.
    for arguments in [
        &["--bind_ip", "0.0.0.0", "--auth", "--adminPort", "off"][..],
        &[],
    ] {
        let server = Server::start(arguments);
        server.line("Waiting for connections");
        assert!(
            server
                .lines_with("Access control is not enabled")
                .is_empty(),
            "{arguments:?}"
        );
    }
}

/// GUIs show these figures first: data that is still in memory is data.
#[test]
fn sizes_tell_of_what_is_not_flushed_yet() {
    for engine in ["rocksdb", "mdbx", "memory"] {
        let mut server = Server::spawn(std::sync::Arc::new(Directory::new()), engine, &[]);
        server.wait_listening();
        let mut client = Client::connect(server.port);
        let documents: Vec<_> = (0..50)
            .map(|number| doc! { "_id": number, "text": "x".repeat(100) })
            .collect();
        let key = doc! { "key": { "text": 1 }, "name": "text_1" };
        client.run(&doc! { "createIndexes": "things", "indexes": [key] });
        client.run(&doc! { "insert": "things", "documents": documents });
        let stats = client.run(&doc! { "collStats": "things" });
        let storage = stats.get_i64("storageSize").unwrap();
        assert!(storage > 1_000, "{engine}: {stats}");
        assert!(
            stats.get_i64("totalIndexSize").unwrap() > 0,
            "{engine}: {stats}"
        );
        let sum = client.run(&doc! { "dbStats": 1 });
        assert!(
            sum.get_f64("storageSize").unwrap() > 1_000.0,
            "{engine}: {sum}"
        );
        let listed = client.run(&doc! { "listDatabases": 1 });
        let database = listed
            .get_array("databases")
            .unwrap()
            .iter()
            .next()
            .unwrap();
        let size = database
            .as_document()
            .unwrap()
            .get_i64("sizeOnDisk")
            .unwrap();
        assert!(size >= storage, "{engine}: {listed}");
    }
}
