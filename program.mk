# SPDX-License-Identifier: Apache-2.0
# program.mk - switches, variants, flags and sources; rules of objects, the program and its
# libraries.

CC := $(if $(FUZZ),clang,gcc)
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CFLAGS ?= $(if $(filter quick,$(FUZZ)),-O0 -g1,$(if $(SAN),-O1 -g1,-O2 -g))
V ?= 0
comma := ,
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)';)

# Each variant has a build folder of its own. Only the targets fuzz (FUZZ=1) and check (FUZZ=quick:
# without optimisation, because the compiler takes longer than the fuzzing) set FUZZ.
override SAN := $(if $(FUZZ),fuzzer-no-link$(comma)address$(comma)undefined,$(SAN))
base := $(or $(O),build)
variant := $(if $(FUZZ),fuzz$(patsubst %,-%,$(filter quick,$(FUZZ))),$(subst $(comma),-,$(SAN)))
B := $(base)$(patsubst %,-%,$(variant))$(if $(STATIC),-static)
# Folder of the objects: the static variant is only linked in another way.
objects := $(if $(STATIC),$(patsubst %-static,%,$(B)),$(B))
# Two jobs for each core: half of the time of tests is waiting. A recipe that calls this begins with +,
# which lets it share the jobs of its caller.
again = $(MAKE) --no-print-directory -k --output-sync=target \
	$(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell expr $$(nproc) '*' 2))

libs_a := $(patsubst %,-l:lib%.a,config nvme json-c pciaccess expat blkid z sodium)
warnings := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef \
	-Wvla -Wpointer-arith -Wcast-qual -Wwrite-strings -Wno-unused-parameter $(if $(FUZZ),,-Wno-tsan)
# Undefined behaviour traps, and the address sanitizer prints where. Without the library for texts, a
# start of the program takes two thirds of the time, because there is less memory to search for leaks.
sanitize := -fsanitize=$(SAN) $(if $(findstring undefined,$(SAN)),\
	$(if $(FUZZ),-fsanitize-trap=undefined,-fsanitize-undefined-trap-on-error))
cflags := -std=gnu11 -march=x86-64-v2 -iquote . -D_GNU_SOURCE -pthread \
	-ffile-prefix-map=$(CURDIR)=. $(warnings) $(if $(WERROR),-Werror) \
	$(if $(SAN),$(sanitize) -fno-omit-frame-pointer)
ldflags := -pthread $(if $(SAN),$(sanitize)) $(if $(STATIC),-static)

include gpu/cuda/cuda.mk

# The rooms of the product. User operators, the client library of taps and its examples are not parts of
# the program.
folders := $(filter-out boot gpu/cuda% gpu/ops/template gpu/tap/client gpu/tap/examples,\
	$(shell sed 's/ .*//' tests/lint/layers.txt))
