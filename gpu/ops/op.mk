# SPDX-License-Identifier: Apache-2.0
# gpu/ops/op.mk - user operators: one source, built twice, in one file.

ifneq ($(filter op,$(MAKECMDGOALS)),)
ifneq ($(words $(OP)),1)
$(error make op: OP names one source file, as in: make op OP=gpu/ops/template/histogram.c)
endif
ifeq ($(wildcard $(OP)),)
$(error make op: there is no file $(OP))
endif
endif
op_name := $(B)/$(basename $(notdir $(OP)))

.PHONY: op
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
