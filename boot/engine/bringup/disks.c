#include "boot/engine/bringup/disks.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/devices/stand_in.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/identify.h"
#include "pci/topo/model.h"

static int same(struct hr_appliance *app, uint32_t d, uint32_t other, const char *what)
{
	const struct hr_config_ssd *a = &app->config.ssd[other], *b = &app->config.ssd[d];

	return hr_error_add(
		&app->error, HR_ERROR_USAGE, -EINVAL,
		"%s:%u: ssd '%s' (%s) and ssd '%s' (%s, line %u) are the same disk: both "
		"report the same %s%s; expected a disk once, in one of the two lines",
		app->config.file, b->line, b->name, app->ssd[d].transport.name, a->name,
		app->ssd[other].transport.name, a->line, what,
		app->ssd[d].ns.shared ? " of a namespace that several controllers "
					"share"
				      : "");
}

/* True when the ssd is a namespace of an NVM subsystem, not a disk of the kernel. */
static bool is_namespace(const struct hr_ssd *ssd)
{
	return ssd->stand_in || ssd->blk == &ssd->disk.blk;
}

static enum hr_ns_match compare(const struct hr_appliance *app, uint32_t a, uint32_t b,
				const char **what)
{
	*what = "";
	if (!is_namespace(&app->ssd[a]) || !is_namespace(&app->ssd[b]))
		return HR_NS_UNKNOWN;
	/* allowed: hr_disk_check_device() has compared their nsid */
	if (hr_ssd_share(&app->ssd[a], &app->ssd[b]))
		return HR_NS_DIFFERENT;
	return hr_ns_compare(&app->ssd[a].ns, &app->ssd[b].ns, what);
}

static int check_protection(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *ssd = &app->config.ssd[d];

	for (uint32_t i = 0; app->ssd[d].blk->read_only && i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];
		const struct hr_config_object *written =
			run->selected ? hr_config_writes_ssd(run->config, d) : NULL;

		if (!written)
			continue;
		return hr_fail(&app->error, HR_ERROR_MISSING, -EROFS,
			       "%s:%u: pipeline '%s' writes object '%s' to ssd '%s' (%s), and its "
			       "namespace %u is write protected; nothing was written",
			       app->config.file, written->line, run->config->name, written->object,
			       ssd->name, app->ssd[d].transport.name, app->ssd[d].ns.nsid);
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

int hr_disk_check_device(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *b = &app->config.ssd[d];

	for (const struct hr_config_ssd *a = app->config.ssd; a < b; a++) {
		if (!same_function(a->device, b->device) && !same_soft(a->device, b->device))
			continue;
		if (a->nsid == b->nsid)
			return hr_error_add(
				&app->error, HR_ERROR_USAGE, -EINVAL,
				"%s:%u: ssd '%s' and ssd '%s' (line %u) are the same disk: "
				"namespace %u of the controller %s; expected a disk "
				"once, in one of the two lines",
				app->config.file, b->line, b->name, a->name, a->line, b->nsid,
				b->device);
		if (strncmp(a->device, b->device, strcspn(b->device, ":")) != 0)
			return hr_error_add(
				&app->error, HR_ERROR_USAGE, -EINVAL,
				"%s:%u: ssd '%s' (%s) and ssd '%s' (%s, line %u) are of the "
				"same controller; expected pci: in both lines, or "
				"vfio:",
				app->config.file, b->line, b->name, b->device, a->name, a->device,
				a->line);
	}
	return 0;
}

/* The ssd is busy with that error: another process may drive it, and describe it. */
static int find_elsewhere(struct hr_appliance *app, uint32_t d, int busy)
{
	struct hr_error e = { 0 };
	const int err = hr_stand_in_up(&app->ssd[d], &app->config.ssd[d], app->elsewhere, NULL, &e);

	if (!err)
		hr_error_clear(&app->error);
	else if (e.kind)
		hr_error_append(&app->error, "; %s", e.text);
	return err ? busy : 0;
}

int hr_disk_up(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *config = app->config.ssd;
	int err;

	for (uint32_t i = 0; i < app->config.ssds; i++) {
		struct hr_ssd *peer = &app->ssd[i];

		if (i == d || !peer->controller ||
		    !(same_function(config[i].device, config[d].device) ||
		      same_soft(config[i].device, config[d].device)))
			continue;
		return peer->stand_in
			       ? hr_stand_in_up(&app->ssd[d], &config[d], app->elsewhere, peer,
						&app->error)
			       : hr_ssd_up_beside(&app->ssd[d], &config[d], peer, &app->error);
	}
	err = hr_ssd_up(&app->ssd[d], &config[d], &app->error);
	return err == -EBUSY && app->elsewhere ? find_elsewhere(app, d, err) : err;
}

/* About forty models are known whose disks report the same identifier. */
static void warn_doubtful(const struct hr_appliance *app, uint32_t d, uint32_t other,
			  const char *what)
{
	const struct hr_config_ssd *a = &app->config.ssd[other], *b = &app->config.ssd[d];

	hr_warn("%s:%u: ssd '%s' (%s, serial number '%s') and ssd '%s' (%s, '%s', line %u) report "
		"the same %s, but cannot be one disk: their controllers share no namespace "
		"(CMIC, NMIC), and their serial numbers or NVM subsystems differ; the identifier "
		"is not used",
		app->config.file, b->line, b->name, app->ssd[d].transport.name,
		app->ssd[d].ns.serial, a->name, app->ssd[other].transport.name,
		app->ssd[other].ns.serial, a->line, what);
}

int hr_disk_check_same(struct hr_appliance *app, uint32_t d)
{
	const char *what;

	for (uint32_t other = 0; other < d; other++)
		switch (compare(app, other, d, &what)) {
		case HR_NS_SAME:
			return same(app, d, other, what);
		case HR_NS_DOUBTFUL:
			warn_doubtful(app, d, other, what);
			break;
		default:
			break;
		}
	return 0;
}

int hr_disk_check(struct hr_appliance *app, uint32_t d)
{
	const int err = hr_disk_check_same(app, d);

	return err ? err : check_protection(app, d);
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
