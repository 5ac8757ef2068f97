/*
 * config/base/dump.h - memory that a core dump leaves out: keys, and data of objects.
 */
#ifndef CONFIG_BASE_DUMP_H
#define CONFIG_BASE_DUMP_H

#include <stddef.h>

/*
 * Leave all pages that have a part of these bytes out of core dumps (madvise(2), MADV_DONTDUMP),
 * until they are unmapped. NULL: no effect. Without CONFIG_ADVISE_SYSCALLS the kernel dumps them;
 * nothing is reported. Returns `at`.
 */
void *hr_not_dumped(void *at, size_t bytes);

#endif
