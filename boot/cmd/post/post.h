/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/post/post.h - the power-on self-test: runs each step and shows or collects its result.
 */
#ifndef BOOT_CMD_POST_POST_H
#define BOOT_CMD_POST_POST_H

#include <stdbool.h>
#include <stdio.h>

#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"

/* Large: not for a stack. */
struct hr_post {
	struct hr_engine *engine;
	struct hr_json *steps; /* an array is open for them; NULL: print lines to out */
	FILE *out;
	/* For the data of all pairs of gpus and ssds, with an equal share for each pair. One size is
	 * always compared. */
	uint64_t pairs_ns;
	unsigned passed, failed, skipped;
	int error;		    /* of the first failure */
	struct hr_error cause;	    /* the same in words; printed as a step */
	bool machine_failed;	    /* a step of the machine, a gpu or an operator failed */
	int ssd_error[HR_SSDS_MAX]; /* error of an ssd's first failed step, or 0 */
	struct hr_error ssd_cause[HR_SSDS_MAX];
};

/*
 * Test CPU, memory, clock, backends, known answers of operators and network devices of remote sinks
 * and sources; then each ssd that is not left
 * out. A signal stops the test between two steps. The caller sets post->engine, ->steps, ->out and
 * ->pairs_ns.
 */
void hr_post_machine(struct hr_post *post);
void hr_post_ssds(struct hr_post *post);

#endif
