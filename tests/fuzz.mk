# SPDX-License-Identifier: Apache-2.0
# tests/fuzz.mk - targets of the fuzzer. FUZZ=1 or quick: libFuzzer, for FUZZ_SECONDS each; new inputs
# are kept in the build folder, seeds come from the tree. Other builds: only the seeds, without clang.

FUZZ_SECONDS ?= 60

fuzzers := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/*.c))
replay := $(if $(FUZZ),,$(objects)/tests/harness/replay.o)

$(fuzzers): $(B)/%: $(objects)/%.o $(fakes) $(replay) $(seam) $(B)/libheadrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(ldflags) $(if $(FUZZ),-fsanitize=fuzzer) -o $@ $< \
		$(filter $(objects)/gpu/tap/client/%.o,$^) $(used_fakes) $(replay) $(seam) \
		$(B)/libheadrace.a $(libs_a) -lm -ldl

# The client library is not a part of the program.
$(B)/tests/fuzz/tap_client $(B)/tests/fuzz/feed_client: $(tap_sources:%.c=$(objects)/%.o)

corpus := $(wildcard tests/fuzz/corpus/*/*)
$(fuzzers:%=%.ok): $(B)/%.ok: $(B)/% $(corpus)
ifdef FUZZ
	$(call say,FUZZ,$* ($(FUZZ_SECONDS) s))
	$(Q)mkdir -p $<.corpus && $(call test,$$(($(FUZZ_SECONDS) + 120)),$< -timeout=20 \
		-max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=$<- \
		$<.corpus $(wildcard tests/fuzz/corpus/$(*F)))
else
	$(call say,TEST,$<)
	$(Q)$(call test,120,$< $(filter tests/fuzz/corpus/$(*F)/%,$(corpus)))
endif

.PHONY: fuzz-run
fuzz-run: $(fuzzers:%=%.ok)
	@:
