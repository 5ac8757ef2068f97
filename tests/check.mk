# tests/check.mk - what make check runs, by variant.

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

# The variants of check but the lab, in two rows that run at the same time and share the jobs: so the
# last tests of a variant run beside another variant, and tests, which wait, beside the compiler.
threads = $$(tests/threads.sh $(base)-address-undefined $(filter tests/unit/%,$(address_names)))
.PHONY: check-sanitizers check-plain
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
