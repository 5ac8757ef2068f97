#include "boot/remote/internal.h"

#include <errno.h>
#include <sys/epoll.h>

/* Listener, strangers, connection and channel. */
#define DESCRIPTORS (HR_LINK_UNPROVED_MAX + 3)

int hr_link_epoll_add(struct hr_link *link, int fd, enum hr_link_readable kind)
{
	struct epoll_event wake = { .events = EPOLLIN, .data.u32 = kind };

	if (epoll_ctl(link->epoll, EPOLL_CTL_ADD, fd, &wake) == 0 ||
	    (errno == EEXIST && epoll_ctl(link->epoll, EPOLL_CTL_MOD, fd, &wake) == 0))
		return 0;
	return -errno;
}

unsigned hr_link_epoll_poll(struct hr_link *link)
{
	struct epoll_event ready[DESCRIPTORS];
	const int count = epoll_wait(link->epoll, ready, DESCRIPTORS, 0);
	unsigned wake = 0;

	for (int i = 0; i < count; i++)
		wake |= ready[i].data.u32;
	return wake;
}
