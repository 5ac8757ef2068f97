/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/protocol/tap_message.h - messages of taps and feeds (gpu/tap/protocol.h) on
 * the appliance's side of a socket
 */
#ifndef BOOT_APPLIANCE_PROTOCOL_TAP_MESSAGE_H
#define BOOT_APPLIANCE_PROTOCOL_TAP_MESSAGE_H

#include "gpu/tap/protocol.h"

/* Fill in a message of that kind and version of its protocol; all else is 0. */
void hr_tap_message_begin(struct hr_tap_message *message, unsigned kind, uint16_t version);

/* Receive a message of a connection that does not block: 1; 0: there is none yet; -errno: the
 * connection has ended; -EPROTO: the bytes are not a message. */
int hr_tap_message_receive(int fd, struct hr_tap_message *message);

#endif
