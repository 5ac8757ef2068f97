# headrace - one Makefile, no configure step.
#
#   make              build/headrace (with the cuda backend when nvcc and cuda.h are there)
#   make deps         install the Debian packages that are missing to build, check and lint (apt)
#   make demo         deps, build, and the main job on the embedded default: no hardware needed
#   make op OP=FILE.c a user operator (gpu/ops/operator.h): build/FILE.op, for host and, with nvcc, GPU
#   make check        tests: plain, address+undefined, thread; short fuzzing; the command line;
#                     emulated machines (unless LAB=0)
#   make check-lab    the same part of check alone: scenarios in emulated machines (tests/lab)
#   make lint         formatting, static analysis, include arrows, headers compile alone, sizes
#   make fuzz         each fuzz target for FUZZ_SECONDS (60)
#   make mutate       plant mistakes, see whether tests fail: [FILES=...] [N=60] [SEED=...]
#   make bench        figures of tests/bench/README.md
#   make bench-lab    the same reads through headrace and by fio, in one emulated machine
#   make plot         its pictures, of REPORT=FILE, what `headrace bench --json` said on a GPU
#   make image        bootable ISO, kernel and initramfs for CONFIG=FILE [KERNEL= EXTRA= APPEND=]
#   make clean        remove build folders
#   make gpu-tests    build/tests/gpu, for any machine with a GPU; check-gpu runs what is in it here
#   make check-unit   unit tests of one variant (SAN=...); build/tests/unit/F/X.ok runs one
#
# Switches: V=1 commands shown; O=DIR build elsewhere; SAN=address,undefined | SAN=thread; WERROR=1;
# STATIC=1 fully static binary; that, and NVCC=, builds without the cuda backend; LAB=0 check without
# the emulated machines.
# check, lint and fuzz use all cores unless -j says otherwise.

MAKEFLAGS += -rR
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

CC := $(if $(FUZZ),clang,gcc)
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CFLAGS ?= -O2 -g
FUZZ_SECONDS ?= 60
V ?= 0
comma := ,
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)';)

# Variants never mix: each has its folder. FUZZ=1 is set by our own fuzz target only.
override SAN := $(if $(FUZZ),fuzzer-no-link$(comma)address$(comma)undefined,$(SAN))
base := $(or $(O),build)
B := $(base)$(if $(FUZZ),-fuzz,$(if $(SAN),-$(subst $(comma),-,$(SAN))))$(if $(STATIC),-static)
again = $(MAKE) --no-print-directory -k --output-sync=target \
	$(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- what is built from what

libs_a := $(patsubst %,-l:lib%.a,config nvme json-c pciaccess expat blkid z)
warnings := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef \
	-Wvla -Wpointer-arith -Wcast-qual -Wwrite-strings -Wno-unused-parameter $(if $(FUZZ),,-Wno-tsan)
cflags := -std=gnu11 -march=x86-64-v2 -iquote . -D_GNU_SOURCE -pthread \
	-ffile-prefix-map=$(CURDIR)=. $(warnings) $(if $(WERROR),-Werror) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
ldflags := -pthread $(if $(SAN),-fsanitize=$(SAN)) $(if $(STATIC),-static)
# The cuda backend needs the driver's header, and nvcc for the worker image, which all variants share.
cuda_h := $(if $(STATIC),,$(if $(NVCC),$(firstword $(wildcard \
	$(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))/include/cuda.h /usr/include/cuda.h))))
cuda_flags := $(if $(cuda_h),-isystem $(patsubst %/,%,$(dir $(cuda_h))))
folders := config pci pci/topo nvme nvme/soft cache cache/store gpu gpu/worker gpu/ops gpu/host \
	gpu/$(if $(cuda_h),,no)cuda \
	$(addprefix boot/,engine appliance cmd $(addprefix cmd/,bench post report store topo))
