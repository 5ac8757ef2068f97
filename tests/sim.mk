# SPDX-License-Identifier: Apache-2.0
# tests/sim.mk - the simulation and the models.

# Builds with a sanitizer, which take ten times as long, run seeds that the plain build does not run.
SEEDS ?= $(if $(SAN),20,300)
FIRST ?= $(if $(SAN),1001,1)

# Whole appliances by seed: one program, with the program's main and all of its library; the
# simulation's seam takes the place of that of Linux. After sim_signs, a descriptor may be ready.
sim := $(B)/tests/sim/sim
sim_signs := write close shutdown connect accept4 sendto sendmsg recvmsg timerfd_settime
sim_objs := $(patsubst %.c,$(objects)/%.o,$(wildcard tests/sim/*.c) $(tap_sources)) \
	$(objects)/tests/sim/headrace.o
$(objects)/tests/sim/headrace.o: boot/main.c program.mk tests/sim.mk
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(cflags) -Dmain=headrace_main -Wno-missing-prototypes \
		-c -o $@ $<
$(sim): $(sim_objs) $(B)/libheadrace.a $(B)/tests/fakes/ibverbs/libibverbs.so.1
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) \
		$(addprefix -Wl$(comma)--wrap=,recv send read poll ppoll clock_gettime $(sim_signs)) \
		-o $@ $(sim_objs) $(B)/libheadrace.a $(libs_a) -lm -ldl

$(sim).ok: $(sim)
	$(call say,TEST,tests/sim)
	$(Q)$(call test,1800,tests/scratch.sh $(abspath $(basename $@).tmp) sh -c \
		'$(sim) --tap --first $(FIRST) --seeds $(SEEDS) --jobs 2 --folder "$$SCRATCH/world"')

# Models of protocols, checked by spin.
models := $(B)/tests/model/model
$(models).ok: tests/model/model.sh $(wildcard tests/model/*.pml)
	$(call say,TEST,$<)
	$(Q)mkdir -p $(@D) && $(call test,600,tests/scratch.sh $(abspath $(models).tmp) bash $<)

.PHONY: check-models
check-models: $(models).ok
	@:
