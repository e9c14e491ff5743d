//! The binary as mongod, in the background, and with mongod's flags: what a script or a test harness meets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use quarry_bson::doc;

use crate::client::Client;
use crate::server::{Directory, Server, quarry, refused, said, wait_for};

const WAIT: Duration = Duration::from_secs(20);

/// A link named `mongod` to the binary.
fn mongod(directory: &Directory) -> Command {
    let link = directory.path().join("mongod");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_quarry"), &link).unwrap();
    }
    let mut command = Command::new(link);
    command.stdin(Stdio::null()).current_dir(directory.path());
    command
}

fn data(directory: &Directory) -> PathBuf {
    let data = directory.path().join("data");
    fs::create_dir_all(&data).unwrap();
    data
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

#[test]
fn a_link_named_mongod_answers_as_mongod_does() {
    let directory = Directory::new();
    let version = run(mongod(&directory).arg("--version"));
    assert!(version.status.success());
    assert!(
        said(&version).starts_with("db version v8.0."),
        "{}",
        said(&version)
    );
    let missing = directory.path().join("nowhere");
    let output = run(mongod(&directory)
        .arg("--dbpath")
        .arg(&missing)
        .args(["--port", "0"]));
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert!(said(&output).contains("Data directory") && said(&output).contains("not found"));
    assert!(!missing.exists());
}

#[test]
fn mongod_says_when_it_waits_for_connections_and_has_no_admin_port() {
    let directory = Directory::new();
    let mut child = mongod(&directory)
        .arg("--dbpath")
        .arg(data(&directory))
        .args([
            "--port",
            "0",
            "--storageEngine",
            "ephemeralForTest",
            "--noauth",
            "--replSet",
            "rs0",
        ])
        .args([
            "-vv",
            "--nounixsocket",
            "--objcheck",
            "--setParameter",
            "enableTestCommands=1",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut seen = Vec::new();
    let waiting = loop {
        let line = lines.next().expect("the server starts").unwrap();
        if line.contains("Waiting for connections") {
            break line;
        }
        seen.push(line);
    };
    let seen = seen.join("\n");
    assert!(waiting.starts_with(r#"{"t":{"$date":""#), "{waiting}");
    assert!(
        waiting.contains(r#""s":"I","c":"NETWORK","id":23016,"ctx":"#),
        "{waiting}"
    );
    assert!(
        waiting.contains(r#""msg":"Waiting for connections","attr":{"port":"#),
        "{waiting}"
    );
    assert!(
        seen.contains("Transition to primary complete; database writes are now permitted"),
        "{seen}"
    );
    assert!(!seen.contains("adminPort"), "{seen}");
    // One warning an option that has no effect.
    for option in ["--verbose", "--objcheck"] {
        assert_eq!(
            seen.matches(&format!(r#""option":"{option}""#)).count(),
            1,
            "{seen}"
        );
    }
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let status = wait_for(WAIT, || child.try_wait().unwrap()).expect("it stops");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_flag_of_mongod_that_is_not_served_is_refused_by_name_with_the_reason() {
    let directory = Directory::new();
    let data = data(&directory);
    for (arguments, reason) in [
        (&["--repair"][..], "--repair: the command `validate` checks"),
        (
            &["--auditDestination", "syslog"],
            "auditDestination: `syslog` is not supported yet",
        ),
        (
            &[
                "--auditDestination",
                "console",
                "--auditFilter",
                "{\"a\": {\"$no\": 1}}",
            ],
            "auditFilter: ",
        ),
        (&["--shardsvr"], "--shardsvr: sharding is not supported"),
        (
            &["--enableMajorityReadConcern", "false"],
            "--enableMajorityReadConcern: it is always on",
        ),
        (
            &["--storageEngine", "mmapv1"],
            "storageEngine: `mmapv1` is none of",
        ),
        (&["--wiredTigerCacheSizeGB", "0"], "wiredTigerCacheSizeGB"),
        (&["--fork"], "fork: the log needs a file"),
        (
            &[
                "--fork",
                "--logpath",
                "/nowhere/log",
                "--auditDestination",
                "console",
            ],
            "fork: the audit log needs a file",
        ),
        (
            &["--logRotate", "reopen"],
            "logRotate: `reopen` needs --logappend",
        ),
        (&["--bind_ip_all", "--bind_ip", "127.0.0.1"], "--bind_ip"),
        (&["--keyFile", "/nowhere/key"], "/nowhere/key"),
        (
            &["--slowOpSampleRate", "2"],
            "slowOpSampleRate: 2 is not from 0 to 1",
        ),
        (&["--no-such-flag"], "--no-such-flag"),
    ] {
        for face in ["serve", "mongod"] {
            let output = run(quarry(&[face, "--port", "0", "--dbpath"])
                .arg(&data)
                .args(arguments));
            assert_eq!(
                output.status.code(),
                Some(2),
                "{face} {arguments:?}: {}",
                said(&output)
            );
            assert!(
                said(&output).contains(reason),
                "{face} {arguments:?}: {}",
                said(&output)
            );
        }
    }
}

#[test]
fn a_mistake_in_a_file_is_shown_with_its_line() {
    let directory = Directory::new();
    let file = directory.path().join("mongod.conf");
    fs::write(&file, "net:\n  port: 0\nstorage:\n  dbPaht: x\n").unwrap();
    let output = refused(&["--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let wanted = format!(
        "quarry: config: {}: line 4: storage.dbPaht: the key is not known\n    4 |   dbPaht: x\n",
        file.display()
    );
    assert_eq!(said(&output), wanted);
}

#[test]
fn debians_mongod_conf_starts_a_server_in_the_background_which_stops_by_the_directory() {
    let directory = Directory::new();
    let data = data(&directory);
    let at = |name: &str| directory.path().join(name).display().to_string();
    let file = directory.path().join("mongod.conf");
    fs::write(
        &file,
        format!(
            "storage:\n  dbPath: {}\n  journal:\n    enabled: true\n  engine: mdbx\nsystemLog:\n  destination: file\n  logAppend: true\n  path: {}\n\
             net:\n  port: 0\n  bindIp: 127.0.0.1\nprocessManagement:\n  timeZoneInfo: /usr/share/zoneinfo\n  fork: true\n  pidFilePath: {}\n#security:\n",
            data.display(),
            at("mongod.log"),
            at("mongod.pid")
        ),
    )
    .unwrap();
    let started = run(mongod(&directory).args(["--config", file.to_str().unwrap()]));
    assert!(started.status.success(), "{}", said(&started));
    let said_pid = said(&started);
    assert!(
        said_pid.contains("child process started successfully, parent exiting"),
        "{said_pid}"
    );
    let pid = fs::read_to_string(at("mongod.pid")).unwrap();
    assert!(
        said_pid.contains(&format!("forked process: {}\n", pid.trim())),
        "{said_pid}"
    );
    // It serves as soon as the first process has ended.
    let port: u16 = fs::read_to_string(data.join("quarry.port"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let mut client = Client::connect(port);
    assert_eq!(client.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
    // A second one on the directory fails, and says so through the first process.
    let second = run(mongod(&directory).args(["--config", file.to_str().unwrap()]));
    assert_eq!(second.status.code(), Some(100), "{}", said(&second));
    assert!(
        fs::read_to_string(at("mongod.log"))
            .unwrap()
            .contains("in use by process")
    );
    let stopped = run(mongod(&directory)
        .arg("--shutdown")
        .arg("--dbpath")
        .arg(&data));
    assert!(stopped.status.success(), "{}", said(&stopped));
    assert!(said(&stopped).contains(pid.trim()), "{}", said(&stopped));
    assert!(client.is_closed() && !data.join("quarry.port").exists());
    let nobody = run(mongod(&directory)
        .arg("--shutdown")
        .arg("--dbpath")
        .arg(&data));
    assert_eq!(nobody.status.code(), Some(1), "{}", said(&nobody));
}

#[test]
fn every_address_is_listened_on_with_either_protocol() {
    let server = Server::start(&["--bind_ip_all", "--ipv6", "--adminPort", "off"]);
    for host in ["127.0.0.1", "::1"] {
        assert!(
            std::net::TcpStream::connect((host, server.port)).is_ok(),
            "{host}"
        );
    }
}

#[test]
fn a_log_that_somebody_else_moves_is_opened_again() {
    let directory = Directory::new();
    let log = directory.path().join("server.log");
    let text = log.display().to_string();
    let server = Server::start(&["--logpath", &text, "--logappend", "--logRotate", "reopen"]);
    let moved = directory.path().join("server.log.1");
    fs::rename(&log, &moved).unwrap();
    server.signal("USR1");
    let begins = wait_for(WAIT, || {
        fs::read_to_string(&log)
            .ok()
            .filter(|text| text.contains("log rotated"))
    });
    assert!(begins.is_some());
    assert!(fs::read_to_string(&moved).unwrap().contains("listening"));
}
