# SPDX-License-Identifier: Apache-2.0
# tests/lint.mk - lint, in a build folder of its own except the warnings of the compiler; each part
# is a target.

c_files := $(shell find * -name '*.c' ! -path 'build*')
# Not the plugin of MPI, whose header may be missing.
tidy_files := $(call usable,$(filter-out tests/unit/% tests/gpu/% tests/fuzz/% boot/ranks/plugin_mpi.c,\
	$(c_files)))
headers := $(shell find * -name '*.h' ! -path 'build*')

# The analyzer ends a function after max-nodes states: a quarter of its default takes a third of the
# time.
analyzer := -Xclang -analyzer-config -Xclang max-nodes=50000
$(B)/%.tidy: %.c .clang-tidy $(headers)
	$(call say,TIDY,$<)
	$(Q)mkdir -p $(@D) && clang-tidy --quiet $< -- $(filter-out -Wno-tsan,$(cflags)) \
		$(cuda_flags) $(analyzer) 2>$@.log && touch $@

lint_scripts := $(patsubst tests/lint/%.sh,lint-%,$(wildcard tests/lint/*.sh))
.PHONY: lint-format lint-cppcheck lint-shell $(lint_scripts) lint-warnings lint-run
lint-format:
	$(call say,LINT,clang-format)
	$(Q)clang-format --dry-run -Werror $(c_files) $(headers) \
		$(wildcard gpu/cuda/image/*.cu tests/gpu/*.cu)

lint-cppcheck:
	$(call say,LINT,cppcheck)
	$(Q)mkdir -p $(B) && cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr -I . \
		-D_GNU_SOURCE --enable=warning,performance,portability \
		--suppress=missingIncludeSystem --cppcheck-build-dir=$(B) $(tidy_files)

lint-shell:
	$(call say,LINT,shellcheck)
	$(Q)shellcheck -x -S info $(shell find tests .ci -name '*.sh') .ci/run

$(lint_scripts): lint-%: tests/lint/%.sh
	$(call say,LINT,$<)
	$(Q)CUDA_FLAGS='$(cuda_flags)' $<

# Each object has a file of the compiler's warnings. The objects are those that check builds.
warned := $(srcs:%.c=$(B)/%.o) $(cuda_objs) $(B)/boot/main.o $(units:%=%.o) $(tools:%=%.o) \
	$(tap_examples:%=%.o) $(fakes) $(fuzzers:%=%.o)
lint-warnings: $(B)/headrace $(cuda_objs) $(units:%=%.o) $(fakes) $(tools) $(tap_examples) $(fuzzers)
	$(call say,LINT,warnings of the compiler)
	$(Q)! cat $(warned:%=%.warn) | grep .

lint-run: lint-format lint-cppcheck lint-shell $(lint_scripts) \
	$(tidy_files:%.c=$(B)/%.tidy)
