//! The tip of the archive: up to which moment it is known to have everything, whether or not anything was written then.
//!
//! Without it nobody could tell an hour without writes from an hour that was not archived.

use super::piece::Key;
use crate::error::{Error, Result};
use crate::files::{Files, read_full_at, sync_file, write_all_at};

pub(super) const NAME: &str = "archive.tip";
const NEW_NAME: &str = "archive.tip.new";
const MAGIC: &[u8; 4] = b"QAT1";
const TIP_BYTES: usize = 48;
const CRC_START: usize = 8;

/// Up to where an archive has everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// The last record.
    pub lsn: u64,
    /// Every record with this cluster time or an earlier one is in the archive.
    pub cluster_time: u64,
    /// Every record that was acknowledged before this moment is, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The segment that holds the last record.
    pub sequence: u64,
    /// The life of the journal that wrote that segment.
    pub incarnation: u64,
}

/// The file under the tip's name, as it was found.
pub(super) enum FoundTip {
    Nothing,
    Whole(Tip),
    Damaged,
}

impl Tip {
    /// The tip of the archive in `files`; none where there is none, or where it is damaged: it only adds to what pieces say.
    pub(super) fn read(files: &dyn Files) -> Result<Option<Tip>> {
        Ok(match Tip::find(files)? {
            FoundTip::Whole(tip) => Some(tip),
            FoundTip::Nothing | FoundTip::Damaged => None,
        })
    }

    /// Like `read`, but tells a damaged tip from none.
    pub(super) fn find(files: &dyn Files) -> Result<FoundTip> {
        let file = match files.open(NAME) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(FoundTip::Nothing);
            }
            opened => opened.map_err(|e| Error::io("open", NAME, &e))?,
        };
        let mut bytes = [0; TIP_BYTES];
        let filled =
            read_full_at(&*file, &mut bytes, 0).map_err(|e| Error::io("read", NAME, &e))?;
        let decoded = (filled == TIP_BYTES).then(|| Tip::decode(&bytes)).flatten();
        Ok(decoded.map_or(FoundTip::Damaged, FoundTip::Whole))
    }

    /// The segment that holds the last record.
    pub(super) fn key(&self) -> Key {
        Key {
            sequence: self.sequence,
            incarnation: self.incarnation,
        }
    }

    /// Puts the tip in the place of the one before it, durably.
    pub(super) fn write(&self, files: &dyn Files) -> Result<()> {
        match files.remove(NEW_NAME) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", NEW_NAME, &error));
            }
            _ => {}
        }
        let file = files
            .create(NEW_NAME)
            .map_err(|e| Error::io("create", NEW_NAME, &e))?;
        write_all_at(&*file, &self.encode(), 0).map_err(|e| Error::io("write", NEW_NAME, &e))?;
        sync_file(&*file).map_err(|e| Error::io("sync", NEW_NAME, &e))?;
        files
            .rename(NEW_NAME, NAME)
            .map_err(|e| Error::io("rename", NEW_NAME, &e))?;
        files
            .sync_directory()
            .map_err(|e| Error::io("sync directory of", NAME, &e))
    }

    fn encode(&self) -> [u8; TIP_BYTES] {
        let mut bytes = [0; TIP_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        let longs = [
            self.lsn,
            self.cluster_time,
            self.unix_ms,
            self.sequence,
            self.incarnation,
        ];
        for (place, long) in bytes[CRC_START..].chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&long.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[CRC_START..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; TIP_BYTES]) -> Option<Tip> {
        let long = |index: usize| {
            let mut long = [0; 8];
            let at = CRC_START + 8 * index;
            long.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(long)
        };
        let crc = crc32c::crc32c(&bytes[CRC_START..]).to_le_bytes();
        (&bytes[..4] == MAGIC && bytes[4..8] == crc).then(|| Tip {
            lsn: long(0),
            cluster_time: long(1),
            unix_ms: long(2),
            sequence: long(3),
            incarnation: long(4),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_of_a_tip_is_noticed() {
        let tip = Tip {
            lsn: 1,
            cluster_time: 2,
            unix_ms: 3,
            sequence: 4,
            incarnation: 5,
        };
        let bytes = tip.encode();
        assert_eq!(Tip::decode(&bytes), Some(tip));
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert_eq!(Tip::decode(&changed), None, "byte {at}");
        }
    }
}
