/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/lanes_fibers.h - part of tests/fakes/lanes.h: the lanes of a worker share its thread, and
 * each has a stack. A lane runs until it waits for another one. That takes some nanoseconds, where a
 * switch of threads takes microseconds: lanes meet thousands of times in a test.
 *
 * After each meeting the lanes run in another random order, so code that lacks hr_lanes_sync() does
 * not find its data by chance. The thread sanitizer takes each lane for a thread, and each meeting for
 * a barrier.
 */
#ifndef TESTS_FAKES_LANES_FIBERS_H
#define TESTS_FAKES_LANES_FIBERS_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/clock.h"
#include "tests/harness/random.h"

#ifndef HR_LANES
#define HR_LANES 8u
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define FAKE_SWITCH_BEGINS(from, to)                                                      \
	__sanitizer_start_switch_fiber((from)->done ? NULL : &(from)->saved, (to)->stack, \
				       (to)->stack_bytes)
#define FAKE_SWITCH_ENDS(saved) __sanitizer_finish_switch_fiber(saved, NULL, NULL)
#define FAKE_STACK_IS_NEW(stack, bytes) __asan_unpoison_memory_region(stack, bytes)
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define FAKE_SWITCH_BEGINS(from, to) \
	__tsan_switch_to_fiber((to)->watch, __tsan_switch_to_fiber_no_sync)

/* To the sanitizer fibers are threads, but they share the thread-local hr_work_now. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:hr_work_begin\nrace:hr_work_end\n";
}
#endif
#ifdef __SANITIZE_THREAD__
#define FAKE_NOT_WATCHED static __attribute__((noinline, no_sanitize_thread))
#define FAKE_BEFORE(at) __tsan_release(at)
#define FAKE_AFTER(at) __tsan_acquire(at)
#else
#define FAKE_NOT_WATCHED static inline
#define FAKE_BEFORE(at) ((void)(at))
#define FAKE_AFTER(at) ((void)(at))
#endif
#ifndef FAKE_SWITCH_BEGINS
#define FAKE_SWITCH_BEGINS(from, to) ((void)(from))
#endif
#ifndef FAKE_SWITCH_ENDS
#define FAKE_SWITCH_ENDS(saved) ((void)(saved))
#define FAKE_STACK_IS_NEW(stack, bytes) ((void)(stack))
#endif

_Static_assert((HR_LANES & (HR_LANES - 1)) == 0, "any odd step reaches all lanes");

#define FAKE_STACK_BYTES (512u << 10)
#define FAKE_STACK_GUARD 4096u /* below it; an overflow ends the test */

struct fake_fiber {
	void *sp; /* while it does not run */
	char *stack;
	size_t stack_bytes;
	void *saved; /* of the address sanitizer */
	void *watch; /* of the thread sanitizer */
	bool done;
};

/* The lanes of a worker. */
struct fake_lanes {
	struct fake_fiber fiber[HR_LANES + 1]; /* the last one is the thread that runs them */
	char *stacks;
	uint32_t live;	   /* lanes that are not done */
	uint32_t arrived;  /* lanes at fake_lanes_meet() */
	uint32_t at_warps; /* lanes at fake_warps_meet() */
	uint32_t idle;	   /* calls of fake_lanes_wait() since one that has waited */
	uint32_t meetings; /* that have ended */
	uint32_t step;	   /* odd: from a lane to the one that runs after it */
	/* Barriers for the thread sanitizer. Two in turn, because a lane may arrive at the next meeting
	 * before another one has left this one. */
	char meeting[2], begin, end;
	uint64_t order; /* of a pseudo-random sequence */
	void (*body)(void *context);
	void *context;
};

/* Where the workers of a block meet. */
struct fake_warps {
	pthread_barrier_t barrier;
};

static _Thread_local uint32_t fake_lane; /* the number of the lane that runs */
static _Thread_local struct fake_lanes *fake_lanes;

/* Save the registers that a call preserves on this stack, whose pointer goes to *save, and continue
 * with those on another one (System V ABI for x86-64, section 3.2.1). */
void fake_lanes_switch(void **save, void *sp);
__asm__(".text\n"
	".type fake_lanes_switch, @function\n"
	"fake_lanes_switch:\n"
	"push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"mov %rsp, (%rdi)\n"
	"mov %rsi, %rsp\n"
	"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
	"ret\n"
	".size fake_lanes_switch, . - fake_lanes_switch\n");

