//! Settings of the journal: what it keeps beyond need, and what of it is compressed.

use std::path::PathBuf;

use super::values::{BadOptions, EngineName};

const MS_PER_HOUR: f64 = 3_600_000.0;
/// A thousand years: more is a slip of the keyboard.
const HOURS_MAX: f64 = 24.0 * 365.0 * 1000.0;

/// The window of a server that was asked for none: a day, in a twentieth of the free disk and no more than 8 GiB. A disk on
/// which that would be less than a few segments keeps none: there what is kept would only be given up again.
const HOURS_DEFAULT: f64 = 24.0;
const DEFAULT_SHARE_OF_FREE: u64 = 20;
const DEFAULT_BYTES_MIN: u64 = 256 << 20;
const DEFAULT_BYTES_MAX: u64 = 8 << 30;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct JournalSettings {
    /// The megabytes that the journal may have with what is kept for its window, if that was asked for.
    pub retention_mb: Option<u64>,
    /// The hours that segments are kept after their last write, if that was asked for.
    pub retention_hours: Option<f64>,
    /// Groups of more bytes are compressed.
    pub compress_above_bytes: Option<usize>,
}

impl JournalSettings {
    pub fn new(
        retention_mb: Option<u64>,
        retention_hours: Option<f64>,
        compress_above_kb: Option<u64>,
    ) -> Result<JournalSettings, BadOptions> {
        if let Some(hours) = retention_hours
            && !(0.0..=HOURS_MAX).contains(&hours)
        {
            return Err(BadOptions(format!(
                "journalRetentionHours: {hours} is not between 0 and {HOURS_MAX}"
            )));
        }
        let too_much = |name| BadOptions(format!("{name}: the value is too large"));
        if retention_mb.is_some_and(|mb| mb.checked_mul(1 << 20).is_none()) {
            return Err(too_much("journalRetentionMB"));
        }
        let above = |kb: u64| usize::try_from(kb).ok()?.checked_mul(1 << 10);
        let compress_above_bytes = match compress_above_kb {
            Some(kb) => Some(above(kb).ok_or_else(|| too_much("journalCompressAboveKB"))?),
            None => None,
        };
        Ok(JournalSettings {
            retention_mb,
            retention_hours,
            compress_above_bytes,
        })
    }

    /// How long segments are kept after their last write.
    pub fn retain_ms(&self) -> u64 {
        (self.retention_hours.unwrap_or(HOURS_DEFAULT) * MS_PER_HOUR) as u64
    }

    /// The bytes up to which they are, where `free_bytes` of the disk are free. Who asks for a time and for no size means that
    /// time, whatever it takes.
    pub fn retain_bytes_max(&self, free_bytes: u64) -> u64 {
        match (self.retention_mb, self.retention_hours) {
            (Some(mb), _) => mb.saturating_mul(1 << 20),
            (None, Some(_)) => u64::MAX,
            (None, None) => match free_bytes / DEFAULT_SHARE_OF_FREE {
                0..DEFAULT_BYTES_MIN => 0,
                share => share.min(DEFAULT_BYTES_MAX),
            },
        }
    }
}

/// The megabytes of full segments that may wait for an archive: an hour of 1 MB/s, and no more than the default window.
const HOLD_MB_DEFAULT: u64 = 4096;

/// The archive that is kept of the journal, if one is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArchiveSettings {
    pub path: Option<PathBuf>,
    hold_mb: u64,
}

impl ArchiveSettings {
    pub fn new(
        path: Option<PathBuf>,
        hold_mb: Option<u64>,
        engine: EngineName,
    ) -> Result<ArchiveSettings, BadOptions> {
        let bad = |why: &str| Err(BadOptions(why.to_owned()));
        if path.is_some() && engine == EngineName::Memory {
            return bad("journalArchive: the engine memory has no journal to archive");
        }
        if path.is_none() && hold_mb.is_some() {
            return bad("journalArchiveHoldMB: there is no archive; give --journalArchive");
        }
        let hold_mb = hold_mb.unwrap_or(HOLD_MB_DEFAULT);
        if hold_mb.checked_mul(1 << 20).is_none() {
            return bad("journalArchiveHoldMB: the value is too large");
        }
        Ok(ArchiveSettings { path, hold_mb })
    }

    /// The bytes of full segments that are held for the archive; `None` where none is kept.
    pub fn hold_bytes(&self) -> Option<u64> {
        self.path.as_ref().map(|_| self.hold_mb << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_applied_and_nonsense_is_refused() {
        let settings = JournalSettings::new(Some(3), Some(1.5), Some(64)).unwrap();
        assert_eq!(settings.retain_bytes_max(1 << 50), 3 * 1024 * 1024);
        assert_eq!(settings.retain_ms(), 5_400_000);
        assert_eq!(settings.compress_above_bytes, Some(65_536));
        for hours in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(JournalSettings::new(None, Some(hours), None).is_err());
        }
        assert!(JournalSettings::new(Some(u64::MAX), None, None).is_err());
        assert!(JournalSettings::new(None, None, Some(u64::MAX)).is_err());
    }

    #[test]
    fn an_archive_is_of_an_engine_with_files_and_holds_a_bounded_part() {
        let new = |path: Option<&str>, hold_mb, engine| {
            ArchiveSettings::new(path.map(PathBuf::from), hold_mb, engine)
        };
        let hold = |path, hold_mb| new(path, hold_mb, EngineName::Mdbx).unwrap().hold_bytes();
        assert_eq!(hold(None, None), None);
        assert_eq!(hold(Some("a"), None), Some(4 << 30));
        assert_eq!(hold(Some("a"), Some(2)), Some(2 << 20));
        assert!(new(Some("a"), None, EngineName::Memory).is_err());
        assert!(new(None, Some(2), EngineName::Mdbx).is_err());
        assert!(new(Some("a"), Some(u64::MAX), EngineName::Mdbx).is_err());
    }

    #[test]
    fn a_day_is_kept_in_a_small_part_of_the_disk_unless_something_else_is_asked_for() {
        let window = |mb, hours, free_bytes| {
            let settings = JournalSettings::new(mb, hours, None).unwrap();
            (settings.retain_ms(), settings.retain_bytes_max(free_bytes))
        };
        const DAY_MS: u64 = 86_400_000;
        assert_eq!(window(None, None, 20 << 30), (DAY_MS, 1 << 30));
        assert_eq!(window(None, None, 4 << 40), (DAY_MS, 8 << 30));
        assert_eq!(window(None, None, 5 << 30), (DAY_MS, 256 << 20));
        assert_eq!(window(None, None, (5 << 30) - 1), (DAY_MS, 0));
        assert_eq!(window(Some(100), None, 1 << 40), (DAY_MS, 100 << 20));
        assert_eq!(window(None, Some(48.0), 1 << 30), (2 * DAY_MS, u64::MAX));
        assert_eq!(window(None, Some(0.0), 1 << 40).0, 0);
    }
}
