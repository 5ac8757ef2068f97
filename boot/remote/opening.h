/*
 * boot/remote/opening.h - the queue pair of a connection, and OPEN, which tells the other side of it.
 */
#ifndef BOOT_REMOTE_OPENING_H
#define BOOT_REMOTE_OPENING_H

#include "boot/remote/internal.h"

/* Make the queue pair, with receives for all that the other side may write. 0 or -errno with *e. */
int hr_opening_make(struct hr_link *link, struct hr_error *e);

/* Say OPEN. 0 or -errno. */
int hr_opening_say(struct hr_link *link);

/* Connect the queue pair to that of link->peer. 0 or -errno with *e. */
int hr_opening_connect(struct hr_link *link, struct hr_error *e);

/* Sender: take what the receiver has. False: it lacks a tile that the pipeline has given back, and
 * link->text says so. */
bool hr_opening_take(struct hr_link *link, const struct hr_link_opening *opening);

#endif
