//! The unsafe steps of this crate: snapshots and iterators that own their database, and the environment of an encrypted store
//! ([`sealed_env`]).
//!
//! The binding's snapshot and iterator borrow the database; the trait above hands snapshots out
//! without a lifetime, and iterators wait in a pool between two cursors. Here each carries a shared
//! owner of the database beside it instead. The binding also keeps an iterator's options to itself;
//! here they stay at hand, because their bounds change from one cursor to the next.

#![allow(unsafe_code)]

pub(crate) mod sealed_env;

use std::{
    ffi::{CStr, c_char},
    ptr,
    ptr::NonNull,
    slice,
    sync::Arc,
};

use quarry_storage::{KEY_BYTES_MAX, KeyRange};
use rust_librocksdb_sys as sys;
use rust_rocksdb::{DB, DBAccess, ReadOptions, Snapshot};

/// A snapshot and the database it is of. Fields drop in order: the snapshot goes first.
pub(crate) struct OwnedSnapshot {
    snapshot: Snapshot<'static>,
    db: Arc<DB>,
}

impl OwnedSnapshot {
    pub(crate) fn new(db: &Arc<DB>) -> Self {
        let snapshot: Snapshot<'_> = db.snapshot();
        // SAFETY: the snapshot borrows the `DB` inside the `Arc`, which does not move and lives at
        // least as long as the clone of the `Arc` stored beside it; the field order of this struct
        // drops the snapshot first, and `get` never hands the long lifetime out.
        let snapshot = unsafe { std::mem::transmute::<Snapshot<'_>, Snapshot<'static>>(snapshot) };
        Self {
            snapshot,
            db: Arc::clone(db),
        }
    }

    pub(crate) fn get(&self) -> &Snapshot<'_> {
        &self.snapshot
    }

    pub(crate) fn db(&self) -> &Arc<DB> {
        &self.db
    }
}

/// An iterator, the options it reads its bounds from, and the database it is of.
///
/// The iterator points to the bounds inside the options: RocksDB looks at them with every move and
/// lets them change between a move and the next seek. Fields drop in order, after the iterator.
pub(crate) struct OwnedIterator {
    iterator: NonNull<sys::rocksdb_iterator_t>,
    /// Noted after each move, because its key and its value are asked for several times, and each question would be
    /// three calls through RocksDB's layers.
    item: Option<Item>,
    options: ReadOptions,
    _db: Arc<DB>,
}

/// The key and the value under an iterator, where RocksDB has them until it moves.
struct Item {
    key: sys::rocksdb_slice_t,
    value: sys::rocksdb_slice_t,
}

// SAFETY: RocksDB's iterators belong to no thread; one thread at a time uses this one, because
// everything that is not a mere look takes it by `&mut`.
unsafe impl Send for OwnedIterator {}

impl OwnedIterator {
    /// Over `range` as of `snapshot`.
    pub(crate) fn new(snapshot: &OwnedSnapshot, range: KeyRange) -> Self {
        let db = Arc::clone(snapshot.db());
        let mut options = ReadOptions::default();
        options.set_snapshot(snapshot.get());
        set_bounds(&mut options, range);
        // SAFETY: the call copies what it needs of the options but for the bounds, which lie in
        // the heap behind `options` and are stored beside the iterator; `db` outlives it as well.
        let iterator = unsafe { db.create_iterator(&options) };
        Self {
            iterator: NonNull::new(iterator)
                .expect("RocksDB makes an iterator or ends the process"),
            item: None,
            options,
            _db: db,
        }
    }

