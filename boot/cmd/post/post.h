/*
 * boot/cmd/post/post.h - the power-on self-test: what each step finds, collected and shown line by
 * line.
 */
#ifndef BOOT_CMD_POST_POST_H
#define BOOT_CMD_POST_POST_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "boot/engine/stages.h"

#define HR_POST_DETAIL 640u /* bytes of a step's finding */

/* A step returns 0: fine; HR_POST_SKIP: does not apply, detail says why; -EINTR: a signal asked to
 * stop, which is no finding; > 0 NVMe status or -errno: failed. It writes what it has found, or what
 * is wrong, to detail. */
#define HR_POST_SKIP 0x10000

struct hr_post {
	struct hr_appliance *app;
	struct json_object *steps; /* array, or NULL: print lines to out */
	FILE *out;
	unsigned passed, failed, skipped;
	int error;		    /* of the first failure */
	bool machine_failed;	    /* a step of the machine, a gpu or an operator */
	int ssd_error[HR_SSDS_MAX]; /* of the first step that failed of an ssd, or 0 */
};

/* CPU, memory, clock, backends, known answers of operators; then each ssd that is not left out. A
 * signal ends them between two steps. post->app, ->steps and ->out are the caller's. */
void hr_post_machine(struct hr_post *post);
void hr_post_ssds(struct hr_post *post);

/* Steps of the machine. */
int hr_post_cpu(struct hr_appliance *app, char *detail);
int hr_post_memory(struct hr_appliance *app, char *detail);
int hr_post_clock(struct hr_appliance *app, char *detail);

/* Steps of ssd d, in this order; each needs the ones before. */
int hr_post_controller(struct hr_appliance *app, uint32_t d, char *detail);
int hr_post_queue(struct hr_appliance *app, uint32_t d, char *detail);
int hr_post_smart(struct hr_appliance *app, uint32_t d, char *detail);
int hr_post_store(struct hr_appliance *app, uint32_t d, char *detail);
int hr_post_loopback(struct hr_appliance *app, uint32_t d, char *detail);
int hr_post_verify(struct hr_appliance *app, uint32_t d, char *detail);

/*
 * Steps of a gpu: its workers read, write and copy host memory and memory of their own with as many
 * blocks as there may be, and answer the CPU. And what its kernels need (facts of a GPU).
 */
int hr_post_workers(struct hr_backend *backend, char *detail);
void hr_post_kernels(const struct hr_gpu_facts *facts, char *detail);

/* Known answers of one operator's worker code. */
int hr_post_operator(uint32_t id, char *detail);

#endif
