/*
 * tests/harness/roles_rig.h - a role of a pipeline, function by function, with one lane: its commands
 * go to a log, and their results and completions come from a script. A test includes the role's source
 * before this file, once, with hr_qp_ring defined as rig_ring; the clock stands still.
 */
#ifndef TESTS_HARNESS_ROLES_RIG_H
#define TESTS_HARNESS_ROLES_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "config/clock.h"
#include "gpu/worker/pipeline.c"
#include "tests/fakes/clock.h"
#include "tests/harness/calls.h"

#define RIG_SLOTS 5u
#define RIG_NOW 1000000000ull
#define RIG_LBA_SHIFT 9u

static struct {
	struct hr_pipe pipe;
	struct hr_pipe_control control;
	struct hr_worker_status status[8];
	struct hr_slot slot[RIG_SLOTS];
	uint64_t written[RIG_SLOTS];
	struct hr_nvme_qp
		qp[4]; /* read: 0 and 1 of worker 0, 2 and 3 of worker 1; write: 0 and 1 */
	struct hr_role_worker w;
	int result[8]; /* of the next calls that post commands; then 1 */
	unsigned results, result_at;
	struct hr_done done[12]; /* of the next reaps; then none */
	unsigned dones, done_at;
	unsigned reaps;	    /* calls */
	void (*reap)(void); /* called by each reap; NULL: none */
} rig;

static int post(void)
{
	return rig.result_at < rig.results ? rig.result[rig.result_at++] : 1;
}

static unsigned queue_of(const struct hr_nvme_qp *qp)
{
	return (unsigned)(qp - rig.qp);
}

/* In place of hr_qp_ring(). */
static inline void rig_ring(const struct hr_nvme_qp *qp)
{
	calls_note("ring q%u\n", queue_of(qp));
}

/* ---- cache/object.c */

HR_DEVICE int hr_io_read_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			      uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			      uint32_t buffer_index)
{
	const int n = post();

	calls_note("read q%u object %llu %llu+%u buffer %u/%u: %d\n", queue_of(qp),
		   (unsigned long long)extent->id, (unsigned long long)offset, bytes, buffer_index,
		   (unsigned)(uintptr_t)buffer->data, n);
	return n;
}

HR_DEVICE int hr_io_write_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			       uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			       uint32_t buffer_index, uint32_t flags)
{
	const int n = post();

	calls_note("write q%u object %llu %llu+%u buffer %u/%u flags %u: %d\n", queue_of(qp),
		   (unsigned long long)extent->id, (unsigned long long)offset, bytes, buffer_index,
		   (unsigned)(uintptr_t)buffer->data, flags, n);
	return n;
}

HR_DEVICE int hr_io_repost(struct hr_nvme_qp *qp, uint8_t opcode, const struct hr_extent *extent,
			   uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			   uint32_t buffer_index, uint32_t chunk, uint32_t flags)
{
	const int n = post();

	calls_note("again q%u op %u object %llu %llu+%u buffer %u/%u chunk %u flags %u: %d\n",
		   queue_of(qp), opcode, (unsigned long long)extent->id, (unsigned long long)offset,
		   bytes, buffer_index, (unsigned)(uintptr_t)buffer->data, chunk, flags, n);
	return n;
}

HR_DEVICE int hr_io_flush_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			       uint32_t buffer_index)
{
	const int n = post();

	calls_note("flush q%u object %llu buffer %u: %d\n", queue_of(qp),
		   (unsigned long long)extent->id, buffer_index, n);
	return n;
}

HR_DEVICE hr_mask hr_io_reap(struct hr_nvme_qp *qp, struct hr_done *done)
{
	rig.reaps++;
	if (rig.reap)
		rig.reap();
	(void)qp;
	if (rig.done_at == rig.dones)
		return 0;
	*done = rig.done[rig.done_at++];
	return 1;
}

/* ---- the fixture */

#define EXPECT_LOG(text)                                \
	do {                                            \
		const char *log = calls_take();         \
		cr_expect_str_eq(log, text, "%s", log); \
	} while (0)

static inline void results(int first, int second)
{
	rig.result[0] = first;
	rig.result[1] = second;
	rig.results = 2;
	rig.result_at = 0;
}

