# Sagacity. `make` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
export GOFLAGS ?= -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)

# What to test, and how: make test PKG=./saga/... RUN=TestScripts RACE=1
PKG ?= ./...
RUN ?=
TEST_FLAGS := $(if $(RUN),-run '$(RUN)') $(if $(RACE),-race)
FUZZTIME ?= 20s
CRASH_COUNT ?= 3
SEED ?=
TRANSACTIONS ?= 5000
CLIENTS ?= 16
SEEDS ?= 2000

LINT_VERSION := $(shell awk '$$1 == "github.com/golangci/golangci-lint/v2" { print $$2 }' tools/go.mod)
LINT := bin/golangci-lint-$(LINT_VERSION)

##@ Help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { print substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

##@ Run

.PHONY: dev
dev: ## Run a coordinator with all it needs and a demo (ARGS="…" for its flags)
	@scripts/ensure-postgres.sh
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/coordinator
	@exec bin/coordinator dev $(ARGS)

.PHONY: cluster
cluster: ## Build and run a cluster in containers (docs/cluster.md)
	@VERSION='$(VERSION)' deploy/cluster.sh up

.PHONY: cluster-demo
cluster-demo: ## Run the demo on the cluster (KILL=1 kills containers meanwhile)
	@deploy/cluster.sh demo $(if $(filter-out 0,$(KILL)),--kill) $(ARGS)

.PHONY: cluster-down
cluster-down: ## Remove the cluster with its data
	@deploy/cluster.sh down

.PHONY: bench
bench: ## Measure speed beside its comparison (ARGS="…" for its flags)
	@scripts/ensure-postgres.sh
	@$(GO) run -ldflags '$(LDFLAGS)' ./cmd/coordinator bench $(ARGS)

.PHONY: bench-peers
bench-peers: ## Measure beside DTM and DBOS on the same PostgreSQL (ARGS="-clients 16 -work bank -runs 1")
	@scripts/ensure-postgres.sh
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/coordinator
	@cd bench/peers && $(GO) build -trimpath -o ../../bin/dtm github.com/dtm-labs/dtm && $(GO) run . $(ARGS)

.PHONY: bench-scale
bench-scale: ## Measure beside ten million finished transactions, a backlog, several coordinators (ROWS=10000000 PAIRS=5 TRANSACTIONS=100000 ARGS="-parts p6")
	@scripts/ensure-postgres.sh
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/coordinator
	@$(GO) build -trimpath -o bin/bench-scale ./bench/scale
	@bin/bench-scale -rows '$(or $(ROWS),10000000)' -pairs '$(or $(PAIRS),5)' \
		-transactions '$(if $(filter file,$(origin TRANSACTIONS)),100000,$(TRANSACTIONS))' $(ARGS)

.PHONY: build
build: ## Build bin/coordinator and bin/participant
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/coordinator ./cmd/participant

##@ Check

.PHONY: test
test: ## Run the tests (PKG=./saga/... RUN=TestName RACE=1)
	@scripts/ensure-postgres.sh
	$(GO) test $(PKG) $(TEST_FLAGS) -timeout 20m

.PHONY: test-containers
test-containers: ## Test on PostgreSQL and NATS in containers (POSTGRES_IMAGE=… NATS_IMAGE=…)
	cd internal/containers && $(GO) test ./... $(TEST_FLAGS) -count=1 -timeout 20m

.PHONY: verify
verify: verify-rules verify-modules verify-format verify-lint verify-sim ## Check format, vet, linters, arrows, modules, rules; simulate

.PHONY: verify-rules
verify-rules:
	scripts/check-rules.sh

