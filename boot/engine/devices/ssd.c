/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/stand_in.h"
#include "boot/engine/devices/ssd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/devices/foreign_data.h"
#include "config/base/log.h"
#include "config/base/text.h"
#include "nvme/ctrl.h"
#include "nvme/events.h"
#include "nvme/dma/hostmem.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "nvme/queue/status.h"

/* Steps of bring-up of a controller, and of an ssd. */
enum controller_step {
	CONTROLLER_TRANSPORT = 1,
	CONTROLLER_MEMORY,
	CONTROLLER_WINDOW,
	CONTROLLER_ON
};
enum step { STEP_JOINED = 1, STEP_MEMORY, STEP_WINDOW, STEP_DISK };

static size_t round_up(size_t bytes)
{
	return (bytes + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
}

size_t hr_ssd_dma_bytes(const struct hr_ssd *ssd)
{
	const struct hr_ssd_controller *c = ssd->controller;

	return c && !ssd->region.bytes ? c->region.bytes : ssd->region.bytes;
}

size_t hr_ssd_map_bytes(const struct hr_ssd *ssd)
{
	uint32_t capacity = ssd->store.capacity;

	if (!ssd->has_store)
		return 0;
	return round_up(capacity * sizeof(struct hr_store_object)) + hr_store_io_bytes(capacity);
}

static int map_memory(struct hr_transport *t, const struct hr_region *region, struct hr_error *e)
{
	const int err = t->ops->map(t, region, e);

	if (err)
		hr_error_context(e, "%s: cannot map %zu bytes for DMA", t->name, region->bytes);
	return err;
}

/* Largest power of two in one command. */
static uint32_t chunk_bytes(uint32_t max_transfer)
{
	uint32_t chunk = HR_CHUNK_MAX;

	while (chunk > max_transfer && chunk > HR_PAGE)
		chunk /= 2;
	return chunk;
}

/* Open a controller, with memory for the disk of its first ssd. */
static int open_controller(struct hr_ssd_controller *c, const struct hr_config_ssd *config,
			   struct hr_error *e)
{
	int err = hr_transport_open(&c->transport, config->device, e);

	if (err)
		return err;
	c->bringup_steps = CONTROLLER_TRANSPORT;
	err = hr_hostmem_alloc(&c->region, "ssd",
			       HR_CTRL_ADMIN_BYTES + round_up(hr_nvme_blk_bytes()), e);
	if (err)
		return err;
	c->bringup_steps = CONTROLLER_MEMORY;
	err = map_memory(&c->transport, &c->region, e);
	if (err)
		return err;
	c->bringup_steps = CONTROLLER_WINDOW;
	err = hr_ctrl_open(&c->ctrl, &c->transport, &c->region, 0, config->admin_timeout_ns, e);
	if (!err)
		c->bringup_steps = CONTROLLER_ON;
	return err;
}

static void join_controller(struct hr_ssd *ssd, struct hr_ssd_controller *c)
{
	uint32_t i = 0;

	while (c->ssd[i])
		i++;
	c->ssd[i] = ssd;
	c->users++;
	ssd->controller = c;
	ssd->ctrl = &c->ctrl;
	ssd->blk = &ssd->disk.blk;
	ssd->bringup_steps = STEP_JOINED;
}

static int open_namespace(struct hr_ssd *ssd, uint32_t nsid, uint32_t queue_entries,
			  struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;
	int err = hr_ctrl_identify_ns(&c->ctrl, nsid, &ssd->ns, e);
	char list[96];

	if (err == -ENOENT)
		hr_fail(e, HR_ERROR_MISSING, err,
			"%s: there is no active namespace %u; the controller has %s",
			ssd->transport.name, nsid, hr_ctrl_list_ns(&c->ctrl, list, sizeof list));
	if (!err && !c->queues)
		err = hr_ctrl_set_queues(&c->ctrl, HR_SSD_QUEUES_WANTED, &c->queues, e);
	if (!err)
		err = hr_ctrl_aer_enable(&c->ctrl, &ssd->ns, e);
	if (err)
		return err;
	ssd->queue_entries =
		queue_entries < c->ctrl.max_entries ? queue_entries : c->ctrl.max_entries;
	ssd->chunk_bytes = chunk_bytes(c->ctrl.max_transfer);
	return 0;
}

/* Memory for the disk: behind the admin queues for the first ssd, allocated separately for the
 * others. */
static int allocate_disk_memory(struct hr_ssd *ssd, bool first, struct hr_error *e)
{
	int err =
		first ? 0 : hr_hostmem_alloc(&ssd->region, "ssd", round_up(hr_nvme_blk_bytes()), e);

	if (err)
		return err;
	ssd->bringup_steps = STEP_MEMORY;
	err = first ? 0 : map_memory(&ssd->transport, &ssd->region, e);
	if (!err)
		ssd->bringup_steps = STEP_WINDOW;
	return err;
}

/* The lowest free id of an I/O queue pair, or 0. */
static uint16_t free_queue(const struct hr_ssd_controller *c)
{
	/* some in use may have an id above c->queues */
	for (uint32_t id = 1; c->queues_used < c->queues && id <= c->queues; id++)
		if (!c->queue[id])
			return (uint16_t)id;
	return 0;
}

static void assign_queue(struct hr_ssd *ssd, uint16_t id)
{
	ssd->controller->queue[id] = ssd;
	ssd->controller->queues_used++;
}

static void unassign_queue(struct hr_ssd_controller *c, uint16_t id)
{
	c->queue[id] = NULL;
	c->queues_used--;
}

static int open_disk(struct hr_ssd *ssd, bool first, struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;
	const uint16_t id = free_queue(c);
	int err;

	if (!id)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "%s: namespace %u: none of the %u I/O queue pairs of the controller "
			       "is left",
			       ssd->transport.name, ssd->ns.nsid, c->queues);
	err = hr_nvme_blk_open(&ssd->disk, &c->ctrl, &ssd->ns, id,
			       first ? &c->region : &ssd->region, first ? HR_CTRL_ADMIN_BYTES : 0,
			       ssd->timeout_ns, e);
	if (err)
		return err;
	assign_queue(ssd, id);
	ssd->bringup_steps = STEP_DISK;
	ssd->disk.health = &ssd->health;
	if (ssd->ns.nsid != 1) {
		snprintf(ssd->disk_name, sizeof ssd->disk_name, "%s namespace %u",
			 ssd->transport.name, ssd->ns.nsid);
		ssd->disk.blk.name = ssd->health.name = ssd->disk_name;
	}
	return 0;
}

