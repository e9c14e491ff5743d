//! Whose data an engine holds: its format version, the UUID of its database, its own name, and whether there is a journal.

use quarry_journal::Journal;
use quarry_storage::{Engine, WriteBatch};

use crate::commit::read_u64;
use crate::error::{Error, Result};
use crate::keyspace::ident::new_uuid;
use crate::keyspace::layout;

/// Reads, or on a fresh engine writes, the format version, the database UUID and the engine's name.
pub(super) fn identify(engine: &dyn Engine) -> Result<[u8; 16]> {
    let mut version = None;
    engine.get(layout::FORMAT_VERSION_KEY, &mut |value| {
        version = value.try_into().ok().map(u32::from_le_bytes);
    })?;
    let mut uuid: Option<[u8; 16]> = None;
    engine.get(layout::DATABASE_UUID_KEY, &mut |value| {
        uuid = value.try_into().ok();
    })?;
    let mut name = Vec::new();
    engine.get(layout::ENGINE_NAME_KEY, &mut |value| {
        name.extend_from_slice(value);
    })?;
    match (version, uuid) {
        (Some(version), _)
            if !(layout::FORMAT_VERSION_OLDEST..=layout::FORMAT_VERSION).contains(&version) =>
        {
            Err(Error::Foreign(format!(
                "the data has format version {version}; this build reads versions {} to {}",
                layout::FORMAT_VERSION_OLDEST,
                layout::FORMAT_VERSION
            )))
        }
        (Some(version), Some(uuid)) if name == engine.name().as_bytes() => {
            if version < layout::FORMAT_VERSION {
                // Before anything that an older reader would misread is written.
                let mut batch = WriteBatch::new();
                put_version(&mut batch);
                engine.write(&batch)?;
                engine.sync()?;
            }
            Ok(uuid)
        }
        (Some(_), Some(_)) => Err(Error::Foreign(format!(
            "the data was written by the engine `{}`, not by `{}`",
            String::from_utf8_lossy(&name),
            engine.name()
        ))),
        (Some(_), _) => Err(Error::Corrupt("the data has no database UUID".to_owned())),
        (None, _) => {
            if read_u64(engine, layout::APPLIED_LSN_KEY)?.is_some() {
                return Err(Error::Foreign("the data has no format version".to_owned()));
            }
            let uuid = new_uuid();
            let mut batch = WriteBatch::new();
            put_version(&mut batch);
            batch.put(layout::DATABASE_UUID_KEY, &uuid);
            batch.put(layout::ENGINE_NAME_KEY, engine.name().as_bytes());
            engine.write(&batch)?;
            engine.sync()?;
            Ok(uuid)
        }
    }
}

/// Whether the engine knows of a journal: from then on a start without one would forget what the engine did not have.
pub(super) fn knows_journal(engine: &dyn Engine) -> Result<bool> {
    Ok(read_u64(engine, layout::APPLIED_LSN_KEY)?.is_some())
}

/// Makes the engine durable with what was replayed, before anybody is served: the end was unclean, and what the engine was
/// made of again should not need the journal once more. Where no space is left for that the journal goes on holding it.
pub(super) fn keep_replayed(engine: &dyn Engine, journal: &Journal) -> Result<()> {
    if journal.replayed() == 0 {
        return Ok(());
    }
    if let Err(error) = engine.sync()
        && !error.is_no_space()
    {
        return Err(error.into());
    }
    journal.request_segment();
    Ok(())
}

/// The database's first journal is begun.
pub(super) fn note_journal(engine: &dyn Engine) -> Result<()> {
    if !knows_journal(engine)? {
        let mut batch = WriteBatch::new();
        batch.put(layout::APPLIED_LSN_KEY, &0u64.to_le_bytes());
        engine.write(&batch)?;
    }
    Ok(engine.sync()?)
}

fn put_version(batch: &mut WriteBatch) {
    batch.put(
        layout::FORMAT_VERSION_KEY,
        &layout::FORMAT_VERSION.to_le_bytes(),
    );
}
