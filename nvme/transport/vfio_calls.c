/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/transport/container.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

int hr_vfio_call_open(const char *path, int flags)
{
	return open(path, flags);
}

int hr_vfio_call_close(int fd)
{
	return close(fd);
}

int hr_vfio_call_ioctl(int fd, unsigned long request, void *argument)
{
	return ioctl(fd, request, argument);
}

void *hr_vfio_call_mmap(size_t bytes, int fd, off_t offset)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
}

int hr_vfio_call_munmap(void *at, size_t bytes)
{
	return munmap(at, bytes);
}

ssize_t hr_vfio_call_pread(int fd, void *to, size_t bytes, off_t offset)
{
	return pread(fd, to, bytes, offset);
}

ssize_t hr_vfio_call_pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
	return pwrite(fd, from, bytes, offset);
}
