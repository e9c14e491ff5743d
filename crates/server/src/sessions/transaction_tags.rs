//! Numbers of transactions, by which those who wait for a lock know the transaction that has it.
//!
//! A lock is noted with the tag of the operation that took it (`quarry_timing::tag`). That of a transaction outlives its
//! operations, so that they are tagged with the number of their transaction instead, and whoever shows a wait finds the
//! session and the txnNumber here. The last numbers are kept, twice as many as transactions can be open at once: a wait
//! is also shown when it is over. The process has one sequence of numbers, as it has one clock for its operations.

use parking_lot::Mutex;

use crate::sessions::session::Lsid;

/// The numbers that are kept.
const KEPT: usize = 4096;

struct Numbered {
    number: u32,
    lsid: Lsid,
    txn_number: i64,
}

/// The last transactions, each at the place of its number. The memory comes as they do.
static LAST: Mutex<Last> = Mutex::new(Last {
    next: 1,
    numbered: Vec::new(),
});

struct Last {
    next: u32,
    numbered: Vec<Numbered>,
}

/// Gives a transaction that begins its number, which is never 0.
pub fn number(lsid: Lsid, txn_number: i64) -> u32 {
    let mut last = LAST.lock();
    let number = last.next;
    // Behind the last number there is the first again.
    last.next = number.wrapping_add(1).max(1);
    let one = Numbered {
        number,
        lsid,
        txn_number,
    };
    let place = place_of(number);
    match last.numbered.get_mut(place) {
        Some(older) => *older = one,
        None => last.numbered.push(one),
    }
    number
}

/// The session and the txnNumber of the transaction with this number; none once many others have begun behind it.
pub fn find(number: u32) -> Option<(Lsid, i64)> {
    let last = LAST.lock();
    let found = last.numbered.get(place_of(number))?;
    (found.number == number).then_some((found.lsid, found.txn_number))
}

/// The place of a number among those that are kept; the first number has the first place.
fn place_of(number: u32) -> usize {
    number.wrapping_sub(1) as usize % KEPT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::owner::SessionOwner;
    use crate::sessions::session::SessionId;

    #[test]
    fn the_last_transactions_are_found_by_their_numbers() {
        let (id, owner) = (SessionId::generate(), SessionOwner::NOBODY);
        let lsid = Lsid { id, owner };
        let first = number(lsid, 7);
        assert_eq!(find(first), Some((lsid, 7)));
        for txn_number in 0..2 * KEPT as i64 {
            let number = number(lsid, txn_number);
            assert_eq!(find(number), Some((lsid, txn_number)));
        }
        assert_eq!(find(first), None);
        assert!(LAST.lock().numbered.len() <= KEPT);
    }
}