/* The next reap has this completion. */
static inline void completes(uint32_t buffer, uint32_t chunk, uint16_t cid, uint16_t status)
{
	if (rig.done_at == rig.dones)
		rig.done_at = rig.dones = 0;
	rig.done[rig.dones++] =
		(struct hr_done){ .token = HR_TOKEN(buffer, chunk), .cid = cid, .status = status };
}

static inline struct hr_done failed(uint32_t buffer, uint32_t chunk, uint16_t status)
{
	return (struct hr_done){ .token = HR_TOKEN(buffer, chunk), .cid = 33, .status = status };
}

/*
 * Two workers of the role, two compute blocks. Source 0 (object 70, tiles of 8192 bytes, the last of
 * 8092) is read over queue 1 of a worker, source 1 (object 71, tiles of 4096 bytes) over queue 0.
 * There are 10 tiles. The sink is object 99, with tiles of 2048 bytes. rig.w is worker 1, which has
 * the slots 1 and 3. A buffer's `data` is its number: 10 * slot + source, or + 9 for the output.
 */
static inline void rig_begin(uint32_t role)
{
	memset(&rig, 0, sizeof rig);
	calls_take();
	fake_clock_start(RIG_NOW, NULL, NULL);
	rig.pipe = (struct hr_pipe){
		.tiles = 10,
		.slots = RIG_SLOTS,
		.sources = 2,
		.source = { { .extent = { .id = 70, .bytes = 9 * 8192 + 8092, .lba = 1000 },
			      .tile_bytes = 8192,
			      .queue = 1 },
			    { .extent = { .id = 71, .bytes = 10 * 4096, .lba = 2000 },
			      .tile_bytes = 4096 } },
		.has_sink = 1,
		.sink = { .id = 99, .bytes = 20480, .lba = 3000 },
		.sink_tile_bytes = 2048,
		.flush_at_end = 1,
		.blocks = { [HR_ROLE_PREFETCH] = 2,
			    [HR_ROLE_COMPUTE] = 2,
			    [HR_ROLE_WRITEBACK] = 2 },
		.workers = { 1, 1, 1 },
		.read_queues = 2,
		.read_qp = rig.qp,
		.write_qp = rig.qp,
		.slot = rig.slot,
		.control = &rig.control,
		.status = rig.status,
		.written = rig.written,
	};
	for (unsigned s = 0; s < 2; s++) {
		rig.pipe.source[s].extent.lba_shift = RIG_LBA_SHIFT;
		rig.pipe.source[s].extent.chunk_bytes = 4096;
	}
	rig.pipe.sink.lba_shift = RIG_LBA_SHIFT;
	rig.pipe.sink.chunk_bytes = 1024;
	for (unsigned s = 0; s < RIG_SLOTS; s++) {
		for (unsigned i = 0; i < HR_SOURCES_MAX; i++)
			rig.slot[s].in[i].data = (uint8_t *)(uintptr_t)(10 * s + i);
		rig.slot[s].out.data = (uint8_t *)(uintptr_t)(10 * s + 9);
		rig.slot[s].out_bytes = 2048;
	}
	for (unsigned q = 0; q < 4; q++) {
		rig.qp[q].id = (uint16_t)(q + 1);
		rig.qp[q].timeout_ns = HR_NS_PER_S;
	}
	hr_role_worker_set(&rig.w, &rig.pipe, role, 1, 2);
	rig.w.qp = &rig.qp[role == HR_ROLE_PREFETCH ? 2 : 1];
}

static inline void rig_end(void)
{
	fake_clock_stop();
}

/* The failure record of worker 1, which must be the first of the pipeline. */
static inline void expect_failure(int error, uint32_t source, uint64_t tile, uint64_t lba,
				  uint64_t object, uint16_t qid, uint16_t cid, uint8_t opcode)
{
	const struct hr_failure *f = &rig.w.status->failure;

	cr_expect(rig.w.failed && rig.w.status->failed && rig.pipe.stop);
	cr_expect_eq(f->error, error);
	cr_expect_eq(f->role, rig.w.role);
	cr_expect_eq(f->source, source);
	cr_expect_eq(f->tile, tile);
	cr_expect_eq(f->lba, lba);
	cr_expect_eq(f->object, object);
	cr_expect(f->qid == qid && f->cid == cid && f->opcode == opcode);
}

#endif
