/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/exchange/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/exchange/blocks.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "gpu/places.h"
#include "nvme/queue/status.h"

#define GUARD ((size_t)64 << 10) /* before and behind the data: some commands wide */
#define PIECE ((size_t)1 << 20)	 /* data that the host compares at a time */
#define LATE_NS (300 * HR_NS_PER_MS)
#define LATE_STEP_NS (5 * HR_NS_PER_MS)
#define COMPARE_FAILURE ((int)HR_STATUS_OF(NVME_SCT_MEDIA, NVME_SC_COMPARE_FAILED & 0xff))

struct exchange {
	const struct hr_exchange *x;
	struct hr_nvme_blk *disk;
	struct hr_places places;
	struct hr_region region;	  /* GPU memory: guard, data, guard */
	struct hr_exchange_blocks blocks; /* blocks.most: bytes of data that fit */
	uint8_t *want, *got, *before;	  /* PIECE each */
	uint64_t seed;
	bool compares; /* the Compare command finds a difference */
	struct hr_error *e;
};

const char *hr_exchange_way_text(enum hr_exchange_way way)
{
	return way == HR_EXCHANGE_TO_GPU ? "SSD writes GPU memory" : "SSD reads GPU memory";
}

const char *hr_exchange_word(enum hr_exchange_outcome outcome)
{
	static const char *const word[HR_EXCHANGE_OUTCOMES] = { "equal", "weak", "not proven",
								"failed", "differs" };

	return word[outcome];
}

/* ---- patterns, and GPU memory as the host sees it */

static size_t piece_of(uint64_t bytes, uint64_t at)
{
	return bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
}

static int upload(struct exchange *s, size_t at, const void *data, size_t bytes)
{
	struct hr_backend *b = s->x->backend;

	return b->ops->upload(b, (uint8_t *)s->region.worker + at, data, bytes, s->e);
}

static int download(struct exchange *s, size_t at, void *data, size_t bytes)
{
	struct hr_backend *b = s->x->backend;

	return b->ops->download(b, data, (const uint8_t *)s->region.worker + at, bytes, s->e);
}

/* Fill GPU memory, guards included, with the pattern of the seed. Byte `at` of the region gets byte
 * `at` of the pattern. */
static int fill_gpu_pattern(struct exchange *s, uint64_t bytes)
{
	const uint64_t end = bytes + 2 * GUARD;
	int err = 0;

	for (uint64_t at = 0; !err && at < end; at += PIECE) {
		hr_exchange_pattern(s->before, piece_of(end, at), s->seed, at);
		err = upload(s, at, s->before, piece_of(end, at));
		hr_tick();
	}
	return err;
}

static int direct(struct exchange *s, uint8_t opcode, uint64_t offset, uint64_t at, size_t bytes)
{
	return hr_nvme_blk_direct(s->disk, opcode, offset, &s->region, GUARD + at, bytes, s->e);
}

static int host_read(struct exchange *s, uint64_t offset, void *data, size_t bytes)
{
	return s->disk->blk.ops->read(&s->disk->blk, offset, data, bytes, s->e);
}

/* ---- what the ssd writes to the gpu */

/* The ssd writes `bytes` to GPU memory. */
static int send(struct exchange *s, uint64_t bytes)
{
	uint64_t from, some;
	int err = 0;

	for (uint64_t at = 0; !err && at < bytes; at += some) {
		some = hr_exchange_blocks_at(&s->blocks, at, bytes - at, &from);
		err = direct(s, nvme_cmd_read, from, at, some);
		hr_tick();
	}
	return err;
}

/* Read a piece of GPU memory again until it is as expected. False: it stays different. */
static bool comes_late(struct exchange *s, uint64_t at, size_t bytes, struct hr_difference *d)
{
	const uint64_t began = hr_now_ns();

	while (hr_now_ns() - began < LATE_NS) {
		hr_wait_ns(LATE_STEP_NS);
		hr_tick();
		if (download(s, GUARD + at, s->got, bytes) != 0)
			return false;
		if (memcmp(s->got, s->want, bytes) != 0)
			continue;
		d->kind = HR_DIFFERENCE_LATE;
		d->late_ns = hr_now_ns() - began;
		return true;
	}
	return false;
}

