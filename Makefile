# headrace - one Makefile, no configure step.
#
#   make              build/headrace, with the cuda backend when nvcc and cuda.h are found: for the
#                     GPUs of this machine; without a GPU for all architectures, which takes minutes
#   make deps         install the Debian packages needed to build, check and lint (apt)
#   make demo         deps, build, and four pipelines on the embedded default: no hardware needed.
#                     demo, example and check use nvcc only on a machine with an NVIDIA device
#   make example EXAMPLE=NAME  bfs, gather, join or chase: data, three ways to run it, checks, times;
#                     tap-c, tap-numpy, tap-cupy, tap-torch: another process takes the tiles of a
#                     pipeline, and checks them
#                     feed: another process fills the tiles, and the object is compared with its data
#                     remote: an object goes to another headrace by RDMA; needs an RDMA device
#                     ranks: one process, then three ranks of an MPI job: the results are compared
#   make op OP=FILE.c a user operator (gpu/ops/operator.h): build/FILE.op, for host and, with nvcc, GPU
#   make check        tests: plain, address+undefined, thread; short fuzzing; the command line;
#                     emulated machines (unless LAB=0)
#   make sim          whole appliances by seed: [SEEDS=300] [SEED=one of them] (tests/sim)
#   make model        only that part of check: models of protocols, by spin (tests/model)
#   make check-lab    only that part of check: scenarios in emulated machines (tests/lab)
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
# STATIC=1 fully static binary; STATIC=1, ARCHS= and NVCC= build without the cuda backend; LAB=0 check
# without the emulated machines. check, lint and fuzz use all cores unless -j is given.

MAKEFLAGS += -rR
SEEDS ?= 300
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

CC := $(if $(FUZZ),clang,gcc)
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CFLAGS ?= $(if $(filter quick,$(FUZZ)),-O0 -g1,$(if $(SAN),-O1 -g1,-O2 -g))
FUZZ_SECONDS ?= 60
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

# ---- sources and flags

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
# The cuda backend needs the driver's header, and nvcc for its images, which all variants share.
cuda_h := $(if $(STATIC)$(FUZZ),,$(if $(NVCC),$(firstword $(wildcard \
	$(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))/include/cuda.h /usr/include/cuda.h))))
cuda_flags := $(if $(cuda_h),-isystem $(patsubst %/,%,$(dir $(cuda_h))))
# Images are compiled for the GPUs of this machine. Without a GPU a program for users gets all
# architectures, because its machine is not known, and PTX takes the driver a minute at each start; the
# other goals need no image. Each make that this one starts does the same.
device := $(wildcard /dev/nvidiactl)
ifeq ($(origin ARCHS),undefined)
default_archs := 1
ARCHS := $(if $(cuda_h),$(if $(device),$(shell gpu/cuda/archs.sh $(NVCC)),\
	$(if $(filter-out all install images op gpu-tests,$(MAKECMDGOALS)),,all)))
endif
export ARCHS
archs := $(if $(cuda_h),$(patsubst sm_%,%,$(patsubst all,80 90 100 ptx,$(ARCHS))))
wrong_archs := $(shell printf '%s\n' $(archs) | grep -vxE '(ptx|[0-9]{2,3}[af]?)?')
$(if $(wrong_archs),$(error ARCHS is '$(ARCHS)', expected all, ptx, or numbers such as 80 and 90))
# In nvcc's words. A program without images has no cuda backend.
targets := $(foreach a,$(archs),$(if $(filter ptx,$(a)),compute_80,sm_$(a)))
folders := config pci pci/topo nvme nvme/soft cache cache/store gpu gpu/worker gpu/ops gpu/tap \
	gpu/remote gpu/host gpu/$(if $(targets),,no)cuda \
	$(addprefix boot/,engine ranks appliance cmd $(addprefix cmd/,bench post report store topo))
# The files of boot that fuzz targets are linked with; the others are not compiled for fuzzing.
fuzz_boot := $(wildcard $(addprefix boot/appliance/,credentials.c feed_*.c message.c retry.c socket.c \
	tap_*.c) $(addprefix boot/engine/,counters_clients.c devices.c names.c pass.c run.c run_*.c \
	sets.c))
