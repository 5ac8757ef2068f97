/*
 * tests/harness/control_rig.h - a control socket with a scripted appliance behind it, its clients,
 * and times that the test gives.
 */
#ifndef TESTS_HARNESS_CONTROL_RIG_H
#define TESTS_HARNESS_CONTROL_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boot/appliance/control/control.h"

/* Requests that have reached the appliance, and its answers. */
struct control_rig_life {
	unsigned triggers, pauses, resumes, stops, reloads;
	uint32_t pipeline;  /* of the newest request */
	int error;	    /* of each function */
	bool ended;	    /* of a start, or a reload */
	int result;	    /* of its end */
	const char *listed; /* settings that need a restart */
	bool waits;	    /* other settings wait for the end of pipeline `sum` */
};

extern char rig_folder[64]; /* of the socket */
extern struct hr_engine *rig_app;
extern struct hr_status rig_status;
extern struct hr_control *rig_control;
extern struct control_rig_life rig_life;
extern const struct hr_actions rig_all; /* all requests are supported */
extern uint64_t rig_now_ns;

void rig_begin(void);
void rig_end(void);

/* Open the socket over that table. */
void rig_open(const struct hr_actions *table);

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
