//! The things that a client leaves behind between two commands: logical sessions and open cursors, and the thread that ends those
//! that nobody uses any more.
//!
//! This wing keeps them by id, bounded and each used by one command at a time. It must not know which command asked.

pub mod client_cursor;
pub mod cursor_origin;
pub mod cursors;
pub mod owner;
pub mod participant;
pub mod reaper;
pub mod session;
pub mod transaction_tags;
