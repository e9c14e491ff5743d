//! The binary `quarry`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// For the engines as well: theirs and ours are many small blocks from many threads.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    quarry_server::from_command_line(quarry_server::Allocator {
        kept_bytes: quarry_allocator::kept_bytes,
        purge: quarry_allocator::purge,
    })
}
