/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations of several hosts: one controller that changes its Host Identifier is each of them in
 * turn; two controllers of one image without an identifier are two hosts.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/conform.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define A CONFORM_DATA
#define B (CONFORM_DATA + 2)
#define CONFLICT 0x083
#define INVALID 0x002
#define INCONSISTENT 0x018
#define REGISTER nvme_cmd_resv_register
#define ACQUIRE nvme_cmd_resv_acquire
#define RELEASE nvme_cmd_resv_release
#define HOSTS 16u /* registrants that a namespace has room for */

static struct conform c, other;
static char path[] = "/tmp/headrace-hosts-XXXXXX";

static void use(unsigned reservations)
{
	static char device[160]; /* conform_use() keeps it */

	snprintf(device, sizeof device,
		 "soft:%s,size=4M,shared=1,cache=0,namespaces=2,reservations=%u", path,
		 reservations);
	conform_use(device);
}

static void begin(void)
{
	const int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	use(1);
	conform_open_io(&c);
}

static void end(void)
{
	conform_close(&c);
	conform_use(NULL);
	unlink(path);
}

TestSuite(soft_hosts, .init = begin, .fini = end, .timeout = 60);

/* Execute a command. A status of reservations is final, so it has "Do Not Retry". */
static uint16_t final(struct conform *on, struct conform_queue *q, const struct hr_sqe *sqe)
{
	struct hr_cqe cqe;
	uint16_t status;

	conform_push(q, sqe);
	conform_ring(on, q);
	cr_assert(conform_peek(on, q, CONFORM_MS, &cqe));
	conform_release(on, q);
	status = hr_cqe_status(cqe.status) & 0x7ff;
	cr_expect_eq(cqe.status >> 15, status != 0, "status %03x", status);
	return status;
}

/* Become the host whose identifier has this number in all its bytes. 0: no identifier. */
static void host(unsigned n, bool wide)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_set_features,
				    .prp1 = conform_bus(&c, A),
				    .cdw10 = NVME_FEAT_FID_HOST_ID,
				    .cdw11 = wide };

	memset(conform_page(&c, A), (int)n, 16);
	cr_assert_eq(final(&c, &c.admin, &sqe), 0);
}

static uint16_t command(struct conform *on, uint32_t nsid, uint8_t opcode, uint32_t cdw10,
			uint64_t key, uint64_t second)
{
	const struct hr_sqe sqe = {
		.opcode = opcode, .nsid = nsid, .prp1 = conform_bus(on, A), .cdw10 = cdw10
	};
	const uint64_t keys[2] = { key, second };

	memcpy(conform_page(on, A), keys, sizeof keys);
	return final(on, &on->io, &sqe);
}

static uint16_t report(struct conform *on, uint32_t nsid, uint32_t bytes, bool wide)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_resv_report,
				    .nsid = nsid,
				    .prp1 = conform_bus(on, A),
				    .prp2 = conform_bus(on, A + 1),
				    .cdw10 = bytes / 4 - 1,
				    .cdw11 = wide };

	memset(conform_page(on, A), 0xee, 2 * HR_PAGE);
	return final(on, &on->io, &sqe);
}

/*
 * The report as text: generation, type, and for each registrant "HOST:KEY" in hexadecimal, with "*"
 * for a holder.
 */
static const char *state(struct conform *on, uint32_t nsid, bool wide)
{
	static char text[600];
	const unsigned each = wide ? 64 : 24, id_bytes = wide ? 16 : 8;
	const uint8_t *data = conform_page(on, A), *at;
	uint32_t generation;
	size_t used;

	cr_assert_eq(report(on, nsid, 2048, wide), 0);
	memcpy(&generation, data, 4);
	used = (size_t)sprintf(text, "%u t%u", generation, data[4]);
	for (unsigned i = 0; i < data[5]; i++) {
		uint64_t key;

		at = data + each * (i + 1);
		memcpy(&key, at + (wide ? 8 : 16), 8);
		at += wide ? 16 : 8;
		for (unsigned k = 1; k < id_bytes; k++)
			cr_expect_eq(at[k], at[0], "byte %u of the identifier", k);
		used += (size_t)sprintf(text + used, " %x:%llx%s", at[0], (unsigned long long)key,
					data[each * (i + 1) + 2] ? "*" : "");
	}
	for (unsigned i = each * (data[5] + 1u); i < 2048; i++)
		cr_assert_eq(data[i], 0, "byte %u", i);
	return text;
}

/* ---- registrants */

