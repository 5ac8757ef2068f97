/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"

void fake_put(struct fake_fn *f, uint32_t offset, unsigned width, uint32_t value)
{
	for (unsigned i = 0; i < width; i++)
		f->config[offset + i] = (uint8_t)(value >> (8 * i));
}

uint32_t fake_get(const struct fake_fn *f, uint32_t offset, unsigned width)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < width; i++)
		value |= (uint32_t)f->config[offset + i] << (8 * i);
	return value;
}

static void express(struct fake_fn *f, unsigned port_type)
{
	fake_put(f, FAKE_EXP, 2, HR_CAP_EXP | FAKE_PM << 8);
	fake_put(f, FAKE_EXP + HR_EXP_FLAGS, 2, 2 | port_type << 4);
	fake_put(f, FAKE_EXP + HR_EXP_DEVCAP, 4, 1);	  /* MPSS 256 */
	fake_put(f, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2030); /* RO, MPS 256, MRRS 512 */
	fake_put(f, FAKE_EXP + HR_EXP_LNKCAP, 4, 0x00100000 | 16 << 4 | 4);
	fake_put(f, FAKE_EXP + HR_EXP_LNKSTA, 2, 0x2000 | 16 << 4 | 4);
	fake_put(f, FAKE_EXP + HR_EXP_DEVCAP2, 4, HR_DEVCAP2_TAG10_COMP);
	fake_put(f, FAKE_EXP + HR_EXP_LNKCTL2, 2, 4);
	fake_put(f, FAKE_PM, 2, HR_CAP_PM);
}

static void extended(struct fake_fn *f)
{
	fake_put(f, FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | FAKE_ATS << 20);
	fake_put(f, FAKE_ATS, 4, HR_ECAP_ATS | 1 << 16);
}

struct fake_fn *fake_function(struct fake_machine *m, const char *address, uint32_t class,
			      uint16_t vendor, uint16_t device, unsigned port_type)
{
	struct fake_fn *f = &m->fn[m->count++];

	memset(f, 0, sizeof *f);
	snprintf(f->address, sizeof f->address, "%s", address);
	snprintf(f->title, sizeof f->title, "Device %04x:%04x", vendor, device);
	f->bytes = sizeof f->config;
	fake_put(f, HR_CFG_VENDOR, 2, vendor);
	fake_put(f, HR_CFG_DEVICE, 2, device);
	fake_put(f, HR_CFG_COMMAND, 2, HR_COMMAND_MSE | HR_COMMAND_BME);
	fake_put(f, HR_CFG_STATUS, 2, HR_STATUS_CAPS);
	fake_put(f, HR_CFG_CLASS, 3, class);
	fake_put(f, HR_CFG_CAP_PTR, 1, FAKE_EXP);
	express(f, port_type);
	extended(f);
	return f;
}

struct fake_fn *fake_bridge(struct fake_machine *m, const char *address, uint16_t vendor,
			    uint16_t device, unsigned port_type, unsigned secondary,
			    unsigned subordinate)
{
	struct fake_fn *f = fake_function(m, address, 0x060400, vendor, device, port_type);

	fake_put(f, HR_CFG_HEADER, 1, 1);
	fake_put(f, HR_CFG_PRIMARY, 1, (uint32_t)strtoul(address, NULL, 16));
	fake_put(f, HR_CFG_SECONDARY, 1, secondary);
	fake_put(f, HR_CFG_SUBORDINATE, 1, subordinate);
	fake_put(f, FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | FAKE_ACS << 20);
	fake_put(f, FAKE_ACS, 4, HR_ECAP_ACS | 1 << 16 | FAKE_DPC << 20);
	fake_put(f, FAKE_ACS + HR_ACS_CAP, 2, 0x5f);
	fake_put(f, FAKE_DPC, 4, HR_ECAP_DPC | 1 << 16);
	fake_windows(f, 0xfff00000, 0, 0xfff00000, 0);
	return f;
}

