# The front door. `make help` lists everything.

export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/vmcp/target
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/vmcp
export VMCP_MODEL_DIR ?= $(CACHE)/models/sentence-transformers/all-MiniLM-L6-v2
# Node keeps compiled scripts there: the conformance suite starts from it in two thirds of the time.
export NODE_COMPILE_CACHE ?= $(CACHE)/node-compile-cache
VMCP := $(CARGO_TARGET_DIR)/debug/vmcp
DENY := $(CACHE)/tools/bin/cargo-deny
# Code behind these features is in no other build: lints compile it.
LINTED_FEATURES := vmcp-fuzz/libfuzzer,vmcp/profiling
CLIPPY_FLAGS := -D warnings
# Between the flags in the variable by which `cargo clippy` hands them to its driver.
CLIPPY_SEPARATOR := __CLIPPY_HACKERY__
SPACE := $(subst ,, )
# Says what runs, for how long, and how long it took last time.
STAGE := scripts/stage.sh
# Prints at the end how long each step took, what was skipped and what failed.
REPORT := scripts/report-skips.sh
# Three scenarios a core, four at least.
CORES := $(shell nproc 2>/dev/null || echo 2)
SCENARIO_THREADS ?= $(shell echo $$(($(CORES) * 3 < 4 ? 4 : $(CORES) * 3)))
# Two of them run beside each other, and each test has an operator of its own.
CONTROL_PLANE_THREADS ?= $(shell echo $$(($(CORES) * 2)))

.DEFAULT_GOAL := help
.PHONY: help setup build function-order packages demo test need-go collector control-plane control-plane-oldest test-unit test-security test-integration test-kubernetes test-control-plane test-oldest-kubernetes test-dynamic-tools tools-metrics task-costs e2e conformance build-tests model lint format check-format check-signs features check-features doc clippy deny bench bench-operator console-pictures test-profiler first-start fuzz fuzz-short schema crds check-generated image helm-lint check-alerts deploy-manifests olm-validate clean-cache codex test-codex ci-clusters ci-suites conformance-built

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: linker, Rust components, MCP servers and clients (a second run is instant)
	@scripts/setup.sh

build: setup ## Build the release binary
	cargo build --release -p vmcp --bin vmcp
	@echo "built $(CARGO_TARGET_DIR)/release/vmcp"

function-order: export VMCP_KEEP_SYMBOLS := 1
function-order: setup ## Renew the list of functions that release builds put side by side (after changes of libraries; valgrind)
	cargo build --release -p vmcp --bin vmcp
	cargo build --release -p vmcp-fixture
	scripts/function_order.py $(CARGO_TARGET_DIR)/release/vmcp $(CARGO_TARGET_DIR)/release/vmcp-fixture vmcp/server/function-order.txt

# From local files: install.sh and the npm packages fetch nothing from elsewhere.
packages: build ## Make the packages of this machine's platform: install.sh, wheel, npm
	@packaging/from-checkout.sh $(CARGO_TARGET_DIR)/release/vmcp $(CACHE)/packages
	@echo "install:  sh $(CACHE)/packages/install.sh"

demo: setup ## Real MCP servers behind vmcp: list, search, call
	@scripts/demo.sh

# Keeps going after a step that failed: the end of the report names every failure.
test: need-go ## Run all tests but e2e; say at the end what failed, what was skipped and what took long
	@scripts/report-skips.sh $(MAKE) --keep-going --no-print-directory setup build-tests test-unit test-integration test-kubernetes conformance

# Asked first: a missing Go would show only after everything else was built.
need-go:
	@scripts/need-go.sh

# Every package is selected in each step, so that all of them share one build.
build-tests: setup
	@$(STAGE) "build programs and tests" cargo build --workspace --bins --tests

test-unit: build-tests model ## Run the tests of each crate by itself
	@$(REPORT) $(STAGE) "tests of the crates" scripts/test.sh -- --skip scenario::

# Scenarios wait more than they compute, so more of them run at once than there are cores.
test-integration: build-tests model collector ## Run the scenarios with real servers and clients
	@RUST_TEST_THREADS=$(SCENARIO_THREADS) $(REPORT) $(STAGE) "scenarios" scripts/test.sh --test scenarios -- --skip real_codex::

# Few dependencies are compiled for it, and the crate `vmcp-edge`, once more.
test-profiler: setup ## Test the CPU profile of the admin port, which released builds do not have
	@$(STAGE) "profiler" cargo test-one vmcp-edge --features vmcp-edge/profiling --lib profile::

# The package is 424 MB, so no other step fetches it; where it cannot be had, the tests say so and are skipped.
codex: setup ## Fetch the real Codex into the cache, once (424 MB)
	@$(STAGE) "fetch Codex" sh -c 'scripts/codex.sh --fetch >/dev/null || true'

test-codex: build-tests codex ## Drive the real Codex, as a backend and as a client, with a stub of its model
	@$(REPORT) $(STAGE) "scenarios of the real Codex" scripts/test.sh --test scenarios real_codex::