    /// Turns to `range` as of now and forgets the snapshot that it was made with; on no key.
    pub(crate) fn renew(&mut self, range: KeyRange) -> Result<(), String> {
        self.item = None;
        set_bounds(&mut self.options, range);
        let mut error = ptr::null_mut();
        // SAFETY: the iterator is alive; a message written to `error` is ours to free.
        unsafe { sys::rocksdb_iter_refresh(self.iterator.as_ptr(), &raw mut error) };
        take_message(error)
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        let (iterator, key, key_len) = (self.iterator.as_ptr(), key.as_ptr(), key.len());
        // SAFETY: the iterator is alive, and the key is read during the call only.
        unsafe { sys::rocksdb_iter_seek(iterator, key.cast(), key_len) }
        self.note_item();
    }

    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        let (iterator, key, key_len) = (self.iterator.as_ptr(), key.as_ptr(), key.len());
        // SAFETY: the iterator is alive, and the key is read during the call only.
        unsafe { sys::rocksdb_iter_seek_for_prev(iterator, key.cast(), key_len) }
        self.note_item();
    }

    pub(crate) fn seek_to_first(&mut self) {
        // SAFETY: the iterator is alive.
        unsafe { sys::rocksdb_iter_seek_to_first(self.iterator.as_ptr()) }
        self.note_item();
    }

    pub(crate) fn seek_to_last(&mut self) {
        // SAFETY: the iterator is alive.
        unsafe { sys::rocksdb_iter_seek_to_last(self.iterator.as_ptr()) }
        self.note_item();
    }

    /// Only where there is an item.
    pub(crate) fn next(&mut self) {
        debug_assert!(self.item.is_some(), "the iterator stands on a key");
        // SAFETY: the iterator is alive and, as the caller says, on a key.
        unsafe { sys::rocksdb_iter_next(self.iterator.as_ptr()) }
        self.note_item();
        if let Some(item) = &self.item {
            fetch_behind(&item.value);
        }
    }

    /// Only where there is an item.
    pub(crate) fn prev(&mut self) {
        debug_assert!(self.item.is_some(), "the iterator stands on a key");
        // SAFETY: the iterator is alive and, as the caller says, on a key.
        unsafe { sys::rocksdb_iter_prev(self.iterator.as_ptr()) }
        self.note_item();
    }

    /// The key and value that the iterator stands on, good until it moves.
    #[inline]
    pub(crate) fn item(&self) -> Option<(&[u8], &[u8])> {
        let item = self.item.as_ref()?;
        Some((self.bytes(&item.key), self.bytes(&item.value)))
    }

    /// Looks where the iterator stands, after each move of it.
    fn note_item(&mut self) {
        self.item = None;
        // SAFETY: the iterator is alive.
        let is_valid = unsafe { sys::rocksdb_iter_valid(self.iterator.as_ptr()) } != 0;
        if !is_valid {
            return;
        }
        // SAFETY: the iterator is valid.
        let key = unsafe { sys::rocksdb_iter_key_slice(self.iterator.as_ptr()) };
        // SAFETY: the iterator is valid.
        let value = unsafe { sys::rocksdb_iter_value_slice(self.iterator.as_ptr()) };
        self.item = Some(Item { key, value });
    }

    /// Why the last move found nothing, if it was not the end.
    pub(crate) fn status(&self) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: the iterator is alive; a message written to `error` is ours to free.
        unsafe { sys::rocksdb_iter_get_error(self.iterator.as_ptr(), &raw mut error) };
        take_message(error)
    }

    /// Bytes that RocksDB keeps in place until the iterator moves, which takes `&mut self`.
    #[inline]
    fn bytes(&self, slice: &sys::rocksdb_slice_t) -> &[u8] {
        if slice.size == 0 {
            return &[];
        }
        // SAFETY: RocksDB's slice of that many bytes, unchanged until the iterator moves.
        unsafe { slice::from_raw_parts(slice.data.cast(), slice.size) }
    }
}

/// Asks the processor for what lies behind a value: in a block the next entry does, and it is about as long. A scan reads each
/// byte once, so that it would wait for memory with every entry.
#[inline]
#[cfg(target_arch = "x86_64")]
fn fetch_behind(value: &sys::rocksdb_slice_t) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    const CACHE_LINE_BYTES: usize = 64;
    // Where values are longer the processor has noticed by itself that it reads line by line.
    const LINES_MAX: usize = 16;
    let lines = (value.size / CACHE_LINE_BYTES + 1).min(LINES_MAX);
    for line in 0..lines {
        let behind = value
            .data
            .wrapping_add(value.size + line * CACHE_LINE_BYTES);
        // SAFETY: a hint, which reads nothing and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(behind.cast()) }
    }
}

/// Other processors find out for themselves.
#[cfg(not(target_arch = "x86_64"))]
fn fetch_behind(_: &sys::rocksdb_slice_t) {}

impl Drop for OwnedIterator {
    fn drop(&mut self) {
        // SAFETY: made by RocksDB and destroyed once; options and database are dropped after it.
        unsafe { sys::rocksdb_iter_destroy(self.iterator.as_ptr()) }
    }
}

/// Both bounds are always set: an iterator keeps to the kinds of bounds that it was made with.
fn set_bounds(options: &mut ReadOptions, range: KeyRange) {
    let end = if range.end.is_empty() {
        vec![0xff; KEY_BYTES_MAX + 1]
    } else {
        range.end
    };
    options.set_iterate_range(range.start..end);
}

/// RocksDB's message as ours, its memory given back; null where nothing failed.
fn take_message(message: *mut c_char) -> Result<(), String> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a message of RocksDB's ends with NUL and stays until it is freed below.
    let text = unsafe { CStr::from_ptr(message) };
    let text = text.to_string_lossy().into_owned();
    // SAFETY: RocksDB allocated the message for its caller, and nothing refers to it any more.
    unsafe { sys::rocksdb_free(message.cast()) };
    Err(text)
}
