/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/stand_in.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hr_stand_in {
	struct hr_blk blk;
	const struct hr_elsewhere *elsewhere;
	const struct hr_config_ssd *config;
	const struct hr_store *store;
	char by[HR_NAME_MAX];
};

/* ---- facts */

void hr_ssd_describe(const struct hr_ssd *ssd, struct hr_ssd_facts *facts)
{
	const struct hr_ctrl *ctrl = ssd->ctrl;
	const struct hr_store *store = &ssd->store;

	memset(facts, 0, sizeof *facts);
	memcpy(facts->transport, ssd->transport.name, sizeof facts->transport);
	memcpy(facts->disk, ssd->disk_name, sizeof facts->disk);
	memcpy(facts->model, ctrl->model, sizeof facts->model);
	memcpy(facts->serial, ctrl->serial, sizeof facts->serial);
	facts->kind = (uint8_t)ssd->transport.kind;
	facts->keeps_no_data = ssd->transport.keeps_no_data;
	facts->volatile_cache = ctrl->volatile_cache;
	facts->read_only = ssd->blk->read_only;
	facts->has_store = ssd->has_store;
	facts->ns = ssd->ns;
	facts->max_entries = ctrl->max_entries;
	facts->chunk_bytes = ssd->chunk_bytes;
	facts->queues = hr_ssd_queues(ssd);
	facts->users = ssd->controller->users;
	facts->queue_memory_bytes = hr_ssd_dma_bytes(ssd);
	if (!ssd->has_store)
		return;
	memcpy(facts->store_uuid, store->uuid, sizeof facts->store_uuid);
	facts->generation = store->generation;
	facts->next_id = store->next_id;
	facts->disk_bytes = store->disk_bytes;
	facts->data_offset = store->data_offset;
	facts->data_bytes = store->data_bytes;
	facts->scratch_offset = store->scratch_offset;
	facts->store_capacity = store->capacity;
}

static bool is_text(const char *text, size_t bytes)
{
	return strnlen(text, bytes) < bytes;
}

bool hr_ssd_facts_ok(const struct hr_ssd_facts *f, uint32_t objects)
{
	const bool texts = is_text(f->transport, sizeof f->transport) &&
			   is_text(f->disk, sizeof f->disk) && is_text(f->model, sizeof f->model) &&
			   is_text(f->serial, sizeof f->serial) &&
			   is_text(f->ns.serial, sizeof f->ns.serial) &&
			   is_text(f->ns.subnqn, sizeof f->ns.subnqn);

	return texts && f->kind <= HR_TRANSPORT_VFIO &&
	       (f->ns.lba_shift == 9 || f->ns.lba_shift == 12) &&
	       f->max_entries >= HR_QUEUE_ENTRIES_MIN && f->max_entries <= HR_QUEUE_ENTRIES_MAX &&
	       f->chunk_bytes >= HR_PAGE && f->chunk_bytes <= HR_CHUNK_MAX &&
	       (f->chunk_bytes & (f->chunk_bytes - 1)) == 0 && f->queues <= HR_SSD_QUEUES_WANTED &&
	       f->users <= HR_SSDS_MAX && f->store_capacity <= HR_STORE_OBJECTS_MAX &&
	       objects <= f->store_capacity && (f->has_store || !objects);
}

/* ---- the disk */

/* The whole range must lie in one object. */
static int read_object(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		       struct hr_error *e)
{
	const struct hr_stand_in *s = blk->impl;

	for (uint32_t i = 0; i < s->store->count; i++) {
		const struct hr_store_object *object = &s->store->object[i];

		if (!(object->flags & HR_OBJECT_PENDING) && offset >= object->offset &&
		    offset - object->offset <= object->bytes &&
		    bytes <= object->bytes - (offset - object->offset))
			return s->elsewhere->read(s->elsewhere->to, s->config, object->name,
						  offset - object->offset, data, bytes, e);
	}
	return hr_fail(e, HR_ERROR_FAILED, -EBUSY,
		       "%s: cannot be read: appliance '%s' drives this ssd", blk->name, s->by);
}

static int refuse_write(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes,
			bool fua, struct hr_error *e)
{
	const struct hr_stand_in *s = blk->impl;

	return hr_fail(e, HR_ERROR_FAILED, -EROFS,
		       "%s: cannot be written: appliance '%s' drives this ssd", blk->name, s->by);
}

static int flush(struct hr_blk *blk, struct hr_error *e)
{
	return 0;
}

static const struct hr_blk_ops ops = { .read = read_object, .write = refuse_write, .flush = flush };

/* ---- up and down */

