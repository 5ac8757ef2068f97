# SPDX-License-Identifier: Apache-2.0
# boot/install.mk - what make install copies, and make uninstall removes.

# The module finds the library from its own place, the linker by pkg-config, or -lheadrace-tap. Debian's
# python3 searches lib/python3/dist-packages below /usr, and lib/python3.X/dist-packages below
# /usr/local. Documents keep the folders of the tree, so their links work.
PREFIX ?= /usr/local
python := $(firstword $(wildcard /usr/bin/python3) python3)
python_version = $(shell $(python) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python_dir ?= $(PREFIX)/lib/python$(if $(filter /usr,$(PREFIX)),3,$(python_version))/dist-packages
unit_dir ?= $(PREFIX)/lib/systemd/system
doc_dir ?= $(PREFIX)/share/doc/headrace
documents := $(wildcard *.md) LICENSE $(wildcard $(addsuffix .md,boot/* boot/*/* cache/* cache/*/* \
	gpu/*/* gpu/*/*/* nvme/* nvme/*/* pci/*/* tests/bench/*) boot/*.svg pci/topo/*.svg \
	tests/bench/*.svg config/*.conf config/examples/*.conf pci/topo/examples/* \
	boot/appliance/headrace.service)
installed = $(PREFIX)/bin/headrace $(addprefix $(PREFIX)/lib/,$(notdir $(tap_library)) \
	libheadrace-tap.so headrace/headrace-mpi.so pkgconfig/headrace-tap.pc) \
	$(addprefix $(PREFIX)/include/headrace/,$(notdir $(tap_headers))) \
	$(addprefix $(python_dir)/,$(notdir $(tap_modules))) $(unit_dir)/headrace.service \
	$(addprefix $(doc_dir)/,$(documents))
to := $(DESTDIR)$(PREFIX)

.PHONY: install-files uninstall
# Only what is built.
install-files:
	$(call say,INSTALL,$(to))
	$(Q)install -D -m 755 $(B)/headrace $(to)/bin/headrace
	$(if $(STATIC),,$(Q)install -D -m 644 $(tap_library) $(to)/lib/$(notdir $(tap_library)))
	$(if $(STATIC),,$(Q)ln -sf $(notdir $(tap_library)) $(to)/lib/libheadrace-tap.so)
	$(if $(wildcard $(mpi_plugin)),$(Q)install -D -m 644 -t $(to)/lib/headrace $(mpi_plugin))
	$(Q)install -D -m 644 -t $(to)/include/headrace $(tap_headers)
	$(Q)install -D -m 644 -t $(DESTDIR)$(python_dir) $(tap_modules)
	$(Q)mkdir -p $(to)/lib/pkgconfig && sed 's|@PREFIX@|$(PREFIX)|' \
		gpu/tap/client/headrace-tap.pc.in >$(to)/lib/pkgconfig/headrace-tap.pc
	$(Q)mkdir -p $(DESTDIR)$(unit_dir) && sed 's|/usr/local/bin|$(PREFIX)/bin|' \
		boot/appliance/headrace.service >$(DESTDIR)$(unit_dir)/headrace.service
	$(Q)for file in $(documents); do \
		install -D -m 644 $$file $(DESTDIR)$(doc_dir)/$$file || exit 1; done

# The files of install, what Python has compiled of the modules, and folders that only headrace has.
uninstall:
	$(call say,REMOVE,$(to))
	$(Q)rm -f $(addprefix $(DESTDIR),$(installed)) \
		$(patsubst %.py,$(DESTDIR)$(python_dir)/__pycache__/%.*.pyc,$(notdir $(tap_modules)))
	$(Q)for folder in $(DESTDIR)$(doc_dir) $(to)/include/headrace $(to)/lib/headrace; do \
		[ ! -d $$folder ] || find $$folder -depth -type d -empty -delete || exit 1; done
