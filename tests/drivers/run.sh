#!/usr/bin/env bash
# The tests that real clients run, each against a real process on loopback:
#   pymongo (newest on every engine, and 4.17.0 on the first one alone: drivers and engines know nothing of each other), the Node driver and
#   mongosh on every engine, `mingo`: the cases of the scripts and random requests answered by another implementation of the
#   language, the examples in four languages, the crash and history tests, `hostile`: work
#   that is to be interrupted, memory that is to come back and servers that are to end, `logins`: how clients of five languages log in, `monitoring`: what Prometheus' tools, a browser and a
#   terminal see; `own`: PyMongo's own tests, held against the list of those that are left; `packages`: each from an empty directory to a
#   served insert; `tools`: mappers, job queues and other tools that others made, and docs/works-with.md, which lists them.
# Ends with one line, `N passed, N failed`, summed over all; fails when a suite passed fewer tests than minimum.txt says.
# SUITES="pymongo-newest node" runs only those; a plus joins suites that run beside each other.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${CARGO_TARGET_DIR:=$HOME/.cache/quarry/target}"
: "${DRIVERS_DIR:=$CARGO_TARGET_DIR/drivers}"
export CARGO_TARGET_DIR DRIVERS_DIR QUARRY="${QUARRY:-$CARGO_TARGET_DIR/release/quarry}"
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export QUARRY_ENGINES="${QUARRY_ENGINES:-rocksdb,mdbx,memory}"
export QUARRY_NODE_MODULES="$DRIVERS_DIR/node/node_modules"
export MOVIES="$QUARRY_NODE_MODULES/vega-datasets/data/movies.json"
suites=${SUITES:-pymongo-newest+pymongo-4.17.0 own+crash node mingo mongosh examples hostile logins+tools monitoring packages}
scratch=$(mktemp -d)
server_pid=
beside_pids=()
total_passed=0
total_failed=0

stop_server() {
    [[ -z $server_pid ]] && return
    kill -TERM "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
    server_pid=
}

# Each is a group of processes of its own.
stop_beside() {
    local pid
    for pid in "${beside_pids[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
}

trap 'stop_server; stop_beside; rm -rf -- "$scratch"' EXIT

# Starts a server over a fresh directory and sets QUARRY_URI: `start_server ENGINE [FLAG...]`.
start_server() {
    local engine=$1 directory=$scratch/$1-$RANDOM
    mkdir -p "$directory"
    "$QUARRY" serve --dbpath "$directory" --engine "$engine" --port 0 --adminPort off "${@:2}" \
        </dev/null >"$directory.log" 2>&1 &
    server_pid=$!
    for _ in $(seq 1 1500); do
        [[ -s $directory/quarry.port ]] && break
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.02
    done
    [[ -s $directory/quarry.port ]] || {
        echo "the server did not start on $engine:" >&2
        tail -n 20 "$directory.log" >&2
        return 1
    }
    QUARRY_URI="mongodb://127.0.0.1:$(<"$directory/quarry.port")/"
    export QUARRY_URI
}

# The number before a word in a runner's closing lines: `count passed FILE`.
count() { grep -aoE "[0-9]+ $1" "$2" | tail -n 1 | grep -oE '^[0-9]+' || echo 0; }

# Adds a suite's counts and holds them against minimum.txt.
settle() {
    local suite=$1 passed=$2 failed=$3 minimum
    minimum=$(awk -v suite="$suite" '$1 == suite { print $2 }' "$here/minimum.txt")
    if ((passed < ${minimum:-1})); then
        echo "    $suite: only $passed tests passed, at least ${minimum:-1} are named in minimum.txt" >&2
        ((failed > 0)) || failed=1
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
}

# One suite of pytest with a version of PyMongo: `run_pytest SUITE VERSION ARGUMENT...`.
run_pytest() {
    local suite=$1 version=$2 log=$scratch/$1.log status=0 failed
    shift 2
    "$DRIVERS_DIR/python-$version/bin/python" -m pytest -p no:cacheprovider -q --tb=short --basetemp "$scratch/pytest-$suite" \
        -o tmp_path_retention_policy=failed "$@" 2>&1 | tee "$log" || status=$?
    failed=$(($(count failed "$log") + $(count 'errors?' "$log")))
    ((status == 0 || failed > 0)) || failed=1
    settle "$suite" "$(count passed "$log")" "$failed"
}

