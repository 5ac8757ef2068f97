/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fuzz/soft.c - the software controller against a driver with arbitrary behaviour.
 *
 * The input is a program of small steps: write a register or doorbell, write words or a command
 * anywhere into DMA memory, let a poller run a round. No threads, so a crash repeats. Registers and
 * rings are set up first (unless a flag in the program's first byte prevents it), so that the steps
 * reach commands. Memory outside of the window is not mapped for the controller: any access to it, or
 * any endless loop, ends the run.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"
#include "nvme/soft/internal.h"
#include "tests/harness/error.h"

#define PAGES 24u
#define BUS (64ull << 30)
#define ENTRIES 8u
#define STEPS 400u

enum { ASQ, ACQ, SQ, CQ, LIST, DATA }; /* pages */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct input {
	const uint8_t *at;
	size_t left;
};

static uint64_t take(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	bytes = bytes < in->left ? bytes : in->left;
	memcpy(&value, in->at, bytes);
	in->at += bytes;
	in->left -= bytes;
	return value;
}

static void reg32(struct soft *soft, uint32_t offset, uint32_t value)
{
	__atomic_store_n((uint32_t *)(void *)(soft->bar + offset), value, __ATOMIC_RELEASE);
}

static void reg64(struct soft *soft, uint32_t offset, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)(soft->bar + offset), value, __ATOMIC_RELEASE);
}

static void run(struct soft *soft, unsigned rounds)
{
	while (rounds--)
		for (uint32_t i = 0; i < soft->threads; i++)
			soft_poll(&soft->poller[i]);
}

static void enable(struct soft *soft)
{
	reg32(soft, NVME_REG_AQA, (ENTRIES - 1) << 16 | (ENTRIES - 1));
	reg64(soft, NVME_REG_ASQ, BUS + ASQ * HR_PAGE);
	reg64(soft, NVME_REG_ACQ, BUS + ACQ * HR_PAGE);
	reg32(soft, NVME_REG_CC, 1 | HR_SQE_SHIFT << 16 | HR_CQE_SHIFT << 20);
	run(soft, 1);
}

/* Create queue pair 1 like a driver. */
static void add_queues(struct soft *soft, uint8_t *memory)
{
	struct hr_sqe *sqe = (struct hr_sqe *)(void *)(memory + ASQ * HR_PAGE);

	sqe[0].opcode = nvme_admin_create_cq;
	sqe[1].opcode = nvme_admin_create_sq;
	sqe[0].cdw10 = sqe[1].cdw10 = (ENTRIES - 1) << 16 | 1;
	sqe[0].cdw11 = 1;
	sqe[1].cdw11 = 1u << 16 | 1;
	sqe[0].prp1 = BUS + CQ * HR_PAGE;
	sqe[1].prp1 = BUS + SQ * HR_PAGE;
	reg32(soft, SOFT_DOORBELLS, 2);
	run(soft, 1);
	reg32(soft, SOFT_DOORBELLS + 4, 2);
}

/* Addresses mostly inside of the window, with critical offsets. */
static uint64_t address(uint64_t raw)
{
	if (raw % 16 == 15)
		return raw << 32 | raw;
	return BUS + raw % 32 * HR_PAGE + (raw % 7 == 6 ? raw >> 8 & 0xff8 : 0);
}

static void put_command(struct input *in, uint8_t *memory)
{
	static const uint8_t io[] = { 0, 1, 2, 8, 9, 5 };
	const uint64_t how = take(in, 2);
	struct hr_sqe *ring = (struct hr_sqe *)(void *)(memory + (how & 1 ? SQ : ASQ) * HR_PAGE);
	struct hr_sqe *sqe = &ring[how >> 1 & (ENTRIES - 1)];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = how & 1 ? io[(how >> 8) % sizeof(io)] : (uint8_t)take(in, 1);
	sqe->flags = how >> 4 & 15 ? 0 : (uint8_t)take(in, 1);
	sqe->cid = (uint16_t)how;
	sqe->nsid = how & 0x80 ? (uint32_t)take(in, 4) : 1;
	sqe->prp1 = address(take(in, 2));
	sqe->prp2 = address(take(in, 2));
	sqe->cdw10 = (uint32_t)take(in, 4);
	sqe->cdw11 = how & 0x40 ? (uint32_t)take(in, 4) : 0;
	sqe->cdw12 = (uint32_t)take(in, 2);
}

static void put_words(struct input *in, uint8_t *memory)
{
	uint64_t *words = (uint64_t *)(void *)memory;
	uint32_t at = (uint32_t)(take(in, 2) % (PAGES * HR_PAGE / 8));
	uint64_t count = take(in, 1) % 16 + 1;

	for (; count && at < PAGES * HR_PAGE / 8; count--)
		words[at++] = address(take(in, 2));
}

static void step(struct soft *soft, struct input *in, uint8_t *memory)
{
	switch (take(in, 1) % 8) {
	case 0:
		reg32(soft, (uint32_t)take(in, 1) % 16 * 4, (uint32_t)take(in, 4));
		break;
	case 1:
		reg64(soft, NVME_REG_ASQ + (uint32_t)take(in, 1) % 2 * 8, address(take(in, 2)));
		break;
	case 2:
		reg32(soft, SOFT_DOORBELLS + (uint32_t)take(in, 1) % 12 * 4, (uint32_t)take(in, 1));
		break;
	case 3:
		put_words(in, memory);
		break;
	case 4:
	case 5:
		put_command(in, memory);
		break;
	case 6:
		enable(soft);
		break;
	default:
		soft_scan_doorbells(soft);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t memory[PAGES * HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_soft_options options = {
		.bytes = 1 << 20, .block_bytes = 512, .mdts = 4, .cache_bytes = 16384, .threads = 2
	};
	struct input in = { data, bytes };
	const uint64_t how = take(&in, 1);
	struct soft *soft;

	options.mdts = how & 4 ? 0 : 4;
	options.null = how & 16;
	options.cache_bytes = how & 24 ? 0 : 16384;
	if (soft_new(&soft, &options, test_error()) != 0)
		abort();
	memset(memory, 0, sizeof(memory));
	soft->window[0] = (struct soft_window){ BUS, sizeof(memory), memory, false };
	if (!(how & 1))
		enable(soft);
	if (!(how & 3))
		add_queues(soft, memory);
	for (unsigned i = 0; i < STEPS && in.left; i++) {
		step(soft, &in, memory);
		run(soft, 1);
	}
	soft_delete(soft);
	return 0;
}
