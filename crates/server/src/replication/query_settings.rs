//! The cluster parameter `querySettings`: the settings of queries by the hash of their shape, as `setQuerySettings` gives them. They are
//! durable before they are in force, and come back with the set.
//!
//! A query asks here only while some shape has settings; otherwise it costs one relaxed load. What a shape is, is the commands'
//! affair.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use quarry_bson::{
    DOCUMENT_BYTES_MAX, Document, DocumentBuilder, RawDocument, RawValue, Timestamp,
};
use quarry_database::Database;
use quarry_query::ErrorCode;
use quarry_query::query_settings::QuerySettings;
use sha2::{Digest, Sha256};

use crate::dispatch::error::{CommandError, Result};
use crate::replication::settings;

const COLLECTION: &str = "clusterParameters";
const NAME: &str = "querySettings";
const HASH_BYTES: usize = 32;

/// The hash of a query's shape, which tells it from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeHash([u8; HASH_BYTES]);

/// The settings of the queries of one shape.
#[derive(Clone, Debug)]
pub struct ShapeSettings {
    pub settings: Arc<QuerySettings>,
    /// A query of the shape, where a client has named one.
    pub query: Option<Document>,
}

/// The settings of all shapes that have some.
pub type ByShape = BTreeMap<ShapeHash, ShapeSettings>;

/// The settings that are in force.
#[derive(Default)]
pub struct SettingsByShape {
    are_any: AtomicBool,
    /// Held over a change, which is a write to the database; taken before `by_shape`.
    changing: Mutex<()>,
    by_shape: RwLock<Arc<ByShape>>,
}

impl ShapeHash {
    /// The hash of a shape that is written as a document.
    pub fn of(shape: RawDocument<'_>) -> ShapeHash {
        ShapeHash(Sha256::digest(shape.as_bytes()).into())
    }

    /// Reads the hash as `text` writes it.
    pub fn parse(text: &str) -> Result<ShapeHash> {
        let digits = text.as_bytes();
        let is_hex = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
        if !is_hex {
            return Err(CommandError::bad_value("Hash input is not a hex string"));
        }
        let mut bytes = [0; HASH_BYTES];
        if digits.len() != 2 * HASH_BYTES {
            let message = format!("Unsupported SHA256 hash length: {}", digits.len() / 2);
            return Err(CommandError::new(ErrorCode::INVALID_LENGTH, message));
        }
        let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(ShapeHash(bytes))
    }

    /// The hash in hexadecimal digits.
    pub fn text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02X}")).collect()
    }
}

impl ShapeSettings {
    /// Appends the settings as they are shown and kept.
    pub fn append(&self, hash: ShapeHash, out: &mut DocumentBuilder<'_>) {
        out.append("queryShapeHash", hash.text().as_str());
        out.append("settings", self.settings.to_document().as_raw());
        if let Some(query) = &self.query {
            out.append("representativeQuery", query.as_raw());
        }
    }

    fn read(kept: RawDocument<'_>) -> Result<(ShapeHash, ShapeSettings)> {
        let hash = ShapeHash::parse(kept.get_str("queryShapeHash").unwrap_or_default())?;
        let settings = kept.get_document("settings").unwrap_or(RawDocument::EMPTY);
        let settings = Arc::new(QuerySettings::parse(settings)?.checked()?);
        let query = kept.get_document("representativeQuery");
        let query = query.map(|query| query.to_owned_document());
        Ok((hash, ShapeSettings { settings, query }))
    }
}

impl SettingsByShape {
    /// Reads what the data directory keeps.
    pub fn open(database: &Database) -> Result<SettingsByShape> {
        let kept = settings::read(database, COLLECTION, NAME)?;
        let mut by_shape = ByShape::new();
        if let Some(list) = kept
            .as_ref()
            .and_then(|kept| kept.get_array("settingsArray"))
        {
            for kept in list.iter().filter_map(|kept| kept.as_document()) {
                let (hash, settings) = ShapeSettings::read(kept)?;
                by_shape.insert(hash, settings);
            }
        }
        Ok(SettingsByShape {
            are_any: AtomicBool::new(!by_shape.is_empty()),
            changing: Mutex::default(),
            by_shape: RwLock::new(Arc::new(by_shape)),
        })
    }

    /// Whether no shape has settings.
    #[inline]
    pub fn are_none(&self) -> bool {
        !self.are_any.load(Relaxed)
    }

    /// The settings of the queries of a shape.
    pub fn get(&self, hash: ShapeHash) -> Option<Arc<QuerySettings>> {
        let by_shape = self.by_shape.read();
        Some(Arc::clone(&by_shape.get(&hash)?.settings))
    }

