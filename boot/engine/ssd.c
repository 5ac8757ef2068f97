#include "boot/engine/ssd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "boot/engine/guard.h"
#include "config/log.h"
#include "nvme/events.h"
#include "nvme/health.h"
#include "nvme/hostmem.h"
#include "nvme/ioqueues.h"
#include "nvme/namespaces.h"
#include "nvme/status.h"

/* Of a controller, and of an ssd. */
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
	const struct hr_controller *c = ssd->controller;

	return c && !ssd->region.bytes ? c->region.bytes : ssd->region.bytes;
}

size_t hr_ssd_map_bytes(const struct hr_ssd *ssd)
{
	uint32_t capacity = ssd->store.capacity;

	if (!ssd->has_store)
		return 0;
	return round_up(capacity * sizeof(struct hr_object)) + hr_store_io_bytes(capacity);
}

static int map_memory(struct hr_transport *t, const struct hr_region *region)
{
	int err = t->ops->map(t, region);
	char name[96];

	if (err)
		hr_error("%s: cannot map %zu bytes for DMA: %s", t->name, region->bytes,
			 hr_error_name(err, name, sizeof name));
	return err;
}

/* Largest power of two that one command may move. */
static uint32_t chunk_bytes(uint32_t max_transfer)
{
	uint32_t chunk = HR_CHUNK_MAX;

	while (chunk > max_transfer && chunk > HR_PAGE)
		chunk /= 2;
	return chunk;
}

/* With room for the disk of the ssd that makes it. */
static int open_controller(struct hr_controller *c, const char *device)
{
	char message[HR_LOG_LINE_MAX];
	int err = hr_transport_open(&c->transport, device, message);

	if (err) {
		hr_error("%s", message);
		return err;
	}
	c->steps = CONTROLLER_TRANSPORT;
	err = hr_hostmem_alloc(&c->region, "ssd",
			       HR_CTRL_ADMIN_BYTES + round_up(hr_nvme_blk_bytes()));
	if (err)
		return err;
	c->steps = CONTROLLER_MEMORY;
	err = map_memory(&c->transport, &c->region);
	if (err)
		return err;
	c->steps = CONTROLLER_WINDOW;
	err = hr_ctrl_open(&c->ctrl, &c->transport, &c->region, 0);
	if (!err)
		c->steps = CONTROLLER_ON;
	return err;
}

static void join(struct hr_ssd *ssd, struct hr_controller *c)
{
	uint32_t i = 0;

	while (c->user[i])
		i++;
	c->user[i] = ssd;
	c->users++;
	ssd->controller = c;
	ssd->ctrl = &c->ctrl;
	ssd->blk = &ssd->disk.blk;
	ssd->steps = STEP_JOINED;
}

static int open_namespace(struct hr_ssd *ssd, uint32_t nsid, uint32_t queue_entries)
{
	struct hr_controller *c = ssd->controller;
	int err = hr_ctrl_identify_ns(&c->ctrl, nsid, &ssd->ns);
	char list[96];

	if (err == -ENOENT)
		hr_error("%s: there is no active namespace %u; the controller has %s",
			 ssd->transport.name, nsid, hr_ctrl_list_ns(&c->ctrl, list, sizeof list));
	if (!err && !c->queues)
		err = hr_ctrl_set_queues(&c->ctrl, HR_SSD_QUEUES_WANTED, &c->queues);
	if (!err)
		err = hr_ctrl_events_on(&c->ctrl, &ssd->ns);
	if (err)
		return err;
	ssd->queue_entries =
		queue_entries < c->ctrl.max_entries ? queue_entries : c->ctrl.max_entries;
	ssd->chunk_bytes = chunk_bytes(c->ctrl.max_transfer);
	return 0;
}

/* The disk of the first ssd lies behind the admin queues; another one brings its own memory. */
static int take_memory(struct hr_ssd *ssd, bool first)
{
	int err = first ? 0 : hr_hostmem_alloc(&ssd->region, "ssd", round_up(hr_nvme_blk_bytes()));

	if (err)
		return err;
	ssd->steps = STEP_MEMORY;
	err = first ? 0 : map_memory(&ssd->transport, &ssd->region);
	if (!err)
		ssd->steps = STEP_WINDOW;
	return err;
}

