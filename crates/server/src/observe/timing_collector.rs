//! The thread that moves finished operations into the histograms.

use std::thread;
use std::time::Duration;

use crate::server::Server;

const TICK: Duration = Duration::from_millis(100);

pub fn start(server: &'static Server) -> std::io::Result<()> {
    quarry_timing::start_clock();
    thread::Builder::new()
        .name("timing".into())
        .spawn(move || {
            while !server.shutdown.wait_for(TICK) {
                quarry_timing::collect();
            }
        })
        .map(|_| ())
}
