#!/usr/bin/env bash
# Runs one step under a heading and says how long it took: `step.sh TITLE COMMAND...`.
set -euo pipefail
title=$1
shift
printf '\n==> %s\n' "$title"
started=$SECONDS
status=0
"$@" || status=$?
if ((status == 0)); then
    printf '    %s: done in %d s\n' "$title" $((SECONDS - started))
else
    printf '    %s: FAILED after %d s (exit %d): %s\n' "$title" $((SECONDS - started)) "$status" "$*" >&2
fi
exit "$status"
