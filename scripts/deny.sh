#!/usr/bin/env bash
# Holds the dependencies against deny.toml: licences, banned crates and sources always; known advisories as far as their
# database can be had. It is a git repository elsewhere: a machine that cannot reach it uses an earlier copy, or says
# loudly that it checked no advisory, and passes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${CARGO_TARGET_DIR:=$HOME/.cache/quarry/target}"
deny=$CARGO_TARGET_DIR/tools/bin/cargo-deny
copies=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs

warn() { printf '\n    WARNING: %s\n\n' "$*" >&2; }

"$deny" check --hide-inclusion-graph licenses bans sources

if why=$(timeout 120 "$deny" fetch db 2>&1); then
    "$deny" --offline check advisories
elif compgen -G "$copies/*/.git" >/dev/null; then
    warn "the advisory database could not be fetched; an earlier copy of it is used"
    "$deny" --offline check advisories
else
    printf '%s\n' "$why" | sed 's/^/        /' >&2
    warn "NO ADVISORY WAS CHECKED: their database could not be fetched, and there is no earlier copy"
fi
