/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/bringup/disks.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/devices/stand_in.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/identify.h"
#include "pci/topo/model.h"

static int report_same_disk(struct hr_engine *engine, uint32_t d, uint32_t other, const char *what)
{
	const struct hr_config_ssd *a = &engine->config.ssd[other], *b = &engine->config.ssd[d];

	return hr_error_add(
		&engine->error, HR_ERROR_USAGE, -EINVAL,
		"%s:%u: ssd '%s' (%s) and ssd '%s' (%s, line %u) are the same disk: both "
		"report the same %s%s; expected a disk once, in one of the two lines",
		engine->config.file, b->line, b->name, engine->ssd[d].transport.name, a->name,
		engine->ssd[other].transport.name, a->line, what,
		engine->ssd[d].ns.shared ? " of a namespace that several controllers "
					   "share"
					 : "");
}

/* True when the ssd is a namespace of an NVM subsystem, not a disk of the kernel. */
static bool is_namespace(const struct hr_ssd *ssd)
{
	return ssd->stand_in || ssd->blk == &ssd->disk.blk;
}

static enum hr_ns_match compare_disks(const struct hr_engine *engine, uint32_t a, uint32_t b,
				      const char **what)
{
	*what = "";
	if (!is_namespace(&engine->ssd[a]) || !is_namespace(&engine->ssd[b]))
		return HR_NS_UNKNOWN;
	/* allowed: hr_disk_check_device() has compared their nsid */
	if (hr_ssd_same_controller(&engine->ssd[a], &engine->ssd[b]))
		return HR_NS_DIFFERENT;
	return hr_ns_compare(&engine->ssd[a].ns, &engine->ssd[b].ns, what);
}

static int check_protection(struct hr_engine *engine, uint32_t d)
{
	const struct hr_config_ssd *ssd = &engine->config.ssd[d];

	for (uint32_t i = 0; engine->ssd[d].blk->read_only && i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];
		const struct hr_config_object *written =
			run->selected ? hr_config_writes_ssd(run->config, d) : NULL;

		if (!written)
			continue;
		return hr_fail(&engine->error, HR_ERROR_MISSING, -EROFS,
			       "%s:%u: pipeline '%s' writes object '%s' to ssd '%s' (%s), and its "
			       "namespace %u is write protected; nothing was written",
			       engine->config.file, written->line, run->config->name,
			       written->object, ssd->name, engine->ssd[d].transport.name,
			       engine->ssd[d].ns.nsid);
	}
	return 0;
}

/* The PCI function of a device string, as one number; false: none. */
static bool function_of(const char *device, uint64_t *function)
{
	uint32_t domain, bus, dev, fn;
	const char *address = strchr(device, ':');

	if (!address || (strncmp(device, "pci:", 4) != 0 && strncmp(device, "vfio:", 5) != 0) ||
	    hr_bdf_parse(address + 1, &domain, &bus, &dev, &fn) == 0)
		return false;
	*function = (uint64_t)domain << 16 | bus << 8 | dev << 3 | fn;
	return true;
}

/* Equal strings name one soft controller only when it has several namespaces. */
static bool same_soft(const char *a, const char *b)
{
	return strcmp(a, b) == 0 && hr_transport_namespaces(a) > 1;
}

static bool same_function(const char *a, const char *b)
{
	uint64_t x, y;

	return function_of(a, &x) && function_of(b, &y) && x == y;
}

int hr_disk_check_device(struct hr_engine *engine, uint32_t d)
{
	const struct hr_config_ssd *b = &engine->config.ssd[d];

	for (const struct hr_config_ssd *a = engine->config.ssd; a < b; a++) {
		if (!same_function(a->device, b->device) && !same_soft(a->device, b->device))
			continue;
		if (a->nsid == b->nsid)
			return hr_error_add(
				&engine->error, HR_ERROR_USAGE, -EINVAL,
				"%s:%u: ssd '%s' and ssd '%s' (line %u) are the same disk: "
				"namespace %u of the controller %s; expected a disk "
				"once, in one of the two lines",
				engine->config.file, b->line, b->name, a->name, a->line, b->nsid,
				b->device);
		if (strncmp(a->device, b->device, strcspn(b->device, ":")) != 0)
			return hr_error_add(
				&engine->error, HR_ERROR_USAGE, -EINVAL,
				"%s:%u: ssd '%s' (%s) and ssd '%s' (%s, line %u) are of the "
				"same controller; expected pci: in both lines, or "
				"vfio:",
				engine->config.file, b->line, b->name, b->device, a->name,
				a->device, a->line);
	}
	return 0;
}

