/*
 * boot/remote/flow.h - offers, tiles and their completions on a connection.
 */
#ifndef BOOT_REMOTE_FLOW_H
#define BOOT_REMOTE_FLOW_H

#include "boot/remote/internal.h"

/* Queue an event; text: NULL, or one that lives until the next step. */
void hr_flow_event(struct hr_link *link, struct hr_link_event event);

/* A connection is up: nothing is in flight, all kept offers of a receiver are to be posted. */
void hr_flow_begin(struct hr_link *link);

/*
 * Take one completion. 1: there was one; 0: none; -errno: the connection is of no use: link->text says
 * why. While the connection is broken, only what has arrived counts, and nothing is an error.
 */
int hr_flow_poll(struct hr_link *link);

/* Receiver: post offers while the queue has room. -errno as hr_flow_poll(). */
int hr_flow_offers(struct hr_link *link);

/* The connection is gone: remember the tiles in flight. */
void hr_flow_end(struct hr_link *link);

/* Receiver: HR_LINK_END when all tiles have arrived, once. */
void hr_flow_check_end(struct hr_link *link);

#endif