Test(soft_hosts, each_command_of_several_hosts)
{
	static const struct {
		unsigned host;
		uint8_t opcode;
		uint32_t cdw10;
		uint64_t key, second;
		uint16_t want;
		const char *state;
	} row[] = {
		{ 1, REGISTER, 0, 0, 5, 0, "1 t0 1:5" },
		{ 2, REGISTER, 0, 0, 6, 0, "2 t0 1:5 2:6" },
		{ 1, REGISTER, 0, 0, 5, 0, "2 t0 1:5 2:6" },
		{ 1, REGISTER, 0, 0, 6, CONFLICT, "2 t0 1:5 2:6" },
		{ 3, ACQUIRE, 0x100, 5, 0, CONFLICT, "2 t0 1:5 2:6" },
		{ 2, ACQUIRE, 0x100, 5, 0, CONFLICT, "2 t0 1:5 2:6" },
		{ 2, ACQUIRE, 0x101, 6, 5, 0, "3 t0 2:6" }, /* there is no holder */
		{ 1, REGISTER, 0, 0, 5, 0, "4 t0 1:5 2:6" },
		{ 1, ACQUIRE, 0x100, 5, 0, 0, "4 t1 1:5* 2:6" },
		{ 2, ACQUIRE, 0x100, 6, 0, CONFLICT, "4 t1 1:5* 2:6" },
		{ 2, RELEASE, 0x100, 6, 0, 0, "4 t1 1:5* 2:6" }, /* not its own */
		{ 2, ACQUIRE, 0x101, 6, 0, INVALID, "4 t1 1:5* 2:6" },
		{ 2, ACQUIRE, 0x301, 6, 5, 0, "6 t3 2:6*" },
		{ 1, REGISTER, 0, 0, 5, 0, "7 t3 1:5 2:6*" },
		{ 2, REGISTER, 1, 6, 0, 0, "8 t0 1:5" },
		{ 2, REGISTER, 0, 0, 6, 0, "9 t0 1:5 2:6" },
		{ 2, ACQUIRE, 0x200, 6, 0, 0, "9 t2 1:5 2:6*" },
		{ 1, REGISTER, 1, 5, 0, 0, "10 t2 2:6*" },
		{ 1, REGISTER, 0, 0, 5, 0, "11 t2 1:5 2:6*" },
		{ 1, RELEASE, 0x001, 5, 0, 0, "13 t0" }, /* clear, by a host without reservation */
		/* A reservation of all registrants ends with the last of them. */
		{ 1, REGISTER, 0, 0, 5, 0, "14 t0 1:5" },
		{ 2, REGISTER, 0, 0, 6, 0, "15 t0 1:5 2:6" },
		{ 1, ACQUIRE, 0x500, 5, 0, 0, "15 t5 1:5* 2:6*" },
		{ 2, ACQUIRE, 0x500, 6, 0, 0, "15 t5 1:5* 2:6*" },
		{ 2, ACQUIRE, 0x600, 6, 0, CONFLICT, "15 t5 1:5* 2:6*" },
		{ 3, REGISTER, 0, 0, 9, 0, "16 t5 1:5* 2:6* 3:9*" },
		{ 1, REGISTER, 1, 5, 0, 0, "17 t5 2:6* 3:9*" },
		{ 2, ACQUIRE, 0x601, 6, 0, 0, "19 t6 2:6*" },
		{ 3, REGISTER, 0, 0, 9, 0, "20 t6 3:9* 2:6*" },
		{ 2, ACQUIRE, 0x101, 6, 9, 0, "21 t6 2:6*" }, /* the type stays */
		{ 3, REGISTER, 0, 0, 9, 0, "22 t6 3:9* 2:6*" },
		{ 2, RELEASE, 0x500, 6, 0, INVALID, "22 t6 3:9* 2:6*" },
		{ 3, RELEASE, 0x600, 9, 0, 0, "22 t0 3:9 2:6" }, /* each of them may */
		{ 2, REGISTER, 1, 6, 0, 0, "23 t0 3:9" },
		{ 3, ACQUIRE, 0x600, 9, 0, 0, "23 t6 3:9*" },
		{ 3, REGISTER, 1, 9, 0, 0, "24 t0" },
		/* All registrants of a key are preempted; the reservation of another host stays. */
		{ 1, REGISTER, 0, 0, 5, 0, "25 t0 1:5" },
		{ 2, REGISTER, 0, 0, 5, 0, "26 t0 1:5 2:5" },
		{ 3, REGISTER, 0, 0, 6, 0, "27 t0 1:5 2:5 3:6" },
		{ 3, ACQUIRE, 0x400, 6, 0, 0, "27 t4 1:5 2:5 3:6*" },
		{ 3, ACQUIRE, 0x101, 6, 5, 0, "29 t4 3:6*" },
		{ 3, ACQUIRE, 0x102, 6, 5, CONFLICT, "29 t4 3:6*" },
		{ 3, REGISTER, 10, 0, 7, 0, "30 t4 3:7*" }, /* its key is ignored */
		{ 3, RELEASE, 0x400, 7, 0, 0, "30 t0 3:7" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint16_t status;

		host(row[i].host, true);
		status = command(&c, 1, row[i].opcode, row[i].cdw10, row[i].key, row[i].second);
		cr_expect_eq(status, row[i].want, "row %zu: %03x", i, status);
		cr_expect_str_eq(state(&c, 1, true), row[i].state, "row %zu", i);
	}
	cr_expect_str_eq(state(&c, 2, true), "0 t0", "each namespace has a state of its own");
}

Test(soft_hosts, a_namespace_has_room_for_sixteen)
{
	for (unsigned n = 1; n <= HOSTS; n++) {
		host(n, true);
		cr_expect_eq(command(&c, 1, REGISTER, 0, 0, n), 0, "host %u", n);
	}
	host(HOSTS + 1, true);
	cr_expect_eq(command(&c, 1, REGISTER, 0, 0, 9), NVME_SC_INTERNAL);
	cr_expect_eq(command(&c, 2, REGISTER, 0, 0, 9), 0, "another namespace");
	host(HOSTS, true);
	cr_expect_eq(command(&c, 1, REGISTER, 1, HOSTS, 0), 0, "the last one leaves");
	host(HOSTS + 1, true);
	cr_expect_eq(command(&c, 1, REGISTER, 0, 0, 9), 0);
	cr_expect_str_eq(state(&c, 1, true), "18 t0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 8:8 9:9 a:a b:b "
					     "c:c d:d e:e f:f 11:9");
	cr_expect_eq(command(&c, 1, RELEASE, 1, 9, 0), 0, "clear");
	cr_expect_str_eq(state(&c, 1, true), "34 t0");
}

/* ---- access */

static uint16_t flush(uint32_t nsid)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_flush, .nsid = nsid };

	return final(&c, &c.io, &sqe);
}

