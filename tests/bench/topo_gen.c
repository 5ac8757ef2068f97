/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a large synthetic capture (lspci -xxxx form) to standard output:
 *   topo_gen FUNCTIONS
 * A unit is a root port, a switch with eight ports, two GPUs and six NVMe controllers; 25 units per
 * domain. Used to measure `headrace topo --from`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t config[4096];

static void put(unsigned offset, unsigned width, uint64_t value)
{
	for (unsigned i = 0; i < width; i++)
		config[offset + i] = (uint8_t)(value >> (8 * i));
}

static void function(uint32_t class, uint32_t ids, unsigned port_type)
{
	memset(config, 0, sizeof config);
	put(0x00, 4, ids);
	put(0x04, 4, 0x00100006);
	put(0x09, 3, class);
	put(0x34, 1, 0x40);
	put(0x40, 4, 0x00028010 | port_type << 20);
	put(0x44, 4, 1);
	put(0x48, 2, 0x2020);
	put(0x4c, 4, 0x00100104);
	put(0x52, 2, 0x2104);
	put(0x80, 4, 0x00030001);
	put(0x100, 4, 0x15010001);
	put(0x150, 4, 0x0001000d);
	put(0x154, 4, 0x0000005f);
}

static void bridge(unsigned port_type, unsigned primary, unsigned secondary, unsigned subordinate,
		   uint64_t pref, uint64_t pref_end, uint32_t mem, uint32_t mem_end)
{
	function(0x060400, 0x879610b5, port_type);
	put(0x0e, 1, 1);
	put(0x18, 3, primary | secondary << 8 | subordinate << 16);
	put(0x20, 4, mem >> 16 | (mem_end & 0xfff00000));
	put(0x24, 4, (pref >> 16 & 0xfff0) | 1 | (pref_end & 0xfff00000) | 0x10000);
	put(0x28, 4, pref >> 32);
	put(0x2c, 4, pref_end >> 32);
}

static void write_function(unsigned domain, unsigned bus, unsigned dev)
{
	static const char hex[] = "0123456789abcdef";
	char line[64];

	printf("%04x:%02x:%02x.0 Device\n", domain, bus, dev);
	for (unsigned at = 0; at < sizeof config; at += 16) {
		int n = snprintf(line, sizeof line, "%02x:", at);

		for (unsigned i = 0; i < 16; i++) {
			line[n++] = ' ';
			line[n++] = hex[config[at + i] >> 4];
			line[n++] = hex[config[at + i] & 15];
		}
		line[n++] = '\n';
		fwrite(line, 1, (size_t)n, stdout);
	}
	putchar('\n');
}

static void write_unit(unsigned domain, unsigned unit, unsigned long *left)
{
	unsigned base = 1 + unit * 10;
	uint32_t mem = 0x80000000u + unit * 0x01000000u;
	uint64_t pref = ((uint64_t)domain + 1) << 40 | (uint64_t)unit << 35,
		 end = pref + (1ull << 35) - 1;

	for (unsigned i = 0; i < 18 && *left; i++, --*left) {
		unsigned port = i >= 2 ? (i - 2) / 2 : 0, bus = base + 2 + port;
		uint64_t own = pref + ((uint64_t)port << 32);

		if (i == 0)
			bridge(4, 0, base, base + 9, pref, end, mem, mem + 0xffffff);
		else if (i == 1)
			bridge(5, base, base + 1, base + 9, pref, end, mem, mem + 0xffffff);
		else if (i % 2 == 0)
			bridge(6, base + 1, bus, bus, own, own + 0xffffffff, mem + port * 0x100000,
			       mem + port * 0x100000 + 0xfffff);
		else if (port < 2) {
			function(0x030200, 0x20b010de, 0);
			put(0x14, 8, own | 0xc);
		} else {
			function(0x010802, 0xa80a144d, 0);
			put(0x10, 8, own | 0xc);
		}
		write_function(domain,
			       i == 0	? 0
			       : i == 1 ? base
			       : i % 2	? bus
					: base + 1,
			       i == 0		      ? unit + 1
			       : i >= 2 && i % 2 == 0 ? port
						      : 0);
	}
}

int main(int argc, char **argv)
{
	unsigned long left = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;

	if (left == 0) {
		fputs("usage: topo_gen FUNCTIONS\n", stderr);
		return 2;
	}
	for (unsigned domain = 0; left; domain++)
		for (unsigned unit = 0; unit < 25 && left; unit++)
			write_unit(domain, unit, &left);
	return 0;
}