.PHONY: verify-modules
verify-modules:
	$(GO) mod tidy -diff
	cd internal/containers && $(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: verify-format
verify-format: $(LINT)
	$(LINT) fmt --diff

.PHONY: verify-lint
verify-lint: $(LINT)
	$(GO) vet ./...
	$(LINT) run ./...
	cd internal/containers && $(GO) vet ./... && $(CURDIR)/$(LINT) run ./...
	scripts/test-depguard.sh $(LINT)

.PHONY: verify-sim
verify-sim:
	@$(MAKE) sim ARGS=-every-cell

.PHONY: sim
sim: ## Simulate transactions in a world of crashes and losses (SEEDS=2000 SEED=… ARGS="-mode disaster -tables")
	@$(GO) run -ldflags '$(LDFLAGS)' ./saga/sagatest/sim -seeds '$(SEEDS)' $(if $(SEED),-seed '$(SEED)') $(ARGS)

.PHONY: model
model: ## Explore every state of small transactions (ARGS="-steps 2 -attempts 2")
	@$(GO) run ./saga/sagatest/model/cmd $(ARGS)

.PHONY: mutants
mutants: ## Remove each safeguard in turn and show which test notices (ARGS="-only tombstone")
	@scripts/ensure-postgres.sh
	@$(GO) run ./internal/mutants $(ARGS)

.PHONY: crash
crash: ## Break everything while transactions run (SEED=… TRANSACTIONS=5000 CLIENTS=16)
	@scripts/ensure-postgres.sh
	E2E_SEED='$(SEED)' E2E_TRANSACTIONS='$(TRANSACTIONS)' E2E_CLIENTS='$(CLIENTS)' \
		$(GO) test ./e2e -run '^TestCrashOfEverything$$' -count=1 -v -timeout 60m

.PHONY: poison
poison: ## Measure what a command that kills its process costs 10,000 others (PAIRS=3 ATTEMPT_MS=1000)
	@scripts/ensure-postgres.sh
	E2E_POISON_TRANSACTIONS=10000 E2E_POISON_PAIRS='$(or $(PAIRS),3)' E2E_POISON_ATTEMPT_MS='$(or $(ATTEMPT_MS),1000)' \
		$(GO) test ./e2e -run '^TestPoisonUnderLoad$$' -count=1 -v -timeout 60m

.PHONY: overload
overload: ## Offer ten times the limit of submissions (RATE=100 SECONDS=60)
	@scripts/ensure-postgres.sh
	E2E_OVERLOAD_RATE='$(or $(RATE),100)' E2E_OVERLOAD_SECONDS='$(or $(SECONDS),60)' \
		$(GO) test ./e2e -run '^TestTenTimesTheLimit$$' -count=1 -v -timeout 15m

.PHONY: backlog
backlog: ## Let transactions wait for a participant that is down, and kill the coordinator (TRANSACTIONS=100000 CEILING=1000)
	@scripts/ensure-postgres.sh
	E2E_BACKLOG_TRANSACTIONS='$(if $(filter file,$(origin TRANSACTIONS)),100000,$(TRANSACTIONS))' E2E_BACKLOG_CEILING='$(or $(CEILING),1000)' E2E_BACKLOG_ATTEMPT_MS=2000 \
		E2E_BACKLOG_PROGRESS_SECONDS=5 $(GO) test ./e2e -run '^TestBacklog$$' -count=1 -v -timeout 120m

.PHONY: slow
slow: ## Let a participant take longer than the attempt timeout and count its effects (TRANSACTIONS=40)
	@scripts/ensure-postgres.sh
	E2E_SLOW_TRANSACTIONS='$(if $(filter file,$(origin TRANSACTIONS)),40,$(TRANSACTIONS))' $(GO) test ./e2e -run '^TestSlowParticipant$$' -count=1 -v -timeout 20m

.PHONY: bystander
bystander: ## Measure what a participant that is down costs transactions that do not use it (PAIRS=3 SECONDS=10)
	@scripts/ensure-postgres.sh
	E2E_BYSTANDER_PAIRS='$(or $(PAIRS),3)' E2E_BYSTANDER_SECONDS='$(or $(SECONDS),10)' \
		$(GO) test ./e2e -run '^TestBystanders$$' -count=1 -v -timeout 30m

.PHONY: deadlines
deadlines: ## Measure how late deadlines of two seconds decide, idle and beside a load (TRANSACTIONS=200)
	@scripts/ensure-postgres.sh
	E2E_DEADLINE_TRANSACTIONS='$(if $(filter file,$(origin TRANSACTIONS)),200,$(TRANSACTIONS))' $(GO) test ./e2e -run '^TestDeadlines$$' -count=1 -v -timeout 20m

.PHONY: outage
outage: ## Stop a participant under load, with each strategy of retries (SECONDS_OUT=20 RATE=… STRATEGIES=default,fixed OUT=bin/outage)
	@scripts/ensure-postgres.sh
	@mkdir -p '$(or $(OUT),bin/outage)'
	E2E_OUTAGE_DIR='$(abspath $(or $(OUT),bin/outage))' E2E_OUTAGE_SECONDS='$(or $(SECONDS_OUT),20)' E2E_OUTAGE_RATE='$(or $(RATE),0)' \
		E2E_OUTAGE_WORK_MS='$(or $(WORK_MS),10)' E2E_OUTAGE_COORDINATORS='$(or $(COORDINATORS),1)' E2E_OUTAGE_STRATEGIES='$(STRATEGIES)' \
		$(GO) test ./e2e -run '^TestOutageOfEachStrategy$$' -count=1 -v -timeout 30m
	@cat '$(or $(OUT),bin/outage)/outage.md'

.PHONY: retention
retention: ## Forget a million finished transactions, and 200 keys posted 50 times each (ROWS=1000000)
	@scripts/ensure-postgres.sh
	RETENTION_ROWS='$(or $(ROWS),1000000)' $(GO) test ./coordinator -run '^TestRetentionOfMany$$' -count=1 -v -timeout 30m
	RETENTION_KEYS=200 $(GO) test ./coordinator/api -run '^TestKeysUntilAfterRetention$$' -count=1 -v -timeout 15m

.PHONY: verify-long
verify-long: ## Race detector, fuzzing and crash tests (FUZZTIME=20s CRASH_COUNT=5)
	@scripts/ensure-postgres.sh
	$(GO) test ./... -race -timeout 60m
	scripts/fuzz.sh $(FUZZTIME)
	@$(GO) test ./e2e -list Crash | grep '^Test' || { echo 'e2e has no crash test' >&2; exit 1; }
	E2E_LONG=1 $(GO) test ./e2e -run Crash -count=$(CRASH_COUNT) -timeout 120m
	@$(MAKE) crash
	@$(MAKE) model
	@$(MAKE) sim SEEDS=20000 ARGS=-every-cell

##@ Keep

.PHONY: fmt
fmt: $(LINT) ## Format all Go files
	$(LINT) fmt

.PHONY: clean
clean: ## Remove what make has built
	rm -rf bin

# Built from source at the version that tools/go.mod pins.
$(LINT): tools/go.mod tools/go.sum
	@echo 'building golangci-lint $(LINT_VERSION) from source; the first time takes some minutes'
	cd tools && $(GO) build -trimpath -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