static uint16_t io(uint8_t opcode, uint32_t nsid)
{
	struct hr_sqe sqe = conform_io_sqe(&c, opcode, 0, 1, B);

	sqe.nsid = nsid;
	return final(&c, &c.io, &sqe);
}

/* Figure "Command Behavior in the Presence of a Reservation". */
Test(soft_hosts, each_type_refuses_the_hosts_that_it_excludes)
{
	enum { READS = 1, WRITES = 2, BOTH = 3 };
	/* For each type what a registrant and another host may do; a holder may do both. */
	static const unsigned may[][2] = { { BOTH, BOTH },  { READS, READS }, { 0, 0 },
					   { BOTH, READS }, { BOTH, 0 },      { BOTH, READS },
					   { BOTH, 0 } };

	for (unsigned n = 1; n <= 2; n++) {
		host(n, true);
		cr_assert_eq(command(&c, 1, REGISTER, 0, 0, n), 0);
	}
	for (uint32_t type = 0; type < ROWS(may); type++)
		for (unsigned holder = 1; holder <= 2; holder++) {
			host(holder, true);
			if (type)
				cr_assert_eq(command(&c, 1, ACQUIRE, type << 8, holder, 0), 0);
			for (unsigned n = 1; n <= 3; n++) {
				const unsigned can = n == holder ? BOTH : may[type][n == 3];
				const uint16_t read = can & READS ? 0 : CONFLICT;
				const uint16_t write = can & WRITES ? 0 : CONFLICT;

				host(n, true);
				cr_expect_eq(io(nvme_cmd_read, 1), read, "type %u, %u of %u", type,
					     n, holder);
				cr_expect_eq(io(nvme_cmd_write, 1), write, "type %u, %u of %u",
					     type, n, holder);
				cr_expect_eq(flush(1), write, "type %u, %u of %u", type, n, holder);
				cr_expect_eq(flush(NVME_NSID_ALL), write, "type %u, %u of %u", type,
					     n, holder);
				/* The other namespace has no reservation. */
				cr_expect_eq(io(nvme_cmd_write, 2), 0);
				cr_expect_eq(flush(2), 0);
			}
			host(holder, true);
			if (type)
				cr_assert_eq(command(&c, 1, RELEASE, type << 8, holder, 0), 0);
		}
	/* A reservation of the last namespace refuses a flush of all. */
	cr_assert_eq(command(&c, 2, REGISTER, 0, 0, 2), 0);
	cr_assert_eq(command(&c, 2, ACQUIRE, 0x100, 2, 0), 0);
	host(1, true);
	cr_expect_eq(flush(1), 0);
	cr_expect_eq(flush(2), CONFLICT);
	cr_expect_eq(flush(NVME_NSID_ALL), CONFLICT);
}

