/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/protocol/tap_message.h"

#include <errno.h>
#include <string.h>

#include "config/base/scm.h"

void hr_tap_message_begin(struct hr_tap_message *m, unsigned kind, uint16_t version)
{
	memset(m, 0, sizeof *m);
	m->magic = HR_TAP_MAGIC;
	m->kind = (uint16_t)kind;
	m->version_least = m->version = version;
}

int hr_tap_message_receive(int fd, struct hr_tap_message *m)
{
	unsigned count;
	const ssize_t n = hr_scm_receive(fd, m, sizeof *m, NULL, 0, &count);

	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	return n == sizeof *m && m->magic == HR_TAP_MAGIC ? 1 : -EPROTO;
}
