//! The sockets: who may connect, how a request's bytes are gathered, and how its reply leaves.
//!
//! A connection that talks is one thread, blocking, which also shakes hands where TLS is spoken; one that has been idle for a while is parked and has none.
//! Keeps true: what a client sends ends no more than its own connection, and the memory that all connections hold for
//! requests is bounded. This wing hands whole messages to `dispatch` and must not know what any command means.

pub mod buffers;
pub mod busy_poll;
pub mod certificates;
pub mod connection_end;
pub mod connection_threads;
pub mod connections;
pub mod conversation;
pub mod foreign;
pub mod handshake;
pub mod inbox;
pub mod listener;
pub mod outbox;
pub mod parking;
pub mod peer;
pub mod request_memory;
pub mod tls_records;
pub mod tls_stream;
pub mod transport;
pub mod unix_socket;
pub mod waking;
