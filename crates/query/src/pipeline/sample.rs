//! `$sample`: a number of documents drawn at random, each as likely as any other, in random order.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawValue};

use super::execution::{Buffer, RunningStage, Upstream};
use super::stage::{Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::sorter::{Sorted, Sorter};
use crate::spilling::{DiskUse, SORTS};

#[derive(Debug)]
struct Sample {
    size: u64,
    disk_use: DiskUse,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(options) = specification.value else {
        return Err(Error::location(
            28745,
            "the $sample stage specification must be an object",
        ));
    };
    let mut size = None;
    for element in options {
        if element.name() != "size" {
            return Err(Error::location(
                28748,
                format!("unrecognized option to $sample: {}", element.name()),
            ));
        }
        let value = element.value();
        let number = value.as_f64_lossy();
        let number = number
            .ok_or_else(|| Error::location(28746, "size argument to $sample must be a number"))?;
        if number.is_nan() || number < 1.0 {
            return Err(Error::location(
                28747,
                "size argument to $sample must be a positive integer",
            ));
        }
        // The cast cuts a fraction off, as MongoDB does, and brings what is too large to the edge.
        size = Some(number as u64);
    }
    let size = size.ok_or_else(|| Error::location(28749, "$sample stage must specify a size"))?;
    Ok(one(Sample {
        size,
        disk_use: specification.context.disk_use(),
    }))
}

impl Stage for Sample {
    fn name(&self) -> &'static str {
        "$sample"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        let size = i64::try_from(self.size).unwrap_or(i64::MAX);
        out.document(self.name()).append("size", size);
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Passes
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Sampling {
            size: self.size,
            disk_use: self.disk_use,
            drawn: None,
        })
    }
}

struct Sampling {
    size: u64,
    disk_use: DiskUse,
    drawn: Option<Sorted>,
}

impl RunningStage for Sampling {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let drawn = match &mut self.drawn {
            Some(drawn) => drawn,
            none => none.insert(draw(self.size, self.disk_use, upstream)?),
        };
        let Some(row) = drawn.next()? else {
            return Ok(false);
        };
        out.extend_from_slice(row.payload());
        Ok(true)
    }
}

/// Draws in one pass: each document gets a random number, and those with the least numbers come, in the order of the numbers.
fn draw(size: u64, disk_use: DiskUse, upstream: &mut Upstream<'_, '_>) -> Result<Sorted> {
    let mut sorter = Sorter::new(&SORTS, Some(size), disk_use);
    let (mut random, mut buffer) = (Random::new(), Buffer::default());
    while let Some(document) = upstream.read(&mut buffer)? {
        sorter.push(&random.next().to_be_bytes(), document.as_bytes())?;
    }
    sorter.finish()
}

/// A small generator (SplitMix64), seeded from the standard library's random hash keys.
struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(RandomState::new().hash_one(0_u8))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
