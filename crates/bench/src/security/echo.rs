//! A round trip of some bytes with nobody behind it: what sockets take, and what TLS adds by itself.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use rustls::{ServerConnection, StreamOwned};

use super::stream::{Identity, Stream};
use super::{Options, median};

/// The median microseconds of a round trip of `bytes` each way, plain and with TLS.
pub fn measure(bytes: usize, identity: &Identity, options: &Options) -> io::Result<[f64; 2]> {
    let mut sides = [
        Stream::connect(serve(bytes, None)?, None)?,
        Stream::connect(serve(bytes, Some(identity))?, Some(identity))?,
    ];
    let sent = vec![7; bytes];
    let mut came = vec![0; bytes];
    let mut rounds = [const { Vec::new() }; 2];
    for round in 0..options.rounds as usize {
        for place in 0..2 {
            let which = (round + place) % 2;
            let mut times = Vec::with_capacity(options.turn as usize);
            for _ in 0..options.turn {
                let started = Instant::now();
                sides[which].write_all(&sent)?;
                sides[which].read_exact(&mut came)?;
                times.push(started.elapsed().as_nanos() as f64 / 1e3);
            }
            rounds[which].push(median(&mut times));
        }
    }
    Ok(rounds.map(|mut side| median(&mut side)))
}

/// Serves one connection on a thread of its own; the port.
fn serve(bytes: usize, identity: Option<&Identity>) -> io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let config = identity.map(Identity::server).transpose()?;
    thread::spawn(move || {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        match config {
            None => echo(socket, bytes),
            Some(config) => {
                let session = ServerConnection::new(config).map_err(io::Error::other)?;
                echo(StreamOwned::<_, TcpStream>::new(session, socket), bytes)
            }
        }
    });
    Ok(port)
}

fn echo(mut stream: impl Read + Write, bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; bytes];
    loop {
        stream.read_exact(&mut buffer)?;
        stream.write_all(&buffer)?;
    }
}
