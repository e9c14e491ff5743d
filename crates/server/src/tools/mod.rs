//! The subcommands of `quarry` that are no server: `journal` works on a data directory at rest, `top` watches a running
//! server as one of its clients. This wing must not know the server's state.

pub mod journal;
pub mod manual;
pub mod top;