# A static build loads no libraries at run time: NAME_static.c replaces NAME.c.
loaders := gpu/window_gdr gpu/remote/verbs gpu/ops/user_open nvme/tree pci/nvml boot/ranks/plugin
srcs := $(filter-out boot/main.c \
	$(if $(STATIC),$(loaders:%=%.c),$(loaders:%=%_static.c)) $(if $(FUZZ),boot/%),\
	$(wildcard $(folders:%=%/*.c))) $(if $(FUZZ),$(fuzz_boot))
# The first ones take longest to compile.
images := $(addprefix worker,_objects _objects_wide) worker \
	$(addprefix worker,_user _access _roles _tools)
objs := $(srcs:%.c=$(objects)/%.o) $(if $(targets),$(images:%=$(objects)/gpu/images/%.o))
# Files that are compiled only when nvcc and cuda.h are there.
cuda_only := gpu/cuda/% tests/unit/gpu/cuda/% tests/fakes/cuda% tests/gpu/%
usable = $(if $(cuda_h),$(1),$(filter-out $(cuda_only),$(1)))

tap_library := $(B)/libheadrace-tap.so.0
# The plugin of `headrace run --mpi`, when there is a compiler for it.
MPICC ?= $(shell command -v mpicc 2>/dev/null)
mpi_plugin := $(if $(STATIC)$(FUZZ),,$(if $(MPICC),$(B)/headrace-mpi.so))
all: $(B)/headrace $(if $(STATIC)$(FUZZ),,$(tap_library)) $(mpi_plugin)
	$(if $(mpi_plugin)$(SAN)$(STATIC)$(FUZZ)$(filter command,$(origin MPICC)),@:,\
		@echo "note: no mpicc: built without headrace-mpi.so, which 'headrace run --mpi' loads")

# Like the client library of taps: libmpi only, and no sanitizer.
$(B)/headrace-mpi.so: boot/ranks/mpi/mpi.c boot/ranks/ranks.h Makefile
	$(call say,MPICC,$@)
	$(Q)mkdir -p $(@D) && $(MPICC) $(CFLAGS) $(filter-out -Werror -fsanitize%,$(cflags)) -fPIC \
		-shared -fvisibility=hidden -Wl$(comma)-z$(comma)defs -Wl,-z,now,-z,relro -o $@ $<

# The client library of taps, for other processes: libc only, and no sanitizer, also beside a
# program that has one.
tap_sources := $(wildcard gpu/tap/client/*.c)
tap_headers := $(addprefix gpu/tap/client/,tap.h feed.h)
tap_modules := $(wildcard gpu/tap/client/*.py)
$(tap_library): $(tap_sources) $(wildcard gpu/tap/client/*.h) gpu/tap/protocol.h \
	gpu/tap/feed_protocol.h Makefile
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

# Replaces the address sanitizer's search for pointers in static memory, which takes half of a start.
leaks := $(if $(findstring address,$(SAN)),$(if $(FUZZ),,$(objects)/tests/harness/leaks.o))

$(B)/headrace: $(objects)/boot/main.o $(leaks) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) $(if $(SAN),$(fixed)) -gz -o $@ $^ \
		$(libs_a) -lm -ldl
	$(if $(or $(targets),$(SAN)$(STATIC),$(filter command,$(origin NVCC))),,$(if $(default_archs),\
		@echo "note: built without the cuda backend (no $(if $(cuda_h),ARCHS,nvcc or cuda.h))"))

# q, not r: files of the same name in two folders are two members
$(B)/libheadrace.a: $(objs) $(B)/targets
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && ar qcs $@ $(objs)

# What the last build compiled images for: archives and images are made again after a change.
$(sort $(B)/targets $(base)/targets): anew
	$(Q)mkdir -p $(@D) && { echo '$(targets)' | cmp -s - $@ || echo '$(targets)' >$@; }

# For unit tests of the cuda backend in a build without images: they run over a driver in C.
cuda_objs := $(if $(targets),,$(patsubst %.c,$(objects)/%.o,$(if $(cuda_h),$(wildcard gpu/cuda/*.c))))
cuda_archive := $(if $(cuda_objs),$(B)/libheadrace-cuda.a)
$(cuda_archive): $(cuda_objs)
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && ar qcs $@ $^

$(objects)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && { $(CC) $(CFLAGS) $(cflags) -MMD -MP -c -o $@ $< 2>$@.warn; \
		status=$$?; cat $@.warn >&2; exit $$status; }

$(objects)/config/default.o: config/default.conf
$(objects)/boot/cmd/topo/page.o: boot/cmd/topo/page.css boot/cmd/topo/page.js

# These folders take little of the time of tests, and the compiler less time without optimisation.
$(objects)/boot/%.o $(objects)/config/%.o: cflags += $(if $(FUZZ),,$(if $(SAN),-O0))

# Operators on the host: loops over data, written to be vectorised.
$(objects)/gpu/ops/%.o: cflags += $(if $(SAN)$(FUZZ),,-O3) -DHR_OP_NAME=$(*F)

$(addprefix $(objects)/,gpu/cuda/%.o tests/unit/gpu/cuda/%.o tests/gpu/%.o tests/fakes/cuda.o \
	tests/fakes/cuda_calls.o): cflags += $(cuda_flags)

# ---- GPU images: the same worker sources, compiled as CUDA C++, and embedded

# worker (streams), worker_objects, worker_objects_wide and worker_tools have the entry points of
# launches; a user operator (make op) is linked with worker_user or, when it accesses objects, with
# worker_access; worker_roles reports the registers of each role.
image_at := $(base)/gpu/images
gpu_test_image := $(base)/tests/gpu/image
slow := $(addprefix $(image_at)/worker,_objects _objects_wide _user _access) $(image_at)/worker
cuda_bin := $(if $(targets),$(dir $(realpath $(shell command -v $(NVCC)))))
# Newer releases of nvcc can compress images more.
compress := $(if $(targets),$(if $(findstring compress-mode,$(shell $(NVCC) --help 2>&1)),\
	--compress-mode=size))
gencode := $(foreach t,$(targets),-gencode arch=$(t:sm_%=compute_%)$(comma)code=$(t))

# $(call image_rules,PATH,SOURCE,FLAGS OF NVCC,FLAGS OF FATBINARY): each architecture by itself, to PTX
# and then to machine code. PTX of compute_80 is for GPUs that are newer than these.
define image_rules
$(1).fatbin: $(patsubst compute_%,$(1).%.ptx,$(targets:sm_%=$(1).%.cubin)) $(base)/targets
	$$(call say,FATBIN,$$@)
	$$(Q)$(cuda_bin)fatbinary --create=$$@ -64 $(compress) $(4) \
		$(foreach a,$(patsubst sm_%,%,$(filter sm_%,$(targets))),\
		--image3=kind=elf$(comma)sm=$(a)$(comma)file=$(1).$(a).cubin) \
		$(foreach a,$(patsubst compute_%,%,$(filter compute_%,$(targets))),\
		--image3=kind=ptx$(comma)sm=$(a)$(comma)file=$(1).$(a).ptx)

$(1).%.ptx: $(2) Makefile
	$$(call say,NVCC,$$@$(if $(filter $(slow),$(1)), (about 10 s)))
	$$(Q)mkdir -p $$(@D) && $(NVCC) -std=c++17 -O3 $(3) -ptx -I. -MMD -MP -MF $$@.d \
		-arch=compute_$$* -o $$@ $$<

$(1).%.cubin: $(1).%.ptx
	$$(call say,PTXAS,$$@$(if $(filter $(slow),$(1)),$(if $(findstring objects,$(1)), \
		(about 30 s), (about 10 s))))
	$$(Q)$(NVCC) $(3) -cubin -arch=sm_$$* -o $$@ $$<
endef
of_relocatable = $(if $(filter worker_user worker_access,$(1)),$(2))
$(foreach i,$(images),$(eval $(call image_rules,$(image_at)/$(i),gpu/cuda/image$(i:worker%=%).cu,\
	$(call of_relocatable,$(i),-rdc=true),$(call of_relocatable,$(i),--device-c))))
$(eval $(call image_rules,$(gpu_test_image),tests/gpu/image.cu))

images: $(images:%=$(image_at)/%.fatbin)
	@:

embed = $(Q)mkdir -p $(@D) && $(CC) -DNAME=$(1) -DFILE='"$<"' -c -o $@ gpu/cuda/embed.S
$(images:%=$(objects)/gpu/images/%.o): $(objects)/gpu/images/%.o: $(image_at)/%.fatbin \
	gpu/cuda/embed.S Makefile
	$(call say,AS,$@)
	$(call embed,hr_$*_image)

$(objects)/tests/gpu/embed.o: $(gpu_test_image).fatbin gpu/cuda/embed.S Makefile
	$(call say,AS,$@)
	$(call embed,gpu_test_image)

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
	@echo "operator $<: $(if $(targets),for host and GPU ($(targets)),for the host backend only: \
	there is no $(if $(cuda_h),ARCHS,nvcc) to build its GPU part)"

# The host part. No symbol may stay undefined, except those that a sanitizer build takes from headrace.
op_build = mkdir -p $(@D) && $(CC) $(CFLAGS) -O3 $(filter-out -Werror,$(cflags)) -fPIC \
	-DHR_OP_ALONE -fvisibility=hidden -shared $(1) \
	$(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,now,-z,relro -o $@.new \
	-x c $< gpu/ops/args.c -lm && chmod go-w $@.new && mv $@.new $@

# The image for the shape of an operator: its source has HR_ACCESS_OPERATOR, or HR_OPERATOR.
op_image = $(image_at)/worker_$(if $(shell grep -ls HR_ACCESS_OPERATOR $(1)),access,user).fatbin

# $(call op_rules,PATH/NAME,SOURCE,PREREQUISITES). The GPU part is linked here as the driver
# links it, to find undefined and duplicate symbols now.
define op_rules
$(1).op: $(2) gpu/ops/args.c $(if $(targets),$(1).op.fatbin) $(3)
	$$(call say,CC,$$@)
	$$(Q)$$(call op_build,$(if $(targets),-DHR_OP_GPU_IMAGE='"$(1).op.fatbin"'))

$(1).op.fatbin: $(2) $(call op_image,$(2)) $(3)
	$$(call say,NVCC,$$@)
	$$(Q)mkdir -p $$(@D) && $(NVCC) -x cu -rdc=true -std=c++17 -O3 -fatbin -I. $(gencode) -o $$@ $$<
	$$(Q)for arch in $(filter sm_%,$(targets)); do \
		$(cuda_bin)nvlink --arch=$$$$arch -o $$@.cubin $$@ $(call op_image,$(2)) || \
		{ rm -f $$@; exit 1; }; done; rm -f $$@.cubin
endef

# Always rebuilt, because the includes of OP and its former build flags are unknown.
$(if $(OP),$(eval $(call op_rules,$(op_name),$(OP),anew)))

# ---- tests: a test that passes leaves NAME.ok; NAME.log is printed when it fails

# Replaces Criterion's runner, which fails under thread sanitizer, has no static library, and starts
# the program again for each test case, which takes longer than most cases.
runner := $(objects)/tests/harness/runner.o
# The runner notes which tests have threads.
runner_flags := -Wl,--wrap=pthread_create
# Fuzz targets use two of them.
fakes := $(filter-out $(runner) $(objects)/tests/harness/leaks.o,\
	$(patsubst %.c,$(objects)/%.o,$(if $(FUZZ),\
	tests/fakes/clock.c tests/fakes/log.c,\
	$(call usable,$(wildcard tests/fakes/*.c tests/harness/*.c)))))
unit_files := $(sort $(shell find tests/unit -name '*.c'))
units := $(patsubst %.c,$(B)/%,$(call usable,$(unit_files)))
clis := $(patsubst %.sh,$(B)/%.ok,$(wildcard tests/cli/*.sh))
fuzzers := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/*.c))
# Frames of functions that have returned are kept in 64 KiB for each size and thread: with the default
# of 1 MiB, clearing their pages takes a tenth of the time.
export ASAN_OPTIONS ?= detect_stack_use_after_return=1:max_uar_stack_size_log=16$\
	:strict_string_checks=1:handle_sigill=1
# The stack of the earlier access is missing in more reports: history_size=7 shows most of them.
export TSAN_OPTIONS ?= history_size=0

# $(call test,LIMIT_SECONDS,COMMAND)
test = timeout -k 5 $(1) $(2) >$(basename $@).log 2>&1 </dev/null && touch $@ || \
	{ status=$$?; cat $(basename $@).log; echo "FAILED ($$status): $(basename $@)"; exit 1; }

# The compiler takes a third of the time for tests that are not optimised, a tenth for those that
# contain worker code: the program is optimised. The address sanitizer is called, and not expanded.
$(units:$(B)/%=$(objects)/%.o): cflags += -O0 -g1 \
	$(if $(findstring address,$(SAN)),--param asan-instrumentation-with-call-threshold=0)

# Criterion's assertions, with less code.
$(addprefix $(objects)/tests/,unit/%.o gpu/%.o harness/%.o fakes/%.o): cflags += \
	-include tests/harness/asserts.h

# Half of the CPU time of the default linker, for hundreds of tests.
gold := $(if $(STATIC),,$(if $(shell command -v ld.gold 2>/dev/null),-fuse-ld=gold))

# At fixed addresses: half of the CPU time of the linker, and no relocations at each start, for which
# the program with sanitizers writes to 6 MB of its data.
fixed := $(if $(STATIC),,-no-pie)

# A test is linked with the fakes whose headers it includes, according to its dependency file.
used_fakes = $(filter $(patsubst %.h:,$(objects)/%.o,$(shell cat $(<:.o=.d))),$(fakes))

# Those of the cuda backend take it from the second archive when the first has none.
$(filter $(B)/tests/unit/gpu/cuda/%,$(units)): $(cuda_archive)
$(units): $(B)/%: $(objects)/%.o $(fakes) $(runner) $(leaks) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) $(gold) $(fixed) $(runner_flags) -o $@ $< \
		$(used_fakes) $(runner) $(leaks) \
		$(if $(filter %/fakes/cuda.o,$(used_fakes)),-Wl$(comma)-u$(comma)hr_cuda_open) \
		$(filter %-cuda.a,$^) $(B)/libheadrace.a $(libs_a) -lm -ldl

$(B)/tests/unit/gpu/worker/io_peers_faults: ldflags += -Wl,--wrap=hr_yield

# User operators for tests, at the path in the macro.
test_ops := $(patsubst %.c,$(objects)/%.op,$(wildcard tests/op/*.c))
op_tests := $(addprefix tests/unit/,gpu/ops/user gpu/worker/compute_lies config/operators \
	gpu/cuda/operators)
$(op_tests:%=$(objects)/%.o): cflags += -DTEST_OPS='"$(objects)/tests/op"'
$(op_tests:%=$(B)/%.ok): $(test_ops)
op_headers := $(wildcard nvme/worker*.h nvme/wait.h cache/*.h gpu/worker/*.h gpu/ops/*.h config/*.h) \
	Makefile
$(objects)/tests/op/%.op: tests/op/%.c gpu/ops/args.c $(op_headers)
	$(call say,CC,$<)
	$(Q)$(call op_build)

# Plugins of `headrace run --mpi` that tests load.
test_plugins := $(patsubst %.c,$(objects)/%.so,$(wildcard tests/plugins/*.c))
$(objects)/tests/unit/boot/ranks/plugin.o: cflags += -DTEST_PLUGINS='"$(objects)/tests/plugins"'
$(objects)/tests/unit/boot/ranks/mpi.o: cflags += -Itests/fakes/mpi
$(B)/tests/unit/boot/ranks/plugin.ok: $(test_plugins)
$(addprefix $(B)/tests/cli/,install.ok ranks.ok ranks_access.ok ranks_shards.ok): $(mpi_plugin)
$(test_plugins): $(objects)/%.so: %.c boot/ranks/ranks.h Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(filter-out -fsanitize%,$(cflags)) -fPIC -shared \
		-fvisibility=hidden -o $@ $<

# A libnvme that reads its tree from a file: a test of topo loads it.
fake_nvme := $(B)/tests/fakes/libnvme/libnvme.so.1
$(fake_nvme): tests/fakes/libnvme/libnvme.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(filter-out -fsanitize%,$(cflags)) -fPIC -shared -o $@ $<
$(filter $(B)/tests/cli/topo_disks%,$(clis)): $(fake_nvme)

# A libibverbs without a network device, in place of the machine's: tests of links load it.
fake_verbs := $(B)/tests/fakes/ibverbs/libibverbs.so.1
fake_verbs_sources := $(wildcard tests/fakes/ibverbs/*.c)
$(fake_verbs): $(fake_verbs_sources) $(wildcard tests/fakes/ibverbs/*.h) \
	tests/fakes/ibverbs/libibverbs.map Makefile
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(cflags) -fPIC -shared -o $@ $(fake_verbs_sources) \
		-Wl,-soname,libibverbs.so.1 -Wl,--version-script,tests/fakes/ibverbs/libibverbs.map
$(objects)/tests/harness/link_rig.o $(B)/tests/harness/link_rig.tidy: \
	cflags += -DTEST_IBVERBS='"$(abspath $(fake_verbs))"'
$(filter $(addprefix $(B)/tests/unit/,gpu/remote/% boot/engine/remote% boot/engine/no_malloc.ok),\
	$(units:%=%.ok)) $(filter $(B)/tests/cli/remote%,$(clis)): \
	$(fake_verbs)
$(B)/tests/cli/remote.ok: tests/demo/remote_example.sh $(wildcard config/examples/remote-*.conf)

# THREADS_OF=DIR: only the test cases that had threads in that build, according to their logs.
$(units:%=%.ok): %.ok: %
	$(call say,TEST,$<)
	$(Q)$(call test,900,$< --verbose \
		$(if $(THREADS_OF),--threads-of $(<:$(B)/%=$(THREADS_OF)/%).log))

examples := $(addprefix $(B)/tests/demo/,bfs gather join chase)
$(B)/tests/cli/examples.ok: $(examples) tests/demo/example.sh $(wildcard config/examples/*.conf)
$(patsubst %,$(B)/tests/cli/tap%.ok,_boot _clients _killed _share) $(B)/tests/cli/tap.ok: \
	$(tap_library) gpu/tap/client/headrace.py
$(B)/tests/cli/install.ok: $(tap_library) $(tap_headers) $(tap_modules) Makefile
$(B)/tests/cli/tap_examples.ok: $(tap_library) $(tap_examples) gpu/tap/client/headrace.py \
	gpu/tap/examples/tap_numpy.py tests/demo/tap_example.sh $(wildcard config/examples/tap-*.conf)
$(addprefix $(B)/tests/cli/feed,.ok _boot.ok _clients.ok _killed.ok _seen.ok): $(tap_library) \
	$(tap_examples) \
	$(wildcard gpu/tap/client/*.py config/examples/feed*.conf) tests/demo/feed_example.sh
$(B)/tests/cli/python_store.ok: $(wildcard gpu/tap/client/*.py)
$(B)/tests/cli/topo_pastes.ok: $(wildcard tests/cli/pastes/*/*)
$(B)/tests/cli/topo_examples.ok: $(wildcard pci/topo/examples/*) README.md pci/topo/README.md
$(clis): $(B)/%.ok: %.sh $(B)/headrace tests/scratch.sh $(wildcard tests/cli/lib/*.*)
	$(call say,TEST,$(<) ($(B)))
	$(Q)mkdir -p $(@D) && $(call test,900,env HEADRACE=$(abspath $(B)/headrace) \
		tests/scratch.sh $(abspath $(basename $@).tmp) bash $<)

# Tests that need a GPU: one program that runs on any machine with a driver and libc. It also contains
# the unit tests of pipelines and queues, which it runs on the GPU.
gpu_tests := $(B)/tests/gpu/gpu-tests
gpu_test_objs := $(patsubst %.c,$(objects)/%.o,$(wildcard tests/gpu/*.c)) $(objects)/tests/gpu/embed.o \
	$(patsubst %,$(objects)/tests/unit/%.o,nvme/queue nvme/queue_order \
	$(addprefix gpu/worker/,bench pipeline pipeline_faults)) \
	$(patsubst %,$(objects)/tests/%.o,fakes/clock fakes/peer \
	$(addprefix harness/,opcase qprun rig runner))
$(gpu_tests): $(gpu_test_objs) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) $(runner_flags) -o $@ $(gpu_test_objs) $(B)/libheadrace.a \
		$(libs_a) -lm -ldl

# Files for tests of the program on a GPU, with user operators that have a GPU part. Another machine
# needs only this folder and the scripts of tests/gpu.
gpu_test_ops := $(addprefix $(B)/tests/gpu/,histogram pick_sum liar)
$(eval $(call op_rules,$(B)/tests/gpu/histogram,gpu/ops/template/histogram.c,$(op_headers)))
$(eval $(call op_rules,$(B)/tests/gpu/pick_sum,gpu/ops/template/pick_sum.c,$(op_headers)))
$(eval $(call op_rules,$(B)/tests/gpu/liar,tests/op/liar.c,$(op_headers)))

$(B)/tests/gpu/headrace: $(B)/headrace
	$(Q)mkdir -p $(@D) && cp $< $@

$(B)/tests/gpu/libibverbs.so.1: $(fake_verbs)
	$(Q)mkdir -p $(@D) && cp $< $@

# Cost of a cache hit; a program of its own, with CUDA's runtime library.
cache_hits := $(B)/tests/gpu/cache-hits
$(cache_hits): tests/gpu/cache_hits.cu $(wildcard cache/*.h) nvme/worker_cuda.h Makefile
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D) && $(NVCC) -std=c++17 -O3 -I. $(gencode) -cudart static -o $@ $<

gpu-tests: $(if $(targets),$(gpu_tests) $(addprefix $(B)/tests/gpu/,headrace libibverbs.so.1) \
	$(gpu_test_ops:%=%.op) $(cache_hits))
	$(if $(targets),@:,@echo "gpu-tests: needs nvcc and cuda.h" >&2; exit 3)

check-gpu: gpu-tests
	$(Q)tests/gpu/run.sh $(gpu_tests)

# Programs of the demo and the bench.
tools := $(patsubst %.c,$(B)/%,$(wildcard tests/demo/*.c tests/bench/*.c tests/lab/*.c))
$(addprefix $(B)/tests/bench/,tap_consumer tap_times): $(tap_library)
$(addprefix $(B)/tests/bench/,tap_consumer tap_times): ldflags += -Wl,-rpath,'$$ORIGIN/../..'
$(B)/tests/lab/link_drive: ldflags += -Wl,--wrap=hr_life_step
$(tools): $(B)/%: $(objects)/%.o $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) -o $@ $^ $(libs_a) -lm -ldl

# Whole appliances by seed: one program, with the program's main and all of its library; the
# simulation's seam takes the place of that of Linux.
sim := $(B)/tests/sim/sim
sim_objs := $(patsubst %.c,$(objects)/%.o,$(wildcard tests/sim/*.c) $(tap_sources)) \
	$(objects)/tests/sim/headrace.o
$(objects)/tests/sim/headrace.o: boot/main.c Makefile
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(cflags) -Dmain=headrace_main -Wno-missing-prototypes \
		-c -o $@ $<
$(sim): $(sim_objs) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) \
		$(addprefix -Wl$(comma)--wrap=,recv send read poll ppoll clock_gettime) \
		-o $@ $(sim_objs) $(B)/libheadrace.a $(libs_a) -lm -ldl

$(sim).ok: $(sim)
	$(call say,TEST,tests/sim)
	$(Q)$(call test,1800,tests/scratch.sh $(abspath $(basename $@).tmp) sh -c \
		'$(sim) --tap --seeds $(SEEDS) --jobs 2 --folder "$$SCRATCH/world"')

# The lab (variant STATIC=1): guests run the static binary and static builds of some unit tests; those
# that load libraries run the dynamic binary, which check and check-lab build before.
lab := $(B)/tests/lab/lab
lab_files := $(wildcard tests/lab/*.* tests/lab/guest/* tests/lab/scenarios/* boot/image/*.py)
lab_tests := $(addprefix $(B)/tests/unit/,$(sort $(shell sed -n 's/^\#: tests //p' \
	tests/lab/scenarios/*.sh)))

lab_programs := $(patsubst %.c,$(B)/%,$(wildcard tests/lab/*.c))

lab-tools: $(B)/headrace $(lab_tests) $(lab_programs)
	@:

# Programs of the dynamic variant for guests that load libraries.
lab-dynamic: $(B)/headrace $(B)/tests/lab/link_drive
	@:

$(lab).ok: $(B)/headrace $(wildcard $(base)/headrace) $(lab_tests) $(lab_programs) $(lab_files)
	$(call say,LAB,emulated machines)
	$(Q)mkdir -p $(@D) && $(call test,1200,tests/lab/run.py --jobs $$(($$(nproc) + 1)) \
		--build $(B) --dynamic $(base) --cache $(base)/lab)

# Models of protocols, checked by spin.
models := $(B)/tests/model/model
$(models).ok: tests/model/model.sh $(wildcard tests/model/*.pml)
	$(call say,TEST,$<)
	$(Q)mkdir -p $(@D) && $(call test,600,tests/scratch.sh $(abspath $(models).tmp) bash $<)

check-models: $(models).ok
	@:

model:
	$(Q)tests/deps.sh build check model
	$(Q)rm -f $(models).ok
	$(Q)+$(again) check-models
	$(Q)cat $(models).log

lab-run: $(lab).ok
	@:

tools: $(tools)
	@:
check-unit: $(units:%=%.ok)
	@:
check-cli: $(clis)
	@:

# ---- targets for users: each calls make again, in parallel, once per variant

# The tests that take more than about 10 s begin first, so that no variant ends with one of them.
long := $(addprefix tests/cli/,ranks_shards ranks_access boot_engine boot remote_refused \
	remote_boot control ranks gpus remote_bench schedule vanish feed_killed parallel faults \
	checksums interrupt remote run remote_broken tap_killed killed store feed access) \
	$(addprefix tests/unit/,gpu/worker/io_peers_faults gpu/worker/pipeline_faults \
	gpu/worker/bench_steered boot/ranks/merge gpu/worker/io_writes gpu/worker/pipeline \
	gpu/worker/pipeline_writes boot/engine/checksums gpu/worker/io boot/appliance/supervise \
	boot/engine/stages nvme/driver_soft \
	gpu/worker/io_peers_stress gpu/tap/many)
longest_first = $(foreach name,$(long),$(filter $(name),$(1))) $(filter-out $(long),$(1))
all_names := $(call longest_first,\
	$(basename $(call usable,$(unit_files) $(wildcard tests/cli/*.sh))))
# Each script of the command line runs in one build. In the plain build: those whose time is that of
# many processes or engines that move data. With the address sanitizer: the others, which are about
# the ends of commands, bad input, signals and clients.
plain_scripts := $(addprefix tests/cli/,access checksums examples feed_killed gpus image install \
	killed linkage memory parallel ranks ranks_access ranks_shards remote remote_bench remote_boot \
	run service tap_examples)
# All unit tests run with the address sanitizer, and those with threads again with the thread
# sanitizer. In the plain build run those of operators, which are optimised for vectors; those with 64
# lanes, with which sanitizers find nothing that they do not find with 32; and those that access pages
# where they are: with the address sanitizer they access copies, with the other one staging memory.
in_place := $(addprefix tests/unit/,cache/objects cache/objects_end cache/objects_lanes \
	$(addprefix gpu/worker/,io io_peers_script io_peers_stress io_writes))
address_names := $(filter-out %lanes_64 $(plain_scripts),$(all_names))
plain_names := $(filter $(plain_scripts) %lanes_64 tests/unit/gpu/ops/% $(in_place),$(all_names))
fuzz_names := $(basename $(wildcard tests/fuzz/*.c))
with_lab := $(if $(filter 0,$(LAB)),,lab)

deps:
	$(Q)tests/deps.sh build check model lab image lint

# What demo, example and check begin with.
no_device = $(if $(device),,$(if $(default_archs),\
	@echo "note: no NVIDIA device: built without nvcc and the cuda backend"))

check:
	$(no_device)
	$(Q)tests/deps.sh build check $(if $(with_lab),lab image)
	$(Q)tests/deps.sh model || echo "note: without spin the models are not checked"
	$(Q)+failed=0; \
	$(if $(targets),$(again) SAN= images || failed=1;) \
	$(again) check-sanitizers check-plain || failed=1; \
	$(if $(with_lab),$(again) STATIC=1 lab-run || failed=1;) \
	tests/summary.sh $(address_names:%=$(base)-address-undefined/%) \
		$(plain_names:%=$(base)/%) $(base)/tests/sim/sim $(models) \
		$$(printf '$(base)-thread/%s ' $(threads)) \
		$(fuzz_names:%=$(base)-fuzz-quick/%) $(if $(with_lab),$(base)-static/tests/lab/lab) || \
		failed=1; \
	exit $$failed

# The variants of check but the lab, in two rows that run at the same time and share the jobs: so the
# last tests of a variant run beside another variant, and tests, which wait, beside the compiler.
threads = $$(tests/threads.sh $(base)-address-undefined $(filter tests/unit/%,$(address_names)))
check-sanitizers:
	$(Q)+failed=0; \
	$(again) SAN=address,undefined \
		$(address_names:%=$(base)-address-undefined/%.ok) || failed=1; \
	$(again) SAN=thread THREADS_OF=$(base)-address-undefined \
		$$(printf '$(base)-thread/%s.ok ' $(threads)) || failed=1; \
	exit $$failed

check-plain:
	$(Q)+failed=0; \
	$(again) SAN= all $(if $(with_lab),lab-dynamic) check-models \
		$(base)/tests/sim/sim.ok $(plain_names:%=$(base)/%.ok) || failed=1; \
	$(again) FUZZ=quick FUZZ_SECONDS=3 fuzz-run || failed=1; \
	exit $$failed

sim:
	$(Q)tests/deps.sh build
	$(Q)+$(again) SAN= $(base)/tests/sim/sim
	$(Q)$(base)/tests/sim/sim $(if $(SEED),--seed $(SEED) --keep,--seeds $(SEEDS))

check-lab:
	$(Q)tests/deps.sh build lab image
	$(Q)rm -f $(base)-static/tests/lab/lab.ok
	$(Q)+$(again) SAN= lab-dynamic
	$(Q)+$(again) STATIC=1 lab-run
	$(Q)cat $(base)-static/tests/lab/lab.log

fuzz:
	$(Q)tests/deps.sh build check
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
	$(Q)tests/deps.sh build check
	$(Q)tests/mutate/mutate.py --build $(base) -n $(N) --seed "$(SEED)" $(FILES)

plot:
	$(Q)test -n "$(REPORT)" || { echo "plot: REPORT=FILE names a report" >&2; exit 2; }
	$(Q)tests/deps.sh plot
	$(Q)tests/bench/plot.py "$(REPORT)" tests/bench

# CONFIG becomes /etc/headrace.conf; KERNEL: a vmlinuz of this machine in place of Debian's;
# EXTRA: a folder that is added to the initramfs; APPEND: more kernel parameters.
image:
	$(Q)test -n "$(CONFIG)" || { echo "image: CONFIG=FILE names the configuration" >&2; exit 2; }
	$(Q)tests/deps.sh build image
	$(Q)+$(again) SAN= STATIC=1 all
	$(Q)mkdir -p $(base)/image && boot/image/build.py \
		--binary $(base)-static/headrace --config "$(CONFIG)" --out $(base)/image \
		--kernel "$(KERNEL)" --extra "$(EXTRA)" --append "$(APPEND)"

# The module finds the library from its own place, the linker by pkg-config, or -lheadrace-tap. Debian's
# python3 searches lib/python3/dist-packages below /usr, and lib/python3.X/dist-packages below
# /usr/local. Documents keep the folders of the tree, so their links work.
PREFIX ?= /usr/local
python := $(firstword $(wildcard /usr/bin/python3) python3)
python_version = $(shell $(python) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python_dir ?= $(PREFIX)/lib/python$(if $(filter /usr,$(PREFIX)),3,$(python_version))/dist-packages
unit_dir ?= $(PREFIX)/lib/systemd/system
doc_dir ?= $(PREFIX)/share/doc/headrace
documents := README.md LICENSE $(wildcard $(addsuffix .md,boot/*/* cache/* cache/*/* gpu/*/* nvme/* \
	nvme/*/* pci/*/* tests/bench/*) boot/*.svg pci/topo/*.svg tests/bench/*.svg config/*.conf \
	config/examples/*.conf pci/topo/examples/* boot/appliance/headrace.service)
installed = $(PREFIX)/bin/headrace $(addprefix $(PREFIX)/lib/,$(notdir $(tap_library)) \
	libheadrace-tap.so headrace/headrace-mpi.so pkgconfig/headrace-tap.pc) \
	$(addprefix $(PREFIX)/include/headrace/,$(notdir $(tap_headers))) \
	$(addprefix $(python_dir)/,$(notdir $(tap_modules))) $(unit_dir)/headrace.service \
	$(addprefix $(doc_dir)/,$(documents))
to := $(DESTDIR)$(PREFIX)
install: all
	$(Q)$(MAKE) --no-print-directory install-files

# Only what is built.
install-files:
	$(call say,INSTALL,$(to))
	$(Q)install -D -m 755 $(B)/headrace $(to)/bin/headrace
	$(if $(STATIC),,$(Q)install -D -m 644 $(tap_library) $(to)/lib/$(notdir $(tap_library)))
	$(if $(STATIC),,$(Q)ln -sf $(notdir $(tap_library)) $(to)/lib/libheadrace-tap.so)
	$(if $(wildcard $(mpi_plugin)),$(Q)install -D -m 644 -t $(to)/lib/headrace $(mpi_plugin))
	$(Q)install -D -m 644 -t $(to)/include/headrace $(tap_headers)
	$(Q)install -D -m 644 -t $(DESTDIR)$(python_dir) $(tap_modules)
	$(Q)mkdir -p $(to)/lib/pkgconfig && sed 's|@PREFIX@|$(PREFIX)|' \
		gpu/tap/client/headrace-tap.pc.in >$(to)/lib/pkgconfig/headrace-tap.pc
	$(Q)mkdir -p $(DESTDIR)$(unit_dir) && sed 's|/usr/local/bin|$(PREFIX)/bin|' \
		boot/appliance/headrace.service >$(DESTDIR)$(unit_dir)/headrace.service
	$(Q)for file in $(documents); do \
		install -D -m 644 $$file $(DESTDIR)$(doc_dir)/$$file || exit 1; done

# The files of install, what Python has compiled of the modules, and folders that only headrace has.
uninstall:
	$(call say,REMOVE,$(to))
	$(Q)rm -f $(addprefix $(DESTDIR),$(installed)) \
		$(patsubst %.py,$(DESTDIR)$(python_dir)/__pycache__/%.*.pyc,$(notdir $(tap_modules)))
	$(Q)for folder in $(DESTDIR)$(doc_dir) $(to)/include/headrace $(to)/lib/headrace; do \
		[ ! -d $$folder ] || find $$folder -depth -type d -empty -delete || exit 1; done

clean:
	rm -rf $(base) $(addprefix $(base)-,address-undefined thread fuzz fuzz-quick lint static)

# ---- fuzzing (FUZZ=1 or quick): new inputs are kept in the build folder, seeds come from the tree

$(fuzzers): $(B)/%: $(B)/%.o $(fakes) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ldflags) -fsanitize=fuzzer -o $@ $< \
		$(filter $(objects)/gpu/tap/client/%.o,$^) $(used_fakes) $(B)/libheadrace.a \
		$(libs_a) -lm -ldl

# The client library is not a part of the program.
$(B)/tests/fuzz/tap_client $(B)/tests/fuzz/feed_client: $(tap_sources:%.c=$(objects)/%.o)

$(fuzzers:%=%.ok): $(B)/%.ok: $(B)/%
	$(call say,FUZZ,$* ($(FUZZ_SECONDS) s))
	$(Q)mkdir -p $<.corpus && $(call test,$$(($(FUZZ_SECONDS) + 120)),$< -timeout=20 \
		-max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=$<- \
		$<.corpus $(wildcard tests/fuzz/corpus/$(*F)))

fuzz-run: $(fuzzers:%=%.ok)
	@:

# ---- lint, in a build folder of its own except the compiler's warnings; each part is a target

c_files := $(shell find * -name '*.c' ! -path 'build*')
# Not the plugin of MPI, whose header may be missing.
tidy_files := $(call usable,$(filter-out tests/unit/% tests/gpu/% tests/fuzz/% boot/ranks/mpi/%,\
	$(c_files)))
headers := $(shell find * -name '*.h' ! -path 'build*')

# The analyzer ends a function after max-nodes states: a quarter of its default takes a third of the
# time.
analyzer := -Xclang -analyzer-config -Xclang max-nodes=50000
$(B)/%.tidy: %.c .clang-tidy $(headers)
	$(call say,TIDY,$<)
	$(Q)mkdir -p $(@D) && clang-tidy --quiet $< -- $(filter-out -Wno-tsan,$(cflags)) \
		$(cuda_flags) $(analyzer) 2>$@.log && touch $@

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

# Each object has a file of the compiler's warnings. The objects are those that check builds.
warned := $(srcs:%.c=$(B)/%.o) $(cuda_objs) $(B)/boot/main.o $(units:%=%.o) $(tools:%=%.o) \
	$(tap_examples:%=%.o) $(fakes)
lint-warnings: $(B)/headrace $(cuda_objs) $(units:%=%.o) $(fakes) $(tools) $(tap_examples)
	$(call say,LINT,warnings of the compiler)
	$(Q)! cat $(warned:%=%.warn) | grep .

lint-run: lint-format lint-cppcheck lint-shell $(lint_scripts) \
	$(tidy_files:%.c=$(B)/%.tidy)

.SECONDARY:
.PHONY: all install install-files uninstall op anew images tools gpu-tests check-gpu deps check \
	check-sanitizers check-plain \
	check-unit check-cli check-models model sim check-lab lab-tools lab-dynamic lab-run demo \
	example mutate bench \
	bench-lab plot image fuzz fuzz-run lint lint-run lint-warnings lint-format lint-cppcheck \
	lint-shell $(lint_scripts) clean

-include $(shell find $(sort $(objects) $(image_at) $(dir $(gpu_test_image))) -name '*.d' 2>/dev/null)
