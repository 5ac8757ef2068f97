/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/process.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "config/base/limits.h"
#include "config/base/work.h"

static uint64_t start_ns;

void hr_exec_mark(void)
{
	start_ns = hr_now_ns();
	/* As the first process, this process was a kernel thread, whose processor time counts
	 * here. */
	if (getpid() != 1)
		start_ns -= hr_cpu_ns();
}

uint64_t hr_exec_ns(void)
{
	return start_ns;
}

/* ---- sealing */

static int sealed;

void hr_seal(void)
{
	__atomic_store_n(&sealed, 1, __ATOMIC_RELEASE);
}

void hr_unseal(void)
{
	__atomic_store_n(&sealed, 0, __ATOMIC_RELEASE);
}

bool hr_sealed(void)
{
	return __atomic_load_n(&sealed, __ATOMIC_ACQUIRE) != 0;
}

/* ---- core dumps */

void *hr_not_dumped(void *at, size_t bytes)
{
	const int before = errno;
	const uintptr_t from = (uintptr_t)at & ~(uintptr_t)(HR_PAGE - 1);

	if (at && bytes)
		(void)madvise((uint8_t *)at - ((uintptr_t)at - from), (uintptr_t)at + bytes - from,
			      MADV_DONTDUMP);
	errno = before;
	return at;
}

/* ---- what a thread works on */

_Thread_local struct hr_work hr_work_now;