/* The lowest free identifier of an I/O queue pair, or 0. */
static uint16_t free_queue(const struct hr_controller *c)
{
	for (uint32_t id = 1; id <= c->queues; id++)
		if (!c->queue[id])
			return (uint16_t)id;
	return 0;
}

static void take_queue(struct hr_ssd *ssd, uint16_t id)
{
	ssd->controller->queue[id] = ssd;
	ssd->controller->queues_used++;
}

static void give_queue(struct hr_controller *c, uint16_t id)
{
	c->queue[id] = NULL;
	c->queues_used--;
}

static int open_disk(struct hr_ssd *ssd, bool first)
{
	struct hr_controller *c = ssd->controller;
	const uint16_t id = free_queue(c);
	int err;

	if (!id) {
		hr_error("%s: namespace %u: none of the %u I/O queue pairs of the controller is "
			 "left",
			 ssd->transport.name, ssd->ns.nsid, c->queues);
		return -ENOTSUP;
	}
	err = hr_nvme_blk_open(&ssd->disk, &c->ctrl, &ssd->ns, id,
			       first ? &c->region : &ssd->region, first ? HR_CTRL_ADMIN_BYTES : 0,
			       ssd->timeout_ns);
	if (err)
		return err;
	take_queue(ssd, id);
	ssd->steps = STEP_DISK;
	if (ssd->ns.nsid != 1) {
		snprintf(ssd->disk_name, sizeof ssd->disk_name, "%s namespace %u",
			 ssd->transport.name, ssd->ns.nsid);
		ssd->disk.blk.name = ssd->disk_name;
	}
	return 0;
}

static int open_nvme(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer)
{
	struct hr_controller *c = peer ? peer->controller : calloc(1, sizeof *c);
	int err = 0;

	if (!c)
		return -ENOMEM;
	join(ssd, c);
	if (!peer)
		err = open_controller(c, config->device);
	ssd->transport = c->transport;
	if (peer && peer->failed) {
		hr_error("%s: namespace %u: its controller has failed", ssd->transport.name,
			 config->nsid);
		err = -EIO;
	}
	if (!err)
		err = open_namespace(ssd, config->nsid, config->queue_entries);
	if (!err)
		err = take_memory(ssd, !peer);
	if (!err)
		err = open_disk(ssd, !peer);
	return c->steps ? hr_gone(err) : err;
}

static int open_kernel(struct hr_ssd *ssd, const char *path)
{
	char message[HR_LOG_LINE_MAX];
	const int err = hr_kernel_blk_open(&ssd->kernel, path, message);

	if (err) {
		hr_error("%s", message);
		return err;
	}
	ssd->blk = &ssd->kernel.blk;
	snprintf(ssd->transport.name, sizeof ssd->transport.name, "%.47s", path);
	return 0;
}

/* Whose disk is it? An image file or memory is ours by its name. */
static int check_owner(struct hr_ssd *ssd, const char *wanted)
{
	const char *serial = ssd->blk == &ssd->kernel.blk ? ssd->kernel.serial : ssd->ctrl->serial;
	char text[HR_GUARD_TEXT];
	int err;

	if (wanted[0] && strcmp(wanted, serial) != 0) {
		hr_error("%s: its serial number is '%s', not '%s' as was asked for: another disk "
			 "than the one that was meant",
			 ssd->transport.name, serial, wanted);
		return -ENODEV;
	}
	err = wanted[0] ? 0 : hr_guard_look(ssd->blk, text);
	if (err != -EEXIST)
		return err;
	if (serial[0])
		hr_error("%s: holds %s; nothing was changed. To use the disk all the same, name it "
			 "by its serial number: --allow-serial '%s', or serial = \"%s\" in the "
			 "configuration",
			 ssd->transport.name, text, serial, serial);
	else
		hr_error("%s: holds %s; nothing was changed. It has no serial number to name it "
			 "by; if nothing on it is needed: wipefs -a %s",
			 ssd->transport.name, text, ssd->transport.name);
	return -EBUSY;
}

