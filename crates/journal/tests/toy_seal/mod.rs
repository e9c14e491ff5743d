//! A seal for tests, which protects nothing: a stream of XXH3 over the bytes and a sum of 64 bits behind them. It does what the journal
//! relies on: what was changed, or stands in another place, does not open, and no two sealings are alike.

#![allow(dead_code)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quarry_journal::{Files, Seal, SealedFiles, SealedPlace, SimulatedFiles};
use twox_hash::XxHash3_64;

/// Counts over all journals and lives, as the nonces of a real seal would be random.
static NEXT_NONCE: AtomicU64 = AtomicU64::new(1);

pub const ADDED_BYTES: usize = 16;

/// Seals with this key.
#[derive(Debug)]
pub struct ToySeal(pub u64);

impl ToySeal {
    fn mask(&self, place: SealedPlace, nonce: u64, bytes: &mut [u8]) {
        for (number, eight) in (0u64..).zip(bytes.chunks_mut(8)) {
            let words = [self.0, place.incarnation, place.first_lsn, nonce, number];
            for (byte, mask) in eight.iter_mut().zip(sum(&words, &[]).to_le_bytes()) {
                *byte ^= mask;
            }
        }
    }

    fn tag(&self, place: SealedPlace, nonce: u64, header: &[u8], bytes: &[u8]) -> [u8; 8] {
        let words = [
            self.0,
            place.incarnation,
            place.first_lsn,
            nonce,
            sum(&[], header),
        ];
        sum(&words, bytes).to_le_bytes()
    }
}

fn sum(words: &[u64], bytes: &[u8]) -> u64 {
    let mut all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    all.extend_from_slice(bytes);
    XxHash3_64::oneshot(&all)
}

impl Seal for ToySeal {
    fn added_bytes(&self) -> usize {
        ADDED_BYTES
    }

    fn seal(
        &self,
        place: SealedPlace,
        header: &[u8],
        buffer: &mut Vec<u8>,
        from: usize,
    ) -> io::Result<()> {
        let nonce = NEXT_NONCE.fetch_add(1, Ordering::Relaxed);
        self.mask(place, nonce, &mut buffer[from..]);
        let tag = self.tag(place, nonce, header, &buffer[from..]);
        buffer.extend_from_slice(&tag);
        buffer.extend_from_slice(&nonce.to_le_bytes());
        Ok(())
    }

    fn open(&self, place: SealedPlace, header: &[u8], body: &mut Vec<u8>) -> bool {
        let Some(plain_bytes) = body.len().checked_sub(ADDED_BYTES) else {
            return false;
        };
        let nonce = u64::from_le_bytes(*body.last_chunk().unwrap());
        let tag = self.tag(place, nonce, header, &body[..plain_bytes]);
        let is_whole = body[plain_bytes..plain_bytes + 8] == tag;
        body.truncate(plain_bytes);
        self.mask(place, nonce, body);
        is_whole
    }
}

/// These files, with a journal that is sealed with the key 1.
pub fn sealed(files: &SimulatedFiles) -> Arc<dyn Files> {
    sealed_with(1, files)
}

pub fn sealed_with(key: u64, files: &SimulatedFiles) -> Arc<dyn Files> {
    Arc::new(SealedFiles::new(
        Arc::new(files.clone()),
        Arc::new(ToySeal(key)),
    ))
}
