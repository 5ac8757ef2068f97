/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/lab/tsc.c - prints the frequency of this machine's time-stamp counter in kHz.
 *
 * QEMU's guests read this counter, and their kernel measures its frequency against an emulated timer.
 * On a busy machine the result is wrong by a factor of up to 18, and with it every clock of the guest.
 * The lab gives this program's result to the kernel instead (tsc_early_khz).
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define TRIES 50
#define APART_NS 200000000ull

struct sample {
	uint64_t ns, ticks;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Both clocks at one time: the pair with the shortest time around it, so an interruption by other
 * processes does not matter. */
static struct sample take(void)
{
	struct sample best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		const uint64_t before = now_ns(), ticks = __rdtsc(), after = now_ns();

		if (after - before >= least)
			continue;
		least = after - before;
		best = (struct sample){ .ns = before + least / 2, .ticks = ticks };
	}
	return best;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = APART_NS };
	const struct sample a = take();
	struct sample b;

	nanosleep(&pause, NULL);
	b = take();
	printf("%.0f\n", (double)(b.ticks - a.ticks) / (double)(b.ns - a.ns) * 1e6);
	return 0;
}
