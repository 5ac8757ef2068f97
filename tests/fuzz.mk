# tests/fuzz.mk - fuzzing (FUZZ=1 or quick): new inputs are kept in the build folder, seeds come
# from the tree.

FUZZ_SECONDS ?= 60

fuzzers := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/*.c))

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

.PHONY: fuzz-run
fuzz-run: $(fuzzers:%=%.ok)
	@:
