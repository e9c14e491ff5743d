//! RocksDB's environment with every file encrypted: what `cpp/sealed_env.cc` calls.
//!
//! The file system there hands bytes over and writes what it gets back; here they are sealed and opened by `quarry_seal`. The two
//! sides agree on `cpp/sealed_env.h`, whose declarations are repeated below by hand.
//!
//! A panic in one of these calls ends the process, because none can pass through RocksDB.

use std::ffi::{c_char, c_void};
use std::{ptr, slice};

use quarry_seal::{
    DataKey, Error,
    engine_file::{
        BLOCK_BYTES, BlockReader, FileWriter, HEADER_BYTES, Layout, SEALED_BLOCK_BYTES,
        SequentialReader,
    },
};
use rust_librocksdb_sys as sys;
use rust_rocksdb::Env;

const DONE: i32 = 0;
const DAMAGED: i32 = 1;
const FAILED: i32 = 2;

/// `QuarrySealBytes`.
#[repr(C)]
struct Bytes {
    data: *const c_char,
    size: usize,
}

/// `QuarrySealCalls`.
#[repr(C)]
struct Calls {
    header_bytes: u64,
    block_bytes: u64,
    sealed_block_bytes: u64,
    drop_key: unsafe extern "C" fn(*mut c_void),
    new_writer: unsafe extern "C" fn(*const c_void, bool, *mut Bytes) -> *mut c_void,
    append: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut Bytes) -> i32,
    end: unsafe extern "C" fn(*mut c_void, *mut Bytes) -> i32,
    drop_writer: unsafe extern "C" fn(*mut c_void),
    new_reader: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    feed: unsafe extern "C" fn(*mut c_void, *const c_char, usize),
    take: unsafe extern "C" fn(*mut c_void, *mut c_char, usize, *mut usize) -> i32,
    drop_reader: unsafe extern "C" fn(*mut c_void),
    new_blocks: unsafe extern "C" fn(*const c_void, *const c_char, usize) -> *mut c_void,
    read_blocks: ReadBlocks,
    drop_blocks: unsafe extern "C" fn(*mut c_void),
}

type ReadBlocks = unsafe extern "C" fn(
    *const c_void,
    u64,
    *mut c_char,
    usize,
    usize,
    *mut c_char,
    usize,
    *mut usize,
) -> i32;

static CALLS: Calls = Calls {
    header_bytes: HEADER_BYTES as u64,
    block_bytes: BLOCK_BYTES as u64,
    sealed_block_bytes: SEALED_BLOCK_BYTES as u64,
    drop_key: drop_object::<DataKey>,
    new_writer,
    append,
    end,
    drop_writer: drop_object::<FileWriter>,
    new_reader,
    feed,
    take,
    drop_reader: drop_object::<SequentialReader>,
    new_blocks,
    read_blocks,
    drop_blocks: drop_object::<BlockReader>,
};

unsafe extern "C" {
    fn quarry_sealed_env_create(key: *mut c_void, calls: *const Calls) -> *mut sys::rocksdb_env_t;
}

/// The environment of a store whose files are sealed with keys derived from this one.
pub(crate) fn sealed_env(key: &DataKey) -> Env {
    let key = Box::into_raw(Box::new(key.clone()));
    // SAFETY: the call copies `CALLS`, and gives the key up once, by `drop_key`, when the environment goes.
    let env = unsafe { quarry_sealed_env_create(key.cast(), &raw const CALLS) };
    // SAFETY: the environment was just made, with the layout that `rocksdb_env_destroy` expects, and nobody else has it.
    unsafe { Env::from_raw(env) }
}

fn outcome(result: &Result<(), Error>) -> i32 {
    match result {
        Ok(()) => DONE,
        Err(Error::NoRandomness) => FAILED,
        Err(_) => DAMAGED,
    }
}

/// # Safety
/// `object` is null or an object that one of the calls below has made as a `T`, and is not used any more.
unsafe extern "C" fn drop_object<T>(object: *mut c_void) {
    if !object.is_null() {
        // SAFETY: made by `Box::into_raw` as this type, and given back once, as the caller says.
        drop(unsafe { Box::from_raw(object.cast::<T>()) });
    }
}

/// # Safety
/// `data` begins `size` bytes that do not change meanwhile, or `size` is 0.
unsafe fn bytes<'b>(data: *const c_char, size: usize) -> &'b [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller's bytes, which do not change during the call.
    unsafe { slice::from_raw_parts(data.cast(), size) }
}

/// # Safety
/// `data` begins `size` bytes that nobody else reads or writes meanwhile, or `size` is 0.
unsafe fn bytes_mut<'b>(data: *mut c_char, size: usize) -> &'b mut [u8] {
    if size == 0 {
        return &mut [];
    }
    // SAFETY: the caller's bytes, which are its own during the call.
    unsafe { slice::from_raw_parts_mut(data.cast(), size) }
}

/// # Safety
/// `out` is valid to be written.
unsafe fn give(writer: &FileWriter, out: *mut Bytes) {
    let made = writer.out();
    let made = Bytes {
        data: made.as_ptr().cast(),
        size: made.len(),
    };
    // SAFETY: as the caller says.
    unsafe { out.write(made) }
}

/// # Safety
/// `key` is the environment's, `out` is valid to be written.
unsafe extern "C" fn new_writer(
    key: *const c_void,
    is_of_blocks: bool,
    out: *mut Bytes,
) -> *mut c_void {
    // SAFETY: the key lives as long as the environment, which calls.
    let key = unsafe { &*key.cast::<DataKey>() };
    let layout = match is_of_blocks {
        true => Layout::Blocks,
        false => Layout::Frames,
    };
    let Ok(writer) = FileWriter::new(key, layout) else {
        return ptr::null_mut();
    };
    let writer = Box::new(writer);
    // SAFETY: the caller's `out`. What it is given stays where it is when the box is.
    unsafe { give(&writer, out) };
    Box::into_raw(writer).cast()
}

/// # Safety
/// `writer` is one that nobody else uses, `data` begins `size` bytes, `out` is valid to be written.
unsafe extern "C" fn append(
    writer: *mut c_void,
    data: *const c_char,
    size: usize,
    out: *mut Bytes,
) -> i32 {
    // SAFETY: made by `new_writer`, and RocksDB uses a file that is written from one thread at a time.
    let writer = unsafe { &mut *writer.cast::<FileWriter>() };
    // SAFETY: RocksDB's buffer, which it does not change during an append.
    let result = writer.append(unsafe { bytes(data, size) });
    // SAFETY: the caller's `out`.
    unsafe { give(writer, out) };
    outcome(&result)
}

/// # Safety
/// `writer` is one that nobody else uses, `out` is valid to be written.
unsafe extern "C" fn end(writer: *mut c_void, out: *mut Bytes) -> i32 {
    // SAFETY: made by `new_writer`, and RocksDB uses a file that is written from one thread at a time.
    let writer = unsafe { &mut *writer.cast::<FileWriter>() };
    let result = writer.end();
    // SAFETY: the caller's `out`.
    unsafe { give(writer, out) };
    outcome(&result)
}

/// # Safety
/// `key` is the environment's.
unsafe extern "C" fn new_reader(key: *const c_void) -> *mut c_void {
    // SAFETY: the key lives as long as the environment, which calls.
    let key = unsafe { &*key.cast::<DataKey>() };
    Box::into_raw(Box::new(SequentialReader::new(key))).cast()
}

/// # Safety
/// `reader` is one that nobody else uses, `data` begins `size` bytes.
unsafe extern "C" fn feed(reader: *mut c_void, data: *const c_char, size: usize) {
    // SAFETY: made by `new_reader`, and a sequential file is read from one thread at a time.
    let reader = unsafe { &mut *reader.cast::<SequentialReader>() };
    // SAFETY: the caller's buffer, which it has just read into.
    reader.feed(unsafe { bytes(data, size) });
}

/// # Safety
/// `reader` is one that nobody else uses, `out` begins `size` bytes, `taken` is valid to be written.
unsafe extern "C" fn take(
    reader: *mut c_void,
    out: *mut c_char,
    size: usize,
    taken: *mut usize,
) -> i32 {
    // SAFETY: made by `new_reader`, and a sequential file is read from one thread at a time.
    let reader = unsafe { &mut *reader.cast::<SequentialReader>() };
    // SAFETY: the part of RocksDB's scratch that is not filled yet.
    let result = reader.take(unsafe { bytes_mut(out, size) });
    let count = *result.as_ref().unwrap_or(&0);
    // SAFETY: the caller's number.
    unsafe { taken.write(count) };
    outcome(&result.map(|_| ()))
}

/// # Safety
/// `key` is the environment's, `header` begins `size` bytes.
unsafe extern "C" fn new_blocks(
    key: *const c_void,
    header: *const c_char,
    size: usize,
) -> *mut c_void {
    // SAFETY: the key lives as long as the environment, which calls.
    let key = unsafe { &*key.cast::<DataKey>() };
    // SAFETY: the caller's buffer, which it has just read into.
    let header = unsafe { bytes(header, size) };
    match BlockReader::open(key, header) {
        Ok(blocks) => Box::into_raw(Box::new(blocks)).cast(),
        Err(_) => ptr::null_mut(),
    }
}

/// # Safety
/// `blocks` is one that lives; `sealed` begins `size` bytes and `out` begins `out_size`, which are the caller's alone; `copied` is valid
/// to be written.
unsafe extern "C" fn read_blocks(
    blocks: *const c_void,
    first: u64,
    sealed: *mut c_char,
    size: usize,
    skip: usize,
    out: *mut c_char,
    out_size: usize,
    copied: *mut usize,
) -> i32 {
    // SAFETY: made by `new_blocks`; readers share it, and it has nothing that changes.
    let blocks = unsafe { &*blocks.cast::<BlockReader>() };
    // SAFETY: a buffer that the caller has made for this read.
    let sealed = unsafe { bytes_mut(sealed, size) };
    // SAFETY: RocksDB's scratch for this read.
    let out = unsafe { bytes_mut(out, out_size) };
    let result = blocks.read(first, sealed, skip, out);
    let count = *result.as_ref().unwrap_or(&0);
    // SAFETY: the caller's number.
    unsafe { copied.write(count) };
    outcome(&result.map(|_| ()))
}