# Suites beside each other, which mostly wait, for servers that start and for disks: `run_beside SUITE...`. The first one is seen at
# work; each of the others runs in a script of its own, whose last line has its counts.
run_beside() {
    local suite log counts
    for suite in "${@:2}"; do
        SUITES=$suite setsid "$here/run.sh" >"$scratch/$suite.beside" 2>&1 &
        beside_pids+=($!)
    done
    run_suite "$1"
    for suite in "${@:2}"; do
        log=$scratch/$suite.beside
        wait "${beside_pids[0]}" || true
        beside_pids=("${beside_pids[@]:1}")
        counts=$(tail -n 1 "$log")
        if [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
            head -n -2 "$log"
            total_passed=$((total_passed + BASH_REMATCH[1]))
            total_failed=$((total_failed + BASH_REMATCH[2]))
        else
            cat "$log"
            echo "    $suite: ended early" >&2
            total_failed=$((total_failed + 1))
        fi
    done
}

# The servers that Node and mongosh meet: a standalone of each engine, and a set of one.
identities() {
    local engine
    for engine in ${QUARRY_ENGINES//,/ }; do echo "$engine"; done
    echo set
}

# Starts one of `identities`.
start_identity() {
    case $1 in
        set) start_server "${QUARRY_ENGINES%%,*}" --replSet rs0 ;;
        *) start_server "$1" ;;
    esac
}

run_node() {
    local engine passed=0 failed=0 log script
    for engine in $(identities); do
        log=$scratch/node-$engine.log
        echo "    node on $engine"
        script=crud.test.mjs
        [[ $engine != set ]] || script=set.test.mjs
        if start_identity "$engine"; then
            "$(<"$DRIVERS_DIR/node-path")" --test --test-reporter=tap "$here/$script" >"$log" 2>&1 || true
            grep -aE '^ *not ok|error:|code:' "$log" | head -n 40 || true
            passed=$((passed + $(awk '/^# pass/ { print $3 }' "$log")))
            failed=$((failed + $(awk '/^# fail/ { print $3 }' "$log")))
        else
            failed=$((failed + 1))
        fi
        stop_server
    done
    # It starts its servers itself.
    echo "    node with mongodb-memory-server-core"
    log=$scratch/node-memory-server.log
    "$(<"$DRIVERS_DIR/node-path")" --test --test-reporter=tap "$here/memory_server.test.mjs" >"$log" 2>&1 || true
    grep -aE '^ *not ok|error:|code:' "$log" | head -n 40 || true
    passed=$((passed + $(awk '/^# pass/ { print $3 }' "$log")))
    failed=$((failed + $(awk '/^# fail/ { print $3 }' "$log")))
    settle node "$passed" "$failed"
}

# Another implementation of the language, which answers the scripts of crates/query and, beside a server, random requests.
run_mingo() {
    local name passed=0 failed=0 log
    if start_server "${QUARRY_ENGINES%%,*}"; then
        for name in scripts random; do
            log=$scratch/mingo-$name.log
            echo "    mingo: $name"
            "$(<"$DRIVERS_DIR/node-path")" --test --test-reporter=tap "$here/mingo/$name.test.mjs" >"$log" 2>&1 || true
            grep -aE '^# ([0-9]+ cases|agree|both refuse|only the script|left out|differ|[a-z]+: seed)' "$log" || true
            # What differs is to be seen whole: it is the lines of a script.
            grep -aqE '^not ok' "$log" && sed -n '/^not ok/,/^  \.\.\./p' "$log" | awk 'NR <= 200'
            passed=$((passed + $(awk '/^# pass/ { print $3 }' "$log")))
            failed=$((failed + $(awk '/^# fail/ { print $3 }' "$log")))
        done
    else
        failed=1
    fi
    stop_server
    settle mingo "$passed" "$failed"
}

run_mongosh() {
    local engine passed=0 failed=0 log script
    mkdir -p "$scratch/home"
    for engine in $(identities); do
        log=$scratch/mongosh-$engine.log
        echo "    mongosh on $engine"
        script=tour.mongosh.js
        [[ $engine != set ]] || script=set.mongosh.js
        local ended=0
        if start_identity "$engine"; then
            HOME="$scratch/home" timeout 180 "$(<"$DRIVERS_DIR/node-path")" "$QUARRY_NODE_MODULES/mongosh/bin/mongosh.js" --quiet --norc \
                "$QUARRY_URI" --file "$here/$script" >"$log" 2>&1 </dev/null || ended=$?
            grep -aE '^(ok|FAILED|mongosh:)' "$log" || tail -n 20 "$log"
            passed=$((passed + $(grep -acE '^ok ' "$log" || true)))
            failed=$((failed + $(grep -acE '^FAILED ' "$log" || true)))
            ((ended == 0)) || grep -aqE '^FAILED ' "$log" || failed=$((failed + 1))
        else
            failed=$((failed + 1))
        fi
        stop_server
    done
    settle mongosh "$passed" "$failed"
}

