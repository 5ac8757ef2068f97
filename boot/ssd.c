#include "boot/ssd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/guard.h"
#include "boot/log.h"
#include "nvme/events.h"
#include "nvme/hostmem.h"
#include "nvme/status.h"

#define DISK_QUEUE 1u

enum step { STEP_TRANSPORT = 1, STEP_MEMORY, STEP_WINDOW, STEP_CTRL, STEP_DISK };

static size_t round_up(size_t bytes)
{
	return (bytes + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
}

size_t hr_ssd_dma_bytes(const struct hr_ssd *ssd)
{
	return ssd->region.bytes;
}

size_t hr_ssd_map_bytes(const struct hr_ssd *ssd)
{
	uint32_t capacity = ssd->store.capacity;

	if (!ssd->has_store)
		return 0;
	return round_up(capacity * sizeof(struct hr_object)) + hr_store_io_bytes(capacity);
}

static int take_memory(struct hr_ssd *ssd)
{
	int err = hr_hostmem_alloc(&ssd->region, "ssd",
				   HR_CTRL_ADMIN_BYTES + round_up(hr_nvme_blk_bytes()));

	if (!err)
		ssd->steps = STEP_MEMORY;
	return err;
}

static int open_window(struct hr_ssd *ssd)
{
	int err = ssd->transport.ops->map(&ssd->transport, &ssd->region);
	char name[96];

	if (err) {
		hr_error("%s: cannot map %zu bytes for DMA: %s", ssd->transport.name,
			 ssd->region.bytes, hr_error_name(err, name, sizeof name));
		return err;
	}
	ssd->steps = STEP_WINDOW;
	return 0;
}

/* Largest power of two that one command may move. */
static uint32_t chunk_bytes(uint32_t max_transfer)
{
	uint32_t chunk = HR_CHUNK_MAX;

	while (chunk > max_transfer && chunk > HR_PAGE)
		chunk /= 2;
	return chunk;
}

static int open_ctrl(struct hr_ssd *ssd, uint32_t nsid, uint32_t queue_entries)
{
	int err = hr_ctrl_open(&ssd->ctrl, &ssd->transport, &ssd->region, 0);
	char list[96];

	if (err)
		return err;
	ssd->steps = STEP_CTRL;
	err = hr_ctrl_identify_ns(&ssd->ctrl, nsid, &ssd->ns);
	if (err == -ENOENT)
		hr_error("%s: there is no active namespace %u; the controller has %s",
			 ssd->transport.name, nsid, hr_ctrl_list_ns(&ssd->ctrl, list, sizeof list));
	if (err)
		return err;
	err = hr_ctrl_set_queues(&ssd->ctrl, HR_SSD_QUEUES_WANTED, &ssd->queues);
	if (err)
		return err;
	err = hr_ctrl_events_on(&ssd->ctrl, &ssd->ns);
	if (err)
		return err;
	ssd->queue_entries =
		queue_entries < ssd->ctrl.max_entries ? queue_entries : ssd->ctrl.max_entries;
	ssd->chunk_bytes = chunk_bytes(ssd->ctrl.max_transfer);
	return 0;
}

static int open_disk(struct hr_ssd *ssd)
{
	int err = hr_nvme_blk_open(&ssd->disk, &ssd->ctrl, &ssd->ns, DISK_QUEUE, &ssd->region,
				   HR_CTRL_ADMIN_BYTES, ssd->timeout_ns);

	if (err)
		return err;
	ssd->next_queue = DISK_QUEUE + 1;
	ssd->steps = STEP_DISK;
	return 0;
}

static int open_nvme(struct hr_ssd *ssd, const struct hr_config_ssd *config)
{
	char message[HR_LOG_LINE_MAX];
	int err = hr_transport_open(&ssd->transport, config->device, message);

	if (err) {
		hr_error("%s", message);
		return err;
	}
	ssd->steps = STEP_TRANSPORT;
	ssd->blk = &ssd->disk.blk;
	err = take_memory(ssd);
	if (!err)
		err = open_window(ssd);
	if (!err)
		err = open_ctrl(ssd, config->nsid, config->queue_entries);
	if (!err)
		err = open_disk(ssd);
	return hr_gone(err);
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
	const char *serial = ssd->blk == &ssd->kernel.blk ? ssd->kernel.serial : ssd->ctrl.serial;
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

int hr_ssd_up(struct hr_ssd *ssd, const struct hr_config_ssd *config)
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
		err = open_nvme(ssd, config);
	/* What lies in an image needs no guard; that it is the one that is meant may be asked. */
	if (!err && (!soft || config->serial[0]))
		err = check_owner(ssd, config->serial);
	if (err)
		hr_ssd_down(ssd);
	return err;
}

static int disable(struct hr_ssd *ssd)
{
	if (ssd->steps >= STEP_CTRL) {
		ssd->running = hr_ctrl_disable(&ssd->ctrl);
		/* A device that is gone moves no data either. */
		if (ssd->running == -ENOLINK)
			ssd->running = 0;
		ssd->steps = STEP_WINDOW;
	}
	return ssd->running;
}

int hr_ssd_disable(struct hr_ssd *ssd)
{
	if (ssd->steps >= STEP_CTRL)
		hr_ctrl_explain(&ssd->ctrl);
	return disable(ssd);
}

/* Make the controller forget our memory. False: it might still write there. */
static bool quiesce(struct hr_ssd *ssd)
{
	if (ssd->steps >= STEP_DISK && (ssd->disk.qp.broken || ssd->disk.qp.stats.lost))
		ssd->failed = true;
	if (ssd->failed)
		return hr_ssd_disable(ssd) == 0;
	if (ssd->steps >= STEP_DISK)
		hr_nvme_blk_close(&ssd->disk);
	/* Its end has said why; the registers would show what the end itself has written. */
	if (ssd->steps >= STEP_CTRL && hr_ctrl_close(&ssd->ctrl) != 0)
		return disable(ssd) == 0;
	return true;
}

void hr_ssd_down(struct hr_ssd *ssd)
{
	bool quiet = quiesce(ssd);

	if (ssd->steps >= STEP_WINDOW && quiet)
		ssd->transport.ops->unmap(&ssd->transport, &ssd->region);
	if (!quiet)
		hr_warn("%s: does not stop; its %zu bytes of memory stay allocated",
			ssd->transport.name, ssd->region.bytes);
	hr_kernel_blk_close(&ssd->kernel);
	if (ssd->steps >= STEP_TRANSPORT)
		ssd->transport.ops->close(&ssd->transport);
	if (ssd->steps >= STEP_MEMORY && quiet)
		hr_hostmem_free(&ssd->region);
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

int hr_ssd_create_qp(struct hr_ssd *ssd, struct hr_qp *qp, const struct hr_ssd_qp_place *place)
{
	const struct hr_region *rings = place->rings, *tables = place->tables;
	const size_t cq_at = place->ring_at + hr_qp_sq_bytes(ssd->queue_entries);
	const struct hr_qp_memory cpu = rings_and_table(ssd, rings->cpu, tables->cpu, place);
	const struct hr_qp_memory worker =
		rings_and_table(ssd, rings->worker, tables->worker, place);
	char name[96];
	int err = hr_ssd_check_rings(ssd, rings, place->ring_at);

	if (err)
		return err;
	err = -ENOTSUP;
	if (ssd->next_queue <= ssd->queues)
		err = hr_qp_init(qp, (uint16_t)ssd->next_queue, ssd->queue_entries, &cpu,
				 ssd->timeout_ns);
	if (!err)
		err = hr_ctrl_create_qp(&ssd->ctrl, qp, hr_region_bus(rings, place->ring_at),
					hr_region_bus(rings, cq_at));
	if (err) {
		hr_error("%s: cannot create I/O queue pair %u of %u: %s", ssd->transport.name,
			 ssd->next_queue, ssd->queues, hr_error_name(err, name, sizeof name));
		return err;
	}
	ssd->next_queue++;
	return hr_qp_hand_over(qp, &worker, ssd->transport.bar, place->bar);
}

int hr_ssd_delete_qps(struct hr_ssd *ssd)
{
	while (!ssd->failed && ssd->next_queue > DISK_QUEUE + 1) {
		if (hr_ctrl_delete_qp(&ssd->ctrl, (uint16_t)(ssd->next_queue - 1)) != 0)
			ssd->failed = true;
		else
			ssd->next_queue--;
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
