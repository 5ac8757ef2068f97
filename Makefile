# Targets of headrace; no configure step. `make help` prints this text.
#
#   make help         this text
#   make              build/headrace, with the cuda backend when nvcc and cuda.h are found: for the
#                     GPUs of this machine; without a GPU for all architectures, which takes minutes
#   make deps         install the Debian packages needed to build, check and lint (apt)
#   make demo         deps, build, and four pipelines on the embedded default: no hardware needed.
#                     demo, example, check and check-all use nvcc only on a machine with an NVIDIA
#                     device
#   make example EXAMPLE=NAME  bfs, gather, join or chase: data, three ways to run it, checks, times;
#                     tap-c, tap-numpy, tap-cupy, tap-torch: another process takes the tiles of a
#                     pipeline, and checks them
#                     feed: another process fills the tiles, and the object is compared with its data
#                     remote: an object goes to another headrace by RDMA; needs an RDMA device
#                     ranks: one process, then three ranks of an MPI job: the results are compared
#   make op OP=FILE.c a user operator (gpu/ops/operator.h): build/FILE.op, for host and, with nvcc, GPU
#   make check        tests of a change, in minutes: unit tests, the command line, 300 seeds of the
#                     simulation, the inputs in tests/fuzz/corpus
#   make check-all    check, and: sanitizers (address+undefined, thread), fuzzing, models, emulated
#                     machines (unless LAB=0)
#   make sim          whole appliances by seed: [SEEDS=300] [SEED=one of them] (tests/sim)
#   make model        only that part of check-all: models of protocols, by spin (tests/model)
#   make check-lab    only that part of check-all: scenarios in emulated machines (tests/lab)
#   make lint         formatting, static analysis, include arrows, headers compile alone, sizes
#   make fuzz         each fuzz target for FUZZ_SECONDS (60)
#   make mutate       insert faults, check that tests fail: [FILES=...] [N=60] [SEED=...]
#   make bench        figures of tests/bench/README.md
#   make bench-lab    the same reads through headrace and by fio, in one emulated machine
#   make plot         diagrams of REPORT=FILE, the output of `headrace bench --json` on a GPU
#   make image        bootable ISO, kernel and initramfs for CONFIG=FILE [KERNEL= EXTRA= APPEND=]
#   make install      binary, unit, documents, examples, and for consumers of taps library and modules:
#                     [PREFIX=/usr/local] [DESTDIR=]; make uninstall removes the same files
#   make clean        remove build folders
#   make gpu-tests    build/tests/gpu, for any machine with a GPU; check-gpu runs it on this machine
#   make check-unit   unit tests of one variant (SAN=...); build/tests/unit/F/X.ok runs one
#
# Switches: V=1 show commands; O=DIR build in DIR; SAN=address,undefined | SAN=thread; WERROR=1;
# ARCHS=all (releases) or ARCHS="80 90": compute capabilities that GPU images are compiled for;
# STATIC=1 fully static binary; STATIC=1, ARCHS= and NVCC= build without the cuda backend; LAB=0
# check-all without emulated machines. check, check-all, lint and fuzz use all cores unless -j is given.

# SPDX-License-Identifier: Apache-2.0

MAKEFLAGS += -rR
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# Switches, variants, flags, and the rules of all files.
include program.mk gpu/ops/op.mk boot/install.mk boot/image/image.mk
include tests/unit.mk tests/cli.mk tests/sim.mk tests/gpu.mk tests/lab.mk tests/fuzz.mk
include tests/lint.mk tests/check.mk

# Each of these calls make again, in parallel, once per variant.
.PHONY: all help deps check check-all sim model check-lab fuzz lint demo example bench bench-lab \
	mutate plot install clean
help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

deps:
	$(Q)tests/deps.sh build check fuzz model lab image lint

# What demo, example, check and check-all begin with.
no_device = $(if $(device),,$(if $(default_archs),\
	@echo "note: no NVIDIA device: built without nvcc and the cuda backend"))

check:
	$(no_device)
	$(Q)tests/deps.sh build check
	$(Q)+failed=0; \
	$(again) SAN= check-plain || failed=1; \
	tests/summary.sh $(check_names:%=$(base)/%) || failed=1; \
	exit $$failed