# How each example of examples/ is run: `run_example LANGUAGE URI`. What has to be built or found is beside it.
run_example() {
    local root=$here/../.. work=$scratch/example-$1
    mkdir -p "$work"
    case $1 in
        python) "$DRIVERS_DIR/python-newest/bin/python" "$root/examples/python/quickstart.py" "$2" ;;
        node)
            # Node looks for packages from where the script lies.
            cp "$root/examples/node/quickstart.mjs" "$work/"
            ln -sfn "$QUARRY_NODE_MODULES" "$work/node_modules"
            "$(<"$DRIVERS_DIR/node-path")" "$work/quickstart.mjs" "$2"
            ;;
        go)
            (cd "$root/examples/go" && GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -o "$work/quickstart" .)
            "$work/quickstart" "$2"
            ;;
        rust)
            # With the server's packages beside it, so that cargo settles on the same features and compiles nothing twice.
            (cd "$root" && PATH=$root/scripts/unity:$PATH cargo build -q --release -p quarry-server -p quarry-bench --example quickstart)
            "$CARGO_TARGET_DIR/release/examples/quickstart" "$2"
            ;;
    esac
}

# Every example prints the same lines, whatever its language.
run_examples() {
    local language log passed=0 failed=0
    if start_server rocksdb; then
        for language in python node go rust; do
            log=$scratch/example-$language.log
            if run_example "$language" "$QUARRY_URI" >"$log" 2>&1 && diff -u "$here/../../examples/expected.txt" "$log"; then
                echo "    $language: ok"
                passed=$((passed + 1))
            else
                echo "    $language: FAILED"
                tail -n 20 "$log"
                failed=$((failed + 1))
            fi
        done
    else
        failed=1
    fi
    stop_server
    settle examples "$passed" "$failed"
}

# PyMongo's own tests; which files is up to OWN_TESTS: `push` or `all`.
run_own() {
    local log=$scratch/own.log status=0
    "$DRIVERS_DIR/python-newest/bin/python" "$here/pymongo_suite/run.py" "${OWN_TESTS:-push}" 2>&1 | tee "$log" || status=$?
    local failed
    failed=$(count failed "$log")
    ((status == 0 || failed > 0)) || failed=1
    settle own "$(count passed "$log")" "$failed"
}

# What suites of their own run.
elsewhere=(--ignore=pymongo_suite --ignore=test_archive.py --ignore=test_backup.py --ignore=test_restore_part.py --ignore=test_object_store.py --ignore=test_fsync_lock.py --ignore=test_crash.py --ignore=test_history.py --ignore=test_transaction_history.py --ignore=test_interrupts.py --ignore=test_memory.py --ignore=test_memory_budget.py --ignore=test_stopping.py
    --ignore=monitoring --ignore=packages --ignore=logins --ignore=tools)

run_suite() {
    local suite=$1 begun=$SECONDS
    printf '\n==> %s\n' "$suite"
    case $suite in
        pymongo-newest) run_pytest "$suite" newest "${elsewhere[@]}" ;;
        pymongo-4.17.0) QUARRY_ENGINES=${QUARRY_ENGINES%%,*} run_pytest "$suite" 4.17.0 "${elsewhere[@]}" ;;
        node) run_node ;;
        mingo) run_mingo ;;
        mongosh) run_mongosh ;;
        examples) run_examples ;;
        logins) run_pytest "$suite" newest logins/test_logins.py ;;
        crash) run_pytest "$suite" newest -s test_crash.py test_history.py test_transaction_history.py test_backup.py test_restore_part.py test_object_store.py test_archive.py test_fsync_lock.py ;;
        hostile) run_pytest "$suite" newest test_interrupts.py test_memory.py test_memory_budget.py test_stopping.py ;;
        monitoring) run_pytest "$suite" newest monitoring ;;
        packages) run_pytest "$suite" newest packages/test_packages.py ;;
        tools) run_pytest "$suite" newest tools ;;
        own) run_own ;;
        *) echo "unknown suite $suite" >&2 && exit 2 ;;
    esac
    printf '    %s: %d s\n' "$suite" $((SECONDS - begun))
}

cd "$here"
for suite in $suites; do
    # What tests leave is kept where one fails and until the next suite begins: a run of all of them would leave dozens of gigabytes.
    rm -rf -- "$scratch"/pytest-*
    case $suite in
        *+*) IFS=+ read -ra joined <<<"$suite" && run_beside "${joined[@]}" ;;
        *) run_suite "$suite" ;;
    esac
done

printf '\n%d passed, %d failed\n' "$total_passed" "$total_failed"
((total_failed == 0))
