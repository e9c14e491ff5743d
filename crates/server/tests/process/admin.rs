//! The admin port and the bound on connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

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
    let text = get(&server, "/metrics", "");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("text/plain; version=0.0.4"), "{text}");
    let sample = r#"quarry_phase_seconds_count{operation="command",phase="decode"}"#;
    assert!(text.contains(sample), "{text}");
    assert!(
        text.contains("# TYPE quarry_engine_gets_total counter"),
        "{text}"
    );
    assert!(!text.contains("# EOF") && !text.contains(" # {"), "{text}");
}

#[test]
fn a_scraper_that_accepts_openmetrics_gets_exemplars() {
    let server = Server::start(&["--logFormat", "json", "--slowms", "0"]);
    let mut client = Client::connect(server.port);
    client.run(&doc! { "insert": "things", "documents": [doc! { "_id": 1 }] });
    client.run(&doc! { "ping": 1 });
    let text = get(
        &server,
        "/metrics",
        "Accept: application/openmetrics-text\r\n",
    );
    assert!(
        text.contains("application/openmetrics-text; version=1.0.0"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("# EOF"), "{text}");
    let exemplar = text
        .lines()
        .find(|line| line.contains(" # {opid="))
        .unwrap();
    assert!(exemplar.contains(r#"operation="insert""#), "{exemplar}");
    // The buckets of an operation rise to its count.
    let buckets: Vec<u64> = text
        .lines()
        .filter(|line| line.starts_with("quarry_operation_seconds_bucket{"))
        .filter(|line| line.contains(r#"operation="insert""#))
        .map(|line| {
            line.split("} ")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert!(
        buckets.is_sorted() && buckets.last() == Some(&1),
        "{buckets:?}"
    );
}

#[test]
fn a_client_that_does_not_finish_its_request_holds_up_nobody() {
    let server = Server::start(&["--logFormat", "json"]);
    let mut slow = Vec::new();
    // More of them than may be open at once.
    for _ in 0..50 {
        for unfinished in [
            "GET /metrics HTTP/1.1\r\nHost:",
            "POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n",
            "",
        ] {
            let mut stream = connect(&server);
            stream.write_all(unfinished.as_bytes()).unwrap();
            slow.push(stream);
        }
    }
    for _ in 0..20 {
        assert!(get(&server, "/health", "").ends_with("ok\n"));
    }
    // Those that were let in have a moment for their heads; the time of the read is far longer.
    let mut last = slow.pop().unwrap();
    assert_eq!(last.read(&mut [0; 1]).unwrap_or(0), 0);
}

/// Answers that one client asks for and does not take.
const UNTAKEN_ANSWERS: usize = 4;
const WAVES: usize = 10;
const CHECKS_A_WAVE: usize = 50;
/// A health check takes less than a millisecond; a lane that is held up takes the seconds of a head or of a large answer.
const HEALTH_TIME: Duration = Duration::from_millis(100);
/// A machine that has much else to do may hold up some of the checks.
const LATE_CHECKS_MAX: usize = 10;

/// A client that begins a request, or asks for large answers, and then neither sends nor takes anything.
fn stalled(server: &Server, number: usize) -> TcpStream {
    let mut stream = connect(server);
    let figures = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(UNTAKEN_ANSWERS);
    let sent = match number % 4 {
        0 => "",
        1 => "GET /health HTTP/1.1\r\nHost:",
        2 => "POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n",
        _ => figures.as_str(),
    };
    // A server that made room by closing it need not take this.
    let _ = stream.write_all(sent.as_bytes());
    stream
}

#[test]
fn health_is_answered_within_a_tenth_of_a_second_beside_any_number_of_stalled_connections() {
    let server = Server::start(&["--logFormat", "json"]);
    for stalled_count in [64, 200] {
        let mut waits = Vec::new();
        for _ in 0..WAVES {
            let _stalled: Vec<TcpStream> = (0..stalled_count)
                .map(|number| stalled(&server, number))
                .collect();
            for _ in 0..CHECKS_A_WAVE {
                let begun = Instant::now();
                assert!(get(&server, "/health", "").ends_with("ok\n"));
                waits.push(begun.elapsed());
            }
        }
        waits.sort_unstable();
        let late = waits.iter().filter(|wait| **wait > HEALTH_TIME).count();
        let worst = &waits[waits.len() - 3..];
        assert!(
            late <= LATE_CHECKS_MAX,
            "{stalled_count}: {late} late, {worst:?}"
        );
    }
}

#[test]
fn what_is_no_request_for_a_page_is_refused() {
    let server = Server::start(&["--logFormat", "json"]);
    let posted = ask(
        &server,
        "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n",
    );
    assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
    assert!(
        posted.to_lowercase().contains("allow: get, head"),
        "{posted}"
    );
    let missing = get(&server, "/nowhere", "");
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    let head = ask(&server, "HEAD /health HTTP/1.1\r\nHost: x\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let long = format!("X-Long: {}\r\n", "x".repeat(1 << 20));
    let long = get(&server, "/health", &long);
    assert!(long.starts_with("HTTP/1.1 431"), "{long}");
    let many: String = (0..200).map(|n| format!("X-{n}: x\r\n")).collect();
    let many = get(&server, "/health", &many);
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
}

#[test]
fn the_console_is_one_page_and_its_figures_are_the_commands() {
    let server = Server::start(&["--logFormat", "json", "--slowms", "0"]);
    let mut client = Client::connect(server.port);
    for id in 0..7 {
        client.run(&doc! { "insert": "things", "documents": [doc! { "_id": id }] });
    }
    client.run(&doc! { "find": "things", "filter": doc! { "a": 1 } });
    client.run(&doc! { "ping": 1 });
    let page = get(&server, "/", "");
    assert!(page.contains("text/html") && page.contains("timing.json"));
    // It works offline: nothing is loaded from elsewhere.
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    let answer = get(&server, "/timing.json", "");
    let json = answer.split("\r\n\r\n").nth(1).unwrap();
    let figures = quarry_bson::extjson::parse(json).unwrap();
    let number = |path: &str| {
        figures
            .get_path(path)
            .and_then(|value| value.as_f64_lossy())
    };
    assert_eq!(number("sinceStart.insert.count"), Some(7.0));
    let buckets = figures.get_path("sinceStart.insert.buckets").unwrap();
    let counts = buckets.as_array().unwrap().iter();
    let sum: i64 = counts.map(|count| count.as_i64_exact().unwrap()).sum();
    assert_eq!(sum, 7);
    let timing = client.run(&doc! { "getOpTiming": 1, "window": "lastMinute" });
    let micros = "insert.phases.wall.p50Micros";
    assert_eq!(
        number(&format!("lastMinute.{micros}")),
        timing
            .get_path(format!("operations.{micros}"))
            .and_then(|value| value.as_f64_lossy())
    );
    let slow = figures.get_array("slow").unwrap();
    // The ping may not be settled yet: its reply came first.
    let ops: Vec<&str> = slow
        .iter()
        .map(|one| one.as_document().unwrap().get_str("op").unwrap())
        .filter(|op| *op != "command")
        .collect();
    assert_eq!(&ops[..2], &["query", "insert"]);
}

fn connect(server: &Server) -> TcpStream {
    let line = server.line("adminPort");
    let port = line.split("\"adminPort\":").nth(1).unwrap();
    let port = port.trim_end_matches(['}', '\n']).parse::<u16>().unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// The whole answer of the admin port.
fn get(server: &Server, path: &str, headers: &str) -> String {
    ask(
        server,
        &format!("GET {path} HTTP/1.1\r\nHost: quarry\r\n{headers}"),
    )
}

/// The answer to a request without a body.
fn ask(server: &Server, head: &str) -> String {
    let mut http = connect(server);
    // A server that refuses a head need not have read it to its end.
    let _ = http.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes());
    let mut answer = Vec::new();
    let ended = http.read_to_end(&mut answer);
    assert!(ended.is_ok() || !answer.is_empty(), "{ended:?}");
    String::from_utf8(answer).unwrap()
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
    assert_eq!(server.lines_with("adminPort"), [""; 0]);
}