/* ---- identifiers */

static const uint8_t *identifier(uint32_t select, bool wide)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_get_features,
				    .prp1 = conform_bus(&c, A),
				    .cdw10 = NVME_FEAT_FID_HOST_ID | select << 8,
				    .cdw11 = wide };

	memset(conform_page(&c, A), 0xee, 64);
	cr_assert_eq(final(&c, &c.admin, &sqe), 0);
	return conform_page(&c, A);
}

Test(soft_hosts, an_identifier_has_8_or_16_bytes)
{
	for (unsigned set = 0; set < 2; set++) {
		host(0x31, set);
		for (unsigned got = 0; got < 2; got++)
			for (unsigned i = 0; i < 17; i++) {
				const unsigned stated = set ? 16 : 8, asked = got ? 16 : 8;

				cr_expect_eq(identifier(0, got)[i],
					     i >= asked	  ? 0xee
					     : i < stated ? 0x31
							  : 0,
					     "%u, %u: byte %u", set, got, i);
				cr_expect_eq(identifier(1, got)[i], i >= asked ? 0xee : 0,
					     "default %u", i);
			}
	}
}

Test(soft_hosts, the_form_of_the_report_is_that_of_the_identifier)
{
	for (unsigned wide = 0; wide < 2; wide++) {
		host(7, wide);
		cr_assert_eq(command(&c, 1, REGISTER, 0, 0, 0x70 + wide), 0);
		cr_assert_eq(command(&c, 1, ACQUIRE, 0x100, 0x70 + wide, 0), 0);
		cr_expect_str_eq(state(&c, 1, wide), wide ? "3 t1 7:71*" : "1 t1 7:70*");
		cr_expect_eq(report(&c, 1, 64, !wide), INCONSISTENT, "%u", wide);
		cr_assert_eq(command(&c, 1, REGISTER, 1, 0x70 + wide, 0), 0);
	}
	/* A host without an identifier may ask for both. */
	host(0, true);
	cr_expect_eq(report(&c, 1, 64, true), 0);
	cr_expect_eq(report(&c, 1, 64, false), 0);
}

Test(soft_hosts, a_report_has_the_length_that_the_command_says)
{
	static const struct {
		uint32_t bytes;
		uint16_t want;
	} row[] = { { 4, 0 }, { 8, 0 }, { 4096, 0 }, { 4100, INVALID } };
	const uint8_t *data = conform_page(&c, A);

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(report(&c, 1, row[i].bytes, false), row[i].want, "row %zu", i);
		if (row[i].want == 0)
			cr_expect_eq(data[row[i].bytes - 1], 0, "row %zu", i);
		cr_expect_eq(data[row[i].want ? 0 : row[i].bytes], 0xee, "row %zu", i);
	}
}

