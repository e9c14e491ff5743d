//! Settings of the journal: what it keeps beyond need, and what of it is compressed.

use super::values::BadOptions;

const MS_PER_HOUR: f64 = 3_600_000.0;
/// A thousand years: more is a slip of the keyboard.
const HOURS_MAX: f64 = 24.0 * 365.0 * 1000.0;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalSettings {
    /// How many bytes of segments are kept that no checkpoint needs any more.
    pub retain_bytes: u64,
    /// They are kept so long after their last write.
    pub retain_ms: u64,
    /// Groups of more bytes are compressed.
    pub compress_above_bytes: Option<usize>,
}

impl JournalSettings {
    pub fn new(
        retention_mb: Option<u64>,
        retention_hours: Option<f64>,
        compress_above_kb: Option<u64>,
    ) -> Result<JournalSettings, BadOptions> {
        let hours = retention_hours.unwrap_or(0.0);
        if !(0.0..=HOURS_MAX).contains(&hours) {
            return Err(BadOptions(format!(
                "journalRetentionHours: {hours} is not between 0 and {HOURS_MAX}"
            )));
        }
        let too_much = |name| BadOptions(format!("{name}: the value is too large"));
        let retain_bytes = retention_mb.unwrap_or(0).checked_mul(1 << 20);
        let above = |kb: u64| usize::try_from(kb).ok()?.checked_mul(1 << 10);
        let compress_above_bytes = match compress_above_kb {
            Some(kb) => Some(above(kb).ok_or_else(|| too_much("journalCompressAboveKB"))?),
            None => None,
        };
        Ok(JournalSettings {
            retain_bytes: retain_bytes.ok_or_else(|| too_much("journalRetentionMB"))?,
            retain_ms: (hours * MS_PER_HOUR) as u64,
            compress_above_bytes,
        })
    }

    pub fn retention_mb(&self) -> i64 {
        (self.retain_bytes >> 20) as i64
    }

    pub fn retention_hours(&self) -> f64 {
        self.retain_ms as f64 / MS_PER_HOUR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_applied_and_nonsense_is_refused() {
        let settings = JournalSettings::new(Some(3), Some(1.5), Some(64)).unwrap();
        assert_eq!(settings.retain_bytes, 3 * 1024 * 1024);
        assert_eq!(settings.retain_ms, 5_400_000);
        assert_eq!(settings.compress_above_bytes, Some(65_536));
        assert_eq!(
            (settings.retention_mb(), settings.retention_hours()),
            (3, 1.5)
        );
        let none = JournalSettings::new(None, None, None).unwrap();
        assert_eq!(none, JournalSettings::default());
        for hours in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(JournalSettings::new(None, Some(hours), None).is_err());
        }
        assert!(JournalSettings::new(Some(u64::MAX), None, None).is_err());
        assert!(JournalSettings::new(None, None, Some(u64::MAX)).is_err());
    }
}
