//! The thread that drops the temporary collections that a crash has left (`definitions::replacement`). It ends when there are none.

use std::sync::Arc;
use std::time::Duration;

use crate::definitions::changes::Definitions;
use crate::keyspace::ident::Ident;
use crate::operation::Operation;
use crate::upkeep::background::Background;

/// How long the thread waits after a refused write.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Starts the thread for the temporary collections with idents below this one; whatever is made later has a higher one.
pub fn start(background: &Background, definitions: &Arc<Definitions>, below: Ident) {
    let (definitions, stop) = (Arc::clone(definitions), background.stop());
    background.start("temporary collections", move |stopped| {
        let stop = Arc::clone(&stop);
        let operation = Operation::default().with_disconnect(Box::new(move || stop.is_set()));
        while definitions.drop_temporary(below, &operation).is_err() {
            if stopped.wait(RETRY_AFTER) {
                return;
            }
        }
    });
}
