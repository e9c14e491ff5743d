//! A person at a terminal is told, once the server serves, how to connect, where to look and what else there is.

use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::process::config::{Config, ConsoleMode, Face};

/// Says it in three lines, if somebody sees the standard output.
pub fn print(config: &Config, port: u16, admin_port: Option<u16>) {
    let is_seen = !config.is_forked && config.face == Face::Quarry;
    if is_seen && io::stdout().is_terminal() {
        // A terminal that is gone is nothing to fail for.
        let _ = io::stdout().write_all(text(config, port, admin_port).as_bytes());
    }
}

fn text(config: &Config, port: u16, admin_port: Option<u16>) -> String {
    let host = host(config);
    let place = match (config.addresses.first(), config.unix_sockets.named.first()) {
        // Nobody reaches it by the network.
        (None, Some(path)) => escaped(path),
        _ => format!("{host}:{port}"),
    };
    let set = config.replica_set.as_ref();
    let mut options: Vec<String> = set
        .map(|set| format!("replicaSet={}", set.name))
        .into_iter()
        .collect();
    if config.tls.is_some() {
        options.push("tls=true".into());
    }
    let options = match options.is_empty() {
        true => String::new(),
        false => format!("?{}", options.join("&")),
    };
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let console = match admin_port {
        Some(_) if config.console == Some(ConsoleMode::Off) => "off (--console ro)".to_owned(),
        Some(port) => format!("{scheme}://{host}:{port}/"),
        None => "off (--adminPort PORT)".to_owned(),
    };
    format!(
        "\n  connect:  mongodb://{place}/{options}\n  console:  {console}\n  options:  quarry serve --help\n\n"
    )
}

/// The first address, as a client on this machine writes it.
fn host(config: &Config) -> String {
    let first = config.addresses.first().map_or("127.0.0.1", String::as_str);
    match first.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => "127.0.0.1".into(),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => first.into(),
    }
}

/// A path as it stands in a connection string.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;

    fn lines(flags: &[&str]) -> Vec<String> {
        let server = Server::in_memory_with(flags);
        let text = text(&server.config, 4000, Some(5000));
        text.lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn three_lines_name_an_address_that_a_client_can_use() {
        let said = lines(&[]);
        assert_eq!(said.len(), 3);
        assert!(said[0].ends_with("mongodb://127.0.0.1:4000/"), "{said:?}");
        assert!(said[1].ends_with("http://127.0.0.1:5000/"), "{said:?}");
        assert!(said[2].ends_with("quarry serve --help"), "{said:?}");
        let said = lines(&["--bind_ip", "0.0.0.0", "--replSet", "rs0"]);
        assert!(
            said[0].ends_with("mongodb://127.0.0.1:4000/?replicaSet=rs0"),
            "{said:?}"
        );
        let said = lines(&["--bind_ip", "/run/a b.sock"]);
        assert_eq!(said[0], "  connect:  mongodb://%2Frun%2Fa%20b.sock/");
        let said = lines(&["--console", "off"]);
        assert_eq!(said[1], "  console:  off (--console ro)");
        let said = lines(&["--bind_ip", "::1"]);
        assert!(said[0].ends_with("mongodb://[::1]:4000/"), "{said:?}");
    }
}
