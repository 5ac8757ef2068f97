/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/machine.h - synthetic machines in the form of an lspci -xxxx dump.
 *
 * A machine is a list of functions with 4096 bytes of configuration space each, and text lines
 * between them. A test builds it, changes registers, renders it, and reads it with
 * hr_source_parse() like any capture.
 */
#ifndef TESTS_HARNESS_MACHINE_H
#define TESTS_HARNESS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "pci/topo/model.h"
#include "pci/topo/rules/verdict.h"

#define FAKE_FUNCTIONS_MAX 128u
#define FAKE_TEXT_MAX 1536u

/* Offsets of the capabilities. */
#define FAKE_EXP 0x40u
#define FAKE_PM 0x80u
#define FAKE_AER 0x100u
#define FAKE_ACS 0x150u
#define FAKE_ATS 0x160u
#define FAKE_DPC 0x170u
#define FAKE_REBAR 0x180u
#define FAKE_SRIOV 0x200u

struct fake_fn {
	char address[16];
	char title[96];
	char text[FAKE_TEXT_MAX]; /* lines, each "\t...\n" */
	uint32_t bytes;		  /* of config in the dump: 0, 64, 256 or 4096 */
	uint8_t config[4096];
};

struct fake_machine {
	char head[FAKE_TEXT_MAX]; /* before the first function */
	unsigned count;
	struct fake_fn fn[FAKE_FUNCTIONS_MAX];
};

/* Registers, little endian. */
void fake_put(struct fake_fn *f, uint32_t offset, unsigned width, uint32_t value);
uint32_t fake_get(const struct fake_fn *f, uint32_t offset, unsigned width);

/* An Express function with PM, AER and ATS capabilities, decoding and mastering, link 4 of x16. */
struct fake_fn *fake_function(struct fake_machine *m, const char *address, uint32_t class,
			      uint16_t vendor, uint16_t device, unsigned port_type);
/* A bridge with ACS (cap 5f) and closed windows. */
struct fake_fn *fake_bridge(struct fake_machine *m, const char *address, uint16_t vendor,
			    uint16_t device, unsigned port_type, unsigned secondary,
			    unsigned subordinate);
/* Give the port a slot, so that a card may be put below it. */
void fake_slot(struct fake_fn *f);
void fake_windows(struct fake_fn *f, uint32_t mem_base, uint32_t mem_limit, uint64_t pref_base,
		  uint64_t pref_limit);
/* NVIDIA GPU with a 64-bit prefetchable BAR1 of that size; NVMe with a 64-bit BAR0 of 16 KiB. */
struct fake_fn *fake_gpu(struct fake_machine *m, const char *address, uint64_t bar,
			 unsigned size_log2);
struct fake_fn *fake_nvme(struct fake_machine *m, const char *address, uint32_t bar);

/*
 * Add the SR-IOV capability to a function (not to a bridge): VFs enabled and decoding, the first
 * one `offset` after the function, the others following it; VF BAR `index`, 64-bit, is that of the
 * first VF.
 */
void fake_sriov(struct fake_fn *f, unsigned vfs, unsigned offset, uint64_t bar, unsigned index);
/* A virtual function as specified: no identifiers, BARs 0, memory decoding off. */
struct fake_fn *fake_virtual(struct fake_machine *m, const char *address, uint32_t class);

/*
 * The machine with which most tests start:
 *   00:00.0 host bridge (8086:1234, in no list)
 *   00:01.0 root port, 01:00.0 switch, 02:00.0 -> 03:00.0 GPU, 02:01.0 -> 04:00.0 NVMe
 *   00:02.0 root port -> 05:00.0 NVMe
 */
void fake_two_ports(struct fake_machine *m);

struct fake_fn *fake_find(struct fake_machine *m, const char *address);

/* The dump as text; the caller frees it. */
char *fake_render(const struct fake_machine *m, size_t *size);
/* Render and read the machine; *model must be initialised. Returns the reader's result. */
int fake_load(const struct fake_machine *m, struct hr_model *model);

#endif
