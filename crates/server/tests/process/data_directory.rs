//! Which directories a server takes for its data, and what it leaves of those that it does not.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::server::{Directory, Server, refused, said};

/// The names of everything in a directory, those below it too.
fn listing(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.display().to_string());
        if path.is_dir() {
            names.extend(listing(&path));
        }
    }
    names.sort();
    names
}

#[track_caller]
fn assert_refused_untouched(data: &Path, engine: &str, named: &[&str]) {
    let before = listing(data);
    let path = data.display().to_string();
    // A log in the directory is not begun, and one that is there is not moved aside.
    let log = data.join("server.log").display().to_string();
    let arguments = [
        "--dbpath",
        &path,
        "--engine",
        engine,
        "--port",
        "0",
        "--logpath",
        &log,
    ];
    let output = refused(&arguments);
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    for name in named {
        assert!(said(&output).contains(name), "{}", said(&output));
    }
    assert_eq!(listing(data), before, "something was left there");
}

#[test]
fn another_databases_directory_is_refused_by_name_and_untouched() {
    for (name, database) in [
        ("WiredTiger", "MongoDB"),
        ("PG_VERSION", "PostgreSQL"),
        ("ibdata1", "MySQL"),
        ("notes.txt", "not Quarry's"),
    ] {
        let directory = Directory::new();
        fs::write(directory.path().join(name), b"kept").unwrap();
        for engine in ["rocksdb", "mdbx", "memory"] {
            assert_refused_untouched(directory.path(), engine, &[name, database]);
        }
    }
}

#[test]
fn a_wrong_engine_is_told_the_right_one_and_leaves_nothing() {
    for (right, wrong) in [("rocksdb", "mdbx"), ("mdbx", "rocksdb")] {
        let mut server = Server::spawn(Arc::new(Directory::new()), right, &[]);
        server.wait_listening();
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        for wrong in [wrong, "memory"] {
            let advice = format!("--engine {right}");
            assert_refused_untouched(&server.data(), wrong, &[&advice]);
        }
    }
}

#[test]
fn what_a_new_file_system_and_the_server_put_there_is_no_obstacle() {
    let directory = Arc::new(Directory::new());
    let data = directory.path().join("data");
    fs::create_dir_all(data.join("lost+found")).unwrap();
    fs::write(data.join(".gitkeep"), b"").unwrap();
    for engine in ["memory", "rocksdb", "rocksdb"] {
        let log = data.join("quarry.log").display().to_string();
        let arguments = ["--logpath", &log, "--logappend"];
        let mut server = Server::spawn(Arc::clone(&directory), engine, &arguments);
        server.wait_listening();
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// Nor is it one that a start makes its log there before the data, and fails.
#[test]
fn a_log_and_a_pid_file_in_a_new_directory_are_no_obstacle() {
    let directory = Arc::new(Directory::new());
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    let log = data.join("server.log").display().to_string();
    let pid = data.join("server.pid").display().to_string();
    let arguments = ["--logpath", &log, "--pidfilepath", &pid];
    let start = |engine| {
        let mut server = Server::spawn(Arc::clone(&directory), engine, &arguments);
        server.wait_listening();
        server
    };
    // Killed, so that the pid file stays; nothing of an engine that keeps data is there yet.
    start("memory").kill();
    // The port that it has left is not to be taken for the next one's.
    fs::remove_file(data.join("quarry.port")).unwrap();
    assert!(Path::new(&pid).exists());
    for _ in 0..2 {
        let mut server = start("rocksdb");
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
}