static int open_nvme(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer,
		     struct hr_error *e)
{
	struct hr_ssd_controller *c = peer ? peer->controller : calloc(1, sizeof *c);
	int err = 0;

	if (!c)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "%s: out of memory for a controller",
			       config->device);
	join_controller(ssd, c);
	if (!peer)
		err = open_controller(c, config, e);
	ssd->transport = c->transport;
	hr_health_join(&ssd->health, &c->ctrl.health, ssd->transport.name);
	if (peer && hr_health_failed(&peer->health))
		err = hr_fail(e, HR_ERROR_DEVICE, -EIO,
			      "%s: namespace %u: its controller has failed", ssd->transport.name,
			      config->nsid);
	if (!err)
		err = open_namespace(ssd, config->nsid, config->queue_entries, e);
	if (!err)
		err = allocate_disk_memory(ssd, !peer, e);
	if (!err)
		err = open_disk(ssd, !peer, e);
	return c->bringup_steps ? hr_vanished_error(err) : err;
}

static int open_kernel(struct hr_ssd *ssd, const char *path, struct hr_error *e)
{
	const int err = hr_kernel_blk_open(&ssd->kernel, path, e);

	if (err)
		return err;
	ssd->blk = &ssd->kernel.blk;
	snprintf(ssd->transport.name, sizeof ssd->transport.name, "%.47s", path);
	return 0;
}

/* Check that the disk may be used. Image files and memory are identified by their name. */
static int check_owner(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_error *e)
{
	const char *wanted = config->serial;
	const char *serial = ssd->blk == &ssd->kernel.blk ? ssd->kernel.serial : ssd->ctrl->serial;
	char text[HR_FOREIGN_DATA_TEXT], word[HR_QUOTE_BYTES], value[HR_QUOTE_BYTES];
	int err;

	if (wanted[0] && strcmp(wanted, serial) != 0)
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
			       "%s: its serial number is '%s', but '%s' was requested: this is "
			       "another disk than intended",
			       ssd->transport.name, serial, wanted);
	err = wanted[0] || config->reads_only ? 0 : hr_foreign_data_find(ssd->blk, text, e);
	if (err != -EEXIST)
		return err;
	if (serial[0])
		return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
			       "%s: holds %s; nothing was changed. To use the disk anyway, give "
			       "its serial number: --allow-serial %s, or serial = %s in the "
			       "configuration",
			       ssd->transport.name, text, hr_quote(serial, word),
			       hr_quote_config(serial, value));
	return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
		       "%s: holds %s; nothing was changed. It has no serial number to give; if its "
		       "data is not needed: wipefs -a %s",
		       ssd->transport.name, text, hr_quote(ssd->transport.name, word));
}

