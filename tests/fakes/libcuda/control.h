/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/libcuda/control.h - a driver in C, for the client library of taps: what the test decides,
 * and what it sees. The library is loaded in place of the machine's libcuda.so.1.
 */
#ifndef TESTS_FAKES_LIBCUDA_CONTROL_H
#define TESTS_FAKES_LIBCUDA_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_LIBCUDA_HOST (1ull << 60) /* added to an address of the host for the GPU */

struct fake_libcuda {
	int devices;
	uint8_t uuid[2][16];
	size_t bytes; /* of a memory object */
	bool no_stream_writes, no_64_bits, only_both, no_peers;
	unsigned fail;	 /* the nth call from now on fails; 0: none */
	unsigned wrong;	 /* calls with arguments that cannot be */
	int flags, user; /* of the access to the tiles: PROT_*, device */
	/* what must be given back */
	int context_of;
	int contexts, current, handles, reserved, mapped, registered;
	/* the write that the stream has not done */
	void *stream;
	uint64_t at;
	uint64_t value;
	unsigned synchronized;
};

#endif