static int bring_up(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer)
{
	static const char kernel[] = "kernel:";
	const bool soft = strncmp(config->device, "soft:", 5) == 0;
	int err;

	memset(ssd, 0, sizeof *ssd);
	memcpy(ssd->device, config->device, sizeof ssd->device);
	ssd->timeout_ns = config->timeout_ns;
	if (strncmp(config->device, kernel, sizeof kernel - 1) == 0)
		err = open_kernel(ssd, config->device + sizeof kernel - 1);
	else
		err = open_nvme(ssd, config, peer);
	/* What lies in an image needs no guard; that it is the one that is meant may be asked. */
	if (!err && (!soft || config->serial[0]))
		err = check_owner(ssd, config->serial);
	if (err)
		hr_ssd_down(ssd);
	return err;
}

static int held_by_another(const struct hr_ssd *ssd, const struct hr_resv_holder *holder)
{
	char text[HR_RESV_TEXT];

	if (holder->type)
		hr_error(
			"%s: namespace %u is reserved by another host: %s; nothing was changed. "
			"If that host does not use the disk any more: headrace store unlock --nsid "
			"%u %s",
			ssd->transport.name, ssd->ns.nsid, hr_resv_text(holder, text), ssd->ns.nsid,
			ssd->device);
	else
		hr_error("%s: namespace %u is in use by another process or controller of this "
			 "machine; nothing was changed",
			 ssd->transport.name, ssd->ns.nsid);
	return -EBUSY;
}

int hr_ssd_reserve(struct hr_ssd *ssd)
{
	struct hr_resv_holder holder;
	struct hr_resv_host self;
	int err;

	if (ssd->steps < STEP_DISK || ssd->ns.read_only || ssd->reservation.held)
		return 0;
	hr_resv_self(&self);
	err = hr_resv_take(&ssd->reservation, &ssd->disk, &self, &holder);
	if (err == -EBUSY)
		return held_by_another(ssd, &holder);
	if (!err && ssd->reservation.held)
		hr_info("%s: namespace %u: %s reservation, key 0x%016llx", ssd->transport.name,
			ssd->ns.nsid, hr_resv_type_name(ssd->reservation.type),
			(unsigned long long)ssd->reservation.key);
	return err;
}

int hr_ssd_unlock(struct hr_ssd *ssd, struct hr_resv_holder *holder)
{
	struct hr_resv_host self;
	int err = -ENOTSUP;

	memset(holder, 0, sizeof *holder);
	hr_resv_self(&self);
	if (ssd->steps >= STEP_DISK)
		err = hr_resv_clear(&ssd->disk, &self, holder);
	if (ssd->blk == &ssd->kernel.blk)
		hr_error("%s: a reservation is removed through pci:BDF or vfio:BDF, not through "
			 "the kernel",
			 ssd->transport.name);
	else if (err == -ENOTSUP)
		hr_error("%s: namespace %u has no reservations (ONCS bit 5, RESCAP)",
			 ssd->transport.name, ssd->ns.nsid);
	else if (err == -EBUSY)
		(void)held_by_another(ssd, holder);
	return err;
}

int hr_ssd_up(struct hr_ssd *ssd, const struct hr_config_ssd *config)
{
	return bring_up(ssd, config, NULL);
}

int hr_ssd_up_beside(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer)
{
	return bring_up(ssd, config, peer);
}

void hr_ssd_fail(struct hr_ssd *ssd)
{
	ssd->failed = true;
	for (uint32_t i = 0; ssd->controller && i < HR_SSDS_MAX; i++)
		if (ssd->controller->user[i])
			ssd->controller->user[i]->failed = true;
}

static int disable(struct hr_controller *c)
{
	if (c->steps >= CONTROLLER_ON) {
		c->running = hr_ctrl_disable(&c->ctrl);
		/* A device that is gone moves no data either. */
		if (c->running == -ENOLINK)
			c->running = 0;
		c->steps = CONTROLLER_WINDOW;
	}
	return c->running;
}

int hr_ssd_disable(struct hr_ssd *ssd)
{
	struct hr_controller *c = ssd->controller;

	if (!c)
		return 0;
	if (c->steps >= CONTROLLER_ON)
		hr_ctrl_explain(&c->ctrl);
	hr_ssd_fail(ssd);
	for (uint32_t i = 0; i < HR_SSDS_MAX; i++)
		if (c->user[i] && !c->user[i]->disk.dead)
			c->user[i]->disk.dead = -EIO;
	return disable(c);
}

/* The queues and the namespace of an ssd, where others stay. False: the controller might still write
 * to its memory. */
