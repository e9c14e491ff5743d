#!/usr/bin/env bash
# `cargo build` with the arguments given, and a line every while that says how far the compilation of RocksDB is: it is most of a
# first build, and cargo shows it as one crate that does not move.
set -euo pipefail

: "${CARGO_TARGET_DIR:=$HOME/.cache/quarry/target}"
readonly LOOK_SECONDS=${LOOK_SECONDS:-15}
# The crate is compiled first of all, next to others: what is left after it is about this share of its own time.
readonly AFTERWARDS_PERCENT=25

# The source files of RocksDB that the crate compiles; none where cargo has not fetched it yet.
sources() {
    local list
    list=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -path '*/rust-librocksdb-sys-*/rocksdb_lib_sources.txt' 2>/dev/null | sort -V | tail -n 1)
    if [[ -n $list ]]; then wc -w <"$list"; else echo 0; fi
}

objects() { find "$CARGO_TARGET_DIR"/release/build/rust-librocksdb-sys-*/out -name '*.o' -newer "$1" 2>/dev/null | wc -l; }

# Looks at what has been compiled since the build began; ends with whoever started it.
watch() {
    local since=$1 begun=$SECONDS all done left
    while sleep "$LOOK_SECONDS"; do
        all=$(sources)
        done=$(objects "$since")
        ((all > 0 && done > 0 && done < all)) || continue
        left=$(((SECONDS - begun) * (all - done) / done * (100 + AFTERWARDS_PERCENT) / 100))
        printf '    RocksDB: %d of %d files, about %d min %02d s left\n' "$done" "$all" $((left / 60)) $((left % 60))
    done
}

since=$(mktemp)
watch "$since" &
watcher=$!
trap 'kill "$watcher" 2>/dev/null; rm -f -- "$since"' EXIT
cargo build "$@"
