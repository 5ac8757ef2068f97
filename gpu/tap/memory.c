/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/process.h"
#include "config/base/log.h"

static int size_memfd(int fd, void *at, size_t bytes, enum hr_tap_memory_use use)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL |
			  (use == HR_TAP_READ_ONLY ? F_SEAL_FUTURE_WRITE : 0);
	void *map;
	int err;

	if (ftruncate(fd, (off_t)bytes) != 0)
		return -errno;
	/* a page that is missing later would be SIGBUS in a worker */
	if (fallocate(fd, 0, 0, (off_t)bytes) != 0)
		return errno == ENOSPC ? -ENOMEM : -errno;
	map = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	hr_not_dumped(map, bytes);
	if (fcntl(fd, F_ADD_SEALS, seals) == 0)
		return 0;
	err = errno == EINVAL ? -ENOSYS : -errno;
	hr_tap_memory_drop(at, bytes);
	return err;
}

int hr_tap_memory_create(const char *name, void *at, size_t bytes, enum hr_tap_memory_use use,
			 struct hr_error *e)
{
	const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const int err = fd < 0 ? -errno : size_memfd(fd, at, bytes, use);

	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return hr_fail(e, HR_ERROR_MISSING, err, "%zu bytes of memory that processes share: %s",
		       bytes, strerror(-err));
}

void hr_tap_memory_drop(void *at, size_t bytes)
{
	/* The range belongs to this process, so the kernel can only refuse a new mapping. */
	if (mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
		 0) == MAP_FAILED)
		hr_warn("memory of a tap stays mapped: %s", strerror(errno));
}
