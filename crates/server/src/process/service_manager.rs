//! Word to a service manager such as systemd: that clients can connect, and that the server stops.
//!
//! The protocol is `sd_notify(3)`: one datagram of lines `NAME=value` to the Unix socket that `NOTIFY_SOCKET` names, by a path
//! or, behind an `@`, by an abstract name. Without the variable nobody is told. A manager that does not listen stops nothing.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::observe::log;

const SOCKET: &str = "NOTIFY_SOCKET";

/// The server can be connected to.
pub fn say_ready() {
    say("READY=1\nSTATUS=serving");
}

/// The server has been told to stop, and is at it.
pub fn say_stopping() {
    say("STOPPING=1\nSTATUS=shutting down");
}

fn say(state: &str) {
    let Some(name) = env::var_os(SOCKET) else {
        return;
    };
    if let Err(error) = send(&name, state) {
        log::warning(
            "control",
            "the service manager was not told",
            &[("state", state.into()), ("error", error.to_string().into())],
        );
    }
}

fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that takes nothing must not keep a server from serving or stopping.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_sent_to_an_abstract_name_and_to_a_path() {
        let number = std::process::id();
        let path = env::temp_dir().join(format!("quarry-notify-{number}"));
        let _ = std::fs::remove_file(&path);
        let abstract_name = format!("quarry-notify-{number}");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (manager, name) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.clone().into_os_string(),
            ),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{abstract_name}").into(),
            ),
        ] {
            send(&name, "READY=1").unwrap();
            let mut received = [0; 32];
            let bytes = manager.recv(&mut received).unwrap();
            assert_eq!(&received[..bytes], b"READY=1");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(send(path.as_os_str(), "READY=1").is_err());
    }
}
