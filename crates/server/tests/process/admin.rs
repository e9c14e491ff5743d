//! The admin port and the bound on connections.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use quarry_bson::{Document, doc};

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
    // Those that were let in have two seconds for their heads.
    let begun = Instant::now();
    match slow[0].read(&mut [0; 1]) {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
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
fn the_console_works_offline_and_its_figures_are_the_commands() {
    let server = Server::start(&["--logFormat", "json", "--slowms", "0"]);
    let mut client = Client::connect(server.port);
    for id in 0..7 {
        client.run(&doc! { "insert": "things", "documents": [doc! { "_id": id }] });
    }
    client.run(&doc! { "find": "things", "filter": doc! { "a": 1 } });
    client.run(&doc! { "ping": 1 });
    let page = get(&server, "/", "");
    assert!(page.contains("text/html") && page.contains("console.js"));
    assert!(page.to_lowercase().contains("script-src 'self'"), "{page}");
    // It works offline: nothing is loaded from elsewhere.
    assert!(!page.contains("http://") && !page.contains("https://"));
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

/// The head of what the page sends to have a command run.
const OWN: &str = "X-Quarry-Console: 1\r\nContent-Type: application/json\r\nHost: 127.0.0.1\r\n";

/// The answer to a command that is sent with these headers.
fn post(server: &Server, headers: &str, command: &str) -> String {
    post_to(server, "/command", headers, command)
}

fn post_to(server: &Server, path: &str, headers: &str, command: &str) -> String {
    let mut http = connect(server);
    let head = format!(
        "POST {path} HTTP/1.1\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
        command.len()
    );
    let _ = http.write_all(format!("{head}{command}").as_bytes());
    let mut answer = Vec::new();
    let _ = http.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn is(answer: &str, status: u16) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
}

#[test]
fn commands_of_the_console_are_the_servers_and_change_nothing_unless_it_was_started_so() {
    let find = r#"{"find": "things", "filter": {"a": {"$gt": 1}}, "$db": "admin"}"#;
    let insert = r#"{"insert": "things", "documents": [{"a": 9}], "$db": "admin"}"#;
    let merge = r#"{"aggregate": "things", "pipeline": [{"$out": "others"}], "cursor": {}, "$db": "admin"}"#;
    let server = Server::start(&["--logFormat", "json"]);
    let mut client = Client::connect(server.port);
    client.run(&doc! { "insert": "things", "documents": [doc! { "a": 1 }, doc! { "a": 2 }] });
    let found = post(&server, OWN, find);
    assert!(
        is(&found, 200) && found.contains(r#""a":2"#) && !found.contains(r#""a":1"#),
        "{found}"
    );
    // What fails is a reply with MongoDB's code.
    let failed = post(
        &server,
        OWN,
        r#"{"find": "things", "filter": {"$x": 1}, "$db": "admin"}"#,
    );
    assert!(
        is(&failed, 200) && failed.contains(r#""code":2"#),
        "{failed}"
    );
    for change in [
        insert,
        merge,
        r#"{"shutdown": 1, "$db": "admin"}"#,
        r#"{"createUser": "x", "pwd": "x", "roles": [], "$db": "admin"}"#,
    ] {
        assert!(is(&post(&server, OWN, change), 403), "{change}");
    }
    for (bad, status) in [
        ("{", 400),
        (r#"{"find": "c", "lsid": {}, "$db": "admin"}"#, 403),
    ] {
        assert!(is(&post(&server, OWN, bad), status), "{bad}");
    }
    let long = format!(r#"{{"find": "{}", "$db": "admin"}}"#, "x".repeat(2 << 20));
    assert!(is(&post(&server, OWN, &long), 413));
    let others = client.run(&doc! { "count": "others" });
    assert_eq!(others.get_i32("n"), Some(0));
    drop(client);
    let server = Server::start(&["--logFormat", "json", "--console", "rw"]);
    let inserted = post(&server, OWN, insert);
    assert!(
        is(&inserted, 200) && inserted.contains(r#""n":1"#),
        "{inserted}"
    );
    assert!(is(
        &post(&server, OWN, r#"{"shutdown": 1, "$db": "admin"}"#),
        403
    ));
    let server = Server::start(&["--logFormat", "json", "--console", "off"]);
    for path in ["/", "/console.js", "/history.json", "/language.json", "/x"] {
        let answer = get(&server, path, "");
        assert!(is(&answer, 404), "{path}");
        // It names what is served and nothing else.
        assert!(
            answer.ends_with(
                "not found: the console is off; /timing.json, /metrics and /health are served\n"
            ),
            "{answer}"
        );
    }
    for path in ["/command", "/advice"] {
        let answer = post_to(&server, path, OWN, find);
        assert!(is(&answer, 405) && answer.contains("GET, HEAD"), "{answer}");
    }
    assert!(is(&get(&server, "/metrics", ""), 200));
}

#[test]
fn advice_for_writes_changes_nothing_and_needs_no_console_that_may() {
    let server = Server::start(&["--logFormat", "json"]);
    let mut client = Client::connect(server.port);
    let documents: Vec<Document> = (0..500).map(|n| doc! { "a": (n % 50), "b": n }).collect();
    client.run(&doc! { "insert": "things", "documents": documents });
    let advise = |command: &str| {
        let answer = post_to(&server, "/advice", OWN, command);
        assert!(is(&answer, 200), "{command}: {answer}");
        answer
    };
    for command in [
        r#"{"update": "things", "updates": [{"q": {"a": 7}, "u": {"$set": {"a": 0}}, "multi": true}], "$db": "admin"}"#,
        r#"{"delete": "things", "deletes": [{"q": {"a": 7}, "limit": 0}], "$db": "admin"}"#,
        r#"{"findAndModify": "things", "query": {"a": 7}, "remove": true, "$db": "admin"}"#,
        // What a transaction adds says nothing of what is asked.
        r#"{"delete": "things", "deletes": [{"q": {"a": 7}, "limit": 1}], "startTransaction": true, "autocommit": false, "$db": "admin"}"#,
        r#"{"aggregate": "things", "pipeline": [{"$match": {"a": 7}}, {"$out": "others"}], "cursor": {}, "$db": "admin"}"#,
    ] {
        let answer = advise(command);
        assert!(answer.contains(r#""indexes":[{"key":{"a":1}"#), "{answer}");
    }
    // A shape of many statements is tried once, and each shape has its answer.
    let many = r#"{"update": "things", "updates": [{"q": {"a": 1}, "u": {"$set": {"c": 1}}}, {"q": {"a": 2}, "u": {"$set": {"c": 1}}},
        {"q": {}, "u": {"$set": {"c": 1}}, "multi": true}], "$db": "admin"}"#;
    let answer = advise(many);
    assert!(
        answer.contains(r#""statements":2,"indexes":[{"key":{"a":1}"#),
        "{answer}"
    );
    assert!(
        answer.contains(r#""statements":1,"reason":"it has no condition"#),
        "{answer}"
    );
    let or =
        r#"{"find": "things", "filter": {"$or": [{"a": 7}, {"b": {"$gt": 490}}]}, "$db": "admin"}"#;
    let answer = advise(or);
    assert!(
        answer.contains(r#"{"key":{"a":1}"#) && answer.contains(r#"{"key":{"b":1}"#),
        "{answer}"
    );
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    client.run(&doc! { "createIndexes": "things", "indexes": [index] });
    // The branch that has its index gets no other one.
    let answer = advise(or);
    assert!(
        !answer.contains(r#"{"key":{"a":1}"#) && answer.contains(r#"{"key":{"b":1}"#),
        "{answer}"
    );
    let answer = advise(r#"{"insert": "things", "documents": [{}], "$db": "admin"}"#);
    assert!(answer.contains("there is advice for find"), "{answer}");
    let count = |client: &mut Client, query: Document| {
        let counted = client.run(&doc! { "count": "things", "query": query });
        counted.get_i32("n")
    };
    assert_eq!(count(&mut client, doc! {}), Some(500));
    assert_eq!(count(&mut client, doc! { "a": 7 }), Some(10));
    let others = client.run(&doc! { "count": "others" });
    assert_eq!(others.get_i32("n"), Some(0));
}

#[test]
fn a_page_of_another_site_reads_nothing_and_ends_nothing() {
    let server = Server::start(&["--logFormat", "json"]);
    let ping = r#"{"ping": 1, "$db": "admin"}"#;
    assert!(is(&post(&server, OWN, ping), 200));
    for (headers, status) in [
        // What a form of a foreign page can send.
        (
            "Host: 127.0.0.1\r\nContent-Type: text/plain\r\nOrigin: http://evil.example\r\n"
                .to_owned(),
            403,
        ),
        (
            "Host: 127.0.0.1\r\nContent-Type: text/plain\r\n".to_owned(),
            415,
        ),
        (
            "Host: 127.0.0.1\r\nContent-Type: application/json\r\n".to_owned(),
            415,
        ),
        (format!("{OWN}Origin: http://evil.example\r\n"), 403),
        (format!("{OWN}Sec-Fetch-Site: cross-site\r\n"), 403),
        // A name that somebody made lead to this address.
        (OWN.replace("127.0.0.1", "evil.example"), 403),
    ] {
        let answer = post(&server, &headers, ping);
        assert!(is(&answer, status), "{headers}{answer}");
        assert!(
            !answer.to_lowercase().contains("access-control-allow"),
            "{answer}"
        );
    }
    for path in ["/timing.json", "/history.json", "/language.json"] {
        assert!(is(
            &get(&server, path, "Sec-Fetch-Site: cross-site\r\n"),
            403
        ));
        assert!(is(
            &ask(
                &server,
                &format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n")
            ),
            403
        ));
        assert!(is(
            &get(&server, path, "Sec-Fetch-Site: same-origin\r\n"),
            200
        ));
    }
    // A browser asks first, and is not allowed to.
    let asked = ask(
        &server,
        "OPTIONS /command HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n",
    );
    assert!(is(&asked, 405), "{asked}");
}

#[test]
fn a_command_ends_when_its_browser_goes() {
    let server = Server::start(&["--logFormat", "json"]);
    let mut client = Client::connect(server.port);
    let documents: Vec<_> = (0..2_000).map(|id| doc! { "_id": id }).collect();
    client.run(&doc! { "insert": "things", "documents": documents });
    // Each document reads all others: far longer than this test waits.
    let long = r#"{"aggregate": "things", "pipeline": [{"$lookup": {"from": "things", "let": {"i": "$_id"}, "pipeline": [{"$match": {"$expr": {"$lt": ["$_id", "$$i"]}}}, {"$lookup": {"from": "things", "pipeline": [{"$count": "n"}], "as": "m"}}, {"$count": "n"}], "as": "n"}}], "cursor": {}, "$db": "admin"}"#;
    let head = format!(
        "POST /command HTTP/1.1\r\n{OWN}Content-Length: {}\r\n\r\n{long}",
        long.len()
    );
    let mut http = connect(&server);
    http.write_all(head.as_bytes()).unwrap();
    let mut running = || {
        let listed = client.run(&doc! { "currentOp": 1 });
        let list = listed.get_array("inprog").unwrap();
        list.iter()
            .filter_map(|one| one.as_document()?.get_str("desc").map(str::to_owned))
            .filter(|desc| desc.starts_with("console"))
            .count()
    };
    let begun = Instant::now();
    while running() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    drop(http);
    let begun = Instant::now();
    while running() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
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
        &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}"),
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
