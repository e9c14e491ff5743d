//! `$sample`: a number of documents drawn at random, each as likely as any other, in random order.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawValue};

use super::execution::{Buffer, Running, Upstream};
use super::stage::{Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::stage_memory::BoundedMemory;

#[derive(Debug)]
struct Sample {
    size: u64,
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
        if number < 0.0 {
            return Err(Error::location(
                28747,
                "size argument to $sample must not be negative",
            ));
        }
        // The cast cuts a fraction off, as MongoDB does, and brings what is too large to the edge.
        size = Some(number as u64);
    }
    let size = size.ok_or_else(|| Error::location(28749, "$sample stage must specify a size"))?;
    Ok(one(Sample { size }))
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

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn Running> {
        Box::new(Sampling {
            size: self.size,
            drawn: None,
        })
    }
}

struct Sampling {
    size: u64,
    drawn: Option<std::vec::IntoIter<Box<[u8]>>>,
}

impl Running for Sampling {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        if self.drawn.is_none() {
            self.drawn = Some(draw(self.size, upstream)?.into_iter());
        }
        let Some(document) = self.drawn.as_mut().and_then(Iterator::next) else {
            return Ok(false);
        };
        out.extend_from_slice(&document);
        Ok(true)
    }
}

/// Draws in one pass: document number n replaces a drawn one with probability size/n (Vitter's algorithm R).
fn draw(size: u64, upstream: &mut Upstream<'_, '_>) -> Result<Vec<Box<[u8]>>> {
    let (mut random, mut memory) = (Random::new(), BoundedMemory::default());
    let (mut drawn, mut buffer, mut seen): (Vec<Box<[u8]>>, _, _) =
        (Vec::new(), Buffer::default(), 0_u64);
    if size == 0 {
        return Ok(drawn);
    }
    while let Some(document) = upstream.read(&mut buffer)? {
        seen += 1;
        let bytes = document.as_bytes();
        if seen <= size {
            memory.grow(bytes.len() + size_of::<Box<[u8]>>(), "$sample")?;
            // A new document goes to a random place, so that the result comes in random order.
            let at = random.below(seen) as usize;
            drawn.push(bytes.into());
            let last = drawn.len() - 1;
            drawn.swap(at, last);
            continue;
        }
        if let Some(place) = usize::try_from(random.below(seen))
            .ok()
            .and_then(|at| drawn.get_mut(at))
        {
            memory.shrink(place.len());
            memory.grow(bytes.len(), "$sample")?;
            *place = bytes.into();
        }
    }
    Ok(drawn)
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

    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
