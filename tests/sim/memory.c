/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocated memory of the processes of a world: the program's malloc() takes the place of that of libc.
 * It counts blocks, and knows the phase in which the engine allocates nothing.
 */
#include <malloc.h>
#include <errno.h>
#include <stdlib.h>

#include "config/base/process.h"
#include "tests/sim/command.h"
#include "tests/sim/schedule.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *block);

static uint32_t blocks;

static void *count(void *block, int change)
{
	if (!block)
		return NULL;
	blocks += (uint32_t)change;
	if (!sim_is_on())
		return block;
	if (hr_sealed() && change >= 0 && !sim_world->loose)
		sim_fault("memory is allocated while the engine is sealed");
	sim_world->process[sim_process_self()].blocks = blocks;
	return block;
}

void *malloc(size_t bytes)
{
	return count(__libc_malloc(bytes), 1);
}

void *calloc(size_t number, size_t bytes)
{
	return count(__libc_calloc(number, bytes), 1);
}

void *realloc(void *block, size_t bytes)
{
	return count(__libc_realloc(block, bytes), !block);
}

void free(void *block)
{
	count(block, -1);
	__libc_free(block);
}

void *memalign(size_t align, size_t bytes)
{
	return count(__libc_memalign(align, bytes), 1);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	return memalign(align, bytes);
}

int posix_memalign(void **block, size_t align, size_t bytes)
{
	void *const p = memalign(align, bytes);

	if (p)
		*block = p;
	return p ? 0 : ENOMEM;
}

#endif
