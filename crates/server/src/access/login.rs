//! The memory of a connection of who its client is: the user that it has proven to be, and an exchange that is under way.

use std::sync::Arc;

use crate::access::credentials::Mechanism;
use crate::access::name::Name;
use crate::access::restrictions::Ends;
use crate::access::scram::Exchange;
use crate::access::user::User;

/// The login of one connection. Its lock is held for a look, never while users are read.
#[derive(Default)]
pub struct Login {
    /// The user that the client has proven to be.
    pub user: Option<Arc<User>>,
    /// The state of all users and roles (`control`) that `user` was read from.
    pub generation: u64,
    /// The ends of the connection, when its user logged in.
    pub ends: Option<Ends>,
    /// The exchange that the client has begun and not ended.
    pub pending: Option<Pending>,
    /// The number of the last exchange.
    pub last_conversation: i32,
}

/// An exchange between two messages of the client.
pub struct Pending {
    /// Its number, which the client repeats.
    pub conversation: i32,
    /// The user that the client wants to be.
    pub name: Name,
    /// How it proves that.
    pub mechanism: Mechanism,
    /// It began in a hello.
    pub is_speculative: bool,
    /// The server's proof ends it; otherwise an empty message of the client does.
    pub skips_empty: bool,
    /// The message that is awaited next.
    pub awaits: Awaits,
}

/// The message that an exchange waits for.
pub enum Awaits {
    /// The client's proof.
    Proof(Box<Exchange>),
    /// Nothing more: an empty message. The proof was right.
    Empty(Arc<User>),
}

impl Login {
    /// The name of the user, if there is one.
    pub fn name(&self) -> Option<&Name> {
        self.user.as_ref()?.name.as_ref()
    }

    /// Ends the login and whatever is under way.
    pub fn forget(&mut self) {
        self.user = None;
        self.pending = None;
    }
}
