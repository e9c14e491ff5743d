//! The binary `quarry-untimed`: the server with its timing compiled out, which the bench compares `quarry` with. It is
//! not for use: slow operations are not found in it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    quarry_server::from_command_line(quarry_server::Allocator {
        kept_bytes: quarry_allocator::kept_bytes,
        purge: quarry_allocator::purge,
    })
}