/* The calling lane, or the thread (HR_LANES), waits until another one continues it. */
FAKE_NOT_WATCHED void fake_lanes_to(struct fake_lanes *lanes, uint32_t next)
{
	const uint32_t self = fake_lane;
	struct fake_fiber *from = &lanes->fiber[self];
	const struct fake_fiber *to = &lanes->fiber[next];

	if (next == self)
		return;
	fake_lane = next;
	FAKE_SWITCH_BEGINS(from, to);
	fake_lanes_switch(&from->sp, to->sp);
	FAKE_SWITCH_ENDS(from->saved);
}

FAKE_NOT_WATCHED uint32_t fake_lanes_next(const struct fake_lanes *lanes)
{
	uint32_t next = fake_lane;

	do
		next = (next + lanes->step) % HR_LANES;
	while (lanes->fiber[next].done);
	return next;
}

FAKE_NOT_WATCHED void fake_lanes_met(struct fake_lanes *lanes)
{
	lanes->meetings++;
	lanes->idle = 0;
	lanes->order = lanes->order * 6364136223846793005u + 1442695040888963407u;
	lanes->step = (uint32_t)(lanes->order >> 33) % HR_LANES | 1;
}

FAKE_NOT_WATCHED void fake_lanes_wait_for_meeting(struct fake_lanes *lanes)
{
	const uint32_t meetings = lanes->meetings;

	while (lanes->meetings == meetings)
		fake_lanes_to(lanes, fake_lanes_next(lanes));
}

FAKE_NOT_WATCHED void fake_lanes_meet(struct fake_lanes *lanes)
{
	char *meeting = &lanes->meeting[lanes->meetings % 2];

	FAKE_BEFORE(meeting);
	if (++lanes->arrived < HR_LANES) {
		fake_lanes_wait_for_meeting(lanes);
	} else {
		lanes->arrived = 0;
		fake_lanes_met(lanes);
	}
	FAKE_AFTER(meeting);
}

FAKE_NOT_WATCHED void fake_warps_meet(struct fake_warps *warps, struct fake_lanes *lanes)
{
	char *meeting = &lanes->meeting[lanes->meetings % 2];

	FAKE_BEFORE(meeting);
	if (++lanes->at_warps < HR_LANES) {
		fake_lanes_wait_for_meeting(lanes);
	} else {
		/* This lane acts for the others: what they did is before what other workers do next. */
		FAKE_AFTER(meeting);
		lanes->at_warps = 0;
		pthread_barrier_wait(&warps->barrier);
		FAKE_BEFORE(meeting);
		fake_lanes_met(lanes);
	}
	FAKE_AFTER(meeting);
}

/* The caller waits for another lane or thread: let others run. When all lanes wait, the thread waits
 * for ns (0: as short as possible). */
FAKE_NOT_WATCHED void fake_lanes_wait(struct fake_lanes *lanes, uint64_t ns)
{
	if (++lanes->idle + lanes->arrived + lanes->at_warps >= lanes->live) {
		lanes->idle = 0;
		if (ns)
			hr_wait_ns(ns);
		else
			sched_yield();
	}
	fake_lanes_to(lanes, fake_lanes_next(lanes));
}

/* The first function on the stack of a lane. It does not return: there is nothing to return to. */
FAKE_NOT_WATCHED void fake_fiber_main(void)
{
	struct fake_lanes *lanes = fake_lanes;

	FAKE_SWITCH_ENDS(NULL);
	FAKE_AFTER(&lanes->begin);
	lanes->body(lanes->context);
	FAKE_BEFORE(&lanes->end);
	lanes->fiber[fake_lane].done = true;
	lanes->live--;
	fake_lanes_to(lanes, lanes->live ? fake_lanes_next(lanes) : HR_LANES);
	abort();
}

/* Below the top: no return address, fake_fiber_main(), and six registers. */
FAKE_NOT_WATCHED void fake_fiber_begin(struct fake_fiber *fiber, char *stack)
{
	void **top = (void **)(void *)(stack + FAKE_STACK_BYTES);

	FAKE_STACK_IS_NEW(stack, FAKE_STACK_BYTES);
	memset(top - 8, 0, 8 * sizeof *top);
	top[-2] = (void *)(uintptr_t)fake_fiber_main;
	*fiber = (struct fake_fiber){ .sp = top - 8,
				      .stack = stack,
				      .stack_bytes = FAKE_STACK_BYTES };
}

