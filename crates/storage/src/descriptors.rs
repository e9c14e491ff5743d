//! Whether the process may open so many more files now.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use crate::{Error, Result};

/// [`Error::Stalled`] where the process, or the machine, has fewer than `count` file descriptors left. Asked before work that
/// fails for good when it cannot open a file in the middle: it opens as many and closes them again. Others may take them
/// meanwhile; who hands out descriptors to clients must leave some for files.
pub fn check_descriptors(count: usize) -> Result<()> {
    let mut opened = Vec::with_capacity(count);
    for _ in 0..count {
        match File::open("/") {
            Ok(file) => opened.push(file),
            Err(error) if is_out_of_descriptors(&error) => {
                return Err(Error::Stalled(format!(
                    "too many files and connections are open: {error}"
                )));
            }
            // Whatever else is wrong there is not what was asked for.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}
