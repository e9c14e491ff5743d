//! The operation that runs on this thread, for work within one document: a path over a large array, a loop of an
//! expression. Between documents the executor looks itself.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use quarry_database::Operation;

use crate::error::Result;

thread_local! {
    static RUNNING: RefCell<Option<Arc<Operation>>> = const { RefCell::new(None) };
}

/// Until it is dropped, long work on this thread ends when the operation is killed, runs out of time or has lost its
/// client.
#[must_use = "the operation is forgotten where it is dropped"]
pub struct Running {
    _stays_on_its_thread: PhantomData<*const ()>,
}

pub fn run_as(operation: Arc<Operation>) -> Running {
    RUNNING.set(Some(operation));
    Running {
        _stays_on_its_thread: PhantomData,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(None);
    }
}

/// Fails when the operation is to end. Without one nothing ends.
pub(crate) fn check() -> Result<()> {
    RUNNING.with_borrow(|running| match running {
        Some(operation) => Ok(operation.check()?),
        None => Ok(()),
    })
}
