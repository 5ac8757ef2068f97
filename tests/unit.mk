# SPDX-License-Identifier: Apache-2.0
# tests/unit.mk - unit tests with their fakes; how a test runs.
# A test that passes leaves NAME.ok; NAME.log is printed when it fails.

# Replaces Criterion's runner, which fails under thread sanitizer, has no static library, and starts
# the program again for each test case, which takes longer than most cases.
runner := $(objects)/tests/harness/runner.o
# The runner notes which tests have threads.
runner_flags := -Wl,--wrap=pthread_create
# Fuzz targets use two of them.
fakes := $(filter-out $(runner) \
	$(objects)/tests/harness/replay.o,\
	$(patsubst %.c,$(objects)/%.o,$(if $(FUZZ),\
	tests/fakes/clock.c tests/fakes/log.c,\
	$(call usable,$(wildcard tests/fakes/*.c tests/harness/*.c)))))
unit_files := $(sort $(shell find tests/unit -name '*.c'))
# Each test can be a program of its own, NAME. The tests of a part of the product share the program
# PART/tests, but those that cannot (tests/alone.sh). A part is a folder with the folders in it; of
# gpu/tap and boot/cmd each folder is one.
units := $(patsubst %.c,$(B)/%,$(call usable,$(unit_files)))
alone := $(filter $(units),$(patsubst %.c,$(B)/%,$(shell tests/alone.sh)))
shared := $(filter-out $(alone),$(units))
empty :=
depth_of = $(if $(filter boot/cmd/% gpu/tap/%,$(1)),3,2)
part_of = $(B)/tests/unit/$(subst $(empty) ,/,$(wordlist 1,$(depth_of),$(subst /, ,$(dir $(1)))))/
part_of_test = $(call part_of,$(patsubst $(B)/tests/unit/%,%,$(1)))
folder_tests := $(addsuffix tests,$(sort $(foreach u,$(shared),$(call part_of_test,$(u)))))
$(foreach u,$(shared),$(eval of_$(call part_of_test,$(u)) += $(u:$(B)/%=$(objects)/%.o)))

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
$(units:$(B)/%=$(objects)/%.o) $(fakes) $(runner): tests/unit.mk
$(units:$(B)/%=$(objects)/%.o): cflags += -O0 -g1 \
	$(if $(findstring address,$(SAN)),--param asan-instrumentation-with-call-threshold=0)

# Criterion's assertions, with less code: the compiler takes two thirds of the time.
$(addprefix $(objects)/tests/,unit/%.o gpu/%.o harness/%.o fakes/%.o): cflags += \
	-include tests/harness/asserts.h

# A test is linked with the fakes whose headers it includes, according to its dependency file.
of_test = $(filter $(objects)/tests/unit/% $(objects)/tests/fuzz/%,$^)
used_fakes = $(filter $(patsubst %.h:,$(objects)/%.o,$(shell cat $(of_test:.o=.d))),$(fakes))

# The functions of the seam are weak: a fake or a test that has one takes its place.
seam := $(patsubst %,$(objects)/tests/seam/%.o,$(addprefix config/base/,seam_linux clock) \
	nvme/transport/vfio_calls)
$(seam): $(objects)/tests/seam/%.o: $(objects)/%.o
	$(Q)mkdir -p $(@D) && objcopy $$(nm -g --defined-only $< | \
		sed 's/.* /--weaken-symbol=/') $< $@

# Those of the cuda backend take it from the second archive when the first has none.
$(filter $(B)/tests/unit/gpu/cuda/%,$(units) $(folder_tests)): $(cuda_archive)
$(units): $(B)/%: $(objects)/%.o
$(foreach f,$(folder_tests),$(eval $(f): $(of_$(dir $(f)))))
$(units) $(folder_tests): $(fakes) $(runner) $(seam) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) $(runner_flags) -o $@ \
		$(of_test) $(used_fakes) $(runner) $(seam) \
		$(if $(filter %/fakes/cuda.o,$(used_fakes)),-Wl$(comma)-u$(comma)hr_cuda_open) \
		$(filter $(objects)/gpu/tap/client/%.o %-cuda.a,$^) $(B)/libheadrace.a $(libs_a) \
		-lm -ldl

# The client library is not a part of the program.
$(filter $(B)/tests/unit/gpu/tap/client/%,$(units) $(folder_tests)): $(tap_sources:%.c=$(objects)/%.o)

# User operators for tests, at the path in the macro.
test_ops := $(patsubst %.c,$(objects)/%.op,$(wildcard tests/op/*.c))
op_tests := $(addprefix tests/unit/,gpu/ops/user gpu/worker/compute_lies config/file/operators \
	gpu/cuda/operators)
$(op_tests:%=$(objects)/%.o) $(objects)/tests/harness/access_rig.o \
	$(B)/tests/harness/access_rig.tidy: cflags += \
	-DTEST_OPS='"$(objects)/tests/op"'
$(op_tests:%=$(B)/%.ok) $(filter $(B)/tests/unit/gpu/worker/io/%,$(units:%=%.ok)): $(test_ops)
op_headers := $(wildcard nvme/queue/*.h cache/*.h cache/objects/*.h gpu/worker/*.h gpu/worker/io/*.h \
	gpu/ops/*.h config/*.h config/base/*.h) \
	program.mk gpu/ops/op.mk
$(objects)/tests/op/%.op: tests/op/%.c gpu/ops/args.c $(op_headers) $(wildcard tests/op/*.h)
	$(call say,CC,$<)
	$(Q)$(call op_build)

# Plugins of `headrace run --mpi` that tests load.
test_plugins := $(patsubst %.c,$(objects)/%.so,$(wildcard tests/plugins/*.c))
$(objects)/tests/unit/boot/ranks/plugin.o: cflags += -DTEST_PLUGINS='"$(objects)/tests/plugins"'
$(objects)/boot/ranks/plugin_mpi.o: cflags += -Itests/fakes/mpi
$(B)/tests/unit/boot/ranks/plugin_mpi: $(objects)/boot/ranks/plugin_mpi.o
$(B)/tests/unit/boot/ranks/plugin_mpi: ldflags += $(objects)/boot/ranks/plugin_mpi.o
$(B)/tests/unit/boot/ranks/plugin.ok: $(test_plugins)

$(test_plugins): $(objects)/%.so: %.c boot/ranks/ranks.h program.mk tests/unit.mk
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(filter-out -fsanitize%,$(cflags)) -fPIC -shared \
		-fvisibility=hidden -o $@ $<

# A libnvme that reads its tree from a file: a test of topo loads it.
fake_nvme := $(B)/tests/fakes/libnvme/libnvme.so.1
$(fake_nvme): tests/fakes/libnvme/libnvme.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(filter-out -fsanitize%,$(cflags)) -fPIC -shared -o $@ $<

# A libcuda without a GPU: a test of the client library loads it.
fake_cuda := $(B)/tests/fakes/libcuda/libcuda.so.1
$(fake_cuda): tests/fakes/libcuda/libcuda.c tests/fakes/libcuda/control.h tests/unit.mk
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(filter-out -fsanitize% -Wmissing-prototypes,$(cflags)) \
		-fPIC -shared -Wl,-soname,libcuda.so.1 -o $@ $<
$(objects)/tests/unit/gpu/tap/client/cuda.o $(B)/tests/unit/gpu/tap/client/cuda.tidy: \
	cflags += -DTEST_LIBCUDA='"$(abspath $(fake_cuda))"'
$(addprefix $(B)/tests/unit/gpu/tap/client/,cuda.ok tests.ok): $(fake_cuda)

# A libibverbs without a network device, in place of the machine's: tests of links load it.
fake_verbs := $(B)/tests/fakes/ibverbs/libibverbs.so.1
fake_verbs_sources := $(wildcard tests/fakes/ibverbs/*.c)
$(fake_verbs): $(fake_verbs_sources) $(wildcard tests/fakes/ibverbs/*.h) \
	tests/fakes/ibverbs/libibverbs.map program.mk tests/unit.mk
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(cflags) -fPIC -shared -o $@ $(fake_verbs_sources) \
		-Wl,-soname,libibverbs.so.1 -Wl,--version-script,tests/fakes/ibverbs/libibverbs.map

$(objects)/tests/harness/link_rig.o $(B)/tests/harness/link_rig.tidy: \
	cflags += -DTEST_IBVERBS='"$(abspath $(fake_verbs))"'
$(filter $(addprefix $(B)/tests/unit/boot/,remote/% engine/remote/% engine/runner/no_malloc.ok),\
	$(units:%=%.ok)): $(fake_verbs)

# What tests of a folder need.
$(folder_tests:%=%.ok): $(test_ops) $(test_plugins) $(fake_verbs)
$(B)/tests/unit/boot/cmd/topo/cases.ok: $(wildcard tests/unit/boot/cmd/topo/cases/*)

# THREADS_OF=DIR: only the test cases that had threads in that build, according to their logs.
$(units:%=%.ok) $(folder_tests:%=%.ok): %.ok: %
	$(call say,TEST,$<)
	$(Q)$(call test,900,$< --verbose $(if $(filter %/tests,$<),--jobs 2) \
		$(if $(THREADS_OF),--threads-of $(<:$(B)/%=$(THREADS_OF)/%).log))

.PHONY: check-unit
check-unit: $(alone:%=%.ok) $(folder_tests:%=%.ok)
	@:
