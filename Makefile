# Weir: every task is one target; `make` alone lists them.

GO        ?= go
FUZZTIME  ?= 30s
TESTFLAGS ?= -p 2 -timeout 30m
# What takes longest begins first: the tests with the real programs wait most of their
# time, and the others are done beside them.
PACKAGES   = ./cmd/weir/internal/e2e ./.ci/arch ./...

# Tools are built once per version through the module proxy; the version is in
# the file name, so a changed pin builds the new one and keeps the old.
TOOLS    := $(CURDIR)/bin/tools
GOLANGCI := $(TOOLS)/golangci-lint-v2.15.0
BUF      := $(TOOLS)/buf-v1.65.0

.DEFAULT_GOAL := help
.PHONY: help run up down example-clique example-storm build test previous upgrades fairness planted race lint proto descriptors recordings page test-page verify bench bench-scale fuzz clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Count words on 3 replicas and 4 agents, kill the leader half way, check the sum
	./bin/weir dev wordcount

up: build ## Start replicas and agents on this machine
	./bin/weir dev up

down: ## Stop what `make up` started
	./bin/weir dev down

example-clique: build ## Run a service under ordinary and under graceful preemption; pictures are left in bin/clique
	$(GO) build -trimpath -o bin/clique/clique ./examples/clique
	./bin/clique/clique show --weir bin/weir --pictures bin/clique

example-storm: build ## Run a service for ten minutes while nodes are drained, upgraded and killed, twice; SEED (1); pictures are left in bin/clique
	$(GO) build -trimpath -o bin/clique/clique ./examples/clique
	./bin/clique/clique storm --weir bin/weir --pictures bin/clique --seed $(or $(SEED),1)

build: ## Build bin/weir and bin/weir-jobproxy
	$(GO) build -trimpath -o bin/weir ./cmd/weir
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/weir-jobproxy ./cmd/weir-jobproxy

test: ## Run every test
	$(GO) test $(TESTFLAGS) $(PACKAGES)

previous: ## Build the programs of the previous version (deploy/previous-version) into bin/previous
	.ci/previous

upgrades: ## Upgrade a cluster under load and go back, in every order, with kills in between
	WEIR_TEST_UPGRADES=all $(GO) test -count 1 -timeout 30m -v -run 'TestMixedVersions' ./cmd/weir/internal/e2e

fairness: build ## Judge what pools get in RUNS (300) clusters that SEED (1) makes up
	./bin/weir dev fairness --seed $(or $(SEED),1) --runs $(or $(RUNS),300)

planted: ## Find out whether weir chaos catches bugs that are planted for it
	WEIR_TEST_PLANTED=1 $(GO) test $(TESTFLAGS) -run TestPlantedBugs ./cmd/weir

race: ## Run every test under the race detector
	$(GO) test -race $(TESTFLAGS) $(PACKAGES)

lint: $(GOLANGCI) ## Run golangci-lint
	$(GOLANGCI) run ./... ./.ci/arch

proto: $(BUF) ## Generate the code of messages/ anew
	cd messages && $(BUF) generate

descriptors: $(BUF) ## At a release: keep the messages of VERSION, which later ones must stay compatible with
	@test -n "$(VERSION)" || { echo "make descriptors VERSION=x.y.z" >&2; exit 2; }
	cd messages && $(BUF) build --exclude-source-info -o versions/testdata/$(VERSION).binpb
	$(GO) test -count 1 ./messages/versions -run TestReleased -release $(VERSION)

recordings: ## At a release: keep what a cluster of the previous version (deploy/previous-version) leaves, which later ones must read
	WEIR_TEST_RECORD=1 $(GO) test -count 1 -run 'TestRecordRelease' ./cmd/weir/internal/e2e

page: $(BUF) ## Build the page anew, api/web/dist out of api/web/src; needs Node
	.ci/page build $(BUF)

test-page: $(BUF) build ## Test the page in a browser before a real cluster; needs Node and Chromium
	.ci/page test $(BUF)

verify: $(GOLANGCI) $(BUF) ## Check format, vet, lint, generated code, messages against those released, the built page, import rules, go.mod
	@changes=$$(gofmt -l .) && if [ -n "$$changes" ]; then echo "gofmt would change:"; echo "$$changes"; exit 1; fi
	$(GO) vet ./... ./.ci/arch
	$(GOLANGCI) run ./... ./.ci/arch
	.ci/generated $(BUF)
	.ci/compatible $(BUF)
	$(GO) test ./.ci/arch ./api/web
	$(GO) mod tidy -diff

bench: ## Run every benchmark; those of a whole cluster, with their goals, come last
	$(GO) test -run '^$$' -bench . -benchmem -benchtime 200ms $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u | grep -v internal/bench)
	$(GO) test -run '^$$' -bench . -benchtime 1x ./cmd/weir/internal/bench

bench-scale: ## Measure 3 replicas with NODES (1000; 1000,5000,10000 is a list) simulated nodes and JOBS (30) a node; takes minutes
	$(GO) test -run '^$$' -bench '^BenchmarkScale$$' -benchtime 1x -timeout 3h ./cmd/weir/internal/bench -scale-nodes $(or $(NODES),1000) -scale-jobs $(or $(JOBS),30)

fuzz: ## Run each fuzz target for FUZZTIME (30s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func / /' | sort | \
	while read -r file target; do \
		echo "fuzz $$target in $$(dirname "$$file") for $(FUZZTIME)"; \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; \
	done

clean: ## Remove built programs and test leftovers; the tools in bin/tools stay
	rm -f bin/weir bin/weir-jobproxy
	rm -rf bin/clique bin/previous
	find . \( -name .git -o -name testdata \) -prune -o -type f \( -name '*.test' -o -name '*.out' \) -exec rm -f {} +

$(GOLANGCI):
	GOBIN=$@.new $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(patsubst $(TOOLS)/golangci-lint-%,%,$@)
	mv $@.new/golangci-lint $@ && rmdir $@.new

$(BUF):
	GOBIN=$@.new $(GO) install github.com/bufbuild/buf/cmd/buf@$(patsubst $(TOOLS)/buf-%,%,$@)
	mv $@.new/buf $@ && rmdir $@.new
