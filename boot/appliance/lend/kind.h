/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/kind.h - how the sockets of taps and of feeds differ: the words of messages and
 * logs, and the protocol (gpu/tap/protocol.h). What both do the same way: clients.h (processes without
 * a seat), peer.h (with one), memory.h. What a death means, and what a tile is, differs for a reason:
 * consumer.h, producer.h.
 */
#ifndef BOOT_APPLIANCE_LEND_KIND_H
#define BOOT_APPLIANCE_LEND_KIND_H

#include <stdint.h>

struct hr_lend_kind {
	const char *name;   /* "tap" */
	const char *client; /* of its processes: "consumer" */
	uint16_t hello, welcome, version;
};

extern const struct hr_lend_kind hr_lend_tap, hr_lend_feed;

#endif
