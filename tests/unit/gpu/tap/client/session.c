/* The memory of a run as its consumer maps it: which sizes can be, and which entries are valid. */
#include "gpu/tap/client/session.c"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/fakes/calloc.h"
#include "tests/fakes/tap_side.h"

#define SLOTS 4u
#define RING 8u
#define STRIDE 8192u

static unsigned before;
static size_t mapped;

static void begin(void)
{
	fake_side_reset();
	before = fake_side_descriptors();
	mapped = fake_side_mapped();
}

static void finish(void)
{
	fake_side_reset();
	cr_expect_eq(fake_side_descriptors(), before);
	cr_expect_eq(fake_side_mapped(), mapped);
}

TestSuite(tap_session, .init = begin, .fini = finish, .timeout = 60);

static struct hr_tap_message plausible(void)
{
	return (struct hr_tap_message){ .slots = SLOTS,
					.ring = RING,
					.credits = 2,
					.stride = STRIDE,
					.tile_bytes = STRIDE,
					.epoch = 9 };
}

/* Memory of these sizes less some bytes, and what open() says to it. */
static int open_less(struct hr_tap_session **s, const struct hr_tap_message *m,
		     const size_t less[3], const char **text)
{
	static char why[96];
	int fds[HR_TAP_FDS], err;

	fake_side_memory((size_t)SLOTS * STRIDE - less[0], hr_tap_ring_bytes(RING) - less[1],
			 hr_tap_page_bytes(SLOTS) - less[2]);
	((struct hr_tap_head *)(void *)fake_side.ring)->magic = HR_TAP_MAGIC;
	fake_side_memory_fds(fds);
	err = hr_tap_session_open(s, m, fds, 3, why, sizeof why);
	hr_tap_close_all(fds);
	*text = why;
	return err;
}

static struct hr_tap_session *opened(void)
{
	const struct hr_tap_message m = plausible();
	struct hr_tap_session *s = NULL;
	const char *text;

	cr_assert_eq(open_less(&s, &m, (const size_t[3]){ 0 }, &text), 0, "%s", text);
	return s;
}

Test(tap_session, the_sizes_of_a_session_are_those_of_the_message)
{
	struct hr_tap_session *s = opened();

	cr_expect(s->epoch == 9 && s->slots == SLOTS && s->ring == RING && s->stride == STRIDE);
	cr_expect(s->gpu == -1 && !s->cuda && !s->older && !s->in_hand && !s->next);
	cr_expect(s->tiles_bytes == SLOTS * STRIDE && s->ring_bytes == 4096);
	cr_expect_eq(s->page_bytes, 4096);
	cr_expect_eq((const uint8_t *)s->entry - (const uint8_t *)s->head, 64);
	cr_expect_eq((uint8_t *)s->gen - (uint8_t *)s->page, 64);
	fake_side.tiles[5] = 6;
	cr_expect_eq(s->tiles[5], 6);
	s->page->wake = 7;
	cr_expect_eq(fake_side.page[0], 7);
	hr_tap_session_free(s, false);
	hr_tap_session_free(NULL, false);
	cr_expect_str_eq(fake_side_log(), "");
}

#define TOO_MANY ((1u << 20) + 1)

