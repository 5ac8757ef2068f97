#include "boot/engine/names.h"
#include "boot/cmd/load.h"

#include <stdlib.h>

#include "boot/cmd/cmd.h"
#include "config/log.h"
#include "nvme/transport.h"

static void report(void *to, const char *line)
{
	hr_error("%s", line);
}

static int read_config(struct hr_appliance *app, const char *file)
{
	if (file)
		return hr_config_read(&app->config, &hr_names, file, report, NULL);
	return hr_config_parse(&app->config, &hr_names, HR_CONFIG_DEFAULT_NAME, hr_config_default,
			       hr_config_default_bytes, report, NULL);
}

static struct hr_appliance *load(const char *file, const char *pipeline,
				 enum hr_boot_end *last_resort, int *code)
{
	struct hr_appliance *app = calloc(1, sizeof *app);
	int err;

	*last_resort = HR_BOOT_POWEROFF;
	hr_transport_set_access(HR_ACCESS_EXISTING); /* only 'store format' makes images */
	if (!app) {
		hr_error("out of memory for the appliance: %zu bytes", sizeof *app);
		*code = HR_EXIT_MISSING;
		return NULL;
	}
	/* No such file, a wrong file, no such pipeline: all are in what the user wrote. */
	*code = HR_EXIT_USAGE;
	err = read_config(app, file);
	*last_resort = app->config.boot.last_resort;
	if (err == 0) {
		hr_log_set_level(app->config.log);
		if (hr_appliance_init(app, pipeline) == 0)
			return app;
	}
	free(app);
	return NULL;
}

struct hr_appliance *hr_load(const char *file, const char *pipeline, int *code)
{
	enum hr_boot_end unused;

	return load(file, pipeline, &unused, code);
}

struct hr_appliance *hr_load_to_boot(const char *file, enum hr_boot_end *last_resort, int *code)
{
	return load(file, NULL, last_resort, code);
}
