/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/memfd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct fake_memfd fake_memfd;

int memfd_create(const char *name, unsigned flags)
{
	const size_t at = strlen(fake_memfd.names);

	snprintf(fake_memfd.names + at, sizeof fake_memfd.names - at, "%s;", name);
	if (++fake_memfd.created == fake_memfd.fails) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_memfd_create, name, flags);
}