/* Forget all but the health, which keeps HR_HEALTH_STUCK and the counters. */
static void clear_but_health(struct hr_ssd *ssd)
{
	const struct hr_health health = ssd->health;

	memset(ssd, 0, sizeof *ssd);
	ssd->health = health;
}

/* 0, or -EBUSY without a text: something uses the controller. */
static int check_idle(const struct hr_ssd_controller *c)
{
	for (uint32_t i = 0; i < HR_SSDS_MAX; i++) {
		const struct hr_ssd *ssd = c->ssd[i];

		if (ssd && (!hr_health_commands(&ssd->health) || ssd->disk.begun.active))
			return -EBUSY;
	}
	return 0;
}

/* The disk and the reservation of an ssd, after the reset of its controller. */
static int restore(struct hr_ssd *ssd, struct hr_error *e)
{
	const int err = open_disk(ssd, !ssd->region.bytes, e);

	return err ? err : hr_ssd_renew(ssd, e);
}

static int reset_shared_controller(struct hr_ssd_controller *c, struct hr_error *e)
{
	int err = hr_ctrl_reset(&c->ctrl, e);

	memset(c->queue, 0, sizeof c->queue);
	memset(c->queue_for, 0, sizeof c->queue_for);
	c->queues_used = 0;
	if (!err)
		err = hr_ctrl_set_queues(&c->ctrl, c->queues, &c->queues, e);
	if (!err)
		err = hr_ctrl_events_renew(&c->ctrl, e);
	for (uint32_t i = 0; !err && i < HR_SSDS_MAX; i++)
		if (c->ssd[i])
			err = restore(c->ssd[i], e);
	return err;
}

int hr_ssd_reset(struct hr_ssd *ssd, struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;
	int err = check_idle(c);

	if (err)
		return err;
	err = reset_shared_controller(c, e);
	if (!err) {
		hr_warn("%s: the controller was reset, because its admin queue had ended",
			c->transport.name);
		c->resets++;
		c->reset_ns = hr_now_ns();
		return 0;
	}
	hr_health_set(&c->ctrl.health, HR_STEP_GIVE_UP);
	hr_error_context(e, "%s: its admin queue has ended, and its reset has failed",
			 c->transport.name);
	return err;
}

static int disable_ssd(struct hr_ssd *ssd, struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;

	if (c && hr_health_rule(c->ctrl.health.state)->disable) {
		hr_ctrl_explain(&c->ctrl, e);
		hr_health_set(&c->ctrl.health, HR_STEP_GIVE_UP);
		hr_ctrl_disable(&c->ctrl, e);
	}
	if (!c || hr_health_rule(c->ctrl.health.state)->memory)
		return 0;
	return hr_health_error(&ssd->health);
}

int hr_ssd_disable(struct hr_ssd *ssd)
{
	struct hr_error e = { 0 };
	const int err = disable_ssd(ssd, &e);

	hr_error_log(&e, HR_LOG_ERROR);
	return err;
}

/* The controller has not deleted a queue pair; the admin command has filled the error. */
static void keep_queue(struct hr_ssd *ssd)
{
	hr_health_fault(&ssd->health, HR_FAULT_KEPT_QUEUE, NULL, -EIO, NULL);
}

/* owner NULL: all */
static int delete_qps(struct hr_ssd *ssd, const void *owner, struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;
	const uint16_t own = ssd->bringup_steps >= STEP_DISK ? ssd->disk.qp.id : 0;
	bool wait = false; /* for the reset, which deletes all */

	for (uint32_t id = c ? HR_SSD_QUEUES_WANTED : 0; id > 0 && hr_health_commands(&ssd->health);
	     id--) {
		if (c->queue[id] != ssd || id == own || (owner && c->queue_for[id] != owner))
			continue;
		wait |= hr_ssd_wants_reset(ssd);
		if (!wait && hr_ctrl_delete_qp(&c->ctrl, (uint16_t)id, e) == 0) {
			unassign_queue(c, (uint16_t)id);
			continue;
		}
		wait |= hr_ssd_wants_reset(ssd);
		if (!wait)
			keep_queue(ssd);
	}
	if (wait && owner)
		return -EBUSY;
	return hr_health_commands(&ssd->health) && !wait ? 0 : disable_ssd(ssd, e);
}