static bool leave(struct hr_ssd *ssd)
{
	struct hr_controller *c = ssd->controller;

	hr_ctrl_events_off(&c->ctrl, &ssd->ns);
	if (hr_ssd_delete_qps(ssd) != 0)
		return false;
	if (ssd->steps < STEP_DISK || ssd->failed)
		return true;
	if (hr_nvme_blk_close(&ssd->disk) != 0) {
		hr_ssd_fail(ssd);
		return hr_ssd_disable(ssd) == 0;
	}
	give_queue(c, ssd->disk.qp.id);
	return true;
}

/* Make the controller forget our memory. False: it might still write there. */
static bool quiesce(struct hr_ssd *ssd)
{
	struct hr_controller *c = ssd->controller;

	if (ssd->steps >= STEP_DISK && (ssd->disk.qp.broken || ssd->disk.qp.stats.lost))
		hr_ssd_fail(ssd);
	hr_resv_release(&ssd->reservation, &ssd->disk,
			ssd->steps >= STEP_DISK && !ssd->failed && !ssd->disk.dead);
	if (ssd->failed)
		return hr_ssd_disable(ssd) == 0;
	if (c->users > 1)
		return leave(ssd);
	if (ssd->steps >= STEP_DISK)
		hr_nvme_blk_close(&ssd->disk);
	/* Its end has said why; the registers would show what the end itself has written. */
	if (c->steps >= CONTROLLER_ON && hr_ctrl_close(&c->ctrl) != 0)
		return disable(c) == 0;
	return true;
}

/* The last ssd has left. */
static void close_controller(struct hr_controller *c, bool quiet)
{
	if (!quiet)
		c->kept += c->region.bytes;
	if (c->kept)
		hr_warn("%s: does not stop; its %zu bytes of memory stay allocated",
			c->transport.name, c->kept);
	if (c->steps >= CONTROLLER_WINDOW && quiet)
		c->transport.ops->unmap(&c->transport, &c->region);
	if (c->steps >= CONTROLLER_TRANSPORT)
		c->transport.ops->close(&c->transport);
	if (c->region.bytes && quiet)
		hr_hostmem_free(&c->region);
	free(c);
}

static void part(struct hr_ssd *ssd)
{
	struct hr_controller *c = ssd->controller;
	const bool quiet = quiesce(ssd);

	if (!quiet)
		c->kept += ssd->region.bytes;
	if (ssd->region.bytes && quiet) {
		if (ssd->steps >= STEP_WINDOW)
			c->transport.ops->unmap(&c->transport, &ssd->region);
		hr_hostmem_free(&ssd->region);
	}
	for (uint32_t i = 0; i < HR_SSDS_MAX; i++)
		if (c->user[i] == ssd)
			c->user[i] = NULL;
	if (--c->users == 0)
		close_controller(c, quiet);
}

void hr_ssd_down(struct hr_ssd *ssd)
{
	hr_kernel_blk_close(&ssd->kernel);
	if (ssd->controller)
		part(ssd);
	free(ssd->store_memory);
	memset(ssd, 0, sizeof *ssd);
}

/* 0, or -ENOTSUP: pages that are apart in physical memory cannot hold a ring. */
static int check_ring(const struct hr_ssd *ssd, const struct hr_region *region, size_t offset,
		      size_t bytes)
{
	if (hr_region_contiguous(region, offset, bytes))
		return 0;
	hr_error("%s: a ring of %zu bytes is not in one piece of physical memory; reserve huge "
		 "pages (echo N > /proc/sys/vm/nr_hugepages) or set queue_entries = %zu",
		 ssd->transport.name, bytes, HR_PAGE / sizeof(struct hr_sqe));
	return -ENOTSUP;
}

int hr_ssd_check_rings(const struct hr_ssd *ssd, const struct hr_region *rings, size_t ring_at)
{
	const size_t sq_bytes = hr_qp_sq_bytes(ssd->queue_entries);
	const int err = check_ring(ssd, rings, ring_at, sq_bytes);

	return err ? err
		   : check_ring(ssd, rings, ring_at + sq_bytes, hr_qp_cq_bytes(ssd->queue_entries));
}