FAKE_NOT_WATCHED bool fake_lanes_init(struct fake_lanes *lanes)
{
	const size_t each = FAKE_STACK_GUARD + FAKE_STACK_BYTES;

	lanes->stacks = mmap(NULL, HR_LANES * each, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (lanes->stacks == MAP_FAILED)
		return false;
	for (uint32_t i = 0; i < HR_LANES; i++)
		if (mprotect(lanes->stacks + i * each, FAKE_STACK_GUARD, PROT_NONE))
			return false;
	return true;
}

FAKE_NOT_WATCHED bool fake_warps_init(struct fake_warps *warps, uint32_t count)
{
	return pthread_barrier_init(&warps->barrier, NULL, count) == 0;
}

FAKE_NOT_WATCHED void fake_lanes_fini(struct fake_lanes *lanes)
{
	munmap(lanes->stacks, HR_LANES * (size_t)(FAKE_STACK_GUARD + FAKE_STACK_BYTES));
}

FAKE_NOT_WATCHED void fake_warps_fini(struct fake_warps *warps)
{
	pthread_barrier_destroy(&warps->barrier);
}

/* The stack of this thread: the address sanitizer has to know it. */
FAKE_NOT_WATCHED void fake_fiber_of_thread(struct fake_fiber *fiber)
{
	pthread_attr_t attributes;
	void *stack = NULL;

	*fiber = (struct fake_fiber){ 0 };
	if (pthread_getattr_np(pthread_self(), &attributes) ||
	    pthread_attr_getstack(&attributes, &stack, &fiber->stack_bytes))
		abort();
	pthread_attr_destroy(&attributes);
	fiber->stack = stack;
}

#ifdef __SANITIZE_THREAD__
FAKE_NOT_WATCHED void fake_fibers_watch(struct fake_lanes *lanes)
{
	for (uint32_t i = 0; i < HR_LANES; i++)
		lanes->fiber[i].watch = __tsan_create_fiber(0);
	lanes->fiber[HR_LANES].watch = __tsan_get_current_fiber();
}

FAKE_NOT_WATCHED void fake_fibers_end(struct fake_lanes *lanes)
{
	for (uint32_t i = 0; i < HR_LANES; i++)
		__tsan_destroy_fiber(lanes->fiber[i].watch);
}
#else
FAKE_NOT_WATCHED void fake_fibers_watch(struct fake_lanes *lanes)
{
	(void)lanes;
}

FAKE_NOT_WATCHED void fake_fibers_end(struct fake_lanes *lanes)
{
	(void)lanes;
}
#endif

/* Workers begin at the same time. */
static uint64_t fake_lanes_seed(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	uint64_t seed;

	pthread_mutex_lock(&mutex);
	seed = fake_random_seed("lanes");
	pthread_mutex_unlock(&mutex);
	return seed;
}

/* Run body(context) on all lanes of a worker, and return when all of them have returned. */
FAKE_NOT_WATCHED void fake_lanes_run_on(struct fake_lanes *lanes, void (*body)(void *),
					void *context)
{
	const size_t each = FAKE_STACK_GUARD + FAKE_STACK_BYTES;

	lanes->live = HR_LANES;
	lanes->arrived = lanes->at_warps = lanes->idle = 0;
	lanes->step = 1;
	lanes->order = fake_lanes_seed();
	lanes->body = body;
	lanes->context = context;
	for (uint32_t i = 0; i < HR_LANES; i++)
		fake_fiber_begin(&lanes->fiber[i], lanes->stacks + i * each + FAKE_STACK_GUARD);
	fake_fiber_of_thread(&lanes->fiber[HR_LANES]);
	fake_fibers_watch(lanes);
	fake_lanes = lanes;
	fake_lane = HR_LANES;
	FAKE_BEFORE(&lanes->begin);
	fake_lanes_to(lanes, 0);
	FAKE_AFTER(&lanes->end);
	fake_fibers_end(lanes);
}

#endif
