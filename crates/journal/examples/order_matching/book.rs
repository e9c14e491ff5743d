//! A price-time limit order book in integer ticks: limit, market, cancel, partial fills. It changes by
//! applying records only, so that a restart makes the same book and the same trades.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::ParseIntError;

pub const ORDER_BYTES: usize = 32;
/// Orders of at least this quantity are critical: acknowledged when durable.
pub const CRITICAL_QUANTITY: u32 = 1_000_000;
/// An order's id is its producer, then a number of this many bits.
const NUMBER_BITS: u32 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Limit = 0,
    Market = 1,
    Cancel = 2,
    /// A forced market order: always critical.
    Liquidation = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Buy = 0,
    Sell = 1,
}

/// A record of the order log. A cancel names the order in `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub kind: Kind,
    pub side: Side,
    pub price_ticks: u32,
    pub quantity: u32,
    pub id: u64,
    pub account: u64,
}

impl Order {
    pub fn is_critical(&self) -> bool {
        self.kind == Kind::Liquidation || self.quantity >= CRITICAL_QUANTITY
    }

    /// Who made the order, or the one that it cancels.
    pub fn producer(&self) -> u64 {
        self.id >> NUMBER_BITS
    }

    /// kind, side, 2 unused, price, quantity, 4 unused, id, account; little-endian.
    pub fn encode(&self) -> [u8; ORDER_BYTES] {
        let mut bytes = [0; ORDER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = self.side as u8;
        bytes[4..8].copy_from_slice(&self.price_ticks.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.quantity.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.account.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<ORDER_BYTES>()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Some(Order {
            kind: [Kind::Limit, Kind::Market, Kind::Cancel, Kind::Liquidation]
                .get(bytes[0] as usize)
                .copied()?,
            side: [Side::Buy, Side::Sell].get(bytes[1] as usize).copied()?,
            price_ticks: word(4),
            quantity: word(8),
            id: long(16),
            account: long(24),
        })
    }
}

#[derive(Clone, Copy)]
struct Resting {
    id: u64,
    quantity: u32,
}

/// Resting orders by price, oldest first, and a running hash of every trade.
#[derive(Default)]
pub struct Book {
    buys: BTreeMap<u32, VecDeque<Resting>>,
    sells: BTreeMap<u32, VecDeque<Resting>>,
    places: HashMap<u64, (Side, u32)>,
    pub orders: u64,
    pub trades: u64,
    trades_hash: u64,
}

impl Book {
    pub fn apply(&mut self, order: Order) {
        self.orders += 1;
        match order.kind {
            Kind::Limit => {
                let left = self.trade(order, order.price_ticks);
                self.rest(order, left);
            }
            Kind::Market | Kind::Liquidation => {
                let any_price = if order.side == Side::Buy { u32::MAX } else { 0 };
                self.trade(order, any_price);
            }
            Kind::Cancel => self.cancel(order.id),
        }
    }

    /// Fills against the other side up to the limit; returns what is left.
    fn trade(&mut self, order: Order, limit_ticks: u32) -> u32 {
        let mut left = order.quantity;
        while left > 0 {
            let best = match order.side {
                Side::Buy => self
                    .sells
                    .first_entry()
                    .filter(|level| *level.key() <= limit_ticks),
                Side::Sell => self
                    .buys
                    .last_entry()
                    .filter(|level| *level.key() >= limit_ticks),
            };
            let Some(mut level) = best else { break };
            let price_ticks = *level.key();
            let queue = level.get_mut();
            let Some(maker) = queue.front_mut() else {
                break;
            };
            let filled = left.min(maker.quantity);
            left -= filled;
            maker.quantity -= filled;
            let maker_id = maker.id;
            if maker.quantity == 0 {
                queue.pop_front();
                self.places.remove(&maker_id);
            }
            if queue.is_empty() {
                level.remove();
            }
            self.trades += 1;
            for word in [
                order.id,
                maker_id,
                u64::from(price_ticks),
                u64::from(filled),
            ] {
                self.trades_hash = mix(self.trades_hash, word);
            }
        }
        left
    }

    fn rest(&mut self, order: Order, left: u32) {
        if left > 0 {
            let levels = if order.side == Side::Buy {
                &mut self.buys
            } else {
                &mut self.sells
            };
            levels
                .entry(order.price_ticks)
                .or_default()
                .push_back(Resting {
                    id: order.id,
                    quantity: left,
                });
            self.places
                .insert(order.id, (order.side, order.price_ticks));
        }
    }

    fn cancel(&mut self, id: u64) {
        let Some((side, price_ticks)) = self.places.remove(&id) else {
            return;
        };
        let levels = if side == Side::Buy {
            &mut self.buys
        } else {
            &mut self.sells
        };
        if let Some(queue) = levels.get_mut(&price_ticks) {
            queue.retain(|resting| resting.id != id);
            if queue.is_empty() {
                levels.remove(&price_ticks);
            }
        }
    }

    /// One number for every trade so far and every order that rests.
    pub fn hash(&self) -> u64 {
        let mut hash = mix(self.trades_hash, self.orders);
        for (price_ticks, queue) in self.buys.iter().chain(&self.sells) {
            for resting in queue {
                hash = mix(
                    mix(mix(hash, u64::from(*price_ticks)), resting.id),
                    u64::from(resting.quantity),
                );
            }
        }
        hash
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

/// A repeatable stream of orders around a slowly moving price.
pub struct OrderStream {
    state: u64,
    producer: u64,
    made: u64,
    /// Orders of the whole run that come before this stream's: they count for which is critical.
    before: u64,
    critical: Critical,
}

/// Which orders of a stream are critical.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Critical {
    /// One in this many, at least 1.
    OneIn(u64),
    All,
}

impl Critical {
    /// `all`, `1%`, or about how many of `orders`, evenly spread.
    pub fn parse(text: &str, orders: u64) -> Result<Critical, ParseIntError> {
        Ok(match text {
            "all" => Critical::All,
            "1%" => Critical::OneIn(100),
            number => {
                let every = orders.checked_div(number.parse()?);
                Critical::OneIn(every.map_or(u64::MAX, |every| every.max(1)))
            }
        })
    }
}

impl OrderStream {
    pub fn new(producer: u64, critical: Critical) -> Self {
        OrderStream {
            state: producer ^ 0x5851_f42d_4c95_7f2d,
            producer,
            made: 0,
            before: 0,
            critical,
        }
    }

    /// The part of a run that comes after `before` orders of other producers.
    pub fn after(before: u64, producer: u64, critical: Critical) -> Self {
        OrderStream {
            before,
            ..OrderStream::new(producer, critical)
        }
    }

    pub fn next_order(&mut self) -> Order {
        self.made += 1;
        let random = self.random();
        let id = self.producer << NUMBER_BITS | self.made;
        let is_critical = match self.critical {
            Critical::All => true,
            Critical::OneIn(every) => (self.before + self.made) % every == every / 2,
        };
        let side = if random & 1 == 0 {
            Side::Buy
        } else {
            Side::Sell
        };
        let kind = match (is_critical, (random >> 1) % 100) {
            (true, _) => Kind::Liquidation,
            (false, 0..60) => Kind::Limit,
            (false, 60..75) => Kind::Market,
            (false, _) => Kind::Cancel,
        };
        let spread = (random >> 16) % 64;
        let price_ticks = if side == Side::Buy {
            10_020 - spread
        } else {
            9_980 + spread
        } as u32;
        let cancelled = self.made.saturating_sub(1 + (random >> 24) % 32);
        Order {
            kind,
            side,
            price_ticks,
            quantity: 1 + ((random >> 32) % 100) as u32,
            id: if kind == Kind::Cancel {
                self.producer << NUMBER_BITS | cancelled
            } else {
                id
            },
            account: random >> 40,
        }
    }

    fn random(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.state ^ self.state >> 29
    }
}
