# SPDX-License-Identifier: Apache-2.0
# tests/lab.mk - scenarios in emulated machines.

# The lab (variant STATIC=1): guests run the static binary and static builds of some unit tests; those
# that load libraries run the dynamic binary, which check and check-lab build before.
lab := $(B)/tests/lab/lab
lab_files := $(wildcard tests/lab/*.* tests/lab/guest/* tests/lab/scenarios/* boot/image/*.py)
lab_tests := $(addprefix $(B)/tests/unit/,$(sort $(shell sed -n 's/^\#: tests //p' \
	tests/lab/scenarios/*.sh)))

lab_programs := $(patsubst %.c,$(B)/%,$(wildcard tests/lab/*.c))

.PHONY: lab-tools lab-dynamic lab-run
lab-tools: $(B)/headrace $(lab_tests) $(lab_programs)
	@:

# Programs of the dynamic variant for guests that load libraries.
lab-dynamic: $(B)/headrace $(B)/tests/lab/link_drive
	@:

$(lab).ok: $(B)/headrace $(wildcard $(base)/headrace) $(lab_tests) $(lab_programs) $(lab_files)
	$(call say,LAB,emulated machines)
	$(Q)mkdir -p $(@D) && $(call test,1200,tests/lab/run.py --jobs $$(($$(nproc) + 1)) \
		--build $(B) --dynamic $(base) --cache $(base)/lab)

lab-run: $(lab).ok
	@:
