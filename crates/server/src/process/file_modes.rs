//! The modes of the files that the process makes: the data, the journal, logs, copies.
//!
//! As mongod does, it makes files that are their owner's alone, whatever the umask of whoever started it; `honorSystemUmask`
//! leaves that to the system. Files that are there already keep their modes.

use rustix::fs::Mode;

use crate::process::config::Config;

/// mongod's name for the parameter.
pub const HONOR_SYSTEM_UMASK: &str = "honorSystemUmask";

/// Nobody but the owner may do anything with files and directories that are made from now on.
pub fn keep_to_owner() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Like `keep_to_owner`, for a server, which may be told to leave files as the system has them.
pub fn keep_to_owner_unless_told(config: &Config) {
    let given = config.parameters.iter().rev();
    let mut given = given.filter(|(name, _)| name == HONOR_SYSTEM_UMASK);
    if !given.next().is_some_and(|(_, text)| is_true(text)) {
        keep_to_owner();
    }
}

/// Whether the text of a flag means yes; a text that is neither is refused with the other parameters.
fn is_true(text: &str) -> bool {
    matches!(text, "true" | "1")
}