# The files of boot that fuzz targets are linked with; the others are not compiled for fuzzing.
fuzz_boot := $(wildcard boot/remote/*.c boot/remote/rdma/*.c boot/appliance/protocol/*.c \
	boot/appliance/lend/*.c boot/appliance/schedule/retry.c boot/engine/shared_memory.c \
	$(addprefix boot/engine/,run.c sets.c devices/devices.c \
	runner/counters_clients.c))
# A static build loads no libraries at run time: NAME_static.c replaces NAME.c.
loaders := gpu/window_gdr boot/remote/rdma/verbs gpu/ops/user_open nvme/tree pci/nvml boot/ranks/plugin
srcs := $(filter-out boot/ranks/plugin_mpi.c \
	$(if $(STATIC),$(loaders:%=%.c),$(loaders:%=%_static.c)),\
	$(if $(targets),$(cuda_sources),gpu/cuda/absent.c) \
	$(if $(FUZZ),$(fuzz_boot) $(filter-out boot/%,$(wildcard $(folders:%=%/*.c))),\
	$(wildcard $(folders:%=%/*.c))))
objs := $(srcs:%.c=$(objects)/%.o) $(if $(targets),$(images:%=$(objects)/gpu/images/%.o))

tap_library := $(B)/libheadrace-tap.so.0
# The plugin of `headrace run --mpi`, when there is a compiler for it.
MPICC ?= $(shell command -v mpicc 2>/dev/null)
mpi_plugin := $(if $(STATIC)$(FUZZ),,$(if $(MPICC),$(B)/headrace-mpi.so))
all: $(B)/headrace $(if $(STATIC)$(FUZZ),,$(tap_library)) $(mpi_plugin)
	$(if $(mpi_plugin)$(SAN)$(STATIC)$(FUZZ)$(filter command,$(origin MPICC)),@:,\
		@echo "note: no mpicc: built without headrace-mpi.so, which 'headrace run --mpi' loads")

# Like the client library of taps: libmpi only, and no sanitizer.
$(B)/headrace-mpi.so: boot/ranks/plugin_mpi.c boot/ranks/ranks.h program.mk
	$(call say,MPICC,$@)
	$(Q)mkdir -p $(@D) && $(MPICC) $(CFLAGS) $(filter-out -Werror -fsanitize%,$(cflags)) -fPIC \
		-shared -fvisibility=hidden -Wl$(comma)-z$(comma)defs -Wl,-z,now,-z,relro -o $@ $<

# The client library of taps, for other processes: libc only, and no sanitizer, also beside a
# program that has one.
tap_sources := $(wildcard gpu/tap/client/*.c)
tap_headers := $(addprefix gpu/tap/client/,tap.h feed.h)
tap_modules := $(wildcard gpu/tap/client/*.py)
$(tap_library): $(tap_sources) $(wildcard gpu/tap/client/*.h) gpu/tap/protocol.h \
	gpu/tap/protocol.h program.mk
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) \
		$(filter-out -Werror -fsanitize%,$(cflags)) -fPIC -shared -fvisibility=hidden \
		-Wl$(comma)-z$(comma)defs -Wl,-z,now,-z,relro \
		-Wl,-soname,$(@F) -o $@ $(tap_sources) -ldl

# Consumers in C, which find the library in this build folder.
tap_examples := $(addprefix $(B)/gpu/tap/examples/,tap_c feed_c feed_cuda)
$(tap_examples): $(B)/%: $(objects)/%.o $(tap_library)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -o $@ $^ -Wl,-rpath,'$$ORIGIN/../../..'

# At a fixed address in builds with a sanitizer: else each start writes to 6 MB of data.
$(B)/headrace: $(objects)/boot/main.o $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) $(if $(SAN),-no-pie) -gz -o $@ $^ \
		$(libs_a) -lm -ldl
	$(if $(or $(targets),$(SAN)$(STATIC),$(filter command,$(origin NVCC))),,$(if $(default_archs),\
		@echo "note: built without the cuda backend (no $(if $(cuda_h),ARCHS,nvcc or cuda.h))"))

# q, not r: files of the same name in two folders are two members
$(B)/libheadrace.a: $(objs) $(B)/targets
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && ar qcs $@ $(objs)

# What the last build compiled images for: archives and images are made again after a change.
.PHONY: anew
$(sort $(B)/targets $(base)/targets): anew
	$(Q)mkdir -p $(@D) && { echo '$(targets)' | cmp -s - $@ || echo '$(targets)' >$@; }

# The files of rules that have flags of a folder's own are prerequisites there.
$(objects)/%.o: %.c program.mk
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && { $(CC) $(CFLAGS) $(cflags) -MMD -MP -c -o $@ $< 2>$@.warn; \
		status=$$?; cat $@.warn >&2; exit $$status; }

$(objects)/config/default.o: config/default.conf
$(objects)/boot/cmd/topo/html/page.o: boot/cmd/topo/html/page.css boot/cmd/topo/html/page.js

# These folders take little of the time of tests, and the compiler less time without optimisation.
$(objects)/boot/%.o $(objects)/config/%.o: cflags += $(if $(FUZZ),,$(if $(SAN),-O0))
$(objects)/boot/remote/%.o: cflags += $(if $(FUZZ),,$(if $(SAN),-O1))

# Operators on the host: loops over data, written to be vectorised.
$(objects)/gpu/ops/%.o: cflags += $(if $(SAN)$(FUZZ),,-O3) -DHR_OP_NAME=$(*F)
