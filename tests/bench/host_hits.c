/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hits of the page cache by one thread of the host backend against memcpy() of the same pages in the
 * same order: in turns, in one process, with the time that the thread itself ran. All pages are
 * cached, so no I/O worker runs.
 *
 *	host_hits [MIB ...]	frames of about so many MiB (16 and 512)
 *
 * One line for each size: nanoseconds of a page by hr_pread(), by hr_page(), by memcpy(), and the
 * ratios of medians of memcpy() over each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/objects/run.h"

#define PAGE 4096u
#define TURNS 41u
#define PAGES_A_TURN 20000u

static struct hr_page_cache cache;
static struct hr_objects objects;
static struct hr_cache_words words;
static struct hr_cache_worker worker;
static uint8_t **frame_of; /* [pages of the object] */
static uint32_t *order;
static uint32_t pages;

static void *take(size_t bytes, size_t align)
{
	void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);

	if (!memory) {
		fprintf(stderr, "host_hits: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	memset(memory, 0, bytes);
	return memory;
}

/* Give each page a frame, if its set has one; pages without a frame are not read. */
static void fill(void)
{
	uint32_t page, n = 0;

	for (page = 0; page < cache.object[0].pages; page++) {
		const struct hr_page_position place = hr_page_position_of(&cache.shape, page);
		struct hr_page_set *set = &cache.set[place.set];
		uint32_t way = 0;

		while (way < HR_WAYS && set->tag[way])
			way++;
		if (way == HR_WAYS)
			continue;
		set->tag[way] = HR_PAGE_WORD(place.tag, HR_PAGE_READY);
		set->recency |= 1u << way; /* as after the first use */
		frame_of[page] = hr_cache_frame(&cache, place.set, way);
		memset(frame_of[page], (int)page, PAGE);
		order[n++] = page;
	}
	pages = n;
	for (uint32_t i = n; i-- > 1;) {
		const uint32_t j = (uint32_t)((uint64_t)rand() % (i + 1)), page_i = order[i];

		order[i] = order[j];
		order[j] = page_i;
	}
}

static void set_up(uint64_t bytes)
{
	const uint64_t frames = bytes / PAGE;

	if (hr_page_shape(&cache.shape, frames, 12, frames) != 0) {
		fprintf(stderr, "host_hits: no cache of %llu frames\n", (unsigned long long)frames);
		exit(1);
	}
	cache.policy = HR_POLICY_CLOCK;
	cache.objects = cache.computers = 1;
	cache.object[0] = (struct hr_object){ .bytes = frames * PAGE, .pages = (uint32_t)frames };
	cache.words = &words;
	cache.worker = &worker;
	words.epoch = worker.seen = HR_EPOCH_FIRST;
	cache.set = take(hr_page_sets(&cache.shape) * sizeof *cache.set, 64);
	cache.frame = take(hr_page_frames(&cache.shape) * PAGE, PAGE);
	frame_of = take(frames * sizeof *frame_of, 64);
	order = take(frames * sizeof *order, 64);
	fill();
	hr_objects_begin(&objects, &cache, 0, NULL, 0);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t next_page(uint32_t *at)
{
	*at = *at + 1 < pages ? *at + 1 : 0;
	return order[*at];
}

static uint8_t buffer[PAGE] __attribute__((aligned(4096)));
static uint64_t sum;

static void by_copy(uint32_t *at)
{
	for (uint32_t i = 0; i < PAGES_A_TURN; i++) {
		memcpy(buffer, frame_of[next_page(at)], PAGE);
		__asm__ volatile("" : : "r"(buffer) : "memory");
	}
}

static void by_pread(uint32_t *at)
{
	const struct hr_object *object = hr_get_object_map(&objects, 0);

	for (uint32_t i = 0; i < PAGES_A_TURN; i++) {
		hr_pread(&objects, object, (uint64_t)next_page(at) * PAGE, buffer, PAGE);
		__asm__ volatile("" : : "r"(buffer) : "memory");
	}
}

static void by_page(uint32_t *at)
{
	const struct hr_object *object = hr_get_object_map(&objects, 0);

	for (uint32_t i = 0; i < PAGES_A_TURN; i++) {
		memcpy(buffer, hr_page(&objects, object, next_page(at)), PAGE);
		__asm__ volatile("" : : "r"(buffer) : "memory");
		hr_quiescent(&objects);
	}
}

static double ns_of(void (*turn)(uint32_t *), uint32_t at)
{
	const uint64_t begin = now_ns();

	turn(&at);
	sum += buffer[0];
	return (double)(now_ns() - begin) / PAGES_A_TURN;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(uint64_t mib)
{
	static void (*const turn[])(uint32_t *) = { by_copy, by_pread, by_page };
	double ns[3][TURNS];

	set_up(mib << 20);
	for (uint32_t t = 0; t < TURNS; t++)
		for (uint32_t i = 0; i < 3; i++)
			ns[i][t] = ns_of(turn[i], (uint32_t)(t * 7919u % pages));
	for (uint32_t i = 0; i < 3; i++)
		qsort(ns[i], TURNS, sizeof(double), by_value);
	printf("%llu MiB: hr_pread %.1f ns, hr_page %.1f ns, memcpy %.1f ns: %.2f, %.2f\n",
	       (unsigned long long)mib, ns[1][TURNS / 2], ns[2][TURNS / 2], ns[0][TURNS / 2],
	       ns[0][TURNS / 2] / ns[1][TURNS / 2], ns[0][TURNS / 2] / ns[2][TURNS / 2]);
	free(order);
	free(frame_of);
	free(cache.frame);
	free(cache.set);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		measure(strtoull(argv[i], NULL, 10));
	if (argc < 2) {
		measure(16);
		measure(512);
	}
	return sum == UINT64_MAX; /* keeps the copies */
}
