//! Listening: a thread an address or path, which hands each connection to a thread of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{
    AddressFamily, Shutdown as Direction, SocketFlags, SocketType, bind, socket_with,
};

use crate::net::connections::Entry;
use crate::net::conversation;
use crate::net::peer::Peer;
use crate::net::transport::Transport;
use crate::net::unix_socket::UnixSocket;
use crate::observe::log;
use crate::process::config::UnixSockets;
use crate::server::Server;
use crate::threads;

/// Connections that wait to be accepted, at most; the standard library takes as many.
const BACKLOG: i32 = 128;
/// How long to wait when the process has no more file descriptors or threads.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The sockets that are listened on.
pub struct Listener {
    sockets: Vec<Socket>,
    port: u16,
}

#[derive(Clone)]
enum Socket {
    Internet(Arc<TcpListener>),
    Unix(Arc<UnixSocket>),
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
                listener.sockets.push(Socket::Internet(Arc::new(socket)));
            }
        }
        Ok(listener)
    }

    /// Binds the sockets of the file system. One that nobody has asked for, and that cannot be made, is the warning that is returned.
    pub fn bind_unix(&mut self, sockets: &UnixSockets) -> Result<Option<String>, String> {
        for path in &sockets.named {
            self.bind_path(path, sockets.mode)?;
        }
        let Some(of_port) = &sockets.of_port else {
            return Ok(None);
        };
        match self.bind_path(&of_port.path(self.port), sockets.mode) {
            Err(why) if !of_port.is_wanted => Ok(Some(why)),
            bound => bound.map(|()| None),
        }
    }

    fn bind_path(&mut self, path: &Path, mode: u32) -> Result<(), String> {
        let socket = UnixSocket::bind(path, mode)
            .map_err(|error| format!("cannot listen on {}: {error}", path.display()))?;
        self.sockets.push(Socket::Unix(Arc::new(socket)));
        Ok(())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The paths of the sockets of the file system.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.sockets.iter().filter_map(|socket| match socket {
            Socket::Internet(_) => None,
            Socket::Unix(socket) => Some(&*socket.path),
        })
    }

    /// Begins to accept.
    pub fn start(&self, server: &'static Server) -> io::Result<Accepting> {
        let mut started = Vec::new();
        for socket in &self.sockets {
            let socket = socket.clone();
            let stands_for = self.first_address();
            let is_over = || server.shutdown.is_requested();
            let round = move || accept(&socket, stands_for, server);
            started.push(threads::start("listener", is_over, round)?);
        }
        Ok(Accepting {
            sockets: self.sockets.clone(),
            threads: started,
        })
    }

    /// The address that a client of this machine reaches the server at by the network. Who opened a file is told that one where an
    /// address has to be told, as in the name of a set's member.
    fn first_address(&self) -> SocketAddr {
        let bound = self.sockets.iter().find_map(|socket| match socket {
            Socket::Internet(socket) => socket.local_addr().ok(),
            Socket::Unix(_) => None,
        });
        match bound {
            Some(address) if !address.ip().is_unspecified() => address,
            _ => SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)),
        }
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
    sockets: Vec<Socket>,
    threads: Vec<JoinHandle<()>>,
}

impl Accepting {
    /// No connection is accepted afterwards.
    pub fn stop(self) {
        for socket in &self.sockets {
            // Wakes the thread that waits in accept.
            let _ = match socket {
                Socket::Internet(socket) => rustix::net::shutdown(&**socket, Direction::Both),
                Socket::Unix(socket) => rustix::net::shutdown(&socket.listener, Direction::Both),
            };
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl Socket {
    /// Waits for a connection. What is wrong with one that has come is told with who it is from.
    fn accept(&self, stands_for: SocketAddr) -> io::Result<(io::Result<Transport>, Peer)> {
        match self {
            Socket::Internet(socket) => {
                let (stream, peer) = socket.accept()?;
                Ok((Transport::plain(stream), peer.into()))
            }
            Socket::Unix(socket) => {
                let (stream, _) = socket.listener.accept()?;
                let peer = Peer::Unix(Arc::clone(&socket.path));
                Ok((Ok(Transport::unix(stream, stands_for)), peer))
            }
        }
    }
}

/// Accepts one connection; false when the server stops.
fn accept(socket: &Socket, stands_for: SocketAddr, server: &'static Server) -> bool {
    match socket.accept(stands_for) {
        Ok((Ok(transport), peer)) => begin(server, transport, peer),
        Ok((Err(error), peer)) => log::warning(
            "network",
            "connection refused",
            &[
                ("client", peer.to_string().into()),
                ("error", error.to_string().into()),
            ],
        ),
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

fn begin(server: &'static Server, transport: Transport, peer: Peer) {
    let client = peer.to_string();
    let Some(connection) = server
        .connections
        .add(transport, peer, server.config.connections_max)
    else {
        log::warning(
            "network",
            "connection refused: too many are open",
            &[("client", client.into())],
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
                ("client", client.into()),
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