    /// The settings of all shapes.
    pub fn all(&self) -> Arc<ByShape> {
        Arc::clone(&self.by_shape.read())
    }

    /// Changes the settings, durably; `time` is the cluster time of now.
    ///
    /// # Errors
    /// What `change` refuses, and settings that together are larger than a document.
    pub fn change<T>(
        &self,
        database: &Database,
        time: Timestamp,
        change: impl FnOnce(&mut ByShape) -> Result<T>,
    ) -> Result<T> {
        let _changing = self.changing.lock();
        let mut next = ByShape::clone(&self.all());
        let changed = change(&mut next)?;
        let kept = document(&next, time);
        if kept.len_bytes() > DOCUMENT_BYTES_MAX {
            let message = format!(
                "cannot modify query settings: the total size exceeds {DOCUMENT_BYTES_MAX} bytes"
            );
            return Err(CommandError::new(ErrorCode::BSON_OBJECT_TOO_LARGE, message));
        }
        settings::keep(database, COLLECTION, &kept)?;
        let are_any = !next.is_empty();
        *self.by_shape.write() = Arc::new(next);
        self.are_any.store(are_any, Relaxed);
        Ok(changed)
    }
}

fn document(by_shape: &ByShape, time: Timestamp) -> Document {
    Document::build(|out| {
        out.append("_id", NAME);
        out.append("clusterParameterTime", RawValue::Timestamp(time));
        let mut list = out.array("settingsArray");
        for (hash, settings) in by_shape {
            let mut one = list.document();
            settings.append(*hash, &mut one);
            one.finish();
        }
        list.finish();
    })
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn rejecting() -> ShapeSettings {
        let settings = QuerySettings::parse(doc! { "reject": true }.as_raw()).unwrap();
        ShapeSettings {
            settings: Arc::new(settings),
            query: Some(doc! { "find": "c", "$db": "db" }),
        }
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = ShapeHash::of(doc! { "a": 1 }.as_raw());
        assert_eq!(ShapeHash::parse(&hash.text()).unwrap(), hash);
        assert_eq!(ShapeHash::parse(&hash.text().to_lowercase()).unwrap(), hash);
        for (text, code) in [("", 16), ("AB", 16), ("A", 2), ("no hash", 2)] {
            let refused = ShapeHash::parse(text).unwrap_err();
            assert_eq!(refused.code, code, "{text}");
        }
    }

    #[test]
    fn settings_are_kept_and_come_back() {
        let database = Database::open_in_memory().unwrap();
        let table = SettingsByShape::open(&database).unwrap();
        assert!(table.are_none());
        let hash = ShapeHash::of(doc! { "a": 1 }.as_raw());
        let set = |by_shape: &mut ByShape| {
            by_shape.insert(hash, rejecting());
            Ok(())
        };
        table.change(&database, Timestamp::default(), set).unwrap();
        for table in [table, SettingsByShape::open(&database).unwrap()] {
            assert!(!table.are_none());
            assert!(table.get(hash).unwrap().rejects());
            let all = table.all();
            let shown = Document::build(|out| all[&hash].append(hash, out));
            let wanted = doc! {
                "queryShapeHash": (hash.text()), "settings": { "reject": true },
                "representativeQuery": { "find": "c", "$db": "db" },
            };
            assert_eq!(shown, wanted);
            let remove = |by_shape: &mut ByShape| Ok(by_shape.remove(&hash));
            table
                .change(&database, Timestamp::default(), remove)
                .unwrap();
            assert!(table.are_none() && table.get(hash).is_none());
        }
        assert!(SettingsByShape::open(&database).unwrap().are_none());
    }

    #[test]
    fn settings_larger_than_a_document_are_refused_and_change_nothing() {
        let database = Database::open_in_memory().unwrap();
        let table = SettingsByShape::open(&database).unwrap();
        let comment = "x".repeat(DOCUMENT_BYTES_MAX);
        let settings = doc! { "reject": true, "comment": comment };
        let settings = Arc::new(QuerySettings::parse(settings.as_raw()).unwrap());
        let hash = ShapeHash::of(RawDocument::EMPTY);
        let large = |by_shape: &mut ByShape| {
            let query = None;
            by_shape.insert(hash, ShapeSettings { settings, query });
            Ok(())
        };
        let refused = table.change(&database, Timestamp::default(), large);
        assert_eq!(refused.unwrap_err().code_name(), "BSONObjectTooLarge");
        assert!(table.are_none());
    }
}
