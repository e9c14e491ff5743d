//! Tests of servers that do not start, and how they say so: one line and mongod's exit code.

use std::fs;
use std::net::TcpListener;

use crate::server::{Directory, Server, refused, said};

#[test]
fn bad_options_exit_with_2_and_name_the_option() {
    let directory = Directory::new();
    let file = directory.path().join("quarry.yaml");
    fs::write(&file, "net:\n  port: 0\nstorage:\n  journalling: true\n").unwrap();
    let file = file.to_str().unwrap();
    let dbpath = directory.path().join("data");
    let dbpath = dbpath.to_str().unwrap();
    let cases: [(&[&str], &str); 11] = [
        (&["--journalling"], "--journalling"),
        (&["--engine", "wiredTiger"], "wiredTiger"),
        (&["--port", "123456"], "123456"),
        (&["--replSet", "rs0/db:1"], "replSet"),
        (&["--config", file], "journalling"),
        (
            &["--config", "/nowhere/quarry.yaml"],
            "/nowhere/quarry.yaml",
        ),
        (&["--adminPort", "maybe"], "maybe"),
        (
            &["--engine", "memory", "--mdbx-sync", "durable"],
            "mdbx-sync",
        ),
        (
            &["--engine", "mdbx", "--mdbx-sync", "utterly-no-sync"],
            "--durability relaxed",
        ),
        (
            &[
                "--dbpath",
                dbpath,
                "--port",
                "0",
                "--engine",
                "memory",
                "--setParameter",
                "noSuch=1",
            ],
            "noSuch",
        ),
        (
            &["--dbpath", dbpath, "--setParameter", "recordCacheMB=-1"],
            "recordCacheMB=-1",
        ),
    ];
    for (arguments, named) in cases {
        let output = refused(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(named),
            "{arguments:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn a_port_in_use_exits_with_48() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let directory = Directory::new();
    let data = directory.path().to_str().unwrap();
    let output = refused(&[
        "--engine",
        "memory",
        "--dbpath",
        data,
        "--port",
        &port,
        "--adminPort",
        "off",
    ]);
    assert_eq!(output.status.code(), Some(48), "{}", said(&output));
    assert!(said(&output).contains(&port), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
}

#[test]
fn a_data_directory_that_cannot_be_used_exits_with_100() {
    let server = Server::start(&[]);
    let data = server.data();
    let output = refused(&[
        "--engine",
        "memory",
        "--port",
        "0",
        "--dbpath",
        data.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert!(
        said(&output).contains("in use by process"),
        "{}",
        said(&output)
    );
    let file = server.directory.path().join("file");
    fs::write(&file, "").unwrap();
    let output = refused(&[
        "--engine",
        "memory",
        "--port",
        "0",
        "--dbpath",
        file.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert!(
        said(&output).contains(file.to_str().unwrap()),
        "{}",
        said(&output)
    );
}

#[test]
fn the_port_that_was_taken_is_told_in_the_line_and_in_the_file() {
    let server = Server::start(&["--logFormat", "json"]);
    let line = server.line("\"msg\":\"listening\"");
    assert!(
        line.contains(&format!("\"port\":{}", server.port)),
        "{line}"
    );
    let server = Server::start(&["--logFormat", "human", "--quiet"]);
    let line = server.line("listening");
    assert!(line.contains(&format!("port={}", server.port)), "{line}");
}
