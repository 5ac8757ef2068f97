# SPDX-License-Identifier: Apache-2.0
# gpu/cuda/cuda.mk - nvcc and cuda.h; GPU images: worker sources, compiled as CUDA C++ and embedded.

# The cuda backend needs the driver's header, and nvcc for its images, which all variants share.
cuda_h := $(if $(STATIC)$(FUZZ),,$(if $(NVCC),$(firstword $(wildcard \
	$(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))/include/cuda.h /usr/include/cuda.h))))
cuda_flags := $(if $(cuda_h),-isystem $(patsubst %/,%,$(dir $(cuda_h))))
# Images are compiled for the GPUs of this machine. Without a GPU a program for users gets all
# architectures, because its machine is not known, and PTX takes the driver a minute at each start; the
# other goals need no image. Each make that this one starts does the same.
device := $(wildcard /dev/nvidiactl)
ifeq ($(origin ARCHS),undefined)
default_archs := 1
ARCHS := $(if $(cuda_h),$(if $(device),$(shell gpu/cuda/archs.sh $(NVCC)),\
	$(if $(filter-out all install images op gpu-tests,$(MAKECMDGOALS)),,all)))
endif
export ARCHS
archs := $(if $(cuda_h),$(patsubst sm_%,%,$(patsubst all,80 90 100 ptx,$(ARCHS))))
wrong_archs := $(shell printf '%s\n' $(archs) | grep -vxE '(ptx|[0-9]{2,3}[af]?)?')
$(if $(wrong_archs),$(error ARCHS is '$(ARCHS)', expected all, ptx, or numbers such as 80 and 90))
# In nvcc's words. A program without images has no cuda backend.
targets := $(foreach a,$(archs),$(if $(filter ptx,$(a)),compute_80,sm_$(a)))
# The first ones take longest to compile.
images := $(addprefix worker,_objects _objects_wide) worker \
	$(addprefix worker,_user _access _roles _tools)
# Files that are compiled only when nvcc and cuda.h are there.
cuda_sources := $(filter-out gpu/cuda/absent.c,$(wildcard gpu/cuda/*.c gpu/cuda/*/*.c))
cuda_only := $(cuda_sources) tests/unit/gpu/cuda/% tests/fakes/cuda% tests/gpu/%
usable = $(if $(cuda_h),$(1),$(filter-out $(cuda_only),$(1)))

# For unit tests of the cuda backend in a build without images: they run over a driver in C.
cuda_objs := $(if $(targets),,$(patsubst %.c,$(objects)/%.o,$(if $(cuda_h),$(cuda_sources))))
cuda_archive := $(if $(cuda_objs),$(B)/libheadrace-cuda.a)
$(cuda_objs): gpu/cuda/cuda.mk
$(cuda_archive): $(cuda_objs)
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && ar qcs $@ $^

$(addprefix $(objects)/,gpu/cuda/%.o tests/unit/gpu/cuda/%.o tests/gpu/%.o tests/fakes/cuda.o \
	tests/fakes/cuda_calls.o): cflags += $(cuda_flags)

# worker (streams), worker_objects, worker_objects_wide and worker_tools have the entry points of
# launches; a user operator (make op) is linked with worker_user or, when it accesses objects, with
# worker_access; worker_roles reports the registers of each role.
image_at := $(base)/gpu/images
gpu_test_image := $(base)/tests/gpu/image
slow := $(addprefix $(image_at)/worker,_objects _objects_wide _user _access) $(image_at)/worker
cuda_bin := $(if $(targets),$(dir $(realpath $(shell command -v $(NVCC)))))
# Newer releases of nvcc can compress images more.
compress := $(if $(targets),$(if $(findstring compress-mode,$(shell $(NVCC) --help 2>&1)),\
	--compress-mode=size))
gencode := $(foreach t,$(targets),-gencode arch=$(t:sm_%=compute_%)$(comma)code=$(t))

# $(call image_rules,PATH,SOURCE,FLAGS OF NVCC,FLAGS OF FATBINARY): each architecture by itself, to PTX
# and then to machine code. PTX of compute_80 is for GPUs that are newer than these.
define image_rules
$(1).fatbin: $(patsubst compute_%,$(1).%.ptx,$(targets:sm_%=$(1).%.cubin)) $(base)/targets
	$$(call say,FATBIN,$$@)
	$$(Q)$(cuda_bin)fatbinary --create=$$@ -64 $(compress) $(4) \
		$(foreach a,$(patsubst sm_%,%,$(filter sm_%,$(targets))),\
		--image3=kind=elf$(comma)sm=$(a)$(comma)file=$(1).$(a).cubin) \
		$(foreach a,$(patsubst compute_%,%,$(filter compute_%,$(targets))),\
		--image3=kind=ptx$(comma)sm=$(a)$(comma)file=$(1).$(a).ptx)

$(1).%.ptx: $(2) gpu/cuda/cuda.mk
	$$(call say,NVCC,$$@$(if $(filter $(slow),$(1)), (about 10 s)))
	$$(Q)mkdir -p $$(@D) && $(NVCC) -std=c++17 -O3 $(3) -ptx -I. -MMD -MP -MF $$@.d \
		-arch=compute_$$* -o $$@ $$<

$(1).%.cubin: $(1).%.ptx
	$$(call say,PTXAS,$$@$(if $(filter $(slow),$(1)),$(if $(findstring objects,$(1)), \
		(about 30 s), (about 10 s))))
	$$(Q)$(NVCC) $(3) -cubin -arch=sm_$$* -o $$@ $$<
endef
of_relocatable = $(if $(filter worker_user worker_access,$(1)),$(2))
$(foreach i,$(images),$(eval $(call image_rules,$(image_at)/$(i),gpu/cuda/image/image$(i:worker%=%).cu,\
	$(call of_relocatable,$(i),-rdc=true),$(call of_relocatable,$(i),--device-c))))
$(eval $(call image_rules,$(gpu_test_image),tests/gpu/image.cu))

.PHONY: images
images: $(images:%=$(image_at)/%.fatbin)
	@:

embed = $(Q)mkdir -p $(@D) && $(CC) -DNAME=$(1) -DFILE='"$<"' -c -o $@ gpu/cuda/image/embed.S
$(images:%=$(objects)/gpu/images/%.o): $(objects)/gpu/images/%.o: $(image_at)/%.fatbin \
	gpu/cuda/image/embed.S gpu/cuda/cuda.mk
	$(call say,AS,$@)
	$(call embed,hr_$*_image)

$(objects)/tests/gpu/embed.o: $(gpu_test_image).fatbin gpu/cuda/image/embed.S gpu/cuda/cuda.mk
	$(call say,AS,$@)
	$(call embed,gpu_test_image)