static int check_data(struct exchange *s, uint64_t bytes, struct hr_difference *d)
{
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		const size_t some = piece_of(bytes, at);
		const bool first = !d->differing;
		int err = hr_exchange_blocks_expect(&s->blocks, at, s->want, some, s->e);

		if (!err)
			err = download(s, GUARD + at, s->got, some);
		if (err)
			return err;
		hr_exchange_pattern(s->before, some, s->seed, GUARD + at);
		hr_difference_note(d, s->want, s->got, s->before, some, at);
		if (first && d->differing && comes_late(s, at, some, d))
			return 0;
		hr_tick();
	}
	return 0;
}

/* Check the guard that begins at byte `at` of the region; the data begin at GUARD. */
static int check_guard(struct exchange *s, size_t at, struct hr_difference *d)
{
	struct hr_difference guard = { 0 };
	const int err = download(s, at, s->got, GUARD);

	if (err)
		return err;
	hr_exchange_pattern(s->before, GUARD, s->seed, at);
	hr_difference_note(&guard, s->before, s->got, NULL, GUARD, at);
	if (!guard.differing || d->differing)
		return 0;
	*d = guard;
	d->kind = HR_DIFFERENCE_STRAY;
	d->at -= GUARD; /* wraps for the guard before the data; see format_stray() */
	return 0;
}

static int to_gpu(struct exchange *s, uint64_t bytes, struct hr_exchange_row *row)
{
	uint64_t began;
	int err = fill_gpu_pattern(s, bytes);

	row->by = hr_exchange_blocks_scratch(&s->blocks) ? "scratch area" : "existing blocks";
	if (!err && hr_exchange_blocks_scratch(&s->blocks))
		err = hr_exchange_blocks_write(&s->blocks, s->seed * 3 + 1, s->e);
	began = hr_now_ns();
	if (!err)
		err = send(s, bytes);
	row->ns = hr_now_ns() - began;
	s->blocks.constant = 0;
	if (!err)
		err = check_data(s, bytes, &row->difference);
	if (!err)
		err = check_guard(s, 0, &row->difference);
	return err ? err : check_guard(s, GUARD + bytes, &row->difference);
}

/* ---- what the ssd reads from the gpu */

/* The ssd writes the pattern in GPU memory to the scratch area, a piece at a time. */
static int from_gpu_scratch(struct exchange *s, uint64_t bytes, struct hr_exchange_row *row)
{
	int err = fill_gpu_pattern(s, bytes);

	row->by = "scratch area";
	for (uint64_t at = 0; !err && at < bytes; at += s->blocks.scratch_bytes) {
		const size_t some = bytes - at < s->blocks.scratch_bytes ? (size_t)(bytes - at)
									 : s->blocks.scratch_bytes;
		uint64_t began;

		err = host_read(s, s->blocks.scratch, s->before, some);
		began = hr_now_ns();
		if (!err)
			err = direct(s, nvme_cmd_write, s->blocks.scratch, at, some);
		row->ns += hr_now_ns() - began;
		if (!err)
			err = host_read(s, s->blocks.scratch, s->got, some);
		if (err)
			break;
		hr_exchange_pattern(s->want, some, s->seed, GUARD + at);
		hr_difference_note(&row->difference, s->want, s->got, s->before, some, at);
		hr_tick();
	}
	return err;
}

