//! The admin port and the bound on connections.

use std::io::{Read, Write};
use std::net::TcpStream;

use quarry_bson::doc;

use crate::client::Client;
use crate::server::Server;

#[test]
fn metrics_tell_the_phases_of_what_was_run() {
    let server = Server::start(&["--logFormat", "json"]);
    let mut client = Client::connect(server.port);
    // The figures of the first are in once the second is answered: they are taken after the reply is sent.
    client.run(&doc! { "ping": 1 });
    client.run(&doc! { "ping": 1 });
    let line = server.line("adminPort");
    let port = line
        .split("\"adminPort\":")
        .nth(1)
        .unwrap()
        .trim_end_matches(['}', '\n']);
    let mut http = TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap())).unwrap();
    http.write_all(b"GET /metrics HTTP/1.1\r\nHost: quarry\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    http.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(
        text.contains("quarry_phase_seconds_count{operation=\"command\",phase=\"decode\"}"),
        "{text}"
    );
}

#[test]
fn connections_beyond_the_bound_are_closed_and_the_others_live() {
    let server = Server::start(&["--maxConns", "2", "--adminPort", "off"]);
    let mut first = Client::connect(server.port);
    let mut second = Client::connect(server.port);
    first.run(&doc! { "ping": 1 });
    second.run(&doc! { "ping": 1 });
    assert!(Client::connect(server.port).is_closed());
    let status = first.run(&doc! { "serverStatus": 1 });
    assert_eq!(
        status
            .get_path("connections.rejected")
            .and_then(|count| count.as_i64_exact()),
        Some(1)
    );
    assert_eq!(second.run(&doc! { "ping": 1 }).get_f64("ok"), Some(1.0));
    assert_eq!(server.count_lines("adminPort"), 0);
}
