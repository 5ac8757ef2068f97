/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/control_rig.h - a control socket of an appliance whose starts the test ends, its
 * clients, and times that the test gives.
 */
#ifndef TESTS_HARNESS_CONTROL_RIG_H
#define TESTS_HARNESS_CONTROL_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boot/appliance/control/control.h"
#include "boot/appliance/supervisor/repeat.h"

extern char rig_folder[64]; /* of the socket */
extern struct hr_engine *rig_app;
extern struct hr_status rig_status;
extern struct hr_control *rig_control;
extern struct hr_repeat rig_repeat; /* each pipeline starts on request */
extern uint64_t rig_now_ns;

void rig_begin(void);
void rig_end(void);

/* Open the socket, with a schedule and without an engine. */
void rig_open(void);

/* The starts of pipeline i; the next one has begun and ended. */
const struct hr_start *rig_start(uint32_t i);
void rig_end_start(uint32_t i, int err);

/* Call hr_control_tick() at rig_now_ns. */
void rig_tick(void);

/* Connect; send a request; both. */
int rig_connect(void);
void rig_send(int fd, enum hr_request_kind kind, const char *pipeline, bool wait);
int rig_client(enum hr_request_kind kind, const char *pipeline, bool wait);

/* Take the bytes that have arrived. -1: none, and the connection is open. */
ssize_t rig_take(int fd, void *to, size_t bytes);
bool rig_is_closed(int fd);

/* The document of a reply with that exit code. The connection must be closed behind it. */
const char *rig_reply(int fd, enum hr_request_kind kind, uint32_t code);

/* One request, a tick, and the reply. */
const char *rig_ask(enum hr_request_kind kind, const char *pipeline, uint32_t code);

void rig_expect_text(const char *text, const char *part);

#endif
