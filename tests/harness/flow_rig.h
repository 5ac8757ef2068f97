/*
 * tests/harness/flow_rig.h - offers, tiles and completions of one link, call by call: the queue pair is
 * the rig's, which logs what is posted and decides results. A test includes it once.
 */
#ifndef TESTS_HARNESS_FLOW_RIG_H
#define TESTS_HARNESS_FLOW_RIG_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/remote/flow.h"

#include "tests/harness/calls.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER
#define LAST (HR_LINK_SLOTS_MAX - 1)
#define SLOTS 8u
#define STRIDE 1000u
#define BYTES 900u

static struct hr_link *link_;
static uint8_t *table;
static struct {
	int entry, tile, receive, poll;
	uint32_t room;
	struct hr_rdma_done done;
} will;

#define EXPECT_TEXT(want)                                               \
	do {                                                            \
		cr_expect_str_eq(link_->text, want, "%s", link_->text); \
		link_->text[0] = '\0';                                  \
	} while (0)

/* ---- the queue pair */

static void note_immediate(uint32_t immediate)
{
	const uint32_t bits = ntohl(immediate);

	calls_note(" kind %u generation %u slot %u sequence %u;", bits >> 30, bits >> 26 & 15,
		   bits >> 16 & 1023, bits & 0xffff);
}

int hr_rdma_qp_write_entry(struct hr_rdma_qp *qp, const void *entry, uint32_t bytes, uint64_t to,
			   uint32_t rkey, uint32_t immediate)
{
	const struct hr_link_offer *offer = entry;

	cr_expect_eq(qp, &link_->qp);
	calls_note("entry >%llu/%u", (unsigned long long)to, rkey);
	for (uint32_t i = 0; link_->setup.side == R && i < bytes / sizeof *offer; i++)
		calls_note(" %llu:%u:%u", (unsigned long long)offer[i].tile, offer[i].slot,
			   offer[i].sequence);
	note_immediate(immediate);
	return will.entry;
}

int hr_rdma_qp_write_tile(struct hr_rdma_qp *qp, uint64_t from, uint32_t bytes, uint64_t to,
			  uint32_t rkey, const uint32_t *immediate)
{
	cr_expect_eq(qp, &link_->qp);
	calls_note("tile %llu+%u>%llu/%u", (unsigned long long)from, bytes, (unsigned long long)to,
		   rkey);
	if (immediate)
		note_immediate(*immediate);
	else
		calls_note(";");
	return will.tile;
}

int hr_rdma_qp_receive(struct hr_rdma_qp *qp, uint32_t count)
{
	calls_note("receive %u;", count);
	return will.receive;
}

bool hr_rdma_qp_room(const struct hr_rdma_qp *qp, uint32_t count)
{
	const bool room = will.room >= count;

	if (room && link_->setup.side == R)
		will.room -= count;
	return room;
}

int hr_rdma_qp_poll(struct hr_rdma_qp *qp, struct hr_rdma_done *done)
{
	cr_expect_eq(qp, &link_->qp);
	*done = will.done;
	return will.poll;
}

void hr_rdma_qp_break(struct hr_rdma_qp *qp)
{
	cr_expect_eq(qp, &link_->qp);
	calls_note("break;");
}

static const char *status_text(enum ibv_wc_status status)
{
	return status == IBV_WC_RNR_RETRY_EXC_ERR ? "not ready" : "flushed";
}

/* A link that is up; generation 3 here, 5 there. */
static void up(enum hr_link_side side)
{
	memset(link_, 0, sizeof *link_);
	memset(&will, 0, sizeof will);
	memset(table, 0, HR_LINK_TABLE_BYTES);
	calls_take();
	link_->setup.side = side;
	link_->setup.memory.slots = SLOTS;
	link_->setup.memory.stride = STRIDE;
	link_->setup.tile_bytes = BYTES;
	link_->setup.tiles = 10000;
	link_->state = HR_LINK_IS_FLOW;
	link_->depth = 4;
	link_->generation = 3;
	link_->table = table;
	link_->now_ns = 77;
	link_->verbs.wc_status_str = status_text;
	link_->peer = (struct hr_link_opening){ .generation = 5,
						.tile_address = 1000000,
						.table_address = 2000000,
						.tile_key = 11,
						.table_key = 22,
						.slots = 6,
						.stride = 2000 };
	snprintf(link_->qp.device.name, sizeof link_->qp.device.name, "dev0");
	link_->qp.number = 40;
	will.room = 100;
}

static void begin(void)
{
	link_ = calloc(1, sizeof *link_);
	table = calloc(1, HR_LINK_TABLE_BYTES);
	cr_assert(link_ && table);
}

static void end(void)
{
	free(link_);
	free(table);
}

#endif
