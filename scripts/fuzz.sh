#!/bin/bash
# Runs every fuzz target for a number of seconds (600 unless given), two at a time. The flags are those that libFuzzer asks of
# a build: neither cargo-fuzz nor a nightly toolchain is needed. A finding ends the run and leaves its input behind.
set -euo pipefail

seconds="${1:-600}"
root="$(cd "$(dirname "$0")/.." && pwd)"
target="${CARGO_TARGET_DIR:-$HOME/.cache/quarry/target}/fuzz"
triple="$(rustc -vV | sed -n 's/^host: //p')"
mkdir -p "$target/corpus" "$target/findings"

RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cdebug-assertions -Coverflow-checks" \
	cargo build --release --manifest-path "$root/fuzz/Cargo.toml" --target "$triple" --target-dir "$target"

find "$root/fuzz/fuzz_targets" -name '*.rs' -printf '%f\n' | sed 's/\.rs$//' | sort |
	xargs -P 2 -I{} bash -c 'mkdir -p "$1/corpus/{}" && "$1/$2/release/{}" "$1/corpus/{}" -max_total_time="$3" -dict="$4" \
		-artifact_prefix="$1/findings/{}-" -max_len=4096 >"$1/{}.log" 2>&1 || { tail -40 "$1/{}.log"; exit 255; }; \
		echo "{}: $(tail -1 "$1/{}.log")"' _ "$target" "$triple" "$seconds" "$root/fuzz/language.dict"
