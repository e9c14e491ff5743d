//! Who the server is to its clients: a standalone, or a replica set of one member that initiates itself.
//!
//! A set of one exists for clients that insist on a set: its member is always the primary, nobody votes, and there is nobody to
//! step down to. Keeps true: what `hello` says changes only together with the topology's counter, and whoever waits for such
//! a change learns of it at once; the configuration is durable before anybody sees it; the cluster time never falls.
//!
//! This wing knows no command and no socket. It must not know what a document of a client means.

pub mod address;
pub mod cluster_clock;
pub mod default_concerns;
pub mod oplog_view;
pub mod pre_image_expiry;
pub mod query_settings;
pub mod replica_set;
pub mod set_config;
pub mod settings;
pub mod topology;