static struct hr_qp_memory rings_and_table(const struct hr_ssd *ssd, uint8_t *rings,
					   uint8_t *tables, const struct hr_ssd_qp_place *place)
{
	const size_t cq_at = place->ring_at + hr_qp_sq_bytes(ssd->queue_entries);

	return (struct hr_qp_memory){ rings + place->ring_at, rings + cq_at,
				      tables + place->table_at };
}

int hr_ssd_create_qp(struct hr_ssd *ssd, struct hr_nvme_qp *qp, const struct hr_ssd_qp_place *place)
{
	const struct hr_region *rings = place->rings, *tables = place->tables;
	const size_t cq_at = place->ring_at + hr_qp_sq_bytes(ssd->queue_entries);
	const struct hr_qp_memory cpu = rings_and_table(ssd, rings->cpu, tables->cpu, place);
	const struct hr_qp_memory worker =
		rings_and_table(ssd, rings->worker, tables->worker, place);
	const uint16_t id = free_queue(ssd->controller);
	char name[96];
	int err = hr_ssd_check_rings(ssd, rings, place->ring_at);

	if (err)
		return err;
	err = id ? hr_qp_init(qp, id, ssd->queue_entries, &cpu, ssd->timeout_ns) : -ENOTSUP;
	if (!err)
		err = hr_ctrl_create_qp(ssd->ctrl, qp, hr_region_bus(rings, place->ring_at),
					hr_region_bus(rings, cq_at));
	if (err) {
		hr_error("%s: cannot create I/O queue pair %u of %u: %s", ssd->transport.name,
			 ssd->controller->queues_used + 1, ssd->controller->queues,
			 hr_error_name(err, name, sizeof name));
		return err;
	}
	take_queue(ssd, id);
	hr_qp_hand_over(qp, &worker, ssd->transport.bar, place->bar);
	return 0;
}

int hr_ssd_delete_qps(struct hr_ssd *ssd)
{
	struct hr_controller *c = ssd->controller;
	const uint16_t own = ssd->steps >= STEP_DISK ? ssd->disk.qp.id : 0;

	for (uint32_t id = c ? c->queues : 0; id > 0 && !ssd->failed; id--) {
		if (c->queue[id] != ssd || id == own)
			continue;
		if (hr_ctrl_delete_qp(&c->ctrl, (uint16_t)id) != 0)
			hr_ssd_fail(ssd);
		else
			give_queue(c, (uint16_t)id);
	}
	return ssd->failed ? hr_ssd_disable(ssd) : 0;
}

/* What would be read back is whatever the buffer held: a store that is not there. */
static int refuse_store(const struct hr_ssd *ssd)
{
	if (!ssd->transport.keeps_no_data)
		return 0;
	hr_error("%s keeps no data, so it has no object store: only 'headrace bench' can use it; "
		 "soft:memory and images keep them",
		 ssd->transport.name);
	return -ENOTSUP;
}

int hr_ssd_open_store(struct hr_ssd *ssd)
{
	uint8_t *page;
	uint32_t capacity;
	size_t objects;
	int err = refuse_store(ssd);

	if (err)
		return err;
	page = aligned_alloc(HR_PAGE, HR_PAGE);
	if (!page)
		return -ENOMEM;
	err = hr_store_probe(ssd->blk, &capacity, page);
	free(page);
	if (err)
		return err;
	objects = round_up(capacity * sizeof(struct hr_object));
	ssd->store_memory = aligned_alloc(HR_PAGE, round_up(objects + hr_store_io_bytes(capacity)));
	if (!ssd->store_memory)
		return -ENOMEM;
	err = hr_store_open(&ssd->store, ssd->blk, ssd->store_memory, capacity,
			    (uint8_t *)ssd->store_memory + objects);
	if (err) {
		free(ssd->store_memory);
		ssd->store_memory = NULL;
	}
	ssd->has_store = err == 0;
	return err;
}

int hr_ssd_format_store(struct hr_ssd *ssd, uint32_t capacity, bool force)
{
	uint8_t *io;
	int err = refuse_store(ssd);

	if (err)
		return err;
	io = aligned_alloc(HR_PAGE, round_up(hr_store_io_bytes(capacity)));
	if (!io) {
		hr_error("%s: cannot get %zu bytes of memory", ssd->transport.name,
			 hr_store_io_bytes(capacity));
		return -ENOMEM;
	}
	err = hr_store_format(ssd->blk, capacity, force, io);
	free(io);
	return err;
}
