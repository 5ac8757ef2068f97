# SPDX-License-Identifier: Apache-2.0
# tests/cli.mk - the command line, and the programs of its tests, the demo and the bench.

clis := $(patsubst %.sh,$(B)/%.ok,$(wildcard tests/cli/*.sh))

# Programs of the demo and the bench.
tools := $(patsubst %.c,$(B)/%,$(wildcard tests/demo/*.c tests/bench/*.c tests/lab/*.c))
$(addprefix $(B)/tests/bench/,tap_consumer tap_times): $(tap_library)
$(addprefix $(B)/tests/bench/,tap_consumer tap_times): ldflags += -Wl,-rpath,'$$ORIGIN/../..'
$(B)/tests/lab/link_drive: ldflags += -Wl,--wrap=hr_link_advance
$(tools): $(B)/%: $(objects)/%.o $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) -o $@ $^ $(libs_a) -lm -ldl

$(addprefix $(B)/tests/cli/,install.ok ranks.ok ranks_access.ok ranks_shards.ok): $(mpi_plugin)
$(filter $(B)/tests/cli/topo_disks%,$(clis)): $(fake_nvme)
$(filter $(B)/tests/cli/remote%,$(clis)): $(fake_verbs)
$(B)/tests/cli/remote.ok: tests/demo/remote_example.sh $(wildcard config/examples/remote-*.conf) \
	$(tap_examples)

examples := $(addprefix $(B)/tests/demo/,bfs gather join chase)
$(B)/tests/cli/examples.ok: $(examples) tests/demo/example.sh $(wildcard config/examples/*.conf)
$(patsubst %,$(B)/tests/cli/tap%.ok,_boot _clients _killed _share) $(B)/tests/cli/tap.ok: \
	$(tap_library) gpu/tap/client/headrace.py
$(B)/tests/cli/install.ok: $(tap_library) $(tap_headers) $(tap_modules) boot/install.mk
$(B)/tests/cli/tap_examples.ok: $(tap_library) $(tap_examples) gpu/tap/client/headrace.py \
	gpu/tap/examples/tap_numpy.py tests/demo/tap_example.sh $(wildcard config/examples/tap-*.conf)
$(addprefix $(B)/tests/cli/feed,.ok _boot.ok _clients.ok _killed.ok _seen.ok): $(tap_library) \
	$(tap_examples) \
	$(wildcard gpu/tap/client/*.py config/examples/feed*.conf) tests/demo/feed_example.sh
$(B)/tests/cli/python_store.ok: $(tap_library) $(wildcard gpu/tap/client/*.py)
$(B)/tests/cli/topo_pastes.ok: $(wildcard tests/cli/pastes/*/*)
$(B)/tests/cli/topo_examples.ok: $(wildcard pci/topo/examples/*) README.md pci/topo/README.md
$(clis): $(B)/%.ok: %.sh $(B)/headrace tests/scratch.sh $(wildcard tests/cli/lib/*.*)
	$(call say,TEST,$(<) ($(B)))
	$(Q)mkdir -p $(@D) && $(call test,900,env HEADRACE=$(abspath $(B)/headrace) \
		tests/scratch.sh $(abspath $(basename $@).tmp) bash $<)

.PHONY: tools check-cli
tools: $(tools)
	@:

check-cli: $(clis)
	@:
