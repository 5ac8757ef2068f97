#include "boot/engine/devices/lookup.h"
#include "boot/cmd/load.h"

#include <errno.h>
#include <stdlib.h>

#include "boot/appliance/supervisor/reader.h"
#include "boot/cmd/cmd.h"
#include "config/file/file.h"
#include "config/base/log.h"
#include "config/default.h"
#include "nvme/transport/transport.h"

/* Of this process; configurations refer to the first one. */
static struct hr_config_names names;
static const struct hr_config_rank *this_rank;

void hr_load_set_rank(const struct hr_config_rank *rank)
{
	this_rank = rank;
}

static void set_names(void)
{
	names = hr_names;
	names.rank = this_rank;
}

static int read_config(struct hr_config *config, const char *file, struct hr_error *e)
{
	int err;

	if (file)
		err = hr_config_read(config, &names, file, e);
	else
		err = hr_config_parse(config, &names, HR_CONFIG_DEFAULT_NAME, hr_config_default,
				      hr_config_default_bytes, e);
	hr_error_report(e, err);
	return err;
}

static int read_it(struct hr_config *config, void *file, struct hr_error *e)
{
	return read_config(config, file, e);
}

int hr_load_read(struct hr_config *config, void *file, struct hr_error *e)
{
	int err = read_config(config, file, e);
	struct hr_appliance *app;

	if (err)
		return err;
	app = calloc(1, sizeof *app);
	if (!app)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "out of memory for the appliance");
	app->config = *config;
	err = hr_appliance_init(app, NULL);
	if (err)
		*e = app->error;
	free(app);
	return err;
}

/* apart: read the configuration in a separate process */
static struct hr_appliance *load(const char *file, const char *pipeline, bool apart,
				 enum hr_boot_end *last_resort, int *code)
{
	struct hr_appliance *app = calloc(1, sizeof *app);
	char *const named = (char *)(uintptr_t)file;
	struct hr_error e = { 0 };
	int err;

	*last_resort = HR_BOOT_POWEROFF;
	set_names(); /* before another process reads: the configuration refers to them here, too */
	hr_transport_set_access(HR_ACCESS_EXISTING); /* only 'store format' creates images */
	if (!app) {
		hr_error("out of memory for the appliance: %zu bytes", sizeof *app);
		*code = HR_EXIT_MISSING;
		return NULL;
	}
	err = apart ? hr_read_apart(&app->config, read_it, named, HR_READ_NS, &e)
		    : read_config(&app->config, file, &e);
	*code = hr_error_report(&e, err);
	*last_resort = app->config.boot.last_resort;
	if (err == 0) {
		hr_log_set_level(app->config.log);
		err = hr_appliance_init(app, pipeline);
		if (!err)
			return app;
		*code = hr_error_report(&app->error, err);
	}
	free(app);
	return NULL;
}

struct hr_appliance *hr_load(const char *file, const char *pipeline, int *code)
{
	enum hr_boot_end unused;

	return load(file, pipeline, false, &unused, code);
}

struct hr_appliance *hr_load_to_boot(const char *file, enum hr_boot_end *last_resort, int *code)
{
	return load(file, NULL, true, last_resort, code);
}