# A static build loads no libraries at run time: NAME_static.c stands in for NAME.c.
loaders := gpu/window_gdr gpu/ops/user_open pci/nvml
srcs := $(filter-out boot/main.c $(if $(STATIC),$(loaders:%=%.c),$(loaders:%=%_static.c)),\
	$(wildcard $(folders:%=%/*.c)))
objs := $(srcs:%.c=$(B)/%.o) $(if $(cuda_h),\
	$(patsubst %,$(B)/gpu/cuda/%.o,embed embed_user embed_roles))
# Files that only a build with the cuda backend compiles.
cuda_only := gpu/cuda/% tests/unit/gpu/cuda/% tests/fakes/cuda% tests/gpu/%
usable = $(if $(cuda_h),$(1),$(filter-out $(cuda_only),$(1)))

all: $(B)/headrace
	@:

$(B)/headrace: $(B)/boot/main.o $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -o $@ $^ $(libs_a) -lm -ldl
	$(if $(cuda_h)$(SAN)$(STATIC)$(filter command,$(origin NVCC)),,\
		@echo "note: no nvcc or no cuda.h: built without the cuda backend")

# q, not r: files of the same name in two folders are two members
$(B)/libheadrace.a: $(objs)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar qcs $@ $^

$(B)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(cflags) -MMD -MP -c -o $@ $<

$(B)/config/default.o: config/default.conf
$(B)/boot/cmd/topo/page.o: boot/cmd/topo/page.css boot/cmd/topo/page.js

# Operators on the host: loops over data, written to be vectorised.
$(B)/gpu/ops/%.o: cflags += $(if $(SAN)$(FUZZ),,-O3) -DHR_OP_NAME=$(*F)

$(B)/gpu/cuda/%.o $(B)/tests/unit/gpu/cuda/%.o $(B)/tests/gpu/%.o $(B)/tests/fakes/cuda.o \
	$(B)/tests/fakes/cuda_calls.o: cflags += $(cuda_flags)

# GPU worker image: the same worker sources, compiled as CUDA C++, and embedded
archs := 80 90 100
gencode := $(foreach a,$(archs),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
	-gencode arch=compute_80$(comma)code=compute_80
gpu_kernels := $(base)/tests/gpu/kernels.fatbin
# One runs, one is linked with a user operator (make op), one is asked what each role takes.
fatbin := $(base)/gpu/worker.fatbin
fatbin_user := $(base)/gpu/worker_user.fatbin
fatbin_roles := $(base)/gpu/worker_roles.fatbin
$(fatbin): gpu/cuda/image.cu
$(fatbin_user): gpu/cuda/image_user.cu
$(fatbin_user): relocatable := -rdc=true
$(fatbin_roles): gpu/cuda/image_roles.cu
$(gpu_kernels): tests/gpu/kernels.cu
$(fatbin) $(fatbin_user) $(fatbin_roles) $(gpu_kernels): Makefile
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D) && $(NVCC) -std=c++17 -O3 $(relocatable) -fatbin -I. \
		-MMD -MP -MF $@.d $(gencode) -o $@ $(firstword $(filter %.cu,$^))

$(B)/gpu/cuda/embed.o: $(fatbin)
$(B)/gpu/cuda/embed.o: embed := -DNAME=hr_worker_image -DFILE='"$(fatbin)"'
$(B)/gpu/cuda/embed_user.o: $(fatbin_user)
$(B)/gpu/cuda/embed_user.o: embed := -DNAME=hr_worker_user_image -DFILE='"$(fatbin_user)"'
$(B)/gpu/cuda/embed_roles.o: $(fatbin_roles)
$(B)/gpu/cuda/embed_roles.o: embed := -DNAME=hr_worker_roles_image -DFILE='"$(fatbin_roles)"'
$(B)/tests/gpu/embed.o: $(gpu_kernels)
$(B)/tests/gpu/embed.o: embed := -DNAME=gpu_test_kernels -DFILE='"$(gpu_kernels)"'
$(B)/gpu/cuda/embed.o $(B)/gpu/cuda/embed_user.o $(B)/gpu/cuda/embed_roles.o \
$(B)/tests/gpu/embed.o: gpu/cuda/embed.S Makefile
	$(call say,AS,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(embed) -c -o $@ $<

# ---- user operators: one source, built twice, in one file

ifneq ($(filter op,$(MAKECMDGOALS)),)
ifneq ($(words $(OP)),1)
$(error make op: OP names one source file, as in: make op OP=gpu/ops/template/histogram.c)
endif
ifeq ($(wildcard $(OP)),)
$(error make op: there is no file $(OP))
endif
endif
op_name := $(B)/$(basename $(notdir $(OP)))

op: $(op_name).op
	@echo "operator $<: $(if $(NVCC),for host and GPU ($(archs:%=sm_%) and PTX),for the host \
	backend only: there is no nvcc to build its GPU part)"

# The host part. Nothing may stay open for the loader, but what a sanitizer build leaves to headrace.
op_build = mkdir -p $(@D) && $(CC) $(CFLAGS) -O3 $(filter-out -Werror,$(cflags)) -fPIC \
	-fvisibility=hidden -shared $(1) \
	$(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,now,-z,relro -o $@.new \
	-x c $< gpu/ops/args.c -lm && mv $@.new $@

# $(call op_rules,PATH/NAME,SOURCE,PREREQUISITES). The GPU part is linked here as the driver will
# link it: what is undefined or defined twice shows now.
define op_rules
$(1).op: $(2) gpu/ops/args.c $(if $(NVCC),$(1).op.fatbin) $(3)
	$$(call say,CC,$$@)
	$$(Q)$$(call op_build,$(if $(NVCC),-DHR_OP_GPU_IMAGE='"$(1).op.fatbin"'))

$(1).op.fatbin: $(2) $(fatbin_user) $(3)
	$$(call say,NVCC,$$@)
	$$(Q)mkdir -p $$(@D) && $(NVCC) -x cu -rdc=true -std=c++17 -O3 -fatbin -I. $(gencode) -o $$@ $$<
	$$(Q)for a in $(archs); do $(dir $(NVCC))nvlink --arch=sm_$$$$a -o $$@.cubin $$@ \
		$(fatbin_user) || { rm -f $$@; exit 1; }; done; rm -f $$@.cubin
endef

# Always anew: what OP includes, and what it was built with before, is not known.
$(if $(OP),$(eval $(call op_rules,$(op_name),$(OP),anew)))

# ---- tests: one that passed leaves NAME.ok; NAME.log is shown when it fails

# In place of Criterion's own, which thread sanitizer stops and which there is no static library of.
runner := $(B)/tests/harness/runner.o
fakes := $(filter-out $(runner),$(patsubst %.c,$(B)/%.o,\
	$(call usable,$(wildcard tests/fakes/*.c tests/harness/*.c))))
unit_files := $(sort $(shell find tests/unit -name '*.c'))
units := $(patsubst %.c,$(B)/%,$(call usable,$(unit_files)))
clis := $(patsubst %.sh,$(B)/%.ok,$(wildcard tests/cli/*.sh))
fuzzers := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/*.c))
driver := $(if $(findstring thread,$(SAN))$(STATIC),$(runner))
export ASAN_OPTIONS ?= detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS ?= print_stacktrace=1

# $(call test,LIMIT_SECONDS,COMMAND)
test = timeout -k 5 $(1) $(2) >$(basename $@).log 2>&1 </dev/null && touch $@ || \
	{ status=$$?; cat $(basename $@).log; echo "FAILED ($$status): $(basename $@)"; exit 1; }

# A test is linked with those whose headers it includes, as its dependency file knows.
used_fakes = $(filter $(patsubst %.h:,$(B)/%.o,$(shell cat $@.d)),$(fakes))

$(units): %: %.o $(fakes) $(driver) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -o $@ $@.o $(used_fakes) $(driver) $(B)/libheadrace.a \
		$(libs_a) $(if $(driver),,-lcriterion) -lm -ldl

# User operators for tests, in the place that the macro names.
test_ops := $(patsubst %.c,$(B)/%.op,$(wildcard tests/op/*.c))
op_tests := $(addprefix $(B)/tests/unit/,gpu/ops/user config/operators gpu/cuda/operators)
$(op_tests:%=%.o): cflags += -DTEST_OPS='"$(B)/tests/op"'
$(op_tests:%=%.ok): $(test_ops)
op_headers := $(wildcard nvme/worker*.h gpu/worker/*.h gpu/ops/*.h config/*.h) Makefile
$(B)/tests/op/%.op: tests/op/%.c gpu/ops/args.c $(op_headers)
	$(call say,CC,$<)
	$(Q)$(call op_build)

$(units:%=%.ok): %.ok: %
	$(call say,TEST,$<)
	$(Q)$(call test,300,$< --verbose)

$(clis): $(B)/%.ok: %.sh $(B)/headrace $(wildcard tests/cli/lib/*.*)
	$(call say,TEST,$(<) ($(B)))
	$(Q)rm -rf $(basename $@).tmp && mkdir -p $(basename $@).tmp && $(call test,300,env \
		HEADRACE=$(abspath $(B)/headrace) SCRATCH=$(abspath $(basename $@).tmp) bash $<)

# Tests that need a GPU: one program that runs on any machine with a driver and libc. Unit tests of
# pipelines and queues are in it, too, and run on the GPU there.
gpu_tests := $(B)/tests/gpu/gpu-tests
gpu_test_objs := $(patsubst %.c,$(B)/%.o,$(wildcard tests/gpu/*.c)) $(B)/tests/gpu/embed.o \
	$(patsubst %,$(B)/tests/unit/%.o,nvme/queue nvme/queue_order \
	$(addprefix gpu/worker/,bench pipeline pipeline_faults)) \
	$(patsubst %,$(B)/tests/%.o,fakes/clock fakes/peer \
	$(addprefix harness/,opcase qprun rig runner))
$(gpu_tests): $(gpu_test_objs) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -o $@ $(gpu_test_objs) $(B)/libheadrace.a $(libs_a) -lm -ldl

# What the program does on a GPU, with user operators that have a GPU part: all in that folder, which
# with the scripts of tests/gpu is what another machine needs.
gpu_test_ops := $(addprefix $(B)/tests/gpu/,histogram liar)
$(eval $(call op_rules,$(B)/tests/gpu/histogram,gpu/ops/template/histogram.c,$(op_headers)))
$(eval $(call op_rules,$(B)/tests/gpu/liar,tests/op/liar.c,$(op_headers)))

$(B)/tests/gpu/headrace: $(B)/headrace
	$(Q)mkdir -p $(@D) && cp $< $@

gpu-tests: $(if $(cuda_h),$(gpu_tests) $(B)/tests/gpu/headrace $(gpu_test_ops:%=%.op))
	$(if $(cuda_h),@:,@echo "gpu-tests: needs nvcc and cuda.h" >&2; exit 3)

check-gpu: gpu-tests
	$(Q)tests/gpu/run.sh $(gpu_tests)

# Programs of the demo and the bench.
tools := $(patsubst %.c,$(B)/%,$(wildcard tests/demo/*.c tests/bench/*.c tests/lab/*.c))
$(tools): %: %.o $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -o $@ $^ $(libs_a) -lm -ldl

# The lab (variant STATIC=1): guests run the static binary and static builds of some unit tests.
lab := $(B)/tests/lab/lab
lab_files := $(wildcard tests/lab/*.* tests/lab/guest/* tests/lab/scenarios/* boot/image/*.py)
lab_tests := $(addprefix $(B)/tests/unit/,$(sort $(shell sed -n 's/^\#: tests //p' \
	tests/lab/scenarios/*.sh)))

lab_programs := $(patsubst %.c,$(B)/%,$(wildcard tests/lab/*.c))

lab-tools: $(B)/headrace $(lab_tests) $(lab_programs)
	@:

$(lab).ok: $(B)/headrace $(lab_tests) $(lab_programs) $(lab_files)
	$(call say,LAB,emulated machines)
	$(Q)mkdir -p $(@D) && $(call test,900,tests/lab/run.py --build $(B) \
		--cache $(base)/lab)

lab-run: $(lab).ok
	@:

tools: $(tools)
	@:
check-unit: $(units:%=%.ok)
	@:
check-cli: $(clis)
	@:

# ---- what people call: each re-enters make, in parallel, once per variant

names := $(basename $(call usable,$(unit_files) $(wildcard tests/cli/*.sh)))
fuzz_names := $(basename $(wildcard tests/fuzz/*.c))
with_lab := $(if $(filter 0,$(LAB)),,lab)

deps:
	$(Q)tests/deps.sh build check lab image lint

check:
	$(Q)tests/deps.sh build check $(if $(with_lab),lab image)
	$(Q)failed=0; \
	$(again) SAN= all check-unit check-cli || failed=1; \
	$(again) SAN=address,undefined check-unit check-cli || failed=1; \
	$(again) SAN=thread check-unit || failed=1; \
	$(again) FUZZ=1 FUZZ_SECONDS=5 fuzz-run || failed=1; \
	$(if $(with_lab),$(again) STATIC=1 lab-run || failed=1;) \
	tests/summary.sh $(names:%=$(base)/%) $(names:%=$(base)-address-undefined/%) \
		$(filter $(base)-thread/tests/unit/%,$(names:%=$(base)-thread/%)) \
		$(fuzz_names:%=$(base)-fuzz/%) $(if $(with_lab),$(base)-static/tests/lab/lab) || \
		failed=1; \
	exit $$failed

check-lab:
	$(Q)tests/deps.sh build lab image
	$(Q)rm -f $(base)-static/tests/lab/lab.ok
	$(Q)$(again) STATIC=1 lab-run && cat $(base)-static/tests/lab/lab.log

fuzz:
	$(Q)tests/deps.sh build check
	$(Q)rm -f $(fuzz_names:%=$(base)-fuzz/%.ok)
	$(Q)$(again) FUZZ=1 fuzz-run

lint:
	$(Q)tests/deps.sh build check lint
	$(Q)$(again) O=$(base)-lint SAN= WERROR=1 lint-run

demo:
	$(Q)tests/demo/run.sh $(base)

bench:
	$(Q)tests/deps.sh build bench
	$(Q)$(again) SAN= all tools
	$(Q)tests/bench/run.py $(base)

bench-lab:
	$(Q)tests/deps.sh build lab bench-lab
	$(Q)$(again) STATIC=1 lab-tools
	$(Q)tests/lab/run.py --figures --jobs 1 --build $(base)-static --cache $(base)/lab

N ?= 60
mutate:
	$(Q)tests/deps.sh build check
	$(Q)tests/mutate/mutate.py --build $(base) -n $(N) --seed "$(SEED)" $(FILES)

plot:
	$(Q)test -n "$(REPORT)" || { echo "plot: REPORT=FILE names a report" >&2; exit 2; }
	$(Q)tests/deps.sh plot
	$(Q)tests/bench/plot.py "$(REPORT)" tests/bench

# CONFIG goes in as /etc/headrace.conf; KERNEL: a vmlinuz of this machine in place of Debian's;
# EXTRA: a folder that is added to the initramfs; APPEND: more kernel parameters.
image:
	$(Q)test -n "$(CONFIG)" || { echo "image: CONFIG=FILE names the configuration" >&2; exit 2; }
	$(Q)tests/deps.sh build image
	$(Q)$(again) SAN= STATIC=1 all && mkdir -p $(base)/image && boot/image/build.py \
		--binary $(base)-static/headrace --config "$(CONFIG)" --out $(base)/image \
		--kernel "$(KERNEL)" --extra "$(EXTRA)" --append "$(APPEND)"

clean:
	rm -rf $(base) $(addprefix $(base)-,address-undefined thread fuzz lint static)

# ---- fuzzing (variant FUZZ=1): new inputs are kept in the build folder, seeds come from the tree

$(fuzzers): %: %.o $(fakes) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -fsanitize=fuzzer -o $@ $@.o $(used_fakes) \
		$(B)/libheadrace.a $(libs_a) -lm -ldl

$(fuzzers:%=%.ok): $(B)/%.ok: $(B)/%
	$(call say,FUZZ,$* ($(FUZZ_SECONDS) s))
	$(Q)mkdir -p $<.corpus && $(call test,$$(($(FUZZ_SECONDS) + 120)),$< -timeout=20 \
		-max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=$<- \
		$<.corpus $(wildcard tests/fuzz/corpus/$(*F)))

fuzz-run: $(fuzzers:%=%.ok)
	@:

# ---- lint (in its own folder, with -Werror); each part can be called alone

c_files := $(shell find * -name '*.c' ! -path 'build*')
tidy_files := $(call usable,$(filter-out tests/unit/% tests/gpu/% tests/fuzz/%,$(c_files)))
headers := $(shell find * -name '*.h' ! -path 'build*')

$(B)/%.tidy: %.c .clang-tidy $(headers)
	$(call say,TIDY,$<)
	$(Q)mkdir -p $(@D) && clang-tidy --quiet $< -- $(filter-out -Wno-tsan,$(cflags)) \
		$(cuda_flags) 2>$@.log && touch $@

lint-format:
	$(call say,LINT,clang-format)
	$(Q)clang-format --dry-run -Werror $(c_files) $(headers) \
		$(wildcard gpu/cuda/*.cu tests/gpu/*.cu)

lint-cppcheck:
	$(call say,LINT,cppcheck)
	$(Q)mkdir -p $(B) && cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr -I . \
		-D_GNU_SOURCE --enable=warning,performance,portability \
		--suppress=missingIncludeSystem --cppcheck-build-dir=$(B) $(tidy_files)

lint-shell:
	$(call say,LINT,shellcheck)
	$(Q)shellcheck -x -S info $(shell find tests .ci -name '*.sh') .ci/run

lint_scripts := $(patsubst tests/lint/%.sh,lint-%,$(wildcard tests/lint/*.sh))
$(lint_scripts): lint-%: tests/lint/%.sh
	$(call say,LINT,$<)
	$(Q)CUDA_FLAGS='$(cuda_flags)' $<

lint-run: all $(units) $(tools) lint-format lint-cppcheck lint-shell $(lint_scripts) \
	$(tidy_files:%.c=$(B)/%.tidy)

.SECONDARY:
.PHONY: all op anew tools gpu-tests check-gpu deps check check-unit check-cli check-lab lab-tools \
	lab-run demo mutate bench bench-lab plot image fuzz fuzz-run lint lint-run lint-format \
	lint-cppcheck lint-shell $(lint_scripts) clean

-include $(shell find $(B) -name '*.d' 2>/dev/null)
