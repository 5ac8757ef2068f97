/* SPDX-License-Identifier: Apache-2.0 */
/* libgdrapi must match the kernel module of the machine, so it is loaded, never linked. */
#include "gpu/window.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"

#define LIBRARY "libgdrapi.so.2"
#define MAJOR 2

/* Object and function pointers have the same size (POSIX, dlsym). */
static bool resolve_gdr_symbol(void *library, const char *symbol, void *function)
{
	void *const at = dlsym(library, symbol);

	memcpy(function, &at, sizeof(at));
	return at != NULL;
}

static const char *resolve_all(struct hr_gdr *gdr)
{
	const struct {
		const char *symbol;
		void *function;
	} all[] = {
		{ "gdr_open", &gdr->open },	   { "gdr_close", &gdr->close },
		{ "gdr_pin_buffer", &gdr->pin },   { "gdr_unpin_buffer", &gdr->unpin },
		{ "gdr_map", &gdr->map },	   { "gdr_unmap", &gdr->unmap },
		{ "gdr_get_info_v2", &gdr->info }, { "gdr_runtime_get_version", &gdr->version },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!resolve_gdr_symbol(gdr->library, all[i].symbol, all[i].function))
			return all[i].symbol;
	return NULL;
}

int hr_gdr_load(struct hr_gdr *gdr, struct hr_error *e)
{
	const char *missing;
	int major = 0, minor = 0;

	memset(gdr, 0, sizeof(*gdr));
	gdr->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!gdr->library)
		return hr_fail(e, HR_ERROR_MISSING, -ENOENT,
			       "%s: cannot be loaded; install gdrcopy 2.x", LIBRARY);
	missing = resolve_all(gdr);
	if (!missing)
		gdr->version(&major, &minor);
	if (!missing && major == MAJOR)
		return 0;
	hr_gdr_unload(gdr);
	if (missing)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP, "%s: has no %s; expected gdrcopy 2.x",
			       LIBRARY, missing);
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP, "%s: version %d.%d; expected 2.x", LIBRARY,
		       major, minor);
}

void hr_gdr_unload(struct hr_gdr *gdr)
{
	if (gdr->library)
		dlclose(gdr->library);
	memset(gdr, 0, sizeof(*gdr));
}