/* The first page that Compare finds different; the transfer alone may differ. */
static int locate(struct exchange *s, uint64_t bytes, struct hr_exchange_row *row)
{
	struct hr_difference *d = &row->difference;
	int err = 0;

	d->kind = HR_DIFFERENCE_UNKNOWN;
	d->pages = bytes / HR_PAGE;
	d->differing = 1;
	for (uint64_t at = 0; !err && at < bytes; at += HR_PAGE) {
		err = direct(s, nvme_cmd_compare, s->blocks.range + at, at, HR_PAGE);
		if (err == COMPARE_FAILURE)
			d->at = at;
		hr_tick();
	}
	if (!err)
		snprintf(row->text, sizeof row->text,
			 "the data that the ssd read differ from those in GPU memory (Compare "
			 "Failure), but each page alone is equal");
	row->outcome = HR_EXCHANGE_DIFFERS;
	return err == COMPARE_FAILURE ? 0 : err;
}

/* Copy existing blocks to GPU memory, through host memory. */
static int copy_blocks(struct exchange *s, uint64_t bytes)
{
	int err = 0;

	s->blocks.constant = 0;
	for (uint64_t at = 0; !err && at < bytes; at += PIECE) {
		const size_t some = piece_of(bytes, at);

		err = host_read(s, s->blocks.range + at, s->want, some);
		if (!err)
			err = upload(s, GUARD + at, s->want, some);
		for (size_t i = 0; i < some; i += HR_PAGE)
			s->blocks.constant += hr_exchange_constant(s->want + i);
		hr_tick();
	}
	return err;
}

/* Some controllers complete every Compare with success: change a word, and compare. 0: the
 * difference is found. */
static int try_compare(struct exchange *s, struct hr_exchange_row *row)
{
	int err = copy_blocks(s, HR_PAGE), back;

	s->want[HR_PAGE / 2] ^= 0xff;
	if (!err)
		err = upload(s, GUARD, s->want, HR_PAGE);
	if (err)
		return err;
	back = direct(s, nvme_cmd_compare, s->blocks.range, 0, HR_PAGE);
	s->compares = back == COMPARE_FAILURE;
	if (s->compares || back)
		return s->compares ? 0 : back;
	row->outcome = HR_EXCHANGE_UNPROVEN;
	snprintf(row->text, sizeof row->text,
		 "not proven: the Compare command of the controller reports success for data that "
		 "differ, and there is no scratch area");
	return 0;
}

static int from_gpu_compare(struct exchange *s, uint64_t bytes, struct hr_exchange_row *row)
{
	uint64_t began;
	int err = s->compares ? 0 : try_compare(s, row);

	row->by = "Compare";
	if (err || !s->compares)
		return err;
	err = copy_blocks(s, bytes);
	began = hr_now_ns();
	if (!err)
		err = direct(s, nvme_cmd_compare, s->blocks.range, 0, bytes);
	row->ns = hr_now_ns() - began;
	return err == COMPARE_FAILURE ? locate(s, bytes, row) : err;
}

/* Why the ssd's reads of GPU memory cannot be compared; NULL: they can. */
static const char *cannot_read(const struct exchange *s)
{
	if (s->blocks.scratch_bytes || s->disk->ctrl->oncs & NVME_CTRL_ONCS_COMPARE)
		return NULL;
	return s->x->ssd->has_store
		       ? "the store is write protected, and the controller has no Compare command "
			 "(ONCS bit 0)"
		       : "there is no store with a scratch area, and the controller has no Compare "
			 "command (ONCS bit 0)";
}

/* ---- one size, and all sizes */

/* Where a stray write is, relative to the data. */
static void format_stray(const struct hr_difference *d, uint64_t bytes, char *text, size_t room)
{
	const bool before = d->at > UINT64_MAX - GUARD;

	snprintf(text, room,
		 "the data are equal, but memory beside them was written: %llu bytes %s the "
		 "transfer: expected %016llx, got %016llx: stray",
		 (unsigned long long)(before ? 0 - d->at : d->at - bytes),
		 before ? "before" : "behind the end of", (unsigned long long)d->expected,
		 (unsigned long long)d->found);
}

/* Judge a size that was transferred. */
static void judge(const struct exchange *s, struct hr_exchange_row *row)
{
	const struct hr_difference *d = &row->difference;
	const uint64_t pages = row->bytes / HR_PAGE;

	if (row->text[0])
		return;
	if (d->differing) {
		row->outcome = HR_EXCHANGE_DIFFERS;
		if (d->kind == HR_DIFFERENCE_STRAY)
			format_stray(d, row->bytes, row->text, sizeof row->text);
		else
			hr_difference_text(d, row->way == HR_EXCHANGE_FROM_GPU, row->text,
					   sizeof row->text);
	} else if (s->blocks.constant * 2 > pages) {
		row->outcome = HR_EXCHANGE_WEAK;
		snprintf(row->text, sizeof row->text,
			 "equal, but %llu of %llu pages of these blocks hold one value only: that "
			 "proves little",
			 (unsigned long long)s->blocks.constant, (unsigned long long)pages);
	} else {
		snprintf(row->text, sizeof row->text, "equal");
	}
}

/* A command failed: the ssd and the controller work. */
static void set_failed_status(struct hr_exchange_row *row, int status)
{
	char name[80];

	row->outcome = HR_EXCHANGE_FAILED;
	snprintf(row->text, sizeof row->text, "the command failed: %s (%03x)",
		 hr_status_name((uint16_t)status, name, sizeof name), (unsigned)status);
}

static int one_size(struct exchange *s, enum hr_exchange_way way, uint64_t bytes,
		    struct hr_exchange_row *row)
{
	int err;

	*row = (struct hr_exchange_row){ .way = way, .bytes = bytes, .by = "" };
	s->seed += HR_EXCHANGE_MOST * 4;
	s->blocks.constant = 0;
	err = way == HR_EXCHANGE_TO_GPU ? to_gpu(s, bytes, row)
	      : s->blocks.scratch_bytes ? from_gpu_scratch(s, bytes, row)
					: from_gpu_compare(s, bytes, row);
	if (err > 0 && !hr_health_failed(&s->x->ssd->health)) {
		hr_error_clear(s->e);
		set_failed_status(row, err);
		return 0;
	}
	if (!err)
		judge(s, row);
	return err;
}

static void report_exchange_row(struct exchange *s, const struct hr_exchange_row *row,
				struct hr_exchange_result *r)
{
	if (row->outcome >= r->worst[row->way].outcome)
		r->worst[row->way] = *row;
	if (row->outcome <= HR_EXCHANGE_WEAK)
		r->most[row->way] = row->bytes;
	if (s->x->show)
		s->x->show(s->x->to, row);
}

/* All sizes of one way, up to the first that is not equal. */
static int one_way(struct exchange *s, enum hr_exchange_way way, uint64_t end_ns,
		   struct hr_exchange_result *r)
{
	const char *why = way == HR_EXCHANGE_FROM_GPU ? cannot_read(s) : NULL;
	struct hr_exchange_row row = { .way = way, .by = "", .outcome = HR_EXCHANGE_UNPROVEN };
	int err = 0;

	if (why) {
		snprintf(row.text, sizeof row.text, "not proven: %s", why);
		report_exchange_row(s, &row, r);
		return 0;
	}
	for (uint64_t bytes = HR_EXCHANGE_LEAST; bytes <= s->blocks.most; bytes *= 2) {
		if (hr_signals_pending())
			return -EINTR;
		if (bytes > HR_EXCHANGE_LEAST && hr_now_ns() >= end_ns) {
			r->cut = true;
			break;
		}
		err = one_size(s, way, bytes, &row);
		if (err)
			return err;
		report_exchange_row(s, &row, r);
		if (row.outcome > HR_EXCHANGE_WEAK)
			break;
	}
	return 0;
}

/* ---- memory */

/* The largest memory that there is, up to that of the largest size. */
static int allocate_exchange_places(struct exchange *s)
{
	int err = -ENOMEM;

	for (; err == -ENOMEM && s->blocks.most >= HR_EXCHANGE_LEAST;
	     s->blocks.most /= err ? 2 : 1) {
		uint64_t bytes[HR_PLACES] = { [HR_PLACE_GPU] = s->blocks.most + 2 * GUARD };

		hr_error_clear(s->e);
		err = hr_places_alloc(&s->places, s->x->backend, bytes, s->e);
	}
	if (!err)
		err = hr_places_open_gpu(&s->places, s->e);
	if (err) {
		hr_error_context(s->e, "memory of the gpu cannot be opened for ssds");
		return err;
	}
	s->region = s->places.region[HR_PLACE_GPU];
	if (s->region.kind == HR_REGION_HOST)
		s->region.kind = HR_REGION_GPU; /* the CPU stands in for a GPU */
	return 0;
}

static int allocate_exchange_buffers(struct exchange *s)
{
	uint8_t *all = aligned_alloc(HR_PAGE, 4 * PIECE);

	if (!all)
		return hr_fail(s->e, HR_ERROR_MISSING, -ENOMEM,
			       "out of memory for a comparison: %zu bytes", 4 * PIECE);
	s->want = all;
	s->got = all + PIECE;
	s->before = all + 2 * PIECE;
	s->blocks.pattern = all + 3 * PIECE;
	return 0;
}

/* Largest size: a power of two that the namespace holds. */
static void limit(struct exchange *s)
{
	for (s->blocks.most = HR_EXCHANGE_MOST; s->blocks.most > s->disk->blk.bytes;)
		s->blocks.most /= 2;
}

static void choose_scratch(struct exchange *s)
{
	const struct hr_ssd *ssd = s->x->ssd;

	if (ssd->blk->read_only)
		return;
	if (s->x->scratch_bytes) {
		s->blocks.scratch = s->x->scratch;
		s->blocks.scratch_bytes =
			s->x->scratch_bytes < PIECE ? (size_t)s->x->scratch_bytes : PIECE;
	} else if (ssd->has_store) {
		s->blocks.scratch = ssd->store.scratch_offset;
		s->blocks.scratch_bytes = HR_STORE_SCRATCH;
	}
}

static int compare_ways(struct exchange *s, struct hr_exchange_result *r)
{
	const uint64_t budget = s->x->budget_ns, began = hr_now_ns();
	int err = hr_exchange_blocks_choose(&s->blocks, s->want, s->e);

	for (int way = 0; !err && way < HR_EXCHANGE_WAYS; way++)
		err = one_way(s, (enum hr_exchange_way)way,
			      budget ? began + budget / 2 * (uint64_t)(way + 1) : UINT64_MAX, r);
	return err;
}

/* A lost command may still move its data, so the memory must not be freed before the controller
 * stops. */
static bool is_quiet(struct exchange *s)
{
	struct hr_ssd *ssd = s->x->ssd;

	if (!hr_health_failed(&ssd->health) || hr_ssd_disable(ssd) == 0)
		return true;
	hr_warn("%s: the controller does not stop; the memory of the comparison stays allocated",
		ssd->transport.name);
	return false;
}

int hr_exchange_run(const struct hr_exchange *x, struct hr_exchange_result *result,
		    struct hr_error *e)
{
	struct hr_transport *t = x->ssd->controller ? &x->ssd->controller->transport : NULL;
	struct exchange s = { .x = x,
			      .disk = &x->ssd->disk,
			      .e = e,
			      .seed = hr_now_ns(),
			      .blocks.blk = &x->ssd->disk.blk };
	int err;

	memset(result, 0, sizeof *result);
	if (!t || t->keeps_no_data)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP, "%s: %s", x->ssd->transport.name,
			       t ? "keeps no data" : "has no queue pairs of its own");
	limit(&s);
	result->cut = s.blocks.most < HR_EXCHANGE_MOST;
	choose_scratch(&s);
	err = allocate_exchange_buffers(&s);
	if (!err)
		err = allocate_exchange_places(&s);
	if (!err)
		err = t->ops->map(t, &s.region, e);
	if (!err) {
		result->cut |= s.blocks.most < HR_EXCHANGE_MOST;
		err = compare_ways(&s, result);
		if (!is_quiet(&s))
			return err;
		t->ops->unmap(t, &s.region);
	}
	if (s.places.backend)
		hr_places_free(&s.places);
	free(s.want);
	return err;
}
