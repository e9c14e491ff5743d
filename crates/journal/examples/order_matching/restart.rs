//! Checks what must be there after a crash. Each producer's orders are a known stream, so that the log alone shows
//! whether one is missing, twice, changed or out of order.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;

use quarry_journal::{Files, Options, Payloads, inspect};

use super::book::{Book, Critical, Order, OrderStream};
use super::order_log;

/// The share of orders that are critical in the checks that crash.
pub const CRITICAL: Critical = Critical::OneIn(100);

/// A log read from its first order.
pub struct Replay {
    /// Where each producer goes on.
    pub streams: Vec<OrderStream>,
    book: Book,
    /// The producer of each order, by LSN from 1.
    producers: Vec<usize>,
}

impl Replay {
    /// Replays a log that is not open. Fails at an order that is not the next one of its producer.
    pub fn of(files: &dyn Files, producers: usize) -> Result<Replay, Box<dyn Error>> {
        let stream = |producer| OrderStream::new(producer as u64, CRITICAL);
        let mut replay = Replay {
            streams: (0..producers).map(stream).collect(),
            book: Book::default(),
            producers: Vec::new(),
        };
        let mut outcome = Ok(());
        inspect::dump(files, 0, &mut |group| {
            outcome = replay.apply_group(&group.payloads);
            match outcome {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        Ok(outcome.map(|()| replay)?)
    }

    fn apply_group(&mut self, payloads: &Payloads<'_>) -> Result<(), String> {
        (payloads.iter()).try_for_each(|(lsn, payload)| self.apply(lsn, payload))
    }

    fn apply(&mut self, lsn: u64, payload: &[u8]) -> Result<(), String> {
        let order =
            Order::decode(payload).ok_or_else(|| format!("record {lsn} is not an order"))?;
        let producer = order.producer() as usize;
        let expected = self.streams.get_mut(producer).map(OrderStream::next_order);
        if expected != Some(order) || lsn != self.orders() + 1 {
            return Err(format!(
                "record {lsn} is not the next order of producer {producer}"
            ));
        }
        self.book.apply(order);
        self.producers.push(producer);
        Ok(())
    }

    fn orders(&self) -> u64 {
        self.producers.len() as u64
    }

    fn check(&self, lsn: u64, producer: usize) -> Result<(), String> {
        let index = (lsn - 1) as usize;
        if self.producers.get(index) == Some(&producer) {
            return Ok(());
        }
        let orders = self.orders();
        Err(format!(
            "order {lsn} of producer {producer} was acknowledged but is missing: {orders} came back"
        ))
    }
}

/// Each producer's acknowledged LSN (0: none) must be in the log and an order of that producer, and a restart must
/// make the book and the trades of the log. Returns the number of orders.
pub fn check(
    files: Arc<dyn Files>,
    options: Options,
    acknowledged: &[u64],
) -> Result<u64, Box<dyn Error>> {
    let replay = Replay::of(&*files, acknowledged.len())?;
    for (producer, &lsn) in acknowledged.iter().enumerate() {
        if lsn > 0 {
            replay.check(lsn, producer)?;
        }
    }
    let (journal, restarted) = order_log::open(files, options)?;
    let restarted = restarted.book.lock().map_err(|_| "the book is poisoned")?;
    if restarted.hash() != replay.book.hash() || journal.replayed() != replay.orders() {
        return Err("the restarted book and trades are not those of the log".into());
    }
    Ok(replay.orders())
}
