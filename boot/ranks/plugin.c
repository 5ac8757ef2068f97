/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/ranks/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/files.h"

/* The loader's text, with the path in place of the name under which it has opened the file. */
static int report_dlerror(const char *path, const char *name, struct hr_error *e)
{
	const char *text = dlerror();
	const size_t n = strlen(name);

	if (!text)
		text = "no reason given";
	if (strncmp(text, name, n) == 0 && strncmp(text + n, ": ", 2) == 0)
		text += n + 2;
	return hr_fail(e, HR_ERROR_MISSING, -EINVAL, "--mpi: %s: %s", path, text);
}

static int check_plugin(const char *path, const struct hr_ranks_plugin *plugin, struct hr_error *e)
{
	if (plugin->abi != HR_RANKS_ABI)
		return hr_fail(e, HR_ERROR_MISSING, -EINVAL,
			       "--mpi: %s has version %u of the interface, expected %u; build it "
			       "together with this headrace",
			       path, plugin->abi, HR_RANKS_ABI);
	if (plugin->bytes != sizeof(struct hr_ranks))
		return hr_fail(e, HR_ERROR_MISSING, -EINVAL,
			       "--mpi: %s has another layout of the interface (%u bytes, expected "
			       "%zu); build it together with this headrace",
			       path, plugin->bytes, sizeof(struct hr_ranks));
	return 0;
}

static int check_job(const struct hr_ranks *ranks, struct hr_error *e)
{
	if (ranks->ops && ranks->size && ranks->size <= HR_RANKS_MAX && ranks->rank < ranks->size)
		return 0;
	return hr_fail(e, HR_ERROR_FAILED, -EPROTO,
		       "--mpi: this is rank %u of %u, expected 1 to %u ranks", ranks->rank,
		       ranks->size, HR_RANKS_MAX);
}

/* A file that is loaded stays open until the process ends: hr_trust_name(). */
static int load_plugin(const char *path, const struct hr_ranks_plugin **plugin, struct hr_error *e)
{
	const int fd = hr_trust_open(path, HR_TRUST_CODE, e);
	char name[HR_TRUST_NAME];
	void *handle;
	int err;

	if (fd < 0) {
		hr_error_context(e, "--mpi: %s", path);
		return fd;
	}
	/* global: MPI libraries load parts of themselves that need their symbols */
	handle = dlopen(hr_trust_name(fd, name), RTLD_NOW | RTLD_GLOBAL);
	*plugin = handle ? dlsym(handle, HR_RANKS_SYMBOL) : NULL;
	err = *plugin ? check_plugin(path, *plugin, e) : report_dlerror(path, name, e);
	if (err && handle)
		dlclose(handle);
	if (err)
		close(fd);
	return err;
}

int hr_ranks_load_file(const char *path, struct hr_ranks *ranks, struct hr_error *e)
{
	const struct hr_ranks_plugin *plugin;
	int err;

	memset(ranks, 0, sizeof *ranks);
	err = load_plugin(path, &plugin, e);
	if (err)
		return err;
	err = plugin->open(ranks);
	ranks->why[sizeof ranks->why - 1] = '\0';
	if (err)
		return hr_fail(e, err == -ENOTCONN ? HR_ERROR_USAGE : HR_ERROR_FAILED, err,
			       "--mpi: %s%s", ranks->why,
			       err == -ENOTCONN ? ", as in: mpirun -n 4 headrace run --mpi CONFIG"
						: "");
	return check_job(ranks, e);
}

/* FOLDER/headrace-mpi.so; false: there is none, or no room for its name. */
static bool find_plugin(const char *folder, const char *below, char *path, size_t bytes)
{
	const int n = snprintf(path, bytes, "%s%s/%s", folder, below, HR_RANKS_PLUGIN_FILE);

	return n > 0 && (size_t)n < bytes && access(path, F_OK) == 0;
}

int hr_ranks_load(struct hr_ranks *ranks, struct hr_error *e)
{
	char folder[PATH_MAX], path[2 * PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
	char *slash;

	folder[n > 0 ? n : 0] = '\0';
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	if (!find_plugin(folder, "", path, sizeof path) &&
	    !find_plugin(folder, "/../lib/headrace", path, sizeof path))
		return hr_fail(e, HR_ERROR_MISSING, -ENOENT,
			       "--mpi: there is no %s in %s; 'make' builds it when there is mpicc "
			       "(packages libopenmpi-dev and openmpi-bin)",
			       HR_RANKS_PLUGIN_FILE, *folder ? folder : "/proc/self/exe");
	return hr_ranks_load_file(path, ranks, e);
}