/* Keys and identifiers may cross a page. */
Test(soft_hosts, data_of_a_command_may_lie_in_two_pages)
{
	struct hr_sqe sqe = { .opcode = nvme_admin_set_features,
			      .prp1 = conform_bus(&c, A) + HR_PAGE - 4,
			      .prp2 = conform_bus(&c, B),
			      .cdw10 = NVME_FEAT_FID_HOST_ID,
			      .cdw11 = 1 };
	uint8_t *first = (uint8_t *)conform_page(&c, A) + HR_PAGE - 8;

	memset(first, 9, 8);
	memset(conform_page(&c, B), 9, 12);
	cr_expect_eq(final(&c, &c.admin, &sqe), 0);
	sqe = (struct hr_sqe){ .opcode = REGISTER,
			       .nsid = 1,
			       .prp1 = conform_bus(&c, A) + HR_PAGE - 8,
			       .prp2 = conform_bus(&c, B) };
	memset(first, 0, 8);
	memset(conform_page(&c, B), 0x44, 8);
	cr_expect_eq(final(&c, &c.io, &sqe), 0);
	cr_expect_str_eq(state(&c, 1, true), "1 t0 9:4444444444444444");
	/* Memory out of reach; a release reads one key. */
	sqe.prp1 = 1ull << 50;
	cr_expect_eq(final(&c, &c.io, &sqe), NVME_SC_DATA_XFER_ERROR);
	sqe = (struct hr_sqe){ .opcode = RELEASE,
			       .nsid = 1,
			       .prp1 = conform_bus(&c, A) + HR_PAGE - 8,
			       .prp2 = 1ull << 50,
			       .cdw10 = 1 };
	memset(first, 0x44, 8);
	cr_expect_eq(final(&c, &c.io, &sqe), 0);
	cr_expect_str_eq(state(&c, 1, true), "2 t0");
	sqe = (struct hr_sqe){ .opcode = nvme_admin_set_features,
			       .prp1 = 1ull << 50,
			       .cdw10 = NVME_FEAT_FID_HOST_ID };
	cr_expect_eq(final(&c, &c.admin, &sqe), NVME_SC_DATA_XFER_ERROR);
	sqe = (struct hr_sqe){ .opcode = nvme_cmd_resv_report,
			       .nsid = 1,
			       .prp1 = 1ull << 50,
			       .cdw10 = 15,
			       .cdw11 = 1 };
	cr_expect_eq(final(&c, &c.io, &sqe), NVME_SC_DATA_XFER_ERROR);
}

/* ---- controllers */

Test(soft_hosts, controllers_without_an_identifier_are_hosts_of_their_own)
{
	conform_open_io(&other);
	cr_expect_eq(command(&c, 1, REGISTER, 0, 0, 5), 0);
	cr_expect_eq(command(&c, 1, ACQUIRE, 0x100, 5, 0), 0);
	cr_expect_eq(command(&other, 1, ACQUIRE, 0x100, 5, 0), CONFLICT, "not registered");
	cr_expect_eq(command(&other, 1, REGISTER, 0, 0, 6), 0);
	cr_expect_eq(command(&other, 2, REGISTER, 0, 0, 6), 0);
	cr_expect_str_eq(state(&other, 1, true), "2 t1 0:5* 0:6");
	host(1, true);
	cr_expect_eq(command(&c, 1, REGISTER, 0, 0, 8), 0);
	cr_expect_eq(command(&c, 2, REGISTER, 0, 0, 8), 0);
	/* A reset ends the registrations without an identifier of this controller. */
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_expect_str_eq(state(&other, 1, true), "4 t0 0:6 1:8");
	cr_expect_str_eq(state(&other, 2, true), "2 t0 0:6 1:8");
	conform_close(&other);
	/* So does the end of a controller; the others stay as long as one controller is open. */
	conform_close(&c);
	conform_open_io(&c);
	cr_expect_str_eq(state(&c, 1, true), "0 t0", "the last one has closed");
}

Test(soft_hosts, the_state_stays_while_one_controller_is_open)
{
	host(1, true);
	cr_expect_eq(command(&c, 1, REGISTER, 0, 0, 8), 0);
	conform_open_io(&other);
	conform_close(&c);
	cr_expect_str_eq(state(&other, 1, true), "1 t0 1:8");
	conform_open_io(&c);
	conform_close(&other);
	cr_expect_str_eq(state(&c, 1, true), "1 t0 1:8");
	host(1, true);
	cr_expect_eq(command(&c, 1, REGISTER, 1, 8, 0), 0);
	/* A reset takes the identifier of the controller, and its length, back. */
	host(1, true);
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_expect_eq(identifier(0, true)[0], 0);
	cr_expect_eq(report(&c, 1, 64, true), 0);
}

Test(soft_hosts, an_image_can_be_held_by_another_host_from_the_start)
{
	conform_close(&c);
	use(2);
	conform_open_io(&c);
	for (uint32_t nsid = 1; nsid <= 2; nsid++) {
		cr_expect_str_eq(state(&c, nsid, true), "0 t1 fe:666f726569676e*");
		cr_expect_eq(io(nvme_cmd_write, nsid), CONFLICT);
		cr_expect_eq(io(nvme_cmd_read, nsid), 0);
	}
	host(0xfe, true);
	cr_expect_eq(io(nvme_cmd_write, 1), 0, "that host");
	/* A second controller finds the state as it is. */
	cr_expect_eq(command(&c, 1, RELEASE, 0x100, 0x666f726569676e, 0), 0);
	conform_open_io(&other);
	cr_expect_str_eq(state(&other, 1, true), "0 t0 fe:666f726569676e");
	conform_close(&other);
}
