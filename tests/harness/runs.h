/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/runs.h - an appliance with pipelines over two stores on disks in memory, for tests of
 * the stages that find and make objects. No controller, gpu or queue is up.
 */
#ifndef TESTS_HARNESS_RUNS_H
#define TESTS_HARNESS_RUNS_H

#include "boot/engine/engine.h"
#include "tests/harness/store.h"

#define TEST_RUNS_SSDS 2u

extern struct fake_store test_runs_disk[TEST_RUNS_SSDS];

/*
 * An appliance of the file "f" with the ssds "a" (soft:x) and "b" (soft:y), and that many pipelines p0,
 * p1 ... without sources and sinks, all selected. Valid until test_runs_end().
 */
struct hr_engine *test_runs_begin(uint32_t pipelines);
void test_runs_end(void);

/* Make an object in the store of ssd d, complete or not; returns its id. An incomplete one of that name
 * is replaced, a complete one when the new one is complete, too. */
uint64_t test_runs_put(uint32_t d, const char *name, uint64_t bytes, uint64_t tag, bool whole);

/* The write or flush after the next `after` ones of ssd d fails with that status. */
void test_runs_fail(uint32_t d, uint64_t after, int status);

#endif
