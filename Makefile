# headrace - one Makefile, no configure step.
#
#   make              build/headrace (and the GPU worker image when nvcc is there)
#   make deps         install the Debian packages that are missing (apt; build ones only)
#   make demo         deps, build, and the main job on the embedded default: no hardware needed
#   make check        deps, unit tests (plain, address+undefined, thread), short fuzzing, command line
#   make lint         formatting, static analysis, include arrows, headers compile alone
#   make fuzz         each fuzz target for FUZZ_SECONDS (60)
#   make bench        figures of tests/bench/README.md
#   make clean        remove build folders
#
# Switches: V=1 commands shown; O=DIR build elsewhere; SAN=address,undefined | SAN=thread;
# STATIC=1 fully static binary without the cuda backend; NVCC= builds without the GPU worker image.

MAKEFLAGS += -rR
.SUFFIXES:
.DELETE_ON_ERROR:

CC := gcc
CLANG := clang
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CFLAGS ?= -O2 -g
V ?= 0
comma := ,
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)';)

base := $(or $(O),build)
B := $(base)$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(STATIC),-static)

# ---- what is built from what

libs_a := -l:libconfig.a -l:libnvme.a -l:libjson-c.a -l:libpciaccess.a -l:libz.a
warnings := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef \
	-Wvla -Wpointer-arith -Wcast-qual -Wwrite-strings -Wno-tsan
cflags := -std=gnu11 -march=x86-64-v2 -iquote . -D_GNU_SOURCE -pthread -ffile-prefix-map=$(CURDIR)/= \
	$(warnings) $(if $(WERROR),-Werror) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
ldflags := -pthread $(if $(SAN),-fsanitize=$(SAN)) $(if $(STATIC),-static)
folders := config boot pci nvme nvme/soft cache gpu gpu/host gpu/ops
srcs := $(filter-out boot/main.c,$(wildcard $(folders:%=%/*.c)))
objs := $(srcs:%.c=$(B)/%.o)
fakes := $(patsubst %.c,$(B)/%.o,$(wildcard tests/fake/*.c))
# The runner replaces Criterion's own where that one cannot start (thread sanitizer).
runner := $(B)/tests/fake/runner.o
unit_srcs := $(wildcard tests/unit/*.c)
units := $(unit_srcs:tests/unit/%.c=$(B)/tests/unit/%)

all: $(B)/libheadrace.a $(if $(wildcard boot/main.c),$(B)/headrace) \
	$(if $(NVCC),$(if $(SAN)$(STATIC),,$(if $(wildcard gpu/cuda/image.cu),image)))

$(B)/headrace: $(B)/boot/main.o $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -o $@ $^ $(libs_a) -lm -ldl
	$(if $(NVCC)$(SAN),,@echo "note: nvcc not found: the GPU worker image is not built")

$(B)/libheadrace.a: $(objs)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(cflags) -MMD -MP -c -o $@ $<

# ---- GPU worker image: the same worker sources, compiled as CUDA C++

image: $(B)/gpu/worker.fatbin
archs := 80 90 100
$(B)/gpu/worker.fatbin: gpu/cuda/image.cu Makefile
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D) && $(NVCC) -std=c++17 -O3 -fatbin -I. -MMD -MP -MF $@.d \
		$(foreach a,$(archs),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
		-gencode arch=compute_80$(comma)code=compute_80 -o $@ $<

# ---- tests

$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/libheadrace.a $(filter-out $(runner),$(fakes)) $(runner)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -o $@ $(filter-out $(runner),$(filter %.o,$^)) \
		$(if $(findstring thread,$(SAN)),$(runner)) $(B)/libheadrace.a \
		$(libs_a) $(if $(findstring thread,$(SAN)),,-lcriterion) -lm -ldl

$(B)/tests/unit/%.ok: $(B)/tests/unit/%
	$(call say,TEST,$<)
	$(Q)$< > $@.log 2>&1 || { cat $@.log; echo "FAILED: $<"; exit 1; }
	@touch $@

check-unit: $(units:%=%.ok)
.SECONDARY:

-include $(shell find $(B) -name '*.d' 2>/dev/null)

clean:
	rm -rf $(base) $(base)-*

.PHONY: all image check-unit clean
