# Every target runs scripts/setup first, which does nothing the second time. All state is in .local/, results are in
# bin/ and dist/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

RUN := scripts/in-env
# The packages of the nested modules in go.work.
NESTED := $(shell sed -n 's|^\t\(\./.*\)|\1/...|p' go.work)
# Limit of each package's tests.
TEST_TIMEOUT ?= 40m
# Duration of each target of `make fuzz`, and a regular expression that selects targets by package.Name.
FUZZ_TIME ?= 30s
FUZZ ?=
# Arguments of `millstream bench`; empty: all benchmarks of `make bench`.
BENCH ?=
# Benchmark of `make bench-series`, and the file to which it appends.
BENCH_SERIES ?= comm --quick --peers
SERIES ?= docs/benchmarks/series.jsonl
# Duration of each test of `make soak`.
SOAK_TIME ?= 10m
# Number of seeds that `make nightly` simulates, and the first of them.
SIM_SEEDS ?= 10000
SIM_FROM ?= 1
# Attacks of `make hostile`, a regular expression on their names; empty: all.
HOSTILE ?=
# Version and commit of `make release`, and the PEM file of the key that signs it. Empty: the version of the Python
# package, HEAD, and a key that is thrown away.
VERSION ?=
COMMIT ?=
KEY ?=
# Revision of `make test-upgrade`, and release whose listing `make api` keeps.
FROM ?=
FREEZE ?=
# Tests that an emulator cannot run: they start their own test binary, or look for pages that the emulator keeps mapped.
ARM64_SKIP := ^(TestFreeze|TestMmapGivesMemoryBack)$$
# Packages of `make test-arm64`, and those whose structs of UCX, CUDA, NVRTC and NCCL it compares with the headers.
ARM64 ?= ./mem/... ./config/... ./secure/... ./wire/... ./internal/wire/... ./internal/engine/scheduler/... ./internal/engine/worker/... ./internal/task/... ./internal/rpc/... ./internal/comm/tcp
ARM64_ABI := ./ucx/internal/ucp ./internal/device/cudrv ./cuda/internal/nvrtcapi ./nccl/internal/ncclapi
# Limit of each setting of `make interop`.
INTEROP_TIMEOUT ?= 20m
# Number of parallel clusters of `make dask-suite`, and further arguments of its runner, such as --every 10.
SUITE_JOBS ?= 2
SUITE_ARGS ?=
# Further arguments of the runner of `make downstream`, such as --package ml.
DOWNSTREAM_ARGS ?=

.PHONY: help build library demo release tags wheel images test-release test-arm64 test-containers test-upgrade test-examples test-browser vulncheck actionlint test lint api prose-sample fuzz bench bench-report bench-series bench-compare dashboard dashboard-bench dashboard-picture kernels gpu-test-bundle gpu-stale ucx-matrix test-rdma hwloc soak chaos hostile interop dask-suite downstream nightly sim-scale clean

help: ## list the targets
	@echo 'Millstream: make TARGET'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 20

build: ## build bin/millstream and bin/millstream-bench (without a C compiler: CGO_ENABLED=0, ucx off)
	@scripts/setup
	@$(RUN) scripts/build

library: ## build bin/libmillstream.so and bin/millstream.h, the C library of cliques (needs a C compiler)
	@scripts/setup
	@$(RUN) scripts/build-library

demo: build ## run a cluster on this machine, measure its transports, and show its dashboard
	@$(RUN) bin/millstream demo --keep

test: ## run lint, then all tests under the race detector; print and check every skip
	@scripts/setup lint
	@scripts/setup test & $(RUN) scripts/lint; lint=$$?; wait $$! && exit $$lint # download while lint computes
	@$(RUN) scripts/build
	@$(RUN) go run ./internal/tools/testrun -timeout $(TEST_TIMEOUT) -also invariants=./mem/... ./... $(NESTED)
	@echo 'without cgo: build and vet'
	@export CGO_ENABLED=0; $(RUN) go list -f '{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}' ./... $(NESTED) | xargs $(RUN) go build ./cmd/millstream ./bench/cmd/millstream-bench
	@CGO_ENABLED=0 $(RUN) go vet $$(grep -rlE --include='*.go' --exclude-dir='.[a-z]*' '^//go:build.*!cgo' . | xargs -n 1 dirname | sort -u) # the rest is as above

