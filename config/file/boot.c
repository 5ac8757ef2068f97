#include "config/file/boot.h"

#include <string.h>

#include "config/base/clock.h"

#define RESTARTS_MAX 1000000u
#define WAIT_S_MAX 86400u
#define PROGRESS_S 30u
#define PROGRESS_S_MAX 3600u

static const char *const posts[] = { "full", "quick", "off", NULL };
static const char *const ends[] = { "poweroff", "reboot", "halt", "stay", "shell", NULL };

static const struct hr_field boot_fields[] = {
	{ "modules", .type = HR_FIELD_LIST, .max = HR_MODULES_MAX },
	{ "hugepages", HR_FIELD_SIZE, .offset = offsetof(struct hr_config_boot, hugepage_bytes),
	  .max = INT64_MAX },
	{ "post", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_boot, post),
	  .choices = posts },
	{ "restarts", HR_FIELD_U32, .offset = offsetof(struct hr_config_boot, restarts), .min = 0,
	  .max = RESTARTS_MAX },
	{ "backoff", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, backoff_ns) },
	{ "collect", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, collect_ns) },
	{ "heal", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, heal_ns) },
	{ "wait_s", HR_FIELD_U32, .offset = offsetof(struct hr_config_boot, wait_s), .min = 0,
	  .max = WAIT_S_MAX },
	{ "progress_s", HR_FIELD_U32, .offset = offsetof(struct hr_config_boot, progress_s),
	  .min = 1, .max = PROGRESS_S_MAX },
	{ "results", HR_FIELD_BOOL, .offset = offsetof(struct hr_config_boot, results) },
	{ "watchdog", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, watchdog_ns) },
	{ "after", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_boot, after),
	  .choices = ends },
	{ "last_resort", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_boot, last_resort),
	  .choices = ends },
};

/* A module's name has no '/'; an absolute path begins with one. */
static const struct hr_field module_fields[] = {
	{ "name", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct hr_config_module, name), .max = HR_DEVICE_MAX,
	  .example = "name = \"vfio-pci\";" },
	{ "options", HR_FIELD_STRING, .offset = offsetof(struct hr_config_module, options),
	  .max = HR_DEVICE_MAX },
};

void hr_config_boot_default(struct hr_config_boot *boot)
{
	boot->restarts = 3;
	boot->backoff_ns = HR_NS_PER_S;
	boot->heal_ns = 600 * HR_NS_PER_S;
	boot->wait_s = 60;
	boot->progress_s = PROGRESS_S;
}

static void read_modules(struct hr_config_boot *boot, const struct hr_group *group)
{
	const unsigned count = hr_group_list(group, "modules");
	struct hr_group element;

	for (unsigned i = 0; i < count && i < HR_MODULES_MAX; i++) {
		struct hr_config_module *module = &boot->module[i];

		if (!hr_group_element(group, "modules", i, &element))
			continue;
		module->line = hr_group_line(&element, NULL);
		hr_group_read(&element, module_fields, HR_COUNT(module_fields), module);
		if (module->name[0] != '/' && strchr(module->name, '/'))
			hr_group_mistake(&element, "name",
					 "'%.200s' is neither a module's name nor an absolute path",
					 module->name);
		boot->modules = i + 1;
	}
}

void hr_config_boot_read(struct hr_config_boot *boot, const struct hr_group *group)
{
	hr_group_read(group, boot_fields, HR_COUNT(boot_fields), boot);
	read_modules(boot, group);
	if (boot->watchdog_ns && boot->watchdog_ns < 5 * HR_NS_PER_S)
		hr_group_mistake(
			group, "watchdog",
			"is under 5s, the time that bring-up can take; expected 0, or 5s or more");
}
