# Everything starts from here: `make run`, `make test`. Needs Python, a C compiler and make.
PYTHON ?= python3
VENV := .venv
COMMA := ,
BIN := $(VENV)/bin
# meson-python looks for meson and ninja on the path.
export PATH := $(abspath $(BIN)):$(PATH)
SOURCES := pyproject.toml meson.build $(shell find lsbench kernels cases -type f \
	\( -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.c' -o -name '*.cpp' \
	-o -name 'meson.build' -o -name '*.in' -o -name '*.yaml' -o -name '*.json' -o -name '*.npz' -o -name '*.typed' \))

.PHONY: run test check gate sweeps bench sanitize build dev clean help

help:  ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

run: build  ## run the main job: every case of cases/quick.yaml, judged, timed and recorded
	$(BIN)/lsbench run cases/quick.yaml

test: dev  ## run all tests
	$(BIN)/pytest

check: dev  ## formatting, lint, types, layers
	$(BIN)/ruff format --check lsbench tests
	$(BIN)/ruff check lsbench tests
	$(BIN)/mypy
	$(BIN)/cython-lint kernels --max-line-length 100

gate: build  ## judge the project's own kernels against the stored baseline
	$(BIN)/lsbench run cases/ci.yaml --baseline results/baseline.json --output build/ci.json

bench: build  ## measure the project's own goals of speed; install torch==2.13.0 to compare
	$(BIN)/lsbench bench --suite --output results/bench.json

# The widest vectors of this machine, all warnings, and planted faults that must be caught: two in the
# compiled core, two in programs against the C interface.
SANITIZE := $(CC) -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wno-unused-function -Werror \
	-g -O2 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math -Ikernels -pthread
SANITIZED := build/sanitize
# The C interface with the plain instruction set: $(call acl,FLAGS,PROGRAM) builds a program with it.
ACL := -Ikernels/acl -Ikernels/acl/include
ACL_SOURCES := kernels/compute.c $(wildcard kernels/acl/*.c)
acl = for source in $(ACL_SOURCES); do $(SANITIZE) -O1 $(ACL) $(1) -DLS_ISA_plain \
		-DLS_COMPUTE=ls_compute__plain -c $$source -o $(SANITIZED)/$(2)-$$(basename $$source .c).o || exit 1; \
	done; $(CXX) -std=c++17 -g -O1 -Wall -Wextra -Wpedantic -Werror -Ikernels/acl/include $(1) \
		tests/sanitize/$(2).cpp $(patsubst %,$(SANITIZED)/$(2)-%.o,$(basename $(notdir $(ACL_SOURCES)))) \
		-o $(SANITIZED)/$(2) -lm -pthread

sanitize:  ## run the compiled core under the address, undefined-behaviour and thread sanitizers
	mkdir -p $(SANITIZED)
	$(SANITIZE) -fsanitize=address,undefined -fno-sanitize-recover=all \
		tests/sanitize/driver.c -o $(SANITIZED)/address -lm
	$(SANITIZE) -fsanitize=thread tests/sanitize/driver.c -o $(SANITIZED)/thread -lm
	$(SANITIZED)/address
	$(SANITIZED)/thread
	! $(SANITIZED)/address overrun 2> $(SANITIZED)/overrun.txt
	grep -q heap-buffer-overflow $(SANITIZED)/overrun.txt
	! $(SANITIZED)/thread race 2> $(SANITIZED)/race.txt
	grep -q 'data race' $(SANITIZED)/race.txt
	$(call acl,-fsanitize=address$(COMMA)undefined -fno-sanitize-recover=all,acl_fuzz)
	$(call acl,-fsanitize=thread,acl_threads)
	ASAN_OPTIONS=allocator_may_return_null=1 $(SANITIZED)/acl_fuzz 2> $(SANITIZED)/fuzz.txt \
		|| { cat $(SANITIZED)/fuzz.txt; exit 1; }
	$(SANITIZED)/acl_threads
	! $(SANITIZED)/acl_fuzz freed 2> $(SANITIZED)/freed.txt
	grep -q use-after-poison $(SANITIZED)/freed.txt
	! $(SANITIZED)/acl_threads race 2> $(SANITIZED)/early.txt
	grep -q 'data race' $(SANITIZED)/early.txt

SWEEP := $(BIN)/lsbench sweep -q
MODES := $(addprefix --rounding ,rne rna rtz rup rdn rto)
FORMULAS := $(addprefix --kernel ,ascend textbook buffered)

sweeps: build  ## record the sweeps of docs/sweeps.md: half an hour on two cores
	$(SWEEP) --space hard --dtype fp32 --dtype fp16 --dtype bf16 --kernel exact $(MODES) \
		--gate "misrounded==0" --output results/sweep-hard.json
	$(SWEEP) --space pairs --dtype fp16 --dtype bf16 --kernel exact $(MODES) --gate "misrounded==0" \
		--output results/sweep-exact-pairs.json
	$(SWEEP) --space unary --dtype fp32 --kernel exact --g 1 1.5 pi max min --gate "misrounded==0" \
		--output results/sweep-exact-unary.json
	$(SWEEP) --space pairs --dtype fp16 --dtype bf16 --kernel fast $(FORMULAS) \
		--output results/sweep-formulas-pairs.json
	$(SWEEP) --space pairs --dtype fp16 --arithmetic fp16 $(FORMULAS) \
		--output results/sweep-emulated-fp16.json
	$(SWEEP) --space pairs --dtype bf16 --arithmetic bf16 $(FORMULAS) \
		--output results/sweep-emulated-bf16.json
	$(SWEEP) --space unary --dtype fp32 --kernel fast $(FORMULAS) --g 1 \
		--output results/sweep-formulas-unary.json
	$(BIN)/python docs/tables.py

build: $(VENV)/.installed  ## build the compiled part and install lsbench into .venv

dev: $(VENV)/.dev build  ## the same, with what tests and checks need

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.build-tools: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q "meson-python>=0.17" "Cython>=3.1" "numpy>=2.0" "ninja>=1.11"
	touch $@

# A kept build directory makes the second build a matter of seconds.
$(VENV)/.installed: $(VENV)/.build-tools $(SOURCES)
	$(BIN)/python -m pip install -q --no-build-isolation -Cbuild-dir=build .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install -q --no-build-isolation -Cbuild-dir=build ".[test,lint]"
	touch $@

clean:  ## remove the build and the environment
	rm -rf build $(VENV)