lint: ## check gofmt, vet, staticcheck, go mod tidy, layers, file sizes, words, API listing, shell scripts
	@scripts/setup lint
	@$(RUN) scripts/lint

release: ## build dist/release from a commit: archives, deb, rpm, apk, checksums, signature; VERSION=v0.1.0 COMMIT=HEAD KEY=FILE
	@scripts/setup release
	@$(RUN) go run ./internal/tools/release -version '$(VERSION)' -commit '$(COMMIT)' -key '$(or $(KEY),$(MILLSTREAM_RELEASE_KEY))' -out dist/release

tags: ## create the annotated tags of a release, also of nested modules, and push nothing; VERSION=v0.1.0 COMMIT=HEAD
	@$(RUN) go run ./internal/tools/release -tags -version '$(VERSION)' -commit '$(COMMIT)'

wheel: ## build the Python wheels of this machine from HEAD: dist/millstream-*.whl
	@scripts/setup
	@$(RUN) go run ./internal/tools/release -wheels -out dist

test-release: ## build a program twice with empty caches and compare; install wheel and modules into empty environments and use them
	@scripts/setup test
	@$(RUN) go test -tags release -count=1 -v -timeout 60m -run ^TestRelease ./internal/tools/release

test-arm64: ## run the tests of the core packages for arm64, by qemu-user on other machines; compare struct layouts with the headers
	@scripts/setup arm64
	@export CGO_ENABLED=1 GOARCH=arm64; skip=; [ "$$(uname -m)" = aarch64 ] || { export CC=aarch64-linux-gnu-gcc; skip='$(ARM64_SKIP)'; }; \
		$(RUN) go test -count=1 -exec $(CURDIR)/scripts/arm64-exec -run 'ABI|Layout' $(ARM64_ABI); \
		$(RUN) go test -count=1 -exec $(CURDIR)/scripts/arm64-exec -skip "$$skip" -timeout $(TEST_TIMEOUT) $(ARM64)

images: ## build the images of deploy/ for amd64 and arm64 with podman, as the manifest lists millstream and millstream-cuda
	@scripts/setup images
	@$(RUN) scripts/images

test-containers: build ## build the images of deploy/ for amd64 and arm64 and run them with podman: volumes, Compose services, shared and private namespaces
	@scripts/setup images
	@$(RUN) go vet -tags containers ./tests/containers
	@$(RUN) go test -tags containers -count=1 -v -timeout 60m ./tests/containers

test-upgrade: ## run programs of an earlier revision and of this one in one cluster, in all roles; FROM=REVISION (default the newest tag)
	@scripts/setup
	@$(RUN) go vet -tags upgrade ./tests/upgrade/...
	@MILLSTREAM_UPGRADE_FROM='$(FROM)' $(RUN) go test -tags upgrade -count=1 -v -timeout 30m ./tests/upgrade

test-examples: ## run the tests of all example programs
	@scripts/setup
	@scripts/setup peers
	@$(RUN) go vet -tags examples ./examples/...
	@$(RUN) go test -race -tags examples -count=1 -timeout $(TEST_TIMEOUT) ./examples/...
	@export GOWORK=off; $(RUN) go -C examples/grpc mod tidy -diff; $(RUN) go -C examples/grpc vet -tags examples ./...; \
		$(RUN) go -C examples/grpc test -race -tags examples -count=1 -timeout $(TEST_TIMEOUT) ./...

