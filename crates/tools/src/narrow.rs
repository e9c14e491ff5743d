//! Narrows a server to the collections that are chosen: the others are dropped. A restore takes a part out of a whole this way, on a server that
//! nobody else knows.
//!
//! Users and roles stay, as does everything else of the server's own.

use crate::definition;
use crate::error::Result;
use crate::namespaces::{Namespace, SelectionFlags};
use crate::server;

/// The collections and views of a server, by what became of them.
#[derive(Debug, Default)]
pub struct Narrowed {
    /// Those that were chosen.
    pub kept: u64,
    /// Those that are gone.
    pub dropped: u64,
}

/// Drops the collections and views that are not chosen. Where none is chosen, none is dropped either.
///
/// # Errors
/// What was dropped until then is gone.
pub fn narrow(uri: &str, flags: &SelectionFlags) -> Result<Narrowed> {
    let selection = flags.selection()?;
    let mut connection = server::connect(&server::settings(uri, None)?)?;
    let mut narrowed = Narrowed::default();
    let mut others: Vec<Namespace> = Vec::new();
    for database in definition::databases(&mut connection)? {
        for name in definition::names(&mut connection, &database)? {
            let namespace = Namespace::new(&*database, name);
            match selection.takes(&namespace) {
                true => narrowed.kept += 1,
                false => others.push(namespace),
            }
        }
    }
    if narrowed.kept == 0 {
        return Ok(narrowed);
    }
    for namespace in &others {
        definition::drop(&mut connection, namespace)?;
        narrowed.dropped += 1;
    }
    Ok(narrowed)
}
