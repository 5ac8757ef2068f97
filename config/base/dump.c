#include "config/base/dump.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "config/base/limits.h"

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
