//! Who a client is and what it may do: users, roles, and how a client proves which user it is.
//!
//! Users and roles are documents of `admin.system.users` and `admin.system.roles` in MongoDB's shape. Keeps true: what
//! a client sends is never compared in a time that tells how much of it was right; a user that is not there costs an
//! attempt what one that is there costs; a change of users or roles holds for the next command of every connection
//! (`control`). This wing reads and writes through the database and must not know which command asked or what a socket is.

pub mod action;
pub mod attempts;
pub mod built_in_roles;
pub mod control;
pub mod credentials;
pub mod login;
pub mod name;
pub mod new_user;
pub mod privilege_document;
pub mod resource;
pub mod restrictions;
pub mod roles;
pub mod scram;
pub mod store;
pub mod subject;
pub mod user;
