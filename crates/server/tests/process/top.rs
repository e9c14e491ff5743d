//! `quarry top` against a live server.

use quarry_bson::doc;

use crate::client::Client;
use crate::server::{Server, quarry, said};

#[test]
fn it_prints_what_the_server_did() {
    let server = Server::start(&["--adminPort", "off"]);
    let mut client = Client::connect(server.port);
    for id in 0..20 {
        client.run(&doc! { "insert": "things", "documents": [doc! { "_id": id }] });
    }
    client.run(&doc! { "ping": 1 });
    let port = server.port.to_string();
    let output = quarry(&["top", "--once", "--port", &port])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let insert = text
        .lines()
        .find(|line| line.starts_with("insert"))
        .unwrap();
    assert!(insert.contains(" us") || insert.contains(" ms"), "{text}");
    assert!(insert.contains('█'), "{text}");
    let things = text
        .lines()
        .find(|line| line.starts_with("admin.things"))
        .unwrap();
    assert!(things.contains("20") && things.contains("100.0%"), "{text}");
}

#[test]
fn without_a_server_it_says_so() {
    // Taken and let go: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port()
        .to_string();
    let output = quarry(&["top", "--once", "--port", &port])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(
        said(&output).contains(&format!("127.0.0.1:{port}")),
        "{}",
        said(&output)
    );
}