test-browser: ## open every page of the dashboard in chromium
	@scripts/setup web
	@scripts/setup chromium
	@$(RUN) go test -count=1 -timeout $(TEST_TIMEOUT) ./tests/browser/...

vulncheck: ## report known vulnerabilities that this code reaches (govulncheck; its database must be reachable)
	@scripts/setup vulncheck
	@$(RUN) scripts/vulncheck ./... $(NESTED)

actionlint: ## check the workflow of hosted runners
	@scripts/setup actionlint
	@$(RUN) .local/bin/actionlint

api: ## print the size of the public API and write its listing, api/*.txt; FREEZE=v0.1.0 keeps that of a release, api/v0.1.0
	@$(RUN) go run ./internal/tools/api -freeze '$(FREEZE)'

prose-sample: ## print 200 random doc comments and 200 error strings for review; SEED=1 PROSE_UNDER=folder/
	@$(RUN) go run ./internal/tools/prose -seed $(or $(SEED),1) -under '$(PROSE_UNDER)'

fuzz: ## run every fuzz target for FUZZ_TIME=30s; FUZZ=regexp selects
	@scripts/setup
	@$(RUN) go run ./internal/tools/fuzzall -time $(FUZZ_TIME) -run '$(FUZZ)'

bench: build ## run millstream bench against ucx_perftest, Python UCXX and Dask; BENCH='ucx --quick' selects one and its arguments
	@scripts/setup perftest
	@scripts/setup peers
ifeq ($(BENCH),)
	@$(RUN) bin/millstream bench ucx --peers
	@$(RUN) bin/millstream bench comm --peers
	@$(RUN) bin/millstream bench tasks --quick --peers
else
	@$(RUN) bin/millstream bench $(BENCH)
endif

bench-report: build ## write docs/benchmarks.md and its plots from the records in docs/benchmarks
	@$(RUN) bin/millstream bench report docs/benchmarks docs/benchmarks.md

bench-series: build ## append the ratios of a benchmark to its peers to SERIES=docs/benchmarks/series.jsonl; BENCH_SERIES='comm --quick --peers'
	@scripts/setup peers
	@$(RUN) bin/millstream bench $(BENCH_SERIES) --record .local/bench-series.json
	@$(RUN) go run ./internal/tools/benchseries append $(SERIES) .local/bench-series.json

bench-compare: ## compare the last run of SERIES with earlier ones of the same machine; fail if a figure is worse by more than their noise
	@$(RUN) go run ./internal/tools/benchseries compare $(SERIES)

dashboard: ## check the types of the dashboard's page and build internal/dashboard/web/dist
	@scripts/setup web
	@.local/web/node_modules/.bin/tsc --noEmit -p internal/dashboard/web/src
	@$(RUN) go run ./internal/dashboard/web/build

dashboard-bench: ## measure the dashboard's page in chromium: 10 M tasks of 1,000 workers, and a report of 100 k tasks
	@scripts/setup chromium
	@$(RUN) go run ./tests/browser/measure

dashboard-picture: build ## write docs/plots/task-stream.png, the task stream of the demo, for README
	@scripts/setup chromium
	@$(RUN) go run ./tests/browser/picture

kernels: ## compile the PTX of internal/device/kernels, after a change of a source (needs no GPU)
	@scripts/setup nvrtc
	@MILLSTREAM_NVRTC_LIBRARY=.local/nvrtc/lib/libnvrtc.so.12 $(RUN) go run ./internal/tools/kernels

gpu-test-bundle: ## pack dist/gpu-bundle.tar.xz: GPU tests for a machine without Go and network
	@$(RUN) scripts/gpu-test-bundle

gpu-stale: ## list the GPU tests whose sources have changed since the run in docs/gpu-run.json; fail if there are any
	@$(RUN) go run ./internal/tools/gpurun stale

ucx-matrix: build ## test one binary with every release of UCX, and each release with each other
	@scripts/setup ucx all
	@scripts/setup perftest
	@MILLSTREAM_UCX_MATRIX=all $(RUN) go test -count=1 -v -timeout 60m ./tests/matrix/...