void fake_slot(struct fake_fn *f)
{
	fake_put(f, FAKE_EXP + HR_EXP_FLAGS, 2,
		 f->config[FAKE_EXP + HR_EXP_FLAGS] | HR_EXP_SLOT_IMPLEMENTED);
}

void fake_windows(struct fake_fn *f, uint32_t mem_base, uint32_t mem_limit, uint64_t pref_base,
		  uint64_t pref_limit)
{
	fake_put(f, HR_CFG_MEM_BASE, 2, mem_base >> 16);
	fake_put(f, HR_CFG_MEM_LIMIT, 2, mem_limit >> 16);
	fake_put(f, HR_CFG_PREF_BASE, 2, (uint32_t)(pref_base >> 16 & 0xfff0) | 1);
	fake_put(f, HR_CFG_PREF_LIMIT, 2, (uint32_t)(pref_limit >> 16 & 0xfff0) | 1);
	fake_put(f, HR_CFG_PREF_BASE_UPPER, 4, (uint32_t)(pref_base >> 32));
	fake_put(f, HR_CFG_PREF_LIMIT_UPPER, 4, (uint32_t)(pref_limit >> 32));
}

struct fake_fn *fake_gpu(struct fake_machine *m, const char *address, uint64_t bar,
			 unsigned size_log2)
{
	struct fake_fn *f = fake_function(m, address, 0x030200, 0x10de, 0x20b0, HR_PORT_ENDPOINT);

	fake_put(f, HR_CFG_BAR0, 4, 0xe2000000); /* registers */
	fake_put(f, HR_CFG_BAR0 + 4, 4, (uint32_t)bar | 0xc);
	fake_put(f, HR_CFG_BAR0 + 8, 4, (uint32_t)(bar >> 32));
	fake_put(f, FAKE_ATS, 4, HR_ECAP_ATS | 1 << 16 | FAKE_REBAR << 20);
	fake_put(f, FAKE_REBAR, 4, HR_ECAP_REBAR | 1 << 16);
	fake_put(f, FAKE_REBAR + HR_REBAR_CTL, 4, 1u << 5 | (size_log2 - 20) << 8 | 1);
	return f;
}

struct fake_fn *fake_nvme(struct fake_machine *m, const char *address, uint32_t bar)
{
	struct fake_fn *f = fake_function(m, address, 0x010802, 0x144d, 0xa80a, HR_PORT_ENDPOINT);

	fake_put(f, HR_CFG_BAR0, 4, bar | 4);
	fake_put(f, FAKE_EXP + HR_EXP_LNKCAP, 4, 4 << 4 | 4);
	fake_put(f, FAKE_EXP + HR_EXP_LNKSTA, 2, 4 << 4 | 4);
	snprintf(f->text, sizeof f->text,
		 "\tRegion 0: Memory at %08x (64-bit, non-prefetchable) [size=16K]\n", bar);
	return f;
}

void fake_sriov(struct fake_fn *f, unsigned vfs, unsigned offset, uint64_t bar, unsigned index)
{
	uint32_t before = fake_get(f, FAKE_ATS, 4) >> 20 ? FAKE_REBAR : FAKE_ATS;

	fake_put(f, before, 4, fake_get(f, before, 4) | FAKE_SRIOV << 20);
	fake_put(f, FAKE_SRIOV, 4, HR_ECAP_SRIOV | 1 << 16);
	fake_put(f, FAKE_SRIOV + HR_SRIOV_CTL, 2, HR_SRIOV_ENABLE | HR_SRIOV_MSE);
	fake_put(f, FAKE_SRIOV + HR_SRIOV_VFS, 2, vfs);
	fake_put(f, FAKE_SRIOV + HR_SRIOV_OFFSET, 2, offset);
	fake_put(f, FAKE_SRIOV + HR_SRIOV_STRIDE, 2, 1);
	fake_put(f, FAKE_SRIOV + HR_SRIOV_DEVICE, 2, 0xa824);
	fake_put(f, FAKE_SRIOV + HR_SRIOV_BAR0 + 4 * index, 4, (uint32_t)bar | 4);
	fake_put(f, FAKE_SRIOV + HR_SRIOV_BAR0 + 4 * index + 4, 4, (uint32_t)(bar >> 32));
}

