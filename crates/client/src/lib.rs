//! A small blocking client of the MongoDB wire protocol, for the tools that copy data between files and servers.
//!
//! [`ConnectionString`] is what a `mongodb://` URI says; [`Connection`] is one socket to the server that it names, logged in,
//! and runs one command after the other; [`Cursor`] takes batches of documents from one of its commands. Whoever wants several commands in flight
//! opens several connections.
//!
//! Keeps true: bytes of a server are checked before anybody sees them; a password is proven and never sent, and the server proves that
//! it knows it, too; a command is sent a second time only where it cannot take effect twice: reads that have begun nothing, and writes that
//! the server knows by a transaction number. An option of a URI that would change something and is not served is refused by name.
//!
//! Leaves out: pools, monitoring of a set's members, DNS seed lists, what commands mean.
//!
//! ```
//! use quarry_client::ConnectionString;
//!
//! # fn main() -> quarry_client::Result<()> {
//! let uri = ConnectionString::parse("mongodb://ada:p%40ss@db.example.com,[::1]:27018/shop?authSource=admin&tls=true")?;
//! assert_eq!(uri.addresses[1].to_string(), "[::1]:27018");
//! assert_eq!(uri.database.as_deref(), Some("shop"));
//! assert_eq!(uri.login.as_ref().map(|login| login.password.as_str()), Some("p@ss"));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod connection;
mod connection_string;
mod cursor;
mod error;
mod facts;
mod login;
mod message;
mod scram;
mod session;
mod stream;
mod tls;
mod uri_options;

pub use address::{Address, uri_of_socket};
pub use connection::{Connection, Sequence};
pub use connection_string::{ConnectionString, Login, TlsOptions};
pub use cursor::Cursor;
pub use error::{CommandError, Error, Result};
pub use scram::Mechanism;
