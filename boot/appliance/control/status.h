/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/control/status.h - the live counters of a running appliance, for `headrace status`.
 *
 * One JSON document, which the control socket (boot/appliance/control/control.h) sends. It is
 * written to the caller's text: nothing is allocated.
 */
#ifndef BOOT_APPLIANCE_CONTROL_STATUS_H
#define BOOT_APPLIANCE_CONTROL_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/appliance/protocol/message.h"
#include "boot/appliance/protocol/record.h"

/* Bytes of a document; every pipeline with every ssd fits. */
#define HR_STATUS_MAX (HR_MESSAGE_REPLY_MAX - HR_MESSAGE_HEADER)
#define HR_STATUS_MIN 1024u /* bytes of the document that replaces one without enough room */
/* "version" of the document: changes when a field is removed or changes its meaning. */
#define HR_STATUS_SCHEMA 1

struct hr_store_service;
struct hr_lend_service;
struct hr_repeat;

struct hr_status {
	const struct hr_engine *engine; /* the described appliance */
	enum hr_phase phase;		/* present activity */
	uint32_t restarts;		/* restarts of the appliance since its start */
	uint32_t restarts_left;		/* restarts left before it fails; 0 for `headrace run` */
	int engine_pid;			/* process identifier of the engine; 0: none runs */
	uint64_t still_ns;		/* time since the engine published its progress */
	const struct hr_repeat *repeat; /* NULL: no pipeline repeats */
	/* By index of the pipeline: engines in a row that have died in its runs, and the end of its
	 * suspension (hr_now_ns()), before which it does not run. Of a pipeline that repeats: as the
	 * timetable has it. */
	uint64_t deaths[HR_PIPELINES_MAX], suspended_until_ns[HR_PIPELINES_MAX];
	const struct hr_history *history; /* NULL: none is kept */
	bool told; /* the owner fills `record`; false: it is copied from engine and service */
	const struct hr_store_service *service; /* NULL: none, or told */
	const struct hr_lend_service *lend;	/* NULL: none, or told */
	struct hr_record record;		/* published state of ssds and pipelines */
};

/* Describe an appliance that has not started. */
void hr_status_open(struct hr_status *status, const struct hr_engine *engine);

/*
 * Write the document to text, with a NUL. A document that needs more than `bytes` (HR_STATUS_MIN or
 * more) is replaced by a short one, whose member `failure` gives the reason, so that a client never
 * gets an empty answer. Returns the length, which is not 0.
 */
size_t hr_status_format(struct hr_status *status, uint64_t now_ns, char *text, size_t bytes);

#endif