/* Remove the queues and the namespace of an ssd, while other ssds stay on the controller. False:
 * the controller might still write to its memory. */
static bool leave_controller(struct hr_ssd *ssd, struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;

	hr_ctrl_aer_disable(&c->ctrl, &ssd->ns);
	if (delete_qps(ssd, NULL, e) != 0)
		return false;
	if (ssd->bringup_steps < STEP_DISK || !hr_health_commands(&ssd->health))
		return true;
	if (hr_nvme_blk_close(&ssd->disk, e) != 0) {
		keep_queue(ssd);
		return disable_ssd(ssd, e) == 0;
	}
	unassign_queue(c, ssd->disk.qp.id);
	return true;
}

/* Make the controller stop using the ssd's memory. False: it might still write there. */
static bool quiesce(struct hr_ssd *ssd, struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;

	hr_resv_release(&ssd->reservation, &ssd->disk,
			ssd->bringup_steps >= STEP_DISK && hr_health_commands(&ssd->health), e);
	if (!hr_health_commands(&ssd->health))
		return disable_ssd(ssd, e) == 0;
	if (c->users > 1)
		return leave_controller(ssd, e);
	if (ssd->bringup_steps >= STEP_DISK && !hr_ssd_wants_reset(ssd))
		hr_nvme_blk_close(&ssd->disk, e);
	hr_ctrl_close(&c->ctrl, e);
	return hr_health_rule(c->ctrl.health.state)->memory;
}

/* Called when the last ssd has left. */
static void close_controller(struct hr_ssd_controller *c, bool quiet)
{
	if (!quiet)
		c->kept += c->region.bytes;
	if (c->kept)
		hr_warn("%s: the controller does not stop; its %zu bytes of memory stay allocated",
			c->transport.name, c->kept);
	if (c->bringup_steps >= CONTROLLER_WINDOW && quiet)
		c->transport.ops->unmap(&c->transport, &c->region);
	if (c->bringup_steps >= CONTROLLER_TRANSPORT)
		c->transport.ops->close(&c->transport);
	if (c->region.bytes && quiet)
		hr_hostmem_free(&c->region);
	free(c);
}

static void part(struct hr_ssd *ssd, struct hr_error *e)
{
	struct hr_ssd_controller *c = ssd->controller;
	const bool quiet = quiesce(ssd, e);

	if (!quiet)
		c->kept += ssd->region.bytes;
	if (ssd->region.bytes && quiet) {
		if (ssd->bringup_steps >= STEP_WINDOW)
			c->transport.ops->unmap(&c->transport, &ssd->region);
		hr_hostmem_free(&ssd->region);
	}
	for (uint32_t i = 0; i < HR_SSDS_MAX; i++)
		if (c->ssd[i] == ssd)
			c->ssd[i] = NULL;
	hr_health_leave(&ssd->health);
	hr_health_set(&ssd->health, HR_STEP_DOWN);
	if (--c->users == 0)
		close_controller(c, quiet);
}

static void close_ssd(struct hr_ssd *ssd, struct hr_error *e)
{
	hr_kernel_blk_close(&ssd->kernel);
	if (ssd->controller)
		part(ssd, e);
	free(ssd->store_memory);
	clear_but_health(ssd);
}

void hr_ssd_down(struct hr_ssd *ssd)
{
	struct hr_error e = { 0 };

	if (ssd->stand_in) {
		hr_stand_in_down(ssd);
		return;
	}
	close_ssd(ssd, &e);
	hr_error_log(&e, HR_LOG_ERROR);
}

void hr_ssd_discard(const struct hr_ssd *ssd)
{
	struct hr_ssd_controller *c = ssd->stand_in ? NULL : ssd->controller;

	if (c && c->transport.ops && c->transport.ops->discard)
		c->transport.ops->discard(&c->transport);
}

static int bring_up(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer,
		    struct hr_error *e)
{
	static const char kernel[] = "kernel:";
	const bool soft = strncmp(config->device, "soft:", 5) == 0;
	int err;