/* The ssd is busy with that error: another process may drive it, and describe it. */
static int find_elsewhere(struct hr_engine *engine, uint32_t d, int busy)
{
	struct hr_error e = { 0 };
	const int err = hr_stand_in_up(&engine->ssd[d], &engine->config.ssd[d], engine->elsewhere,
				       NULL, &e);

	if (!err)
		hr_error_clear(&engine->error);
	else if (e.kind)
		hr_error_append(&engine->error, "; %s", e.text);
	return err ? busy : 0;
}

int hr_disk_up(struct hr_engine *engine, uint32_t d)
{
	const struct hr_config_ssd *config = engine->config.ssd;
	int err;

	for (uint32_t i = 0; i < engine->config.ssds; i++) {
		struct hr_ssd *peer = &engine->ssd[i];

		if (i == d || !peer->controller ||
		    !(same_function(config[i].device, config[d].device) ||
		      same_soft(config[i].device, config[d].device)))
			continue;
		return peer->stand_in
			       ? hr_stand_in_up(&engine->ssd[d], &config[d], engine->elsewhere,
						peer, &engine->error)
			       : hr_ssd_up_on(&engine->ssd[d], &config[d], peer, &engine->error);
	}
	err = hr_ssd_up(&engine->ssd[d], &config[d], &engine->error);
	return err == -EBUSY && engine->elsewhere ? find_elsewhere(engine, d, err) : err;
}

/* About forty models are known whose disks report the same identifier. */
static void warn_doubtful(const struct hr_engine *engine, uint32_t d, uint32_t other,
			  const char *what)
{
	const struct hr_config_ssd *a = &engine->config.ssd[other], *b = &engine->config.ssd[d];

	hr_warn("%s:%u: ssd '%s' (%s, serial number '%s') and ssd '%s' (%s, '%s', line %u) report "
		"the same %s, but cannot be one disk: their controllers share no namespace "
		"(CMIC, NMIC), and their serial numbers or NVM subsystems differ; the identifier "
		"is not used",
		engine->config.file, b->line, b->name, engine->ssd[d].transport.name,
		engine->ssd[d].ns.serial, a->name, engine->ssd[other].transport.name,
		engine->ssd[other].ns.serial, a->line, what);
}

int hr_disk_check_same(struct hr_engine *engine, uint32_t d)
{
	const char *what;

	for (uint32_t other = 0; other < d; other++)
		switch (compare_disks(engine, other, d, &what)) {
		case HR_NS_SAME:
			return report_same_disk(engine, d, other, what);
		case HR_NS_DOUBTFUL:
			warn_doubtful(engine, d, other, what);
			break;
		default:
			break;
		}
	return 0;
}

int hr_disk_check(struct hr_engine *engine, uint32_t d)
{
	const int err = hr_disk_check_same(engine, d);

	return err ? err : check_protection(engine, d);
}

int hr_disk_check_store(struct hr_engine *engine, uint32_t d)
{
	const char *what;

	for (uint32_t other = 0; engine->ssd[d].has_store && other < d; other++) {
		if (!engine->ssd[other].has_store ||
		    compare_disks(engine, other, d, &what) == HR_NS_DIFFERENT)
			continue;
		if (memcmp(engine->ssd[other].store.uuid, engine->ssd[d].store.uuid,
			   sizeof engine->ssd[d].store.uuid) == 0)
			return report_same_disk(engine, d, other, "UUID of the object store");
	}
	return 0;
}
