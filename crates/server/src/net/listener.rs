//! Listening: a thread an address, which hands each connection to a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{
    AddressFamily, Shutdown as Direction, SocketFlags, SocketType, bind, socket_with,
};

use crate::net::connections::Entry;
use crate::net::conversation;
use crate::net::transport::Transport;
use crate::observe::log;
use crate::server::Server;
use crate::threads;

/// Connections that wait to be accepted, at most; the standard library takes as many.
const BACKLOG: i32 = 128;
/// How long to wait when the process has no more file descriptors or threads.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The sockets that are listened on.
pub struct Listener {
    sockets: Vec<Arc<TcpListener>>,
    port: u16,
}

impl Listener {
    /// Binds every address; with port 0 the first takes a free one and the rest the same.
    pub fn bind(addresses: &[String], port: u16) -> Result<Listener, String> {
        let mut listener = Listener {
            sockets: Vec::new(),
            port,
        };
        for address in addresses {
            let bad =
                |error: io::Error| format!("cannot listen on {address}:{}: {error}", listener.port);
            let resolved: Vec<SocketAddr> = (address.as_str(), listener.port)
                .to_socket_addrs()
                .map_err(bad)?
                .collect();
            for address in resolved {
                let socket = listen(SocketAddr::new(address.ip(), listener.port));
                let socket = socket.map_err(|error| {
                    format!(
                        "cannot listen on {}:{}: {error}",
                        address.ip(),
                        listener.port
                    )
                })?;
                listener.port = socket
                    .local_addr()
                    .map_err(|error| error.to_string())?
                    .port();
                listener.sockets.push(Arc::new(socket));
            }
        }
        Ok(listener)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Begins to accept.
    pub fn start(&self, server: &'static Server) -> io::Result<Accepting> {
        let mut started = Vec::new();
        for socket in &self.sockets {
            let socket = Arc::clone(socket);
            let is_over = || server.shutdown.is_requested();
            let round = move || accept(&socket, server);
            started.push(threads::start("listener", is_over, round)?);
        }
        Ok(Accepting {
            sockets: self.sockets.clone(),
            threads: started,
        })
    }
}

/// As `TcpListener::bind`, but that an IPv6 address takes no IPv4 connections: `::` and `0.0.0.0` may be listened on together.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => return TcpListener::bind(address),
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_ipv6_v6only(&socket, true)?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// The threads that accept.
pub struct Accepting {
    sockets: Vec<Arc<TcpListener>>,
    threads: Vec<JoinHandle<()>>,
}

impl Accepting {
    /// No connection is accepted afterwards.
    pub fn stop(self) {
        for socket in &self.sockets {
            // Wakes the thread that waits in accept.
            let _ = rustix::net::shutdown(&**socket, Direction::Both);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Accepts one connection; false when the server stops.
fn accept(socket: &TcpListener, server: &'static Server) -> bool {
    match socket.accept() {
        Ok((stream, peer)) => begin(server, stream, peer),
        Err(_) if server.shutdown.is_requested() => {}
        Err(error) => {
            log::warning(
                "network",
                "cannot accept a connection",
                &[("error", error.to_string().into())],
            );
            thread::sleep(EXHAUSTED_PAUSE);
        }
    }
    !server.shutdown.is_requested()
}

fn begin(server: &'static Server, stream: TcpStream, peer: SocketAddr) {
    let transport = match Transport::plain(stream) {
        Ok(transport) => transport,
        Err(error) => {
            log::warning(
                "network",
                "connection refused",
                &[
                    ("client", peer.to_string().into()),
                    ("error", error.to_string().into()),
                ],
            );
            return;
        }
    };
    let Some(connection) = server
        .connections
        .add(transport, peer, server.config.connections_max)
    else {
        log::warning(
            "network",
            "connection refused: too many are open",
            &[("client", peer.to_string().into())],
        );
        return;
    };
    let id = connection.id;
    let entry = Entry::new(&server.connections, connection);
    if !server.is_quiet() {
        log::info(
            "network",
            "connection accepted",
            &[
                ("client", peer.to_string().into()),
                ("connectionId", id.into()),
                ("open", (server.connections.len() as u64).into()),
            ],
        );
    }
    if let Err(refused) = conversation::start(server, entry) {
        log::warning(
            "network",
            "connection refused: no thread for it",
            &[("error", refused.error.to_string().into())],
        );
        drop(refused);
        thread::sleep(EXHAUSTED_PAUSE);
    }
}
