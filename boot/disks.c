#include "boot/disks.h"

#include <errno.h>
#include <string.h>

#include "pci/model.h"

static int same(struct hr_appliance *app, uint32_t d, uint32_t other, const char *what)
{
	const struct hr_config_ssd *a = &app->config.ssd[other], *b = &app->config.ssd[d];

	return hr_mistake_at(app, b->line,
			     "ssd '%s' (%s) and ssd '%s' (%s, line %u) are the same disk: both "
			     "report the same %s%s; expected a disk once, in one of the two lines",
			     b->name, app->ssd[d].transport.name, a->name,
			     app->ssd[other].transport.name, a->line, what,
			     app->ssd[d].ns.shared ? " of a namespace that several controllers "
						     "share"
						   : "");
}

/* Both are namespaces of an NVM subsystem, and not disks of the kernel. */
static bool is_namespace(const struct hr_ssd *ssd)
{
	return ssd->blk == &ssd->disk.blk;
}

static enum hr_ns_match compare(const struct hr_appliance *app, uint32_t a, uint32_t b,
				const char **what)
{
	*what = "";
	if (!is_namespace(&app->ssd[a]) || !is_namespace(&app->ssd[b]))
		return HR_NS_UNKNOWN;
	return hr_ns_compare(&app->ssd[a].ns, &app->ssd[b].ns, what);
}

static int check_protection(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *ssd = &app->config.ssd[d];

	for (uint32_t i = 0; app->ssd[d].blk->read_only && i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];

		if (!run->selected || !run->config->has_sink || run->config->sink.ssd != d)
			continue;
		hr_error("%s:%u: pipeline '%s' writes object '%s' to ssd '%s' (%s), and its "
			 "namespace %u is write protected; nothing was written",
			 app->config.file, run->config->sink.line, run->config->name,
			 run->config->sink.object, ssd->name, app->ssd[d].transport.name,
			 app->ssd[d].ns.nsid);
		return -EROFS;
	}
	return 0;
}

/* The function that a device string names, as one number; false: none. */
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

int hr_disk_check_device(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *ssd = app->config.ssd;
	uint64_t mine, other;

	for (uint32_t i = 0; function_of(ssd[d].device, &mine) && i < d; i++)
		if (function_of(ssd[i].device, &other) && mine == other)
			return hr_mistake_at(
				app, ssd[d].line,
				"ssd '%s' (namespace %u) and ssd '%s' (namespace %u, "
				"line %u) are of the same controller, %s; expected one "
				"ssd of a configuration for each controller",
				ssd[d].name, ssd[d].nsid, ssd[i].name, ssd[i].nsid, ssd[i].line,
				ssd[d].device);
	return 0;
}

int hr_disk_check(struct hr_appliance *app, uint32_t d)
{
	const char *what;

	for (uint32_t other = 0; other < d; other++)
		if (compare(app, other, d, &what) == HR_NS_SAME)
			return same(app, d, other, what);
	return check_protection(app, d);
}

int hr_disk_check_store(struct hr_appliance *app, uint32_t d)
{
	const char *what;

	for (uint32_t other = 0; app->ssd[d].has_store && other < d; other++) {
		if (!app->ssd[other].has_store || compare(app, other, d, &what) == HR_NS_DIFFERENT)
			continue;
		if (memcmp(app->ssd[other].store.uuid, app->ssd[d].store.uuid,
			   sizeof app->ssd[d].store.uuid) == 0)
			return same(app, d, other, "UUID of the object store");
	}
	return 0;
}
