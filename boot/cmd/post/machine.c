#include "boot/cmd/post/post.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/clock.h"
#include "cache/crc32c.h"

#define PATTERN_BYTES (8u << 20)
#define READINGS 1000u
#define SLEEP_LONGEST_NS (250 * HR_NS_PER_MS)
#define WAITS 8u /* of which one must not be long: a machine may be busy for a while */

int hr_post_cpu(struct hr_appliance *app, char *detail)
{
	static const char digits[] = "123456789";
	uint32_t crc;

	/* The build's baseline, x86-64-v2; without it the CRC below would not return. */
	if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) {
		snprintf(detail, HR_POST_DETAIL, "no SSE4.2 or POPCNT, expected x86-64-v2");
		return -ENOTSUP;
	}
	crc = hr_crc32c(0, digits, 9);
	if (crc != 0xe3069283u) {
		snprintf(detail, HR_POST_DETAIL, "CRC-32C of \"%s\" is %08x, expected e3069283",
			 digits, crc);
		return -EPROTO;
	}
	snprintf(detail, HR_POST_DETAIL, "x86-64-v2, %ld processors, CRC-32C instruction right",
		 sysconf(_SC_NPROCESSORS_ONLN));
	return 0;
}

/* Each word its own number, then inverted: shows stuck bits and aliased addresses. */
static size_t test_words(volatile uint64_t *word, size_t words)
{
	size_t wrong = 0;

	for (uint64_t flip = 0; flip < 2; flip++) {
		for (size_t i = 0; i < words; i++)
			word[i] = i ^ (0 - flip);
		for (size_t i = 0; i < words; i++)
			wrong += word[i] != (i ^ (0 - flip));
	}
	return wrong;
}

int hr_post_memory(struct hr_appliance *app, char *detail)
{
	uint64_t have = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t *memory;
	size_t wrong;

	if (app->config.memory_host > have) {
		snprintf(detail, HR_POST_DETAIL,
			 "memory.host is %llu MiB, but the machine has %llu MiB",
			 (unsigned long long)app->config.memory_host >> 20,
			 (unsigned long long)have >> 20);
		return -ENOMEM;
	}
	memory = malloc(PATTERN_BYTES);
	if (!memory) {
		snprintf(detail, HR_POST_DETAIL, "cannot get %u bytes", PATTERN_BYTES);
		return -ENOMEM;
	}
	wrong = test_words(memory, PATTERN_BYTES / sizeof *memory);
	free(memory);
	if (wrong) {
		snprintf(detail, HR_POST_DETAIL, "%zu words of %u bytes read back wrong", wrong,
			 PATTERN_BYTES);
		return -EIO;
	}
	snprintf(detail, HR_POST_DETAIL, "%llu MiB in the machine, pattern over %u MiB right",
		 (unsigned long long)have >> 20, PATTERN_BYTES >> 20);
	return 0;
}

int hr_post_clock(struct hr_appliance *app, char *detail)
{
	uint64_t last = hr_now_ns(), slept = UINT64_MAX;
	struct timespec step;

	for (unsigned i = 0; i < READINGS; i++) {
		uint64_t now = hr_now_ns();

		if (now < last) {
			snprintf(detail, HR_POST_DETAIL, "went back by %llu ns",
				 (unsigned long long)(last - now));
			return -EPROTO;
		}
		last = now;
	}
	for (unsigned i = 0; i < WAITS && slept > SLEEP_LONGEST_NS; i++) {
		const uint64_t began = hr_now_ns();

		hr_wait_ns(HR_NS_PER_MS);
		slept = hr_now_ns() - began;
	}
	if (slept < HR_NS_PER_MS || slept > SLEEP_LONGEST_NS) {
		snprintf(detail, HR_POST_DETAIL, "a wait of 1 ms took %.3f ms, expected 1 to %llu",
			 (double)slept / 1e6, SLEEP_LONGEST_NS / HR_NS_PER_MS);
		return -EPROTO;
	}
	if (clock_getres(CLOCK_MONOTONIC, &step) != 0)
		return -errno;
	snprintf(detail, HR_POST_DETAIL, "steady, step %ld ns, a wait of 1 ms took %.3f ms",
		 step.tv_nsec, (double)slept / 1e6);
	return 0;
}