# The tests that SECURITY.md names; each must run and pass.
test-security: build-tests model ## Run the test of each security finding, by the tables of SECURITY.md
	@$(STAGE) "tests of security findings" scripts/test-security.py

# Both control planes at once, with the same binaries.
test-kubernetes: need-go build-tests control-plane control-plane-oldest ## Run both of the following at once
	@$(REPORT) $(STAGE) "scenarios of the newest and the oldest control plane" \
	  $(MAKE) --jobs=2 --keep-going --no-print-directory test-control-plane test-oldest-kubernetes

test-control-plane: need-go build-tests control-plane ## Run the tests of the operator on a real Kubernetes API server (built with Go the first time)
	@RUST_TEST_THREADS=$(CONTROL_PLANE_THREADS) $(REPORT) $(STAGE) "scenarios of the newest control plane" scripts/test.sh --test control_plane

# Themes that depend on the API server: schemas and CEL, policies, server-side apply, garbage collection, status. Rendering by helm, which is the
# same for both, is tested beside the newest.
test-oldest-kubernetes: need-go build-tests control-plane-oldest ## Run those of them that depend on its version on the oldest one that is supported
	@components=$(KUBEBUILDER_ASSETS) && { [ -n "$$components" ] || components=$$(tests/kubernetes/components/build.sh oldest); } && \
	  VMCP_SUITE="oldest " KUBEBUILDER_ASSETS=$$components RUST_TEST_THREADS=$(CONTROL_PLANE_THREADS) $(REPORT) $(STAGE) "scenarios of the oldest control plane" \
	  scripts/test.sh --test control_plane -- resources security lent_references packaging repair restore virtual_mcp_server --skip packaging::values_for_day_two

# Built before the tests: the first build takes minutes, and its progress is seen only outside of a test.
control-plane: need-go setup
	@[ -n "$(KUBEBUILDER_ASSETS)" ] || $(STAGE) "build the control plane" tests/kubernetes/components/build.sh >/dev/null
	@! command -v go >/dev/null || for what in gitops gateway-api; do $(STAGE) "build $$what" tests/kubernetes/components/build.sh $$what >/dev/null || exit 1; done

control-plane-oldest: need-go setup
	@[ -n "$(KUBEBUILDER_ASSETS)" ] || $(STAGE) "build the oldest control plane" tests/kubernetes/components/build.sh oldest >/dev/null

# Built before the scenarios, which are skipped without it: the first build takes minutes. Left out where Go is missing, or too old for its go.mod.
collector: setup
	@! (cd tests/integration/collector && go list -m) >/dev/null 2>&1 || $(STAGE) "build the collector" scripts/otel-collector.sh >/dev/null

test-dynamic-tools: build-tests ## Run the tests of GET /tools, of its client, and of the words that mean contexts
	@scripts/test.sh topics::
	@scripts/test.sh --test requests
	@$(REPORT) scripts/test.sh --test scenarios tools_api::

tools-metrics: build-tests ## Print the tokens that contexts saved at GET /tools: of the server that runs with CONFIG, else of an example
	@CONFIG='$(CONFIG)' scripts/tools-metrics.sh

task-costs: build-tests ## Print the tokens and round trips of six tasks over the demo's servers: direct, find and call, script, composite
	@scripts/task-costs.py $(VMCP) $(or $(VMCP_SERVERS),$(CACHE)/servers)

# Rows of steps that `.ci/run` makes beside each other, and beside the conformance suite. Fuzzing has the lowest priority and comes beside the
# control planes, as do the tests of the crates: beside scenarios with browsers, those of the control planes take too long.
ci-clusters:
	@scripts/each.sh e2e test-kubernetes

ci-suites:
	@scripts/each.sh test-integration test-unit tools-metrics fuzz-short

e2e: setup ## Bring a Kubernetes node up, run the scenarios on it, take it down (root, or all are skipped; or KUBECONFIG and VMCP_E2E=1; KEEP=1, SCENARIOS=…)
	@$(REPORT) scripts/e2e.sh $(SCENARIOS)

conformance: build-tests ## Run the official conformance suite direct and through vmcp, and compare
	@$(MAKE) --no-print-directory conformance-built

conformance-built:
	@$(STAGE) "conformance" $(CARGO_TARGET_DIR)/debug/vmcp-conformance

# The model that searches by meaning: fetched once, verified, kept in the cache.
model: build-tests
	@$(VMCP) model status --dir $(VMCP_MODEL_DIR) >/dev/null || $(STAGE) "fetch the model" scripts/retry.sh $(VMCP) model pull --dir $(VMCP_MODEL_DIR)

lint: check-format check-signs check-features clippy doc deny ## Check format, signs, lints, documentation, licenses and sources

format: ## Format the code
	cargo fmt --all

check-format: setup
	@$(STAGE) "format" cargo fmt --all --check

check-signs: setup ## Check the repository's own rules: comments, spelling, links, the size of folders
	@$(STAGE) "signs" scripts/test.sh --test repository

