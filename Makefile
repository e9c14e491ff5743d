# Quarry's door for people. `make help` lists the rooms behind it; cargo and scripts/ do the work.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# One persistent target directory for every checkout: RocksDB compiles for about eight minutes on two cores, once.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/quarry/target
# RocksDB is compiled in larger units by the `c++` that stands there, whichever target comes to compile it.
export PATH := $(CURDIR)/scripts/unity:$(PATH)
export DRIVERS_DIR := $(CARGO_TARGET_DIR)/drivers
export QUARRY_BSON_CORPUS := $(CARGO_TARGET_DIR)/bson_corpus

# A machine that has the compiler of rust-toolchain.toml under the name `stable` alone uses it as it is: rustup would download
# the same one again under its number.
RUST_WANTED := $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
ifeq ($(shell command -v rustup >/dev/null && ! rustup toolchain list | grep -q '^$(RUST_WANTED)-' && \
	rustc +stable --version | grep -qF 'rustc $(RUST_WANTED) ' && echo yes),yes)
export RUSTUP_TOOLCHAIN := stable
endif

QUARRY := $(CARGO_TARGET_DIR)/release/quarry
BENCH := $(CARGO_TARGET_DIR)/release/quarry-bench
PYTHON := $(DRIVERS_DIR)/python-newest/bin/python

# Crates that do not link RocksDB are tested in the development profile; those that do, in release only.
PLAIN_CRATES := quarry-bson quarry-timing quarry-journal quarry-storage quarry-storage-mdbx quarry-keystring quarry-collation \
	quarry-wire quarry-database quarry-seal quarry-allocator quarry-regex quarry-geometry quarry-text quarry-isolation quarry-query quarry-client quarry-tools xtask
ROCKSDB_CRATES := quarry-storage-rocksdb quarry-server quarry-bench

# Crates that others may use: each has a README, whose example is a test of its documentation.
PACKAGED_CRATES := quarry-bson quarry-keystring quarry-journal

# Interleavings of the journal's threads and of the record cache's, tried by a scheduler.
MODEL_TESTS := bash -c 'cargo test -p quarry-journal --features shuttle --lib model && \
	cargo test -p quarry-journal --features shuttle --test model && \
	cargo test -p quarry-database --features shuttle --lib record_cache::model'

# What every push gives each fuzz target.
FUZZ_SMOKE_SECONDS := 3

# The engine that `make run` builds and serves with. `make run ENGINE=mdbx` compiles no RocksDB, and is there sooner.
ENGINE ?= rocksdb
ifeq ($(ENGINE),rocksdb)
RUN_BUILD := -p quarry-server -p quarry-bench
RUN_STEP := release build (the first one takes about 25 minutes on two cores, a third of them for RocksDB; make run ENGINE=mdbx does without)
else
RUN_BUILD := -p quarry-server --no-default-features --features $(filter mdbx,$(ENGINE)),
RUN_STEP := release build without RocksDB
endif

.PHONY: help build run package package-test test test-rust test-drivers cookbook-million test-pymongo lint docs bench bench-crud bench-pipeline bench-concurrent bench-collections \
	bench-durability bench-encryption bench-hostile bench-language bench-security bench-sessions bench-shortcuts bench-timing bench-tools bench-instructions pictures report-layers bench-bson bench-journal bench-mdbx fuzz one-of-each torture bootstrap bootstrap-lint bootstrap-drivers clean-drivers

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

bootstrap:
	@scripts/bootstrap.sh build

bootstrap-lint: bootstrap
	@scripts/bootstrap.sh lint

bootstrap-drivers: bootstrap
	@scripts/bootstrap.sh drivers

build: bootstrap ## compile the release build of `quarry`, `quarry-bench` and the judge of histories
	@scripts/step.sh "release build (the first one takes about 25 minutes on two cores, a third of them for RocksDB)" \
		scripts/build.sh --release -p quarry-server -p quarry-bench -p quarry-isolation

run: bootstrap ## build, then serve ./data on 127.0.0.1:27017 (ENGINE=mdbx: quicker to build, without RocksDB)
	@scripts/step.sh "$(RUN_STEP)" scripts/build.sh --release $(RUN_BUILD)
	@exec $(QUARRY) serve --dbpath ./data --engine $(ENGINE) --bind_ip 127.0.0.1 --port 27017

package: build ## a tarball, a wheel, an npm package, a Debian package and an OCI image, in `dist` of the target directory
	@scripts/bootstrap.sh package
	@scripts/step.sh "packages" scripts/package.sh all

package-test: build bootstrap-drivers ## the packages in empty places, the Debian one in a system of its own (root, network, minutes)
	@scripts/bootstrap.sh package-test
	@cd tests/drivers && QUARRY=$(QUARRY) $(PYTHON) -m pytest -p no:cacheprovider -q --tb=short packages

lint: bootstrap-lint ## rustfmt, clippy, cargo-deny and packages, warnings are errors
	@scripts/step.sh "rustfmt" cargo fmt --all --check
	@scripts/step.sh "licences and advisories of the dependencies" scripts/deny.sh
	@scripts/step.sh "clippy" cargo clippy --release --workspace --all-targets -- -D warnings
	@scripts/step.sh "clippy of a server without RocksDB" \
		cargo clippy --release -p quarry-server --no-default-features --features mdbx -- -D warnings
	@scripts/step.sh "packages of the crates that others may use" \
		cargo package -q --no-verify --allow-dirty $(addprefix -p ,$(PACKAGED_CRATES))

docs: bootstrap ## the crates' documentation, warnings are errors
	@RUSTDOCFLAGS="-D warnings" scripts/step.sh "cargo doc" cargo doc --release --workspace --no-deps

test: ## lint, docs, the Rust tests, the tests with real clients and the crash test
	@$(MAKE) --no-print-directory lint docs test-rust test-drivers

test-rust: bootstrap-drivers ## the Rust tests
	@scripts/step.sh "tests of the crates that do not link RocksDB" \
		cargo test $(addprefix -p ,$(PLAIN_CRATES)) --features quarry-tools/parquet
	@scripts/step.sh "models of a commit's threads" $(MODEL_TESTS)
	@scripts/step.sh "tests of the crates that link RocksDB" \
		cargo test --release $(addprefix -p ,$(ROCKSDB_CRATES))
	@scripts/step.sh "every fuzz target for $(FUZZ_SMOKE_SECONDS) seconds" scripts/fuzz.sh $(FUZZ_SMOKE_SECONDS)

test-drivers: build bootstrap-drivers ## pymongo, Node, mongosh and the crash test against real processes
	@QUARRY=$(QUARRY) tests/drivers/run.sh

cookbook-million: build bootstrap-drivers ## the pipelines of docs/cookbook over a million orders
	@cd tests/drivers && QUARRY=$(QUARRY) QUARRY_ENGINES=$${QUARRY_ENGINES:-rocksdb} QUARRY_COOKBOOK_ORDERS=1000000 \
		$(PYTHON) -m pytest -p no:cacheprovider -q --tb=short --durations=0 --durations-min=1 test_cookbook.py

test-pymongo: build bootstrap-drivers ## PyMongo's own tests against tests/drivers/pymongo_suite/left.txt (OWN_TESTS=push for fewer)
	@QUARRY=$(QUARRY) SUITES=own OWN_TESTS=$${OWN_TESTS:-all} tests/drivers/run.sh

bench: build bootstrap-drivers ## the CRUD workloads; URIS="NAME=URI ..." measures those servers instead of our own
	@$(MAKE) --no-print-directory bench-crud bench-concurrent

bench-crud: build bootstrap-drivers ## pymongo on one connection, simple and complex documents; BEFORE=BINARY compares with an earlier build over many starts
	@QUARRY=$(QUARRY) $(BENCH) crud --python $(PYTHON) $(if $(BEFORE),--before $(BEFORE),$(URIS))

bench-pipeline: build bootstrap-drivers ## pipelines over a million documents beside DuckDB and SQLite; URIS="NAME=URI ..." measures those servers too
	@scripts/bootstrap.sh analytic
	@$(PYTHON) crates/bench/pipeline.py --quarry $(QUARRY) --report docs/benchmarks/pipeline.md $(URIS)

bench-concurrent: build ## 1..64 connections from compiled clients; BEFORE=BINARY compares with an earlier build over many starts
	@QUARRY=$(QUARRY) $(BENCH) concurrent $(if $(BEFORE),--before $(BEFORE),$(URIS))

bench-collections: build ## 100,000 collections with two secondary indexes each
	@QUARRY=$(QUARRY) $(BENCH) collections

bench-durability: build ## `{j: true}` beside `{w: 1}`, its p99 while the engine flushes and compacts, and how fast a start replays
	@QUARRY=$(QUARRY) $(BENCH) durability

bench-security: build ## what logins, TLS and the check of users cost
	@QUARRY=$(QUARRY) $(BENCH) security

bench-language: build ## updates, queries through each kind of index, and rates over a million documents; URIS="NAME=URI ..." measures those servers, BEFORE=BINARY compares with an earlier build
	@QUARRY=$(QUARRY) $(BENCH) language $(if $(BEFORE),--before $(BEFORE),$(URIS))

bench-encryption: build ## what encryption at rest costs: operations, bulk inserts, scans, and instructions
	@QUARRY=$(QUARRY) $(BENCH) encryption

bench-hostile: build ## an honest client beside crowds that take what they can: sorts, untaken replies, half messages, large inserts, 10,000 slow clients
	@QUARRY=$(QUARRY) $(BENCH) hostile

bench-sessions: build ## retryable writes, transactions, change streams and the journal kept for them; URIS="NAME=URI ..." measures those servers
	@QUARRY=$(QUARRY) $(BENCH) sessions $(URIS)

bench-shortcuts: build bootstrap-drivers ## what each shortcut of the commit path and the caches wins, switched off alone
	@QUARRY=$(QUARRY) $(BENCH) shortcuts --python $(PYTHON)

bench-timing: build ## what always-on timing costs: on, off and compiled out, in turns of one run, and instructions
	@scripts/bootstrap.sh valgrind
	@# The crates are those that `make build` names: with others cargo chooses other features, and compiles RocksDB once more.
	@scripts/step.sh "release build without timing" \
		cargo build --release -p quarry-server -p quarry-bench -p quarry-isolation --features quarry-server/untimed --bin quarry-untimed
	@QUARRY=$(QUARRY) $(BENCH) timing

bench-tools: build ## backups beside `cp`, what a client feels of them, restores, imports, exports and dumps of a million documents
	@QUARRY=$(QUARRY) $(BENCH) tools

bench-instructions: build ## instructions of each operation and memory of an idle connection; BEFORE=path/to/quarry beside an earlier build
	@scripts/bootstrap.sh valgrind
	@QUARRY=$(QUARRY) $(BENCH) instructions $(if $(BEFORE),--before $(BEFORE))

pictures: build bootstrap-drivers ## the pictures of the console's views in docs/pictures (some minutes)
	@QUARRY=$(QUARRY) $(PYTHON) tests/drivers/monitoring/pictures.py

report-layers: build ## where the time of inserts and point queries goes, by layer: a table and a picture
	@QUARRY=$(QUARRY) $(BENCH) layers

bench-bson: bootstrap ## BSON against the bson crate; CASES=mixed50 runs those alone
	@cargo bench -p quarry-bson --bench bson -- $(CASES)

bench-journal: bootstrap ## the journal beside what the disk allows
	@cargo bench -p quarry-journal --bench journal

bench-mdbx: bootstrap ## libmdbx's four sync modes beside its raw C API
	@cargo bench -p quarry-storage-mdbx --bench mdbx

fuzz: ## every fuzz target for FUZZ_SECONDS (600)
	@scripts/fuzz.sh $${FUZZ_SECONDS:-600}

one-of-each: bootstrap ## do in a copy what CONTRIBUTING.md says of adding an operator, a stage and a command
	@scripts/step.sh "one of each" scripts/one_of_each.sh

# What `make torture` tries of each: two to three hours on two cores. SEEDS=1000 ENGINE_SEEDS=100 MODEL_TIMES=20 ROUNDS=20 take about forty minutes.
# Its parts mostly wait for disks and for processes that start, so several run beside each other; the longest begin first.
MODEL_TIMES ?= 100
SEEDS ?= 5000
ENGINE_SEEDS ?= 1000
ROUNDS ?= 100
TORTURE_LANES ?= 4
TORTURE_PARTS := torture-kills torture-engines torture-kills-of-sessions torture-journal torture-models torture-orders

.PHONY: $(TORTURE_PARTS)

# Suites run beside each other: each keeps its servers' files in a place of its own, and only those of tests that fail.
TORTURE_PYTEST = mkdir -p $(CARGO_TARGET_DIR)/torture && $(PYTHON) -m pytest -p no:cacheprovider -q -s -o tmp_path_retention_policy=failed --basetemp=$(CARGO_TARGET_DIR)/torture/$@

torture: build bootstrap-drivers ## millions of simulated crashes (SEEDS), of real engines (ENGINE_SEEDS), of thread interleavings (MODEL_TIMES), and ROUNDS of SIGKILL each
	@$(MAKE) --no-print-directory --jobs=$(TORTURE_LANES) $(TORTURE_PARTS)
	@$(MAKE) --no-print-directory one-of-each

torture-kills:
	@export QUARRY=$(QUARRY) QUARRY_CRASH_ROUNDS=$(ROUNDS); $(TORTURE_PYTEST) \
		tests/drivers/test_crash.py tests/drivers/test_mdbx_sync.py tests/drivers/test_history.py

torture-kills-of-sessions:
	@export QUARRY=$(QUARRY) QUARRY_CRASH_ROUNDS=$(ROUNDS) QUARRY_SESSION_KILLS=$(ROUNDS) QUARRY_BACKUP_ROUNDS=$(ROUNDS); $(TORTURE_PYTEST) \
		tests/drivers/test_sessions.py tests/drivers/test_transaction_history.py tests/drivers/test_backup.py tests/drivers/test_archive.py

torture-engines:
	@QUARRY_TORTURE=$(ENGINE_SEEDS) cargo test --release -p quarry-server --test engine_crash -- --nocapture
	@QUARRY_TORTURE=$(ROUNDS) cargo test --release -p quarry-server --test readers_over_reclaim

torture-models:
	@QUARRY_TORTURE=$(MODEL_TIMES) $(MODEL_TESTS)

torture-journal:
	@QUARRY_TORTURE=$(SEEDS) cargo test --release -p quarry-journal -p quarry-database --test crash -- --nocapture

torture-orders:
	@cargo run -q --release -p quarry-journal --example order_matching -- power $(SEEDS)
	@cargo run -q --release -p quarry-journal --example order_matching -- kill $(ROUNDS)

clean-drivers: ## forget the virtual environments and node_modules of the driver tests
	rm -rf -- "$(DRIVERS_DIR)"
