/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/post/step.h - result and finding of a step of the power-on self-test.
 *
 * A step returns 0: passed; HR_POST_SKIP: does not apply, detail gives the reason; -EINTR: a signal
 * requested a stop, and the step has no result; > 0 NVMe status or -errno: failed, and *e has the
 * cause. It writes its finding to detail, which has HR_POST_DETAIL bytes.
 */
#ifndef BOOT_CMD_POST_STEP_H
#define BOOT_CMD_POST_STEP_H

#include <stdint.h>

#include "boot/engine/bringup/stages.h"
#include "gpu/backend.h"
#include "gpu/facts.h"
#include "config/base/error.h"

#define HR_POST_SKIP 0x10000
#define HR_POST_DETAIL 640u

/* ---- steps of the self-test: CPU, memory and clock */

int hr_post_cpu(struct hr_engine *engine, char *detail, struct hr_error *e);
int hr_post_memory(struct hr_engine *engine, char *detail, struct hr_error *e);
int hr_post_clock(struct hr_engine *engine, char *detail, struct hr_error *e);

/* ---- steps of the self-test of an ssd */

/* In this order; each needs the previous ones. */
int hr_post_controller(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e);
int hr_post_queue(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e);
int hr_post_smart(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e);
int hr_post_store(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e);
int hr_post_loopback(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e);
int hr_post_verify(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e);

/* ---- steps of the self-test of a gpu */

/*
 * Workers: read, write and copy host memory and GPU memory with the largest number
 * of blocks, and exchange words with the CPU. Entries: resources that the gpu's entry points need.
 */
int hr_post_workers(struct hr_backend *backend, char *detail, struct hr_error *e);
void hr_post_entries(const struct hr_gpu_facts *facts, char *detail);

/* ---- the step of the self-test of an operator */

/* Known answers of one operator's worker code. */
int hr_post_operator(uint32_t id, char *detail, struct hr_error *e);

/* ---- the step of the self-test of a gpu and an ssd together */

/*
 * Compare the data that ssd d and the memory of gpu g exchange, both ways
 * (boot/engine/exchange/exchange.h), in sizes from 4 KiB on, up to 64 MiB within the budget.
 * Both are up. Only the scratch area of the store is written. HR_POST_SKIP: no direct path, or
 * a direction cannot be proven.
 */
int hr_post_pair(struct hr_engine *engine, uint32_t g, uint32_t d, uint64_t budget_ns, char *detail,
		 struct hr_error *e);

#endif