struct fake_fn *fake_virtual(struct fake_machine *m, const char *address, uint32_t class)
{
	struct fake_fn *f = fake_function(m, address, class, 0xffff, 0xffff, HR_PORT_ENDPOINT);

	fake_put(f, HR_CFG_COMMAND, 2, HR_COMMAND_BME);
	fake_put(f, FAKE_EXP + HR_EXP_DEVCTL, 2, 0);
	fake_put(f, FAKE_EXP + HR_EXP_LNKCAP, 4, 0);
	fake_put(f, FAKE_EXP + HR_EXP_LNKSTA, 2, 0);
	fake_put(f, FAKE_EXP + HR_EXP_LNKCTL2, 2, 0);
	return f;
}

#define GPU_BAR 0x38000000000ull
#define GPU_END (GPU_BAR + (16ull << 30) - 1)

void fake_two_ports(struct fake_machine *m)
{
	struct fake_fn *f;

	memset(m, 0, sizeof *m);
	fake_function(m, "00:00.0", 0x060000, 0x8086, 0x1234, HR_PORT_RC_ENDPOINT);
	f = fake_bridge(m, "00:01.0", 0x8086, 0x1901, HR_PORT_ROOT, 1, 4);
	fake_windows(f, 0xe0000000, 0xe2ffffff, GPU_BAR, GPU_END);
	f = fake_bridge(m, "00:02.0", 0x8086, 0x1905, HR_PORT_ROOT, 5, 5);
	fake_windows(f, 0xe4000000, 0xe4ffffff, 0xfff00000, 0);
	f = fake_bridge(m, "01:00.0", 0x10b5, 0x8796, HR_PORT_UPSTREAM, 2, 4);
	fake_windows(f, 0xe0000000, 0xe2ffffff, GPU_BAR, GPU_END);
	f = fake_bridge(m, "02:00.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 3, 3);
	fake_windows(f, 0xe2000000, 0xe2ffffff, GPU_BAR, GPU_END);
	f = fake_bridge(m, "02:01.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 4, 4);
	fake_windows(f, 0xe0000000, 0xe0ffffff, 0xfff00000, 0);
	fake_put(f, FAKE_EXP + HR_EXP_LNKCAP + 3, 1, 1); /* port number 1 */
	fake_gpu(m, "03:00.0", GPU_BAR, 34);
	fake_nvme(m, "04:00.0", 0xe0000000);
	fake_nvme(m, "05:00.0", 0xe4000000);
}

struct fake_fn *fake_find(struct fake_machine *m, const char *address)
{
	for (unsigned i = 0; i < m->count; i++)
		if (strcmp(m->fn[i].address, address) == 0)
			return &m->fn[i];
	return NULL;
}

static void render_one(const struct fake_fn *f, FILE *out)
{
	static const char digit[] = "0123456789abcdef";
	char row[48];

	fprintf(out, "%s %s\n%s", f->address, f->title, f->text);
	for (uint32_t at = 0; at < f->bytes; at += 16) {
		for (unsigned i = 0; i < 16; i++) {
			row[3 * i] = ' ';
			row[3 * i + 1] = digit[f->config[at + i] >> 4];
			row[3 * i + 2] = digit[f->config[at + i] & 15];
		}
		fprintf(out, "%02x:%.48s\n", at, row);
	}
	fputc('\n', out);
}

char *fake_render(const struct fake_machine *m, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	if (!out)
		abort();
	fputs(m->head, out);
	for (unsigned i = 0; i < m->count; i++)
		render_one(&m->fn[i], out);
	if (fclose(out))
		abort();
	return text;
}

int fake_load(const struct fake_machine *m, struct hr_model *model)
{
	size_t size;
	char *text = fake_render(m, &size);
	int err;

	hr_model_reset(model);
	err = hr_source_parse(model, "machine", text, size);
	free(text);
	return err;
}
