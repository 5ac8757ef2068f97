/*
 * tests/fakes/tap_side.h - the other side of the socket of a tap or feed, for the client library:
 * scripted connections and messages on a clock of their own, memory, and a GPU's driver.
 *
 * It replaces gpu/tap/client/connection.c and tap_cuda.c, and for the test and the library these
 * calls of libc: mmap, munmap, madvise, epoll_create1, epoll_ctl, timerfd_create, timerfd_settime.
 */
#ifndef TESTS_FAKES_TAP_SIDE_H
#define TESTS_FAKES_TAP_SIDE_H

#include "gpu/tap/client/connection.h"
#include "gpu/tap/client/tap_cuda.h"
#include "tests/harness/calls.h"

#define FAKE_SIDE_SENT 8u
#define FAKE_SIDE_START 5000000000ull /* the first time of the clock, ns */

extern struct fake_side {
	uint64_t now_ns, step_ns; /* each look at the clock adds a step first; 1000 at the start */
	/* what the client has sent since the last reset */
	struct hr_tap_message sent[FAKE_SIDE_SENT];
	unsigned sent_count;
	int send_error;	     /* of a call that fails; 0: -EPIPE */
	void (*waits)(void); /* called at the start of each wait; NULL: none */
	/* the nth call from now on fails once; 0: none */
	unsigned fail_mmap, fail_madvise, fail_epoll, fail_timer, fail_send;
	/* memory that WELCOME brings, mapped here; fake_side_memory() */
	uint8_t *tiles, *ring, *page;
	/* the driver */
	struct hr_tap_cuda_memory cuda; /* of the last hr_tap_cuda_open() */
	uint8_t uuid[16];		/* of it */
	int cuda_error;			/* of all its calls but open's; also of open, with a text */
	int cuda_ordinal;		/* that open returns */
} fake_side;

/* No connection, no message, no memory; frees what was there. */
void fake_side_reset(void);

/* The next hr_tap_connect() returns an error, or (0) a socket. One too many fails the test. */
void fake_side_connects(int result);

/* The next message: it can be received from `after_ns` behind the start on. `memory`: with the
 * descriptors. error: hr_tap_receive() returns that in place of the message, which may be NULL. */
void fake_side_says(uint64_t after_ns, const struct hr_tap_message *message, bool memory,
		    int error);

/* Memory of these sizes, all zero. */
void fake_side_memory(size_t tiles, size_t ring, size_t page);

/* Compares what was called since the last look. */
#define EXPECT_LOG(text)                                \
	do {                                            \
		const char *log = fake_side_log();      \
		cr_expect_str_eq(log, text, "%s", log); \
	} while (0)

/* A message of this version of the protocol; `text` as in its field. */
struct hr_tap_message fake_side_message(uint16_t version, uint16_t kind, uint16_t code,
					const char *text);

/* Descriptors of the memory, which the caller closes. */
void fake_side_memory_fds(int fds[HR_TAP_FDS]);

/* What was called since the last call of this function, separated by spaces:
 * DIRECTORY/NAME.ENDING (connect), >KIND (send), <KIND (receive), wNS (wait for the socket), -wNS
 * (wait without one), cuda(...), and of the descriptor for poll: poll, timer, +socket, +timer,
 * @NS (the timer; 0: off). A wait that the socket ends has a '!'. */
const char *fake_side_log(void);

/* Open descriptors of this process, and mapped bytes (of the calls above). */
unsigned fake_side_descriptors(void);
size_t fake_side_mapped(void);

#endif
