//! Read transactions kept for reuse.
//!
//! Beginning one costs an allocation and a slot in the reader table; a reset one is renewed for a
//! fraction of that. A reset transaction pins nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use quarry_storage::Result;

use crate::ffi::{Env, ReadTxn};

/// More are given back to libmdbx.
const IDLE_MAX: usize = 64;

pub(crate) struct Readers {
    env: Arc<Env>,
    idle: Mutex<Vec<ReadTxn>>,
}

impl Readers {
    pub(crate) fn new(env: &Arc<Env>) -> Self {
        Self {
            env: Arc::clone(env),
            idle: Mutex::default(),
        }
    }

    /// A read transaction on the latest commit.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Reader> {
        let idle = self.idle.lock().pop();
        let txn = match idle {
            Some(mut txn) => {
                txn.renew()?;
                txn
            }
            None => ReadTxn::begin(&self.env)?,
        };
        Ok(Reader {
            txn: Some(txn),
            readers: Arc::clone(self),
        })
    }

    /// Lets every idle transaction go.
    pub(crate) fn clear(&self) {
        self.idle.lock().clear();
    }

    fn give_back(&self, mut txn: ReadTxn) {
        // A transaction that cannot be reset is broken: dropping aborts it.
        if txn.reset().is_err() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(txn);
        }
    }
}

/// A read transaction that goes back to where it came from.
pub(crate) struct Reader {
    txn: Option<ReadTxn>,
    readers: Arc<Readers>,
}

impl Reader {
    pub(crate) fn txn(&self) -> &ReadTxn {
        self.txn.as_ref().expect("taken only by the drop")
    }

    /// Another read transaction on the same commit.
    pub(crate) fn share(&mut self) -> Result<Reader> {
        let txn = self.txn.as_mut().expect("taken only by the drop");
        Ok(Reader {
            txn: Some(txn.share()?),
            readers: Arc::clone(&self.readers),
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            self.readers.give_back(txn);
        }
    }
}
