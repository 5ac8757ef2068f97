/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/measure/cufile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"

/* Object and function pointers have the same size (POSIX, dlsym). */
static bool resolve_cufile_symbol(void *(*find)(const char *name), const char *name, void *function)
{
	void *const at = find(name);

	memcpy(function, &at, sizeof at);
	return at != NULL;
}

static const char *resolve_all(struct hr_cufile *f, void *(*find)(const char *name))
{
	const struct {
		/* name in later versions of the library; name in earlier versions, or NULL */
		const char *name, *older;
		void *function;
	} all[] = {
		{ "cuFileDriverOpen", NULL, &f->driver_open },
		{ "cuFileDriverClose_v2", "cuFileDriverClose", &f->driver_close },
		{ "cuFileHandleRegister", NULL, &f->handle_register },
		{ "cuFileHandleDeregister", NULL, &f->handle_deregister },
		{ "cuFileBufRegister", NULL, &f->buf_register },
		{ "cuFileBufDeregister", NULL, &f->buf_deregister },
		{ "cuFileRead", NULL, &f->read },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!resolve_cufile_symbol(find, all[i].name, all[i].function) &&
		    (!all[i].older || !resolve_cufile_symbol(find, all[i].older, all[i].function)))
			return all[i].name;
	return NULL;
}

static int fail_cufile(const char *what, struct hr_cufile_error error, struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP, "%s: error %d, CUDA error %d; see cufile.log",
		       what, error.err, error.cu_err);
}

int hr_cufile_open(struct hr_cufile *f, int fd, struct hr_error *e)
{
	struct hr_cufile_descr descr = { .type = HR_CUFILE_FD, .handle.fd = fd };
	void *(*find)(const char *name) = NULL;
	struct hr_cufile_error error;
	const char *missing;
	int err;

	memset(f, 0, sizeof *f);
	err = hr_cufile_library(&find, e);
	if (err)
		return err;
	missing = resolve_all(f, find);
	if (missing)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP, "libcufile has no %s", missing);
	error = f->driver_open();
	if (error.err)
		return fail_cufile("cuFileDriverOpen", error, e);
	f->is_open = true;
	error = f->handle_register(&f->file, &descr);
	if (error.err) {
		f->file = NULL;
		hr_cufile_close(f);
		return fail_cufile("cuFileHandleRegister", error, e);
	}
	return 0;
}

void hr_cufile_close(struct hr_cufile *f)
{
	if (f->file)
		f->handle_deregister(f->file);
	if (f->is_open)
		f->driver_close();
	f->file = NULL;
	f->is_open = false;
}