# The lab is last and alone, because its guests have time limits.
check-all:
	$(no_device)
	$(Q)tests/deps.sh build check fuzz $(if $(with_lab),lab image)
	$(Q)tests/deps.sh model || echo "note: without spin the models are not checked"
	$(Q)+failed=0; \
	$(if $(targets),$(again) SAN= images || failed=1;) \
	$(again) check-sanitizers check-others || failed=1; \
	$(if $(with_lab),$(again) STATIC=1 lab-run || failed=1;) \
	tests/summary.sh $(check_names:%=$(base)/%) $(models) \
		$(address_names:%=$(base)-address-undefined/%) \
		$$(printf '$(base)-thread/%s ' $(threads)) \
		$(fuzz_names:%=$(base)-fuzz-quick/%) $(if $(with_lab),$(base)-static/tests/lab/lab) || \
		failed=1; \
	exit $$failed

sim:
	$(Q)tests/deps.sh build
	$(Q)+$(again) SAN= $(base)/tests/sim/sim
	$(Q)$(base)/tests/sim/sim $(if $(SEED),--seed $(SEED) --keep,--seeds $(SEEDS))

model:
	$(Q)tests/deps.sh build check model
	$(Q)rm -f $(models).ok
	$(Q)+$(again) check-models
	$(Q)cat $(models).log

check-lab:
	$(Q)tests/deps.sh build lab image
	$(Q)rm -f $(base)-static/tests/lab/lab.ok
	$(Q)+$(again) SAN= lab-dynamic
	$(Q)+$(again) STATIC=1 lab-run
	$(Q)cat $(base)-static/tests/lab/lab.log

fuzz:
	$(Q)tests/deps.sh build check fuzz
	$(Q)rm -f $(fuzz_names:%=$(base)-fuzz/%.ok)
	$(Q)+$(again) FUZZ=1 fuzz-run

lint:
	$(Q)tests/deps.sh build check lint
	$(Q)+failed=0; \
	$(again) SAN= lint-warnings || failed=1; \
	$(again) O=$(base)-lint SAN= WERROR=1 lint-run || failed=1; \
	exit $$failed

demo:
	$(no_device)
	$(Q)tests/demo/run.sh $(base)

example:
	$(no_device)
	$(Q)tests/deps.sh build $(filter tap-numpy ranks,$(EXAMPLE))
	$(Q)+$(again) SAN= all $(if $(wildcard tests/demo/$(EXAMPLE).c),$(base)/tests/demo/$(EXAMPLE)) \
		$(if $(filter tap-c feed feed-cuda,$(EXAMPLE)),$(tap_examples))
	$(Q)tests/demo/$(patsubst %,%_,$(filter feed ranks remote,$(EXAMPLE:feed-cuda=feed)) \
		$(patsubst tap-%,tap,$(filter tap-%,$(EXAMPLE))))example.sh "$(EXAMPLE)" $(base)

bench:
	$(Q)tests/deps.sh build bench
	$(Q)+$(again) SAN= all tools
	$(Q)tests/bench/run.py $(base)

bench-lab:
	$(Q)tests/deps.sh build lab bench-lab
	$(Q)+$(again) SAN= lab-dynamic
	$(Q)+$(again) STATIC=1 lab-tools
	$(Q)tests/lab/run.py --figures --jobs 1 --build $(base)-static --dynamic $(base) \
		--cache $(base)/lab

N ?= 60
mutate:
	$(Q)tests/deps.sh build check fuzz
	$(Q)tests/mutate/mutate.py --build $(base) -n $(N) --seed "$(SEED)" $(FILES)

plot:
	$(Q)test -n "$(REPORT)" || { echo "plot: REPORT=FILE names a report" >&2; exit 2; }
	$(Q)tests/deps.sh plot
	$(Q)tests/bench/plot.py "$(REPORT)" tests/bench

install: all
	$(Q)$(MAKE) --no-print-directory install-files

clean:
	rm -rf $(base) $(addprefix $(base)-,address-undefined thread fuzz fuzz-quick lint static)

.SECONDARY:

-include $(shell find $(sort $(objects) $(image_at) $(dir $(gpu_test_image))) -name '*.d' 2>/dev/null)