static size_t round_up(size_t bytes)
{
	return (bytes + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
}

static int copy_store_map(struct hr_ssd *ssd, const struct hr_ssd_facts *f,
			  const struct hr_store_object *object, uint32_t count)
{
	const size_t objects = round_up(f->store_capacity * sizeof *object);
	struct hr_store *store = &ssd->store;

	if (!f->has_store)
		return 0;
	ssd->store_memory =
		aligned_alloc(HR_PAGE, round_up(objects + hr_store_io_bytes(f->store_capacity)));
	if (!ssd->store_memory)
		return -ENOMEM;
	*store = (struct hr_store){ .blk = ssd->blk,
				    .generation = f->generation,
				    .next_id = f->next_id,
				    .disk_bytes = f->disk_bytes,
				    .data_offset = f->data_offset,
				    .data_bytes = f->data_bytes,
				    .scratch_offset = f->scratch_offset,
				    .capacity = f->store_capacity,
				    .count = count,
				    .object = ssd->store_memory,
				    .io = (uint8_t *)ssd->store_memory + objects };
	memcpy(store->uuid, f->store_uuid, sizeof store->uuid);
	if (count)
		memcpy(store->object, object, count * sizeof *object);
	ssd->has_store = true;
	return 0;
}

static void copy_controller_facts(struct hr_ssd_controller *c, const struct hr_ssd_facts *f)
{
	memcpy(c->transport.name, f->transport, sizeof c->transport.name);
	c->transport.kind = (enum hr_transport_kind)f->kind;
	c->transport.keeps_no_data = f->keeps_no_data;
	memcpy(c->ctrl.model, f->model, sizeof c->ctrl.model);
	memcpy(c->ctrl.serial, f->serial, sizeof c->ctrl.serial);
	c->ctrl.volatile_cache = f->volatile_cache;
	c->ctrl.max_entries = f->max_entries;
	c->ctrl.max_transfer = f->chunk_bytes;
	c->queues = f->queues;
}

static void join_stand_in(struct hr_ssd *ssd, struct hr_ssd_controller *c,
			  const struct hr_config_ssd *config, const struct hr_ssd_facts *f)
{
	memcpy(ssd->device, config->device, sizeof ssd->device);
	memcpy(ssd->disk_name, f->disk, sizeof ssd->disk_name);
	ssd->timeout_ns = config->timeout_ns;
	ssd->queue_entries =
		config->queue_entries < f->max_entries ? config->queue_entries : f->max_entries;
	ssd->chunk_bytes = f->chunk_bytes;
	ssd->ns = f->ns;
	ssd->region.bytes = f->queue_memory_bytes;
	ssd->controller = c;
	ssd->ctrl = &c->ctrl;
	ssd->transport = c->transport;
	c->users++;
	c->queues_used++; /* of the disk */
}

static int stand_in(struct hr_ssd *ssd, const struct hr_config_ssd *config,
		    const struct hr_elsewhere *elsewhere, struct hr_ssd *peer, const char *by,
		    const struct hr_ssd_facts *f)
{
	struct hr_ssd_controller *c = peer ? peer->controller : calloc(1, sizeof *c);
	struct hr_stand_in *s = calloc(1, sizeof *s);

	if (!c || !s) {
		free(s);
		if (!peer)
			free(c);
		return -ENOMEM;
	}
	if (!peer)
		copy_controller_facts(c, f);
	join_stand_in(ssd, c, config, f);
	s->elsewhere = elsewhere;
	s->config = config;
	s->store = &ssd->store;
	snprintf(s->by, sizeof s->by, "%s", by);
	s->blk = (struct hr_blk){ .ops = &ops,
				  .name = *ssd->disk_name ? ssd->disk_name : ssd->transport.name,
				  .bytes = f->ns.blocks << f->ns.lba_shift,
				  .block_bytes = 1u << f->ns.lba_shift,
				  .volatile_cache = f->volatile_cache,
				  .read_only = f->read_only,
				  .impl = s };
	ssd->stand_in = s;
	ssd->blk = &s->blk;
	return 0;
}

static bool has_serial(const struct hr_config_ssd *config, const struct hr_ssd_facts *f)
{
	return !config->serial[0] || strcmp(config->serial, f->serial) == 0;
}

int hr_stand_in_up(struct hr_ssd *ssd, const struct hr_config_ssd *config,
		   const struct hr_elsewhere *elsewhere, struct hr_ssd *peer, struct hr_error *e)
{
	const struct hr_store_object *object = NULL;
	struct hr_ssd_facts facts;
	const char *by = "";
	uint32_t count = 0;
	int err = elsewhere->describe(elsewhere->to, config, &facts, &object, &count, &by, e);

	if (err)
		return err;
	if (!hr_ssd_facts_ok(&facts, count))
		return hr_fail(e, HR_ERROR_FAILED, -EPROTO,
			       "%s: appliance '%s' describes no ssd of this version",
			       config->device, by);
	if (!has_serial(config, &facts))
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
			       "%s: has serial number '%s', and the configuration requires '%s'",
			       facts.transport, facts.serial, config->serial);
	memset(ssd, 0, sizeof *ssd);
	err = stand_in(ssd, config, elsewhere, peer, by, &facts);
	if (!err)
		err = copy_store_map(ssd, &facts, object, count);
	if (err) {
		hr_ssd_down(ssd);
		return hr_fail(e, HR_ERROR_MISSING, err, "%s: out of memory for its objects",
			       config->device);
	}
	return 0;
}

const char *hr_stand_in_by(const struct hr_ssd *ssd)
{
	return ssd->stand_in ? ssd->stand_in->by : NULL;
}

void hr_stand_in_down(struct hr_ssd *ssd)
{
	if (--ssd->controller->users == 0)
		free(ssd->controller);
	free(ssd->stand_in);
	free(ssd->store_memory);
	memset(ssd, 0, sizeof *ssd);
}
