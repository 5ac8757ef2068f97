/*
 * tests/harness/access_block.h - gpu/worker/access.c with the operator of a test: the variables
 * below. Include it once, in the test's file.
 */
#ifndef TESTS_HARNESS_ACCESS_BLOCK_H
#define TESTS_HARNESS_ACCESS_BLOCK_H

#include "config/operator.h"
#include "gpu/worker/access.h"

struct hr_objects;

static void (*access_op)(struct hr_objects *objects);
static void (*access_op_finish)(const struct hr_op_all *all);

static void access_block_run(uint32_t op, const void *args, void *state, struct hr_objects *objects)
{
	access_op(objects);
}

static void access_block_finish(uint32_t op, const struct hr_op_all *all)
{
	if (access_op_finish)
		access_op_finish(all);
}

/* hr_access_block() with that operator. */
void access_block(struct hr_access *access, uint32_t block);

#define hr_op_run access_block_run
#define hr_op_finish access_block_finish
#define hr_access_block access_block
#include "gpu/worker/access.c"
#undef hr_op_run
#undef hr_op_finish
#undef hr_access_block

#endif
