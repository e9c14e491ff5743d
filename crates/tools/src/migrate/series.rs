//! Time series, whose changes no stream of a whole deployment tells: they are copied when everything else has been followed, as they are then.

use super::{Item, Migration};
use crate::definition::{self, Kind};
use crate::error::{Error, Result};

impl Migration<'_> {
    /// Says what becomes of the time series that the source has.
    pub(super) fn announce_series(&self, items: &[Item]) {
        let count = series(items).count();
        if count > 0 {
            self.say(&format!(
                "{count} time series are copied at the end: nothing tells of their changes, so what is written to them meanwhile is copied or not"
            ));
        }
    }

    /// Copies the time series that the source has now, with their options and indexes.
    pub(super) fn copy_series(&mut self) -> Result<()> {
        let items = self.items()?;
        let series: Vec<&Item> = series(&items).collect();
        if series.is_empty() {
            return Ok(());
        }
        for item in &series {
            self.make_series(item)?;
        }
        let measurements = self.copy(series.iter().copied())?;
        for item in &series {
            let indexes = &item.definition.indexes;
            definition::create_indexes(&mut self.destination, &item.to, indexes)?;
        }
        self.say(&format!(
            "{measurements} measurements of {} time series copied",
            series.len()
        ));
        Ok(())
    }

    fn make_series(&mut self, item: &Item) -> Result<()> {
        let destination = &mut self.destination;
        if self.options.drop {
            definition::drop(destination, &item.to)?;
        } else if definition::exists(destination, &item.to)? {
            // It was not when everything was looked at.
            let what = format!("`{}` is there already; --drop removes it first", item.to);
            return Err(Error::usage(what));
        }
        definition::create(destination, &item.to, item.definition.options.as_raw())?;
        definition::drop_other_indexes(destination, &item.to, &item.definition.indexes)
    }
}

fn series(items: &[Item]) -> impl Iterator<Item = &Item> {
    items
        .iter()
        .filter(|item| item.definition.kind == Kind::TimeSeries)
}
