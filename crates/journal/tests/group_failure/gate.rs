//! A place in the code at which a thread is held.

use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use super::end;

/// A place that tells when it is reached, and goes on when it is told.
pub struct Gate {
    reached: Mutex<Sender<()>>,
    goes_on: Mutex<Receiver<()>>,
}

pub struct Keeper {
    pub is_reached: Receiver<()>,
    pub go_on: Sender<()>,
}

impl Gate {
    pub fn new() -> (Gate, Keeper) {
        let ((reached, is_reached), (go_on, goes_on)) = (channel(), channel());
        let gate = Gate {
            reached: Mutex::new(reached),
            goes_on: Mutex::new(goes_on),
        };
        (gate, Keeper { is_reached, go_on })
    }

    pub fn pass(&self) {
        self.reached.lock().send(()).unwrap();
        end(&self.goes_on.lock());
    }
}
