/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/bringup/stage.h - the stages of bring-up, each of which one function raises.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_H
#define BOOT_ENGINE_BRINGUP_STAGE_H

#include "boot/engine/engine.h"
#include "boot/engine/shape/paths.h"

/* ---- stage `backends`: the gpus of selected pipelines are open. */

/* 0, or as hr_backend_open() and hr_operators_build_images(), logged. */
int hr_backends_up(struct hr_engine *engine);
void hr_backends_down(struct hr_engine *engine);

/* ---- stage `controllers`: the ssds are up */

/* 0, or as hr_ssd_up() and hr_ssd_reserve(), in engine->error; -EINTR: a signal asked to stop. */
int hr_controllers_up(struct hr_engine *engine);
void hr_controllers_down(struct hr_engine *engine);

/* Call up() for each ssd that is not left out. The first failure ends the stage, unless pipelines
 * remain that do not need that ssd. 0, -EINTR: a signal asked to stop, or the error of up(). */
int hr_stage_ssds(struct hr_engine *engine, int (*up)(struct hr_engine *engine, uint32_t d));

/* Put the line and the name of ssd d in front of engine->error, with `what` failed: "cannot be brought
 * up". An empty engine->error is a device error. Does nothing for 0 and -EINTR. Returns err. */
int hr_stage_name_ssd(struct hr_engine *engine, uint32_t d, int err, const char *what);

/* ---- stage `stores`: open the object stores */

/* 0, or as hr_ssd_open_store(), in engine->error. */
int hr_stores_up(struct hr_engine *engine);

/* The same for one ssd, for the self-test. */
int hr_store_up(struct hr_engine *engine, uint32_t d);

/* ---- stage `objects`: find sources, derive sizes and tiles */

/* 0; -EINVAL, -ENOENT: an error of the configuration that only the stores reveal, logged with
 * file and line. */
int hr_objects_up(struct hr_engine *engine);

/* ---- stage `partition`: plan the memory of each pipeline */

/* Choose paths, then lay out the partition. 0; -ENOSPC, -EINVAL, -ENOTSUP and those of
 * hr_paths_up(), logged. */
int hr_partition_up(struct hr_engine *engine);

/* Lay out the partition with the current paths, also after they have changed. */
int hr_partition_plan(struct hr_engine *engine);

/* ---- stage `memory`: one allocation per place, mapped into the controllers */

/*
 * When an ssd cannot access GPU memory, and memory.path allows both paths, its paths become bounce,
 * the partition is laid out again, and all memory is allocated again. 0, or as hr_places_alloc() and
 * hr_loopback_test(), in engine->error.
 */
int hr_memory_up(struct hr_engine *engine);
void hr_memory_down(struct hr_engine *engine);

/* Attach the doorbells of ssd d for workers of gpu g: sets engine->bar[g][d]. 0, or as attach of
 * struct hr_backend_ops, in engine->error. */
int hr_attach_bar(struct hr_engine *engine, uint32_t g, uint32_t d);
void hr_detach_bar(struct hr_engine *engine, uint32_t g, uint32_t d);

/* ---- stage `queues`: queue pairs are created, pipelines are ready to launch */

/*
 * 0, or as hr_ssd_create_qp(), in engine->error. -EAGAIN: a controller has created fewer queue pairs
 * than it has granted, and a warning says so: take the stage down, and plan the runs again for
 * hr_ssd_queues(). Each repetition has fewer, so they end. Seals.
 */
int hr_queues_up(struct hr_engine *engine);
void hr_queues_down(struct hr_engine *engine);

/*
 * After an error of hr_ssd_create_qp(), in engine->error: true when ssd d has fewer queue pairs than
 * `before`, the number of hr_ssd_queues() before it. Then the error is logged as a warning, and
 * cleared.
 */
bool hr_queues_fewer(struct hr_engine *engine, uint32_t d, uint32_t before);

/* ---- link user operators into the worker code of gpus */

/* Link each operator once for each gpu that runs it; part of stage `backends`. 0, or as link of
 * struct hr_backend_ops, logged with file and line. */
int hr_operators_build_images(struct hr_engine *engine);

/* ---- test a place of memory by a loopback through the ssd */

/*
 * Test a place that is mapped into ssd d, in a sample of its pages. 0, also when the place needs no
 * test. -EIO: the data differed; > 0: the status of a failed transfer; both set *refuted. Other
 * errors are those of the disk or the backend. When a command was lost, the controller is disabled,
 * or its health is HR_HEALTH_STUCK.
 */
int hr_loopback_test(struct hr_engine *engine, uint32_t g, uint32_t d, enum hr_place place,
		     bool *refuted, struct hr_error *e);

#endif
