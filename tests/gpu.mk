# SPDX-License-Identifier: Apache-2.0
# tests/gpu.mk - tests that need a GPU.

# One program that runs on any machine with a driver and libc. It also contains
# the unit tests of pipelines and queues, which it runs on the GPU.
gpu_tests := $(B)/tests/gpu/gpu-tests
gpu_test_objs := $(patsubst %.c,$(objects)/%.o,$(wildcard tests/gpu/*.c)) $(objects)/tests/gpu/embed.o \
	$(patsubst %,$(objects)/tests/unit/%.o,nvme/queue/queue nvme/queue/queue_order \
	$(addprefix gpu/worker/,bench pipeline pipeline_faults)) \
	$(patsubst %,$(objects)/tests/%.o,fakes/clock fakes/peer \
	$(addprefix harness/,opcase qprun rig runner))
$(gpu_test_objs): tests/gpu.mk
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
$(cache_hits): tests/gpu/cache_hits.cu $(wildcard cache/*.h cache/*/*.h) nvme/queue/worker_cuda.h \
	gpu/cuda/cuda.mk tests/gpu.mk
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D) && $(NVCC) -std=c++17 -O3 -I. $(gencode) -cudart static -o $@ $<

.PHONY: gpu-tests check-gpu
gpu-tests: $(if $(targets),$(gpu_tests) $(addprefix $(B)/tests/gpu/,headrace libibverbs.so.1) \
	$(gpu_test_ops:%=%.op) $(cache_hits))
	$(if $(targets),@:,@echo "gpu-tests: needs nvcc and cuda.h" >&2; exit 3)

check-gpu: gpu-tests
	$(Q)tests/gpu/run.sh $(gpu_tests)