Test(tap_session, sizes_that_cannot_be_are_refused_before_anything_is_mapped)
{
	static const struct {
		size_t at;
		uint32_t value;
		bool can_be;
	} row[] = {
		{ offsetof(struct hr_tap_message, slots), 0, false },
		{ offsetof(struct hr_tap_message, slots), 1, true },
		{ offsetof(struct hr_tap_message, slots), 1u << 20, true },
		{ offsetof(struct hr_tap_message, slots), TOO_MANY, false },
		{ offsetof(struct hr_tap_message, ring), 0, false },
		{ offsetof(struct hr_tap_message, ring), 1, false }, /* < credits */
		{ offsetof(struct hr_tap_message, ring), 2, true },
		{ offsetof(struct hr_tap_message, ring), 3, false },
		{ offsetof(struct hr_tap_message, ring), 6, false },
		{ offsetof(struct hr_tap_message, ring), 1u << 20, true },
		{ offsetof(struct hr_tap_message, ring), 1u << 21, false },
		{ offsetof(struct hr_tap_message, credits), 0, false },
		{ offsetof(struct hr_tap_message, credits), 1, true },
		{ offsetof(struct hr_tap_message, credits), RING, true },
		{ offsetof(struct hr_tap_message, credits), RING + 1, false },
		{ offsetof(struct hr_tap_message, stride), 0, false },
		{ offsetof(struct hr_tap_message, stride), STRIDE + 4096, true },
		{ offsetof(struct hr_tap_message, stride), STRIDE + 2048, false },
		{ offsetof(struct hr_tap_message, stride), STRIDE + 1, false },
		{ offsetof(struct hr_tap_message, stride), STRIDE - 4096, false },
		{ offsetof(struct hr_tap_message, tile_bytes), STRIDE + 1, false },
		{ offsetof(struct hr_tap_message, tile_bytes), 1, true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = plausible();

		memcpy((uint8_t *)&m + row[i].at, &row[i].value, sizeof row[i].value);
		cr_expect_eq(is_plausible(&m), row[i].can_be, "%zu", i);
	}
}

Test(tap_session, the_memory_of_a_gpu_has_all_slots)
{
	struct hr_tap_message m = plausible();
	struct hr_tap_session *s;
	const char *text;

	m.memory = HR_TAP_MEMORY_CUDA + 1;
	m.gpu.bytes = UINT64_MAX;
	cr_expect_eq(open_less(&s, &m, (const size_t[3]){ 0 }, &text), -EPROTO);
	m.memory = HR_TAP_MEMORY_CUDA;
	m.gpu.bytes = SLOTS * STRIDE - 1;
	cr_expect_eq(open_less(&s, &m, (const size_t[3]){ 0 }, &text), -EPROTO);
	cr_expect_str_eq(text, "the tap's memory has sizes that cannot be");
	cr_expect_str_eq(fake_side_log(), "");
	m.gpu.bytes = SLOTS * STRIDE;
	m.gpu.uuid[3] = 8;
	fake_side.cuda_ordinal = 6;
	cr_assert_eq(open_less(&s, &m, (const size_t[3]){ 0 }, &text), 0);
	cr_expect(s->gpu == 6 && s->cuda && s->tiles == fake_side.tiles);
	cr_expect(fake_side.cuda.bytes == SLOTS * STRIDE && fake_side.uuid[3] == 8);
	cr_expect(fake_side.cuda.page == s->page && fake_side.cuda.page_bytes == 4096);
	cr_expect(fake_side.cuda.user == 3 && !fake_side.cuda.writes && fake_side.cuda.fd >= 0);
	hr_tap_session_free(s, false);
	cr_expect_str_eq(fake_side_log(), "cuda(open) cuda(close)");
	fake_side.cuda_error = -ENODEV;
	cr_expect_eq(open_less(&s, &m, (const size_t[3]){ 0 }, &text), -ENODEV);
	cr_expect_str_eq(text, "the driver says no");
	cr_expect_str_eq(fake_side_log(), "cuda(open)");
}

Test(tap_session, memory_that_is_too_small_is_not_mapped)
{
	const struct hr_tap_message m = plausible();
	struct hr_tap_session *s = NULL;
	int fds[HR_TAP_FDS] = { -1, -1, -1 };
	char why[64];
	const char *text;

	for (unsigned i = 0; i < 3; i++) {
		const size_t less[3] = { i == 0, i == 1, i == 2 };

		cr_expect_eq(open_less(&s, &m, less, &text), -ENOMEM);
		cr_expect_str_eq(text, "the tiles cannot be mapped");
	}
	for (unsigned i = 1; i <= 3; i++) {
		fake_side_memory(0, 0, 0);
		fake_side_memory((size_t)SLOTS * STRIDE, 4096, 4096);
		((struct hr_tap_head *)(void *)fake_side.ring)->magic = HR_TAP_MAGIC;
		fake_side_memory_fds(fds);
		fake_side.fail_mmap = i;
		cr_expect_eq(hr_tap_session_open(&s, &m, fds, 0, why, sizeof why), -ENOMEM);
		hr_tap_close_all(fds);
	}
	for (unsigned i = 1; i <= 2; i++) {
		fake_calloc_fails(i);
		cr_expect_eq(open_less(&s, &m, (const size_t[3]){ 0 }, &text), -ENOMEM);
		cr_expect_str_eq(text, "the tiles cannot be mapped");
	}
	fds[0] = fds[1] = fds[2] = -1;
	cr_expect_eq(hr_tap_session_open(&s, &m, fds, 0, why, sizeof why), -ENOMEM);
	fake_side_memory_fds(fds);
	((struct hr_tap_head *)(void *)fake_side.ring)->magic--;
	cr_expect_eq(hr_tap_session_open(&s, &m, fds, 0, why, sizeof why), -EPROTO);
	hr_tap_close_all(fds);
	cr_expect_null(s);
}

/* ---- entries */

static struct hr_tap_entry *entry(unsigned n)
{
	return (struct hr_tap_entry *)(void *)(fake_side.ring + 64) + n % RING;
}

/* A valid entry: number n, of the slot n % SLOTS. */
static void lend(unsigned n)
{
	*entry(n) = (struct hr_tap_entry){ .tile = 100 + n,
					   .slot = n % SLOTS,
					   .gen = n + 1,
					   .bytes = STRIDE,
					   .flags = n % 2 * HR_TAP_REDELIVERED };
	entry(n)->check = hr_tap_entry_check(entry(n), n + 1);
	entry(n)->sequence = n + 1;
}

Test(tap_session, an_entry_with_a_word_that_cannot_be_is_not_taken)
{
	struct hr_tap_session *s = opened();
	struct hr_tap_tile tile[2];

	for (unsigned i = 0; i < 10; i++) {
		struct hr_tap_entry *e = entry(0);

		lend(0);
		if (i == 0)
			e->sequence = 0;
		if (i == 1)
			e->sequence = 2;
		if (i == 2)
			e->check++;
		if (i == 3)
			e->slot = SLOTS;
		if (i == 4)
			e->bytes = STRIDE + 1;
		if (i == 5)
			e->gen = 0;
		if (i == 6)
			e->gen |= HR_TAP_FAILED;
		if (i == 7)
			e->slot = UINT32_MAX;
		if (i > 2)
			e->check = hr_tap_entry_check(e, 1);
		if (i == 8)
			s->held[0] = 1;
		if (i == 9)
			e->ready_ns++;
		cr_expect_eq(hr_tap_session_take(s, tile, 2), 0, "%u", i);
		cr_expect(!s->in_hand && !s->next);
		s->held[0] = 0;
	}
	lend(0);
	entry(0)->slot = SLOTS - 1;
	entry(0)->gen = HR_TAP_FAILED - 1;
	entry(0)->check = hr_tap_entry_check(entry(0), 1);
	cr_expect_eq(hr_tap_session_take(s, tile, 2), 1);
	cr_expect_eq((const uint8_t *)tile[0].data - s->tiles, (SLOTS - 1) * STRIDE);
	hr_tap_session_free(s, false);
}

Test(tap_session, entries_go_round_the_ring)
{
	struct hr_tap_session *s = opened();
	struct hr_tap_tile tile[5];

	for (unsigned n = 0; n < 20; n++) {
		lend(n);
		hr_tap_session_arm(s);
		cr_expect_eq(s->page->wake, n + 1);
		cr_expect_eq(hr_tap_session_take(s, tile, n % 3), n % 3 ? 1 : 0);
		if (n % 3 == 0)
			cr_expect_eq(hr_tap_session_take(s, tile, 5), 1);
		cr_expect_eq(tile[0].tile, 100 + n);
		cr_expect_eq(tile[0].redelivered, n % 2);
		cr_expect_eq(s->next, n + 1);
		cr_expect_eq(s->in_hand, 1);
		cr_expect_eq(hr_tap_session_give(s, &tile[0], n % 2), 0);
		cr_expect_eq(s->gen[n % SLOTS], (n + 1) | (n % 2 ? HR_TAP_FAILED : 0));
		cr_expect_eq(s->in_hand, 0);
	}
	for (unsigned n = 20; n < 24; n++)
		lend(n);
	cr_expect_eq(hr_tap_session_take(s, tile, 3), 3);
	cr_expect_eq(s->in_hand, 3);
	cr_expect_eq(hr_tap_session_give_stream(s, &tile[0], NULL), -EINVAL);
	tile[0].gen++;
	cr_expect_eq(hr_tap_session_give(s, &tile[0], false), -EINVAL);
	cr_expect(!hr_tap_session_last(s));
	((struct hr_tap_head *)(void *)fake_side.ring)->last = 1;
	cr_expect(hr_tap_session_last(s));
	hr_tap_session_waits(s, true);
	cr_expect_eq(s->page->waits, 1);
	hr_tap_session_waits(s, false);
	cr_expect_eq(s->page->waits, 0);
	hr_tap_session_free(s, false);
}
