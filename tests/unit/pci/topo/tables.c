/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of hardware by number. For each vendor a count and a sum of all device numbers are
 * compared, so that a range which begins or ends at another number is detected.
 */
#include "pci/topo/tables.h"

#include <criterion/criterion.h>
#include <inttypes.h>

TestSuite(topo_tables, .timeout = 60);

Test(topo_tables, each_kind_of_hardware_has_its_device_numbers)
{
	static const struct {
		enum hr_device_kind kind;
		uint32_t vendor, count;
		uint64_t sum;
	} row[] = {
		{ HR_DEV_ZEN_HOST, 0x1022, 17, 90946 },
		{ HR_DEV_ZEN_PART, 0x1022, 47, 250960 },
		{ HR_DEV_OLD_HOST, 0x1022, 1481, 39124489 },
		{ HR_DEV_HIDDEN_FIRST, 0x8086, 8, 108188 },
		{ HR_DEV_PCH_PORT, 0x8086, 192, 5595732 },
		{ HR_DEV_PCH_LATER, 0x8086, 256, 6922692 },
		{ HR_DEV_CHIPSET_PORT, 0x1022, 10, 188913 },
		{ HR_DEV_NO_PEER_PORT, 0x177d, 4096, 176158720 },
		{ HR_DEV_NO_PEER_PORT, 0x10e8, 1, 57348 },
		{ HR_DEV_NO_PEER_PORT, 0x1def, 8, 458820 },
		{ HR_DEV_NO_PEER_PORT, 0x17cb, 2, 2049 },
		{ HR_DEV_NO_PEER_PORT, 0x1c36, 1, 49 },
		{ HR_DEV_NO_PEER_PORT, 0x1957, 24, 869948 },
		{ HR_DEV_NO_PEER_PORT, 0x0014, 10, 265178 },
		{ HR_DEV_NO_PEER_PORT, 0x1d17, 64, 117874 },
		{ HR_DEV_NO_PEER_PORT, 0x14e4, 1, 55060 },
		{ HR_DEV_AMD_INTERNAL, 0x1022, 1, 5252 },
		{ HR_DEV_PERICOM, 0x12d8, 4, 73231 },
		{ HR_DEV_IDT_SV, 0x111d, 2, 65861 },
		{ HR_DEV_NTB, 0x10b5, 2, 69473 },
		{ HR_DEV_NTB, 0x11f8, 70, 2389205 },
		{ HR_DEV_NO_RELAXED, 0x8086, 28, 566482 },
		{ HR_DEV_NO_RELAXED, 0x1022, 3, 19971 },
		{ HR_DEV_UNIFIED_GPU, 0x10de, 3, 34620 },
		{ HR_DEV_VMD, 0x8086, 11, 351794 },
		{ HR_DEV_HIDES_NVME, 0x8086, 2, 20556 },
		{ HR_DEV_HIDES_NVME, 0x1022, 1, 45056 },
		{ HR_DEV_NVIDIA_CPU, 0x10de, 13, 128686 },
		{ HR_DEV_INTEGRATED, 0x1002, 324, 10882238 },
		{ HR_DEV_INTEGRATED, 0x10de, 108, 227364 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint32_t count = 0;
		uint64_t sum = 0;

		for (uint32_t device = 0; device <= 0xffff; device++) {
			if (!hr_device_is(row[i].vendor, device, row[i].kind))
				continue;
			count++;
			sum += device;
		}
		cr_expect_eq(count, row[i].count, "row %zu: %u devices", i, count);
		cr_expect_eq(sum, row[i].sum, "row %zu: sum %llu", i, (unsigned long long)sum);
		cr_expect_not(hr_device_is(row[i].vendor, 0x10000, row[i].kind));
		cr_expect_not(hr_device_is(0xffff, 0x1450, row[i].kind));
	}
}

Test(topo_tables, each_kernel_trusts_its_host_bridges)
{
	static const struct {
		uint32_t vendor, kernel, count;
		uint64_t sum;
		uint32_t any_host; /* trusted also in a pair of two host bridges */
	} row[] = {
		{ 0x1022, HR_KERNEL_VERSION(5, 1), 0, 0, 0 },
		{ 0x1022, HR_KERNEL_VERSION(5, 2), 1, 5200, 0 },
		{ 0x1022, HR_KERNEL_VERSION(5, 4), 1, 5200, 0 },
		{ 0x1022, HR_KERNEL_VERSION(5, 10), 1, 5200, 0 },
		{ 0x1022, HR_KERNEL_VERSION(5, 18), 1, 5200, 0 },
		{ 0x1022, HR_KERNEL_VERSION(6, 14), 1, 5200, 0 },
		{ 0x1022, HR_KERNEL_VERSION(6, 18), 1, 5200, 0 },
		{ 0x8086, HR_KERNEL_VERSION(5, 2), 0, 0, 0 },
		{ 0x8086, HR_KERNEL_VERSION(5, 3), 0, 0, 0 },
		{ 0x8086, HR_KERNEL_VERSION(5, 4), 4, 54786, 0 },
		{ 0x8086, HR_KERNEL_VERSION(5, 9), 4, 54786, 0 },
		{ 0x8086, HR_KERNEL_VERSION(5, 10), 9, 95976, 5 },
		{ 0x8086, HR_KERNEL_VERSION(5, 17), 9, 95976, 5 },
		{ 0x8086, HR_KERNEL_VERSION(5, 18), 10, 98442, 6 },
		{ 0x8086, HR_KERNEL_VERSION(6, 13), 10, 98442, 6 },
		{ 0x8086, HR_KERNEL_VERSION(6, 14), 20, 212260, 16 },
		{ 0x8086, HR_KERNEL_VERSION(6, 18), 20, 212260, 16 },
		{ 0x1ae0, HR_KERNEL_VERSION(5, 2), 0, 0, 0 },
		{ 0x1ae0, HR_KERNEL_VERSION(5, 4), 0, 0, 0 },
		{ 0x1ae0, HR_KERNEL_VERSION(5, 10), 0, 0, 0 },
		{ 0x1ae0, HR_KERNEL_VERSION(5, 18), 0, 0, 0 },
		{ 0x1ae0, HR_KERNEL_VERSION(6, 13), 0, 0, 0 },
		{ 0x1ae0, HR_KERNEL_VERSION(6, 14), 65536, 2147450880, 65536 },
		{ 0x1ae0, HR_KERNEL_VERSION(6, 18), 65536, 2147450880, 65536 },
		{ 0x10de, HR_KERNEL_VERSION(5, 2), 0, 0, 0 },
		{ 0x10de, HR_KERNEL_VERSION(5, 4), 0, 0, 0 },
		{ 0x10de, HR_KERNEL_VERSION(5, 10), 0, 0, 0 },
		{ 0x10de, HR_KERNEL_VERSION(5, 18), 0, 0, 0 },
		{ 0x10de, HR_KERNEL_VERSION(6, 14), 0, 0, 0 },
		{ 0x10de, HR_KERNEL_VERSION(6, 17), 0, 0, 0 },
		{ 0x10de, HR_KERNEL_VERSION(6, 18), 4, 48730, 4 },
		{ 0x1d17, HR_KERNEL_VERSION(5, 2), 0, 0, 0 },
		{ 0x1d17, HR_KERNEL_VERSION(5, 4), 0, 0, 0 },
		{ 0x1d17, HR_KERNEL_VERSION(5, 10), 0, 0, 0 },
		{ 0x1d17, HR_KERNEL_VERSION(5, 18), 0, 0, 0 },
		{ 0x1d17, HR_KERNEL_VERSION(6, 14), 0, 0, 0 },
		{ 0x1d17, HR_KERNEL_VERSION(6, 17), 0, 0, 0 },
		{ 0x1d17, HR_KERNEL_VERSION(6, 18), 2, 8200, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint32_t count = 0, any_host = 0;
		uint64_t sum = 0;

		for (uint32_t device = 0; device <= 0xffff; device++) {
			const struct hr_listed *bridge =
				hr_listed_find(row[i].vendor, device, row[i].kernel);

			count += bridge != NULL;
			sum += bridge ? device : 0;
			any_host += bridge && !bridge->same_root;
		}
		cr_expect_eq(count, row[i].count, "row %zu: %u bridges", i, count);
		cr_expect_eq(sum, row[i].sum, "row %zu: sum %llu", i, (unsigned long long)sum);
		cr_expect_eq(any_host, row[i].any_host, "row %zu: %u", i, any_host);
		cr_expect_null(hr_listed_find(row[i].vendor, 0x10000, row[i].kernel));
	}
}

Test(topo_tables, each_product_line_and_age_has_its_device_numbers)
{
	static const uint64_t lines[][2] = { { 63426, 2129067190 },
					     { 951, 7404887 },
					     { 1160, 11044339 } };
	static const uint64_t ages[][2] = { { 0, 0 }, { 8447, 35712896 }, { 57089, 2111803520 } };
	uint64_t line[3][2] = { 0 }, age[3][2] = { 0 };

	for (uint32_t device = 1; device <= 0x10000; device++) {
		line[hr_product_by_id(device)][0]++;
		line[hr_product_by_id(device)][1] += device;
		age[hr_product_age(device, "")][0]++;
		age[hr_product_age(device, "")][1] += device;
	}
	line[HR_PRODUCT_UNKNOWN][0]++; /* number 0 */
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < 2; k++) {
			cr_expect_eq(line[i][k], lines[i][k], "line %u: %" PRIu64, i, line[i][k]);
			cr_expect_eq(age[i][k], ages[i][k], "age %u: %" PRIu64, i, age[i][k]);
		}
}
