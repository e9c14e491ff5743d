//! The thread that moves finished operations into the histograms.

use std::time::Duration;

use crate::server::Server;
use crate::threads;

const TICK: Duration = Duration::from_millis(100);

pub fn start(server: &'static Server) -> std::io::Result<()> {
    quarry_timing::start_clock();
    let is_over = || server.shutdown.is_requested();
    let round = || {
        let goes_on = !server.shutdown.wait_for(TICK);
        if goes_on {
            quarry_timing::collect();
        }
        goes_on
    };
    threads::start("timing", is_over, round).map(drop)
}
