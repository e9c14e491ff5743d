//! The buffers in which one connection unpacks a request and builds its reply.
//!
//! They are kept from one exchange to the next, so that a small exchange allocates nothing. A large exchange must not
//! leave its size behind: the buffers go after `SMALL_EXCHANGES` exchanges that did not need them, and as soon as the
//! connection has been idle for a moment (see `conversation`).

/// Buffers beyond this are given back after `SMALL_EXCHANGES` exchanges that did not need them.
const KEPT_BYTES: usize = 64 << 10;
const SMALL_EXCHANGES: u32 = 64;

#[derive(Default)]
pub struct Buffers {
    /// A request that came packed, unpacked; empty for one that did not.
    pub unpacked: Vec<u8>,
    pub reply: Vec<u8>,
    /// The reply, packed.
    pub packed: Vec<u8>,
    small_exchanges: u32,
}

impl Buffers {
    /// Memory held, whether or not it is filled.
    pub fn capacity_bytes(&self) -> usize {
        self.unpacked.capacity() + self.reply.capacity() + self.packed.capacity()
    }

    /// An exchange begins: what the one before left is no longer needed.
    pub fn clear(&mut self) {
        self.unpacked.clear();
        self.reply.clear();
        self.packed.clear();
    }

    /// An exchange has ended: gives the buffers back when none of the last ones needed their size.
    pub fn end_exchange(&mut self) {
        if self.capacity_bytes() <= KEPT_BYTES {
            return;
        }
        let is_small = self.unpacked.len() + self.reply.len() + self.packed.len() <= KEPT_BYTES;
        self.small_exchanges = if is_small {
            self.small_exchanges + 1
        } else {
            0
        };
        if self.small_exchanges >= SMALL_EXCHANGES {
            self.give_back();
        }
    }

    pub fn give_back(&mut self) {
        *self = Buffers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_packed_exchange_needed_goes_though_none_after_it_is_packed() {
        let mut buffers = Buffers {
            unpacked: vec![0; 1 << 20],
            packed: vec![0; 1 << 20],
            ..Buffers::default()
        };
        buffers.end_exchange();
        for exchange in 0..SMALL_EXCHANGES {
            assert!(buffers.capacity_bytes() > KEPT_BYTES, "{exchange}");
            buffers.clear();
            buffers.reply.extend_from_slice(b"reply");
            buffers.end_exchange();
        }
        assert_eq!(buffers.capacity_bytes(), 0);
    }
}
