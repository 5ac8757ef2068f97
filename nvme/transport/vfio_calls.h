/*
 * nvme/transport/vfio_calls.h - the system calls of nvme/transport/container.c, in a file of
 * their own so that a test can link others (tests/fakes/vfio.c). As the system calls of these
 * names; -1 and errno.
 */
#ifndef NVME_TRANSPORT_VFIO_CALLS_H
#define NVME_TRANSPORT_VFIO_CALLS_H

#include <stddef.h>
#include <sys/types.h>

int hr_vfio_call_open(const char *path, int flags);
int hr_vfio_call_close(int fd);
int hr_vfio_call_ioctl(int fd, unsigned long request, void *argument);
void *hr_vfio_call_mmap(size_t bytes, int fd, off_t offset); /* readable, writable, shared */
int hr_vfio_call_munmap(void *at, size_t bytes);
ssize_t hr_vfio_call_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t hr_vfio_call_pwrite(int fd, const void *from, size_t bytes, off_t offset);

#endif
