/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/post/step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "cache/crc32c.h"

#define PATTERN_BYTES (8u << 20)
#define READINGS 1000u
#define SLEEP_LONGEST_NS (250 * HR_NS_PER_MS)
#define WAITS 8u /* one of these waits must be short; the others may be longer on a busy machine */

int hr_post_cpu(struct hr_engine *engine, char *detail, struct hr_error *e)
{
	static const char digits[] = "123456789";
	uint32_t crc;

	/*
	 * The minimum that the build requires is x86-64-v2; without it the CRC below would crash.
	 */
	if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt"))
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "no SSE4.2 or POPCNT, expected x86-64-v2");
	crc = hr_crc32c(0, digits, 9);
	if (crc != 0xe3069283u)
		return hr_fail(e, HR_ERROR_DEVICE, -EPROTO,
			       "CRC-32C of \"%s\" is %08x, expected e3069283", digits, crc);
	snprintf(detail, HR_POST_DETAIL, "x86-64-v2, %ld processors, CRC-32C instruction correct",
		 sysconf(_SC_NPROCESSORS_ONLN));
	return 0;
}

/* Write its number to each word, then the inverse: detects stuck bits and aliased addresses. */
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

int hr_post_memory(struct hr_engine *engine, char *detail, struct hr_error *e)
{
	uint64_t have = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t *memory;
	size_t wrong;

	if (engine->config.memory_host > have)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "memory.host is %llu MiB, but the machine has %llu MiB",
			       (unsigned long long)engine->config.memory_host >> 20,
			       (unsigned long long)have >> 20);
	memory = malloc(PATTERN_BYTES);
	if (!memory)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "cannot allocate %u bytes",
			       PATTERN_BYTES);
	wrong = test_words(memory, PATTERN_BYTES / sizeof *memory);
	free(memory);
	if (wrong)
		return hr_fail(e, HR_ERROR_DEVICE, -EIO, "%zu words of %u bytes do not read back",
			       wrong, PATTERN_BYTES);
	snprintf(detail, HR_POST_DETAIL, "%llu MiB in the machine, pattern over %u MiB correct",
		 (unsigned long long)have >> 20, PATTERN_BYTES >> 20);
	return 0;
}

int hr_post_clock(struct hr_engine *engine, char *detail, struct hr_error *e)
{
	uint64_t last = hr_now_ns(), slept = UINT64_MAX;
	struct timespec step;

	for (unsigned i = 0; i < READINGS; i++) {
		uint64_t now = hr_now_ns();

		if (now < last)
			return hr_fail(e, HR_ERROR_DEVICE, -EPROTO, "went back by %llu ns",
				       (unsigned long long)(last - now));
		last = now;
	}
	for (unsigned i = 0; i < WAITS && slept > SLEEP_LONGEST_NS; i++) {
		const uint64_t began = hr_now_ns();

		hr_wait_ns(HR_NS_PER_MS);
		slept = hr_now_ns() - began;
	}
	if (slept < HR_NS_PER_MS || slept > SLEEP_LONGEST_NS)
		return hr_fail(e, HR_ERROR_DEVICE, -EPROTO,
			       "a wait of 1 ms took %.3f ms, expected 1 to %llu",
			       (double)slept / 1e6, SLEEP_LONGEST_NS / HR_NS_PER_MS);
	if (clock_getres(CLOCK_MONOTONIC, &step) != 0)
		return hr_fail(e, HR_ERROR_DEVICE, -errno, "clock_getres: %s", strerror(errno));
	snprintf(detail, HR_POST_DETAIL, "steady, step %ld ns, a wait of 1 ms took %.3f ms",
		 step.tv_nsec, (double)slept / 1e6);
	return 0;
}
