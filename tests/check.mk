# SPDX-License-Identifier: Apache-2.0
# tests/check.mk - what make check and make check-all run, by variant.

# The longest first: a folder of unit tests, a script, a file of unit tests.
all_names := $(folder_tests:$(B)/%=%) $(basename $(call usable,$(wildcard tests/cli/*.sh))) \
	$(alone:$(B)/%=%)
# With the address sanitizer run the scripts that are about the ends of commands, bad input, signals and
# clients, and not those whose time is that of many processes or engines that move data.
plain_scripts := $(addprefix tests/cli/,access checksums examples feed_killed gpus image install \
	killed linkage memory parallel ranks ranks_access ranks_shards remote remote_bench remote_boot \
	run service tap_examples)
# Sanitizers find nothing in unit tests with 64 lanes that they do not find with 32. The cases of topo
# are 1,500 commands; the same readers see hostile texts in tests/cli/pastes and the fuzz targets.
address_names := $(filter-out %lanes_64 tests/unit/boot/cmd/topo/cases $(plain_scripts),\
	$(all_names)) tests/sim/sim
fuzz_names := $(basename $(wildcard tests/fuzz/*.c))
with_lab := $(if $(filter 0,$(LAB)),,lab)

# The plain build.
check_names := $(all_names) tests/sim/sim $(fuzz_names)
.PHONY: check-plain check-sanitizers check-others
check-plain: all $(check_names:%=$(base)/%.ok)
	@:

# What check-all adds, but the lab: the sanitizers, and beside them the others. The two rows run at the
# same time and share the jobs: so the last tests of a variant run beside another variant, and tests,
# which wait, beside the compiler. Unit tests with threads run again with the thread sanitizer.
threads = $$(tests/threads.sh $(base)-address-undefined $(filter tests/unit/%,$(address_names)))
check-sanitizers:
	$(Q)+failed=0; \
	$(again) SAN=address,undefined \
		$(address_names:%=$(base)-address-undefined/%.ok) || failed=1; \
	$(again) SAN=thread THREADS_OF=$(base)-address-undefined \
		$$(printf '$(base)-thread/%s.ok ' $(threads)) || failed=1; \
	exit $$failed

check-others:
	$(Q)+failed=0; \
	$(again) SAN= check-plain $(if $(with_lab),lab-dynamic) check-models || failed=1; \
	$(again) FUZZ=quick FUZZ_SECONDS=3 fuzz-run || failed=1; \
	exit $$failed