# rustdoc reads what a check of each package leaves. With the features, the wrapper and the arguments that `cargo clippy` gives to cargo,
# this is the check that clippy made before; cargo would check every package a second time otherwise. Cargo and clippy compare the arguments,
# so that a change of them costs time and hides nothing.
doc: setup ## Build the documentation of the code; a broken link fails
	@RUSTC_WORKSPACE_WRAPPER="$$(rustc --print sysroot)/bin/clippy-driver" CLIPPY_ARGS="$(subst $(SPACE),$(CLIPPY_SEPARATOR),$(CLIPPY_FLAGS))$(CLIPPY_SEPARATOR)" \
	  RUSTDOCFLAGS="-D warnings" $(STAGE) "documentation" cargo doc --workspace --features $(LINTED_FEATURES) --no-deps --document-private-items

features: ## Write tests/features/Cargo.toml, after a dependency or a feature changed
	@scripts/features.py

check-features: setup
	@$(STAGE) "features" scripts/features.py --check

clippy: setup
	@$(STAGE) "clippy" cargo clippy --workspace --all-targets --features $(LINTED_FEATURES) -- $(CLIPPY_FLAGS)

# It reads some files for a second: optimizing it takes longer than it ever saves.
$(DENY):
	@CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	  $(STAGE) "build cargo-deny" scripts/retry.sh cargo install --locked cargo-deny --version 0.20.2 --root $(CACHE)/tools

deny: $(DENY)
	@$(STAGE) "licenses and sources" $(DENY) --log-level error check bans licenses sources

bench: setup ## Measure, print one table with ratios, fail on a missed target (QUICK=1: a fifth of the repetitions, STAGES="calls lists": some of it)
	cargo build --release --quiet -p vmcp -p vmcp-fixture -p vmcp-bench
	cargo run --release --quiet -p vmcp-bench -- $(if $(QUICK),--quick) $(STAGES)

console-pictures: build-tests ## Renew the pictures of the web console in the documentation (ADD="usage-light" adds some)
	@$(STAGE) "pictures of the console" scripts/console-pictures.sh $(ADD)

first-start: build-tests model ## Start 22 real servers from an empty package cache, and print how long that takes (downloads a gigabyte)
	VMCP_FIRST_START=1 $(STAGE) "22 servers" scripts/test.sh --test scenarios -- --nocapture twenty_two_servers

bench-operator: need-go setup ## Measure the operator under 200 servers at once, on a real API server (QUICK=1: 20; SCALE=1: 1,000 servers and 5,000 backends in 200 namespaces)
	cargo build --release --quiet -p vmcp-operator
	cargo bench --profile release -p vmcp-kubernetes-tests --bench operator$(if $(SCALE),_scale) -- $(if $(QUICK),--quick)

fuzz: setup ## Fuzz what reads untrusted input, ten minutes a target (FUZZ_SECONDS, FUZZ_RUNS)
	@fuzz/run

# A few seconds each, as CI can afford; beside other steps it takes the cores that they leave.
fuzz-short: setup
	@FUZZ_SECONDS=6 nice -n 19 $(STAGE) "fuzzing" fuzz/run

schema: setup ## Write the pages that are generated: JSON schema, settings, command line
	VMCP_UPDATE_SCHEMA=1 cargo test --quiet --workspace --test config_documents --test docs --test chart
	VMCP_UPDATE_SCHEMA=1 cargo test --quiet --workspace --lib --test reference _page

crds: setup ## Write crds/*.yaml, and what follows from them
	VMCP_UPDATE_CRDS=1 cargo test --quiet -p vmcp-crds --test definitions --test lowering --test toolhive
	@scripts/deploy-manifests.sh

check-generated: setup ## Check that generated pages are up to date
	@$(STAGE) "generated pages" scripts/test.sh --test config_documents --test docs --test reference --test definitions --test chart
	@$(REPORT) $(STAGE) "generated manifests" scripts/deploy-manifests.sh --check

image: ## Build the images of vmcp and the operator (REGISTRY=… names and pushes them, MODEL=1 puts the model in)
	@scripts/image.sh

helm-lint: ## Lint the chart, with its defaults and with each file of its ci/, and check all manifests (HELM names another helm)
	@chart=charts/vmcp-operator; helm=$$(scripts/helm.sh) && for values in $$chart/values.yaml $$chart/ci/*.yaml; do \
	  $$helm lint --quiet --strict --kube-version 1.34 $$chart -f $$values && \
	  $$helm template --kube-version 1.34 vmcp $$chart -f $$values >/dev/null || exit 1; \
	done
	@scripts/check-manifests.sh

check-alerts: ## Test the alerts of the chart with promtool, which Debian's package has
	@scripts/check-alerts.sh

deploy-manifests: ## Write deploy/ from the chart
	@scripts/deploy-manifests.sh

olm-validate: ## Validate deploy/olm by the rules of OLM and OperatorHub (built with Go the first time)
	@scripts/olm-validate.sh --install

clean-cache: ## Remove what make put into the cache: builds, servers, tools, the model
	rm -rf $(CARGO_TARGET_DIR) $(CACHE)/packages $(CACHE)/servers $(CACHE)/tools $(CACHE)/node-compile-cache $(VMCP_MODEL_DIR)
