/* Shadow doorbells (Doorbell Buffer Config): the host writes them, and no register. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/harness/conform.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define BATCH \
	(CONFORM_ENTRIES - 1) /* commands that fill the SQ, and completions that fill the CQ */
#define WRITTEN CONFORM_DATA
#define READ (CONFORM_DATA + BATCH)
#define PATIENCE_MS 60000u /* a loaded machine is no fault */
#define GLANCE_MS 20u	   /* for completions that must not come */

static struct conform c;

TestSuite(soft_bells, .timeout = 120);

static uint16_t use_shadow(void)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_dbbuf,
				    .prp1 = conform_bus(&c, CONFORM_SHADOW),
				    .prp2 = conform_bus(&c, CONFORM_EVENT) };

	return conform_admin(&c, &sqe, NULL);
}

static void move_shadow(bool cq, uint16_t value)
{
	uint32_t *const shadow = (uint32_t *)conform_page(&c, CONFORM_SHADOW);

	__atomic_store_n(&shadow[(2u * c.io.id + cq) * c.step / 4], value, __ATOMIC_RELEASE);
}

/* Push a full SQ of commands: command i moves block i to or from page + i. */
static void push_batch(uint8_t opcode, uint32_t page)
{
	for (uint32_t i = 0; i < BATCH; i++) {
		const struct hr_sqe sqe = conform_io_sqe(&c, opcode, i, 1, page + i);

		conform_push(&c.io, &sqe);
	}
}

static void take_batch(uint32_t round)
{
	struct hr_cqe cqe;

	for (uint32_t i = 0; i < BATCH; i++) {
		cr_assert(conform_peek(&c, &c.io, PATIENCE_MS, &cqe), "round %u, command %u", round,
			  i);
		cr_assert_eq(hr_cqe_status(cqe.status), 0, "round %u, command %u", round, i);
	}
	cr_assert_eq(c.io.sqhd, c.io.tail);
}

/* Writes fill the CQ; the reads behind them complete once the shadow of the CQ head has moved. */
static void write_and_read(uint32_t round)
{
	struct hr_cqe cqe;

	for (uint32_t i = 0; i < BATCH; i++)
		conform_fill(&c, WRITTEN + i, c.block_bytes, round * BATCH + i);
	push_batch(nvme_cmd_write, WRITTEN);
	move_shadow(false, c.io.tail);
	take_batch(round);
	push_batch(nvme_cmd_read, READ);
	move_shadow(false, c.io.tail);
	if (round == 0)
		cr_assert_not(conform_peek(&c, &c.io, GLANCE_MS, &cqe), "the CQ has no room");
	move_shadow(true, c.io.head);
	take_batch(round);
	move_shadow(true, c.io.head);
	for (uint32_t i = 0; i < BATCH; i++)
		cr_assert(conform_is_filled(&c, READ + i, c.block_bytes, round * BATCH + i),
			  "round %u, block %u", round, i);
}

/* A script whose rule never fires: each command goes the careful way. */
static int open_script(char *device, size_t bytes)
{
	static const char rules[] = "on any nth 1000000000: drop\n";
	const int fd = memfd_create("faults", 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, rules, strlen(rules)), (ssize_t)strlen(rules));
	snprintf(device, bytes, "soft:memory,size=1M,faults=/proc/self/fd/%d", fd);
	return fd;
}

Test(soft_bells, full_queues_move_by_shadows_alone)
{
	char careful[80];
	const int fd = open_script(careful, sizeof(careful));
	const char *const device[] = { "soft:memory,size=1M",
				       "soft:memory,size=1M,lba=512,cache=64K,threads=2", careful };

	for (size_t i = 0; i < ROWS(device); i++) {
		conform_use(device[i]);
		conform_open(&c);
		cr_assert_eq(use_shadow(), 0);
		cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
		for (uint32_t round = 0; round < 40; round++)
			write_and_read(round);
		conform_close(&c);
	}
	close(fd);
}

Test(soft_bells, a_queue_obeys_its_registers_until_its_shadow_moves)
{
	struct hr_cqe cqe;
	struct hr_sqe sqe;

	conform_use("soft:memory,size=1M");
	conform_open_io(&c);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, READ, 0), 0);
	cr_assert_eq(use_shadow(), 0);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, READ, 0), 0);
	sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 1, READ);
	conform_push(&c.io, &sqe);
	move_shadow(false, c.io.tail);
	cr_assert(conform_peek(&c, &c.io, PATIENCE_MS, &cqe));
	conform_push(&c.io, &sqe);
	conform_ring(&c, &c.io);
	cr_expect_not(conform_peek(&c, &c.io, GLANCE_MS, &cqe), "the register alone counts");
	move_shadow(false, c.io.tail);
	cr_expect(conform_peek(&c, &c.io, PATIENCE_MS, &cqe));
	conform_close(&c);
}

Test(soft_bells, shadows_that_need_more_than_a_page_are_not_offered)
{
	conform_use("soft:memory,size=1M,dstrd=1");
	conform_open(&c);
	cr_expect_eq(c.id.oacs & NVME_CTRL_OACS_DBBUF_CFG, 0);
	cr_expect_eq(use_shadow(), NVME_SC_INVALID_OPCODE);
	conform_close(&c);
}
