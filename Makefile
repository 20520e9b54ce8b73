# firstbyte: every chore by one word. `make` lists them.
#
# Targets need only a Debian-like system: each target first installs what it lacks (apt with sudo
# where needed, rustup, `go install`, a Python environment in .venv) and only then works.
# CARGO_TARGET_DIR is honoured.

SHELL := /bin/bash
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PATH := $(HOME)/.cargo/bin:$(HOME)/go/bin:/usr/local/go/bin:$(PATH):/usr/local/sbin:/usr/sbin
export PYTHONDONTWRITEBYTECODE := 1

FIRSTBYTE := $(CARGO_TARGET_DIR)/release/firstbyte
PREFIX ?= /usr/local
# Not every shell expands a `~` behind `PREFIX=`.
INTO := $(DESTDIR)$(patsubst ~/%,$(HOME)/%,$(PREFIX))

.PHONY: help demo build install uninstall check test test-core docs bench fuzz soak dist clean
# Seconds for each fuzz target.
TIME ?= 60

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

demo: build ## the story on this machine, in at most 90 s
	"$(FIRSTBYTE)" demo

build: ## the release binary
	@scripts/need.sh build
	cargo build --release --locked --bin firstbyte

install: build ## the program, man pages and completions; PREFIX=~/.local needs no root
	install -D -m 755 "$(FIRSTBYTE)" "$(INTO)/bin/firstbyte"
	scripts/share.sh "$(FIRSTBYTE)" "$(INTO)/share"

uninstall: ## removes what `install` with the same PREFIX has made
	rm -f "$(INTO)"/bin/firstbyte "$(INTO)"/share/man/man1/firstbyte{,-*}.1 \
	    "$(INTO)"/share/bash-completion/completions/firstbyte "$(INTO)"/share/zsh/site-functions/_firstbyte \
	    "$(INTO)"/share/fish/vendor_completions.d/firstbyte.fish
	rm -rf "$(INTO)"/share/doc/firstbyte

check: ## the inner loop: format, lints, house rules, docs, unit tests
	@scripts/need.sh build
	@python3 scripts/check.py fast

test: ## everything; T=hydrate, T=sync or T=test_open: the tests of a crate or of one file
	@scripts/need.sh build check mounts servers clients python deploy guest
	@python3 scripts/check.py $(if $(T),only "$(T)",full)

test-core: ## the tests that need neither root nor packages of the system nor servers: Rust, a C compiler, Python
	@python3 scripts/check.py core

docs: build ## docs/options.md and the man pages in target/man1 from the command line's own definition; the pictures
	"$(FIRSTBYTE)" manual > "$(CARGO_TARGET_DIR)/options.md"
	mv "$(CARGO_TARGET_DIR)/options.md" docs/options.md
	"$(FIRSTBYTE)" manual --man "$(CARGO_TARGET_DIR)/man1"
	"$(FIRSTBYTE)" demo > "$(CARGO_TARGET_DIR)/demo.txt"
	python3 scripts/pictures.py "$(CARGO_TARGET_DIR)/demo.txt"

bench: build ## firstbyte beside its peers; ROWS="minio-big first-byte ..." measures these again; writes docs/benchmarks.md
	@scripts/need.sh servers peers
	cargo build --release --locked -p firstbyte-layout --example rename_loop
	@scripts/module.sh --release
	@scripts/bench.sh "$(FIRSTBYTE)" $(ROWS)
	"$(FIRSTBYTE)" bench report peers/results/*.jsonl --format markdown --out docs/reference/benchmarks.md
	"$(FIRSTBYTE)" bench report peers/results/calibration/*.jsonl --format markdown --out docs/reference/calibration.md
	python3 scripts/benchmarks.py

fuzz: ## the fuzz targets, TIME=60 seconds each; TARGETS="patterns journals" chooses
	@scripts/need.sh build
	@scripts/fuzz.sh $(TIME) $(TARGETS)

soak: build ## the long runs: many kills, faults and clients, each fuzz target for a minute (about an hour)
	@scripts/need.sh servers clients guest
	@.venv/bin/python tests/soak/soak.py --firstbyte "$(FIRSTBYTE)" $(SOAK_FLAGS)

dist: ## what a release has: static binaries, wheels and Lambda zips for two processors, SBOMs, SHA256SUMS; in dist/
	@scripts/need.sh build dist
	@scripts/dist.sh

clean: ## what the other targets made
	cargo clean
	rm -rf .venv dist report.html firstbyte._native.data python/firstbyte/*.so