test-rdma: build ## test every operation over InfiniBand's rc; print NOT RUN without a device
	@$(RUN) scripts/test-rdma

hwloc: ## write the expected results of package topology with hwloc's lstopo
	@scripts/setup hwloc
	@$(RUN) go test -count=1 -run TestHwloc ./internal/device/topology -args -lstopo $(CURDIR)/.local/hwloc/lstopo

soak: ## run the long form of every TestSoak, SOAK_TIME=10m each
	@scripts/setup test
	@MILLSTREAM_SOAK=$(SOAK_TIME) $(RUN) go test -count=1 -v -timeout 0 -run '^TestSoak' ./...

chaos: build ## inject failures of workers, scheduler, network, disk and memory into a running cluster; print the counts
	@MILLSTREAM_CHAOS=full $(RUN) go test -tags chaos -count=1 -v -timeout 60m ./tests/chaos/...

hostile: build ## attack live schedulers, workers, nannies and helpers over tcp, tls and ucxx; HOSTILE=regexp selects; print the counts
	@scripts/setup test
	@MILLSTREAM_HOSTILE=full HOSTILE='$(HOSTILE)' $(RUN) go test -count=1 -v -timeout 120m ./tests/hostile/...

interop: build ## run the tests with Dask processes: every release, then over tls and ucxx; k-means, PCA and linear models against scikit-learn; print the table of releases
	@scripts/setup test
	@scripts/setup sklearn
	@$(RUN) go vet -tags sklearn ./frame/kmeans ./frame/internal/tall
	@$(RUN) go test -tags sklearn -count=1 -v -run '^TestScikitLearn$$' ./frame/kmeans ./frame/internal/tall
	@$(RUN) go run ./internal/tools/interop -timeout $(INTEROP_TIMEOUT)

dask-suite: build ## run the test suites of dask and distributed on the Dask scheduler and on ours; print each difference
	@scripts/setup suite
	@for suite in dask distributed; do \
		.local/suite/env/bin/python tests/dask/suite/run.py run --suite $$suite -j $(SUITE_JOBS) --out .local/suite/results $(SUITE_ARGS); \
	done
	@for suite in dask distributed; do \
		.local/suite/env/bin/python tests/dask/suite/run.py compare --suite $$suite --out .local/suite/results; \
	done

downstream: build ## run tests of xarray, joblib, dask-ml, lightgbm and xgboost on the Dask scheduler and on ours; print each difference
	@scripts/setup downstream-all
	@.local/downstream-all/env/bin/python tests/downstream/run.py --millstream bin/millstream --out .local/downstream-all/results $(DOWNSTREAM_ARGS)

nightly: ## run SIM_SEEDS=10000 simulated clusters with every invariant, every collective in every setting, frames of 1 to 40 partitions on clusters of every small size, then a thousand workers with a million tasks
	@$(RUN) go test -count=1 -v -timeout 0 -run '^TestSeeds$$' ./internal/engine/sim -sim.seeds=$(SIM_SEEDS) -sim.from=$(SIM_FROM)
	@MILLSTREAM_COLLECTIVES=full $(RUN) go test -count=1 -v -timeout 0 -run '^TestCollectives$$' ./internal/collective
	@MILLSTREAM_FRAMES=full $(RUN) go test -count=1 -v -timeout 0 -run '^TestMatrix$$' ./frame/kmeans
	@$(MAKE) sim-scale

sim-scale: ## measure the CPU time per event of the scheduler state with 10 and with 1,000 simulated workers, a million tasks each
	@$(RUN) go test -count=1 -v -timeout 0 -run '^TestScale$$' ./internal/engine/sim -sim.scale=1000000

clean: ## remove bin/, dist/ and .local/
	@if [ -d .local ]; then chmod -R u+w .local; fi
	@rm -rf bin dist .local
