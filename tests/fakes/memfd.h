/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/memfd.h - memfd_create() in place of that of libc, which counts, and fails when a test
 * wants it.
 */
#ifndef TESTS_FAKES_MEMFD_H
#define TESTS_FAKES_MEMFD_H

extern struct fake_memfd {
	unsigned created; /* calls */
	unsigned fails;	  /* the number of the call that fails with EMFILE, from 1; 0: none */
	char names[256];  /* of all memory objects, with a ';' after each */
} fake_memfd;

#endif
