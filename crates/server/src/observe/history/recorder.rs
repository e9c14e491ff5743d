//! The thread that records the history: a moment every step, as long as the server runs.

use std::time::Duration;

use super::figures::Reader;
use super::kept::unix_ms;
use super::ring::Record;
use crate::observe::console;
use crate::process::config::AdminPort;
use crate::server::Server;
use crate::threads;

/// Starts it where there is a console to show the history.
pub fn start(server: &'static Server) -> std::io::Result<()> {
    if server.config.admin_port == AdminPort::Off || !console::is_open(server) {
        return Ok(());
    }
    let mut reader = Reader::default();
    let step_ms = server.parameters.history_step_ms;
    let round = move || {
        let rest_ms = step_ms - unix_ms() % step_ms;
        if server.shutdown.wait_for(Duration::from_millis(rest_ms)) {
            return false;
        }
        let written = write(server, &mut reader, unix_ms());
        server.history.note(written.err());
        true
    };
    threads::start("history", || server.shutdown.is_requested(), round).map(drop)
}

/// Writes the figures of this moment, as of `now_ms`.
pub fn write(server: &Server, reader: &mut Reader, now_ms: u64) -> std::io::Result<()> {
    let (names, figures): (Vec<String>, Vec<f32>) = reader.read(server).into_iter().unzip();
    let (directory, step_ms) = (
        &server.config.data_directory,
        server.parameters.history_step_ms,
    );
    let ring = server.history.open(directory, step_ms, names)?;
    let time_ms = ring.shape().time_of(now_ms);
    ring.write(&Record { time_ms, figures })
}
