//! The crate's one error.

use std::fmt;
use std::io;

use quarry_bson::{Document, RawDocument};

use crate::Address;

/// The result of whatever asks a server.
pub type Result<T> = std::result::Result<T, Error>;

/// Codes of MongoDB after which the same server, or the next one, may well take the command: it steps down, shuts down, or
/// has lost somebody itself.
const TRANSIENT_CODES: [i32; 13] = [
    6, 7, 89, 91, 134, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436,
];
const COMMAND_NOT_FOUND: i32 = 59;

/// The reason why a command has no result.
#[derive(Debug)]
pub enum Error {
    /// The URI, or a file that it names, is not usable.
    Uri(String),
    /// No connection could be made.
    Connect {
        /// The server.
        address: Address,
        /// The reason.
        why: io::Error,
    },
    /// None of the servers is a primary at the moment.
    NoPrimary(String),
    /// The connection ended with a command under way: whether it was done, nobody can say.
    Lost(io::Error),
    /// The server does not take the user, or does not prove that it knows the password.
    Login(String),
    /// The server sent what is no reply, or a request is too large for any server.
    Protocol(String),
    /// The server refused the command.
    Command(Box<CommandError>),
}

/// A server's refusal.
#[derive(Debug)]
pub struct CommandError {
    /// MongoDB's number of the error.
    pub code: i32,
    /// The name of that number.
    pub code_name: String,
    /// The reason in words.
    pub message: String,
    /// The whole reply, or the part of it that tells of the error.
    pub reply: Document,
}

impl Error {
    /// The refusal in a reply, if it is one.
    pub(crate) fn of_reply(reply: &Document) -> Option<Error> {
        if reply.get("ok").is_some_and(|ok| ok.is_truthy()) {
            return None;
        }
        Some(Error::refused(reply.as_raw()))
    }

    /// The refusal that a document with `code` and `errmsg` tells of.
    pub(crate) fn refused(told: RawDocument<'_>) -> Error {
        Error::Command(Box::new(CommandError {
            code: told.get("code").and_then(|code| code.as_i32()).unwrap_or(0),
            code_name: told.get_str("codeName").unwrap_or_default().to_owned(),
            message: told
                .get_str("errmsg")
                .unwrap_or("the server refused the command")
                .to_owned(),
            reply: told.to_owned_document(),
        }))
    }

    /// MongoDB's number of a refusal; none of any other error.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Command(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    /// Whether the server does not know the command.
    #[must_use]
    pub fn is_unknown_command(&self) -> bool {
        self.code() == Some(COMMAND_NOT_FOUND)
    }

    /// Whether a new connection may succeed where this one failed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Lost(_) | Error::Connect { .. } | Error::NoPrimary(_) => true,
            Error::Command(refusal) => TRANSIENT_CODES.contains(&refusal.code),
            Error::Uri(_) | Error::Login(_) | Error::Protocol(_) => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Uri(what) | Error::Protocol(what) => f.write_str(what),
            Error::Connect { address, why } => write!(f, "cannot connect to {address}: {why}"),
            Error::NoPrimary(servers) => write!(f, "no server of {servers} is a primary"),
            Error::Lost(why) => write!(f, "the connection was lost: {why}"),
            Error::Login(what) => write!(f, "login: {what}"),
            Error::Command(refusal) if refusal.code_name.is_empty() => {
                write!(f, "{}", refusal.message)
            }
            Error::Command(refusal) => {
                write!(f, "{} ({})", refusal.message, refusal.code_name)
            }
        }
    }
}

impl std::error::Error for Error {}