	clear_but_health(ssd);
	memcpy(ssd->device, config->device, sizeof ssd->device);
	ssd->timeout_ns = config->timeout_ns;
	if (strncmp(config->device, kernel, sizeof kernel - 1) == 0)
		err = open_kernel(ssd, config->device + sizeof kernel - 1, e);
	else
		err = open_nvme(ssd, config, peer, e);
	/* The contents of an image need no check, but the serial number may be requested. */
	if (!err && (!soft || config->serial[0]))
		err = check_owner(ssd, config, e);
	if (err) {
		hr_ssd_discard(ssd);
		close_ssd(ssd, e);
	}
	return err;
}

int hr_ssd_up(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_error *e)
{
	return bring_up(ssd, config, NULL, e);
}

int hr_ssd_up_on(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer,
		 struct hr_error *e)
{
	return bring_up(ssd, config, peer, e);
}

/* 0, or -ENOTSUP: a ring must lie in pages that are contiguous in physical memory. */
static int check_ring(const struct hr_ssd *ssd, const struct hr_region *region, size_t offset,
		      size_t bytes, struct hr_error *e)
{
	if (hr_region_contiguous(region, offset, bytes))
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "%s: a ring of %zu bytes is not contiguous in physical memory; reserve huge "
		       "pages (echo N > /proc/sys/vm/nr_hugepages) or set queue_entries = %zu",
		       ssd->transport.name, bytes, HR_PAGE / sizeof(struct hr_sqe));
}

int hr_ssd_check_rings(const struct hr_ssd *ssd, const struct hr_region *rings, size_t ring_at,
		       struct hr_error *e)
{
	const size_t sq_bytes = hr_qp_sq_bytes(ssd->queue_entries);
	const int err = check_ring(ssd, rings, ring_at, sq_bytes, e);

	return err ? err
		   : check_ring(ssd, rings, ring_at + sq_bytes, hr_qp_cq_bytes(ssd->queue_entries),
				e);
}

static struct hr_qp_memory rings_and_table(const struct hr_ssd *ssd, uint8_t *rings,
					   uint8_t *tables, const struct hr_ssd_qp_memory *memory)
{
	const size_t cq_at = memory->ring_at + hr_qp_sq_bytes(ssd->queue_entries);

	return (struct hr_qp_memory){ rings + memory->ring_at, rings + cq_at,
				      tables + memory->table_at };
}

int hr_ssd_create_qp(struct hr_ssd *ssd, struct hr_nvme_qp *qp,
		     const struct hr_ssd_qp_memory *memory, struct hr_error *e)
{
	const struct hr_region *rings = memory->rings, *tables = memory->tables;
	const size_t cq_at = memory->ring_at + hr_qp_sq_bytes(ssd->queue_entries);
	const struct hr_qp_memory cpu = rings_and_table(ssd, rings->cpu, tables->cpu, memory);
	const struct hr_qp_memory worker =
		rings_and_table(ssd, rings->worker, tables->worker, memory);
	const uint16_t id = free_queue(ssd->controller);
	int err = hr_ssd_check_rings(ssd, rings, memory->ring_at, e);

	if (err)
		return err;
	err = id ? hr_qp_init(qp, id, ssd->queue_entries, &cpu, ssd->timeout_ns)
		 : hr_fail(e, HR_ERROR_MISSING, -ENOTSUP, "all are in use");
	if (!err)
		err = hr_ctrl_create_qp(ssd->ctrl, qp, hr_region_bus(rings, memory->ring_at),
					hr_region_bus(rings, cq_at), e);
	if (err) {
		hr_error_context(e, "%s: cannot create I/O queue pair %u of %u",
				 ssd->transport.name, ssd->controller->queues_used + 1,
				 ssd->controller->queues);
		if (hr_ctrl_has_no_more(err))
			ssd->controller->queues = ssd->controller->queues_used;
		return err;
	}
	assign_queue(ssd, id);
	ssd->controller->queue_for[id] = memory->owner;
	hr_qp_relocate(qp, &worker, ssd->transport.bar, memory->bar);
	return 0;
}

int hr_ssd_delete_qps_of(struct hr_ssd *ssd, const void *owner)
{
	struct hr_error e = { 0 };
	const int err = delete_qps(ssd, owner, &e);

	hr_error_log(&e, HR_LOG_ERROR);
	return err;
}

int hr_ssd_delete_qps(struct hr_ssd *ssd)
{
	return hr_ssd_delete_qps_of(ssd, NULL);
}
