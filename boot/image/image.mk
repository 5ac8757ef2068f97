# SPDX-License-Identifier: Apache-2.0
# boot/image/image.mk - a bootable image of the static program.

# CONFIG becomes /etc/headrace.conf; KERNEL: a vmlinuz of this machine in place of Debian's;
# EXTRA: a folder that is added to the initramfs; APPEND: more kernel parameters.
.PHONY: image
image:
	$(Q)test -n "$(CONFIG)" || { echo "image: CONFIG=FILE names the configuration" >&2; exit 2; }
	$(Q)tests/deps.sh build image
	$(Q)+$(again) SAN= STATIC=1 all
	$(Q)mkdir -p $(base)/image && boot/image/build.py \
		--binary $(base)-static/headrace --config "$(CONFIG)" --out $(base)/image \
		--kernel "$(KERNEL)" --extra "$(EXTRA)" --append "$(APPEND)"
