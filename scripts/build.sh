#!/usr/bin/env bash
# `cargo build` with the arguments given, and a line every while that says how far the compilation of RocksDB is: it is most of a
# first build, and cargo shows it as one crate that does not move.
set -euo pipefail

unity=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/unity
readonly unity
# RocksDB is compiled in larger units by the `c++` that stands there.
export PATH=$unity:$PATH
files_a_unit=$(sed -n 's/^FILES_A_UNIT=//p' "$unity/c++")
readonly files_a_unit
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

objects() { find "$CARGO_TARGET_DIR"/release/build/rust-librocksdb-sys-*/out -name '*.o' -newer "$since" "$@" 2>/dev/null | wc -l; }

# How many of them are compiled, about. Of a unit one object holds all, when it is done; the others hold nothing, and are there at
# once. What is done of the units in work lies between, so this is the middle of both counts; file by file they are the same.
compiled() {
    local all whole
    all=$(objects)
    whole=$(($(objects -size +1k) * files_a_unit))
    echo $(((all + (whole < all ? whole : all)) / 2))
}

# Looks at what has been compiled since the build began; ends with whoever started it.
watch() {
    local begun=$SECONDS all done left
    while sleep "$LOOK_SECONDS"; do
        all=$(sources)
        done=$(compiled)
        ((done > 0)) || begun=$SECONDS
        ((all > 0 && done > 0 && done < all)) || continue
        left=$(((SECONDS - begun) * (all - done) / done * (100 + AFTERWARDS_PERCENT) / 100))
        printf '    RocksDB: %d of %d files, about %d min %02d s left\n' "$done" "$all" $((left / 60)) $((left % 60))
    done
}

since=$(mktemp)
watch &
watcher=$!
trap 'kill "$watcher" 2>/dev/null; rm -f -- "$since"' EXIT
cargo build "$@"
