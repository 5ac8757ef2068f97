/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations of one namespace: each command of one host, its status, and the report after it. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/conform.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define A CONFORM_DATA
#define INVALID 0x002
#define CONFLICT 0x083

static struct conform c;

static void begin(void)
{
	conform_use("soft:memory,size=4M,reservations=1");
	conform_open_io(&c);
}

static void end(void)
{
	conform_close(&c);
	conform_use(NULL);
}

TestSuite(soft_reserve, .init = begin, .fini = end, .timeout = 60);

static uint16_t command(uint8_t opcode, uint32_t cdw10, uint64_t key, uint64_t other)
{
	const struct hr_sqe sqe = {
		.opcode = opcode, .nsid = 1, .prp1 = conform_bus(&c, A), .cdw10 = cdw10
	};
	const uint64_t keys[2] = { key, other };

	memcpy(conform_page(&c, A), keys, sizeof keys);
	return conform_do(&c, &c.io, &sqe, NULL);
}

/* Generation, type and registrants of the report, and the key of the first one. */
struct state {
	uint32_t generation, type, registrants;
	uint64_t key;
};

static void expect_state(const struct state *want, size_t row)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_resv_report,
				    .nsid = 1,
				    .prp1 = conform_bus(&c, A),
				    .cdw10 = 47 / 4 };
	const uint8_t *data = conform_page(&c, A);
	uint32_t generation;
	uint64_t key;

	memset(conform_page(&c, A), 0xee, 64);
	cr_assert_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	memcpy(&generation, data, 4);
	memcpy(&key, data + 24 + 16, 8);
	cr_expect_eq(generation, want->generation, "row %zu: %u", row, generation);
	cr_expect_eq(data[4], want->type, "row %zu: type %u", row, data[4]);
	cr_expect_eq(data[5], want->registrants, "row %zu: %u registrants", row, data[5]);
	if (want->registrants)
		cr_expect_eq(key, want->key, "row %zu: key %llx", row, (unsigned long long)key);
}

#define REGISTER nvme_cmd_resv_register
#define ACQUIRE nvme_cmd_resv_acquire
#define RELEASE nvme_cmd_resv_release

Test(soft_reserve, each_command_of_one_host)
{
	static const struct {
		uint8_t opcode;
		uint32_t cdw10;
		uint64_t key, other;
		uint16_t want;
		struct state state;
	} row[] = {
		{ ACQUIRE, 0x100, 5, 0, CONFLICT, { 0, 0, 0, 0 } },
		{ RELEASE, 0x100, 5, 0, CONFLICT, { 0, 0, 0, 0 } },
		{ REGISTER, 0, 0, 0, INVALID, { 0, 0, 0, 0 } },
		{ REGISTER, 3, 0, 5, INVALID, { 0, 0, 0, 0 } },
		{ REGISTER, 1u << 30, 0, 5, INVALID, { 0, 0, 0, 0 } },
		{ REGISTER, 3u << 30, 0, 5, INVALID, { 0, 0, 0, 0 } },
		{ REGISTER, 1, 5, 0, CONFLICT, { 0, 0, 0, 0 } },
		{ REGISTER, 2u << 30, 0, 5, 0, { 1, 0, 1, 5 } },
		{ REGISTER, 2, 4, 6, CONFLICT, { 1, 0, 1, 5 } },
		{ REGISTER, 2, 5, 0, INVALID, { 1, 0, 1, 5 } },
		{ REGISTER, 2, 5, 6, 0, { 2, 0, 1, 6 } },
		{ REGISTER, 2 | 8, 0, 7, 0, { 3, 0, 1, 7 } }, /* IEKEY */
		{ ACQUIRE, 0x100, 6, 0, CONFLICT, { 3, 0, 1, 7 } },
		{ ACQUIRE, 0x000, 7, 0, INVALID, { 3, 0, 1, 7 } },
		{ ACQUIRE, 0x700, 7, 0, INVALID, { 3, 0, 1, 7 } },
		{ ACQUIRE, 0x103, 7, 0, INVALID, { 3, 0, 1, 7 } },
		{ ACQUIRE, 0x108, 7, 0, INVALID, { 3, 0, 1, 7 } },
		{ ACQUIRE, 0x200, 7, 0, 0, { 3, 2, 1, 7 } },
		{ ACQUIRE, 0x200, 7, 0, 0, { 3, 2, 1, 7 } },
		{ ACQUIRE, 0x100, 7, 0, CONFLICT, { 3, 2, 1, 7 } },
		{ ACQUIRE, 0x101, 7, 0, INVALID, { 3, 2, 1, 7 } },
		{ ACQUIRE, 0x101, 7, 9, CONFLICT, { 3, 2, 1, 7 } },
		{ ACQUIRE, 0x101, 7, 7, 0, { 4, 1, 1, 7 } }, /* it takes its own */
		{ ACQUIRE, 0x302, 7, 7, 0, { 5, 3, 1, 7 } },
		{ RELEASE, 0x200, 7, 0, INVALID, { 5, 3, 1, 7 } },
		{ RELEASE, 0x302, 7, 0, INVALID, { 5, 3, 1, 7 } },
		{ RELEASE, 0x308, 7, 0, INVALID, { 5, 3, 1, 7 } },
		{ RELEASE, 0x300, 6, 0, CONFLICT, { 5, 3, 1, 7 } },
		{ RELEASE, 0x300, 7, 0, 0, { 5, 0, 1, 7 } },
		{ RELEASE, 0x300, 7, 0, 0, { 5, 0, 1, 7 } }, /* there is none */
		{ ACQUIRE, 0x500, 7, 0, 0, { 5, 5, 1, 7 } },
		{ ACQUIRE, 0x601, 7, 0, 0, { 6, 6, 1, 7 } }, /* of all registrants */
		{ RELEASE, 0x001, 7, 0, 0, { 7, 0, 0, 0 } }, /* clear */
		{ REGISTER, 0, 0, 5, 0, { 8, 0, 1, 5 } },
		{ ACQUIRE, 0x600, 5, 0, 0, { 8, 6, 1, 5 } },
		{ REGISTER, 1, 5, 0, 0, { 9, 0, 0, 0 } },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const uint16_t status =
			command(row[i].opcode, row[i].cdw10, row[i].key, row[i].other);

		cr_expect_eq(status & 0x7ff, row[i].want, "row %zu: %03x", i, status);
		expect_state(&row[i].state, i);
	}
}
