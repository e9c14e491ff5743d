//! The bytes of a connection, plain or with TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustls::{ClientConnection, StreamOwned};

use crate::connection_string::ConnectionString;
use crate::{Address, Error, Result, tls};

/// A peer that has vanished without closing its sockets is asked whether it is there after a minute of silence, and is taken for gone when it has not
/// answered a few times.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// A socket to a server.
pub enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects to one of the addresses that the host's name stands for.
    pub fn connect(address: &Address, settings: &ConnectionString) -> Result<Stream> {
        let socket = dial(address, settings.connect_timeout).map_err(|why| Error::Connect {
            address: address.clone(),
            why,
        })?;
        match &settings.tls {
            None => Ok(Stream::Plain(socket)),
            Some(options) => {
                let session = tls::session(&address.host, options)?;
                let stream = StreamOwned::new(session, socket);
                Ok(Stream::Encrypted(Box::new(stream)))
            }
        }
    }

    /// Bounds how long a reply is waited for.
    pub fn set_reply_time(&self, time: Option<Duration>) -> io::Result<()> {
        let socket = match self {
            Stream::Plain(socket) => socket,
            Stream::Encrypted(stream) => &stream.sock,
        };
        socket.set_read_timeout(time)
    }
}

fn dial(address: &Address, timeout: Duration) -> io::Result<TcpStream> {
    if let Some(path) = address.path() {
        return dial_path(path, timeout);
    }
    let mut failed = io::Error::other("the name stands for no address");
    for resolved in (address.host.as_str(), address.port).to_socket_addrs()? {
        let connected = match timeout {
            Duration::MAX => TcpStream::connect(resolved),
            timeout => TcpStream::connect_timeout(&resolved, timeout),
        };
        match connected {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                keep_alive(&socket)?;
                return Ok(socket);
            }
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

/// Connects to a socket of the file system. One whose queue is full keeps whoever connects waiting for as long as a write may take.
fn dial_path(path: &Path, timeout: Duration) -> io::Result<TcpStream> {
    let address = SocketAddrUnix::new(path)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let bound = (timeout != Duration::MAX).then_some(timeout);
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, bound)?;
    match rustix::net::connect(&socket, &address) {
        Err(Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
        connected => {
            connected?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
            // Every call here means the same on both kinds of socket.
            Ok(TcpStream::from(socket))
        }
    }
}

fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    Ok(())
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_queue_is_full_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("full.sock");
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let listener = rustix::net::socket(family, kind, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        let given_up = loop {
            match dial_path(&path, Duration::from_millis(50)) {
                Ok(socket) => waiting.push(socket),
                Err(why) => break why,
            }
            assert!(waiting.len() < 10, "the queue never gets full");
        };
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
        // The one that was taken has no bound any more.
        assert_eq!(waiting[0].write_timeout().unwrap(), None);
        let missing = dial_path(&directory.path().join("none.sock"), Duration::MAX);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
