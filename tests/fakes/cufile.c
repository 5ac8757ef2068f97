/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/cufile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/log.h"

struct fake_cufile fake_cufile;

static int file; /* its address is the handle */

static struct hr_cufile_error answer(const char *name)
{
	const bool fails = fake_cufile.failing && strcmp(fake_cufile.failing, name) == 0;

	return (struct hr_cufile_error){ fails ? 5011 : 0, fails };
}

static struct hr_cufile_error driver_open(void)
{
	const struct hr_cufile_error error = answer("cuFileDriverOpen");

	fake_cufile.opened += !error.err;
	return error;
}

static struct hr_cufile_error driver_close(void)
{
	fake_cufile.opened--;
	return answer("cuFileDriverClose");
}

static struct hr_cufile_error handle_register(void **handle, struct hr_cufile_descr *descr)
{
	struct hr_cufile_error error = answer("cuFileHandleRegister");

	if (descr->type != HR_CUFILE_FD || descr->fs_ops)
		error.err = 5022;
	if (error.err)
		return error;
	file = descr->handle.fd;
	*handle = &file;
	fake_cufile.files++;
	return error;
}

static void handle_deregister(void *handle)
{
	fake_cufile.files -= handle == &file;
}

static struct hr_cufile_error buf_register(const void *gpu, size_t bytes, int flags)
{
	struct hr_cufile_error error = answer("cuFileBufRegister");

	if (!gpu || !bytes || flags)
		error.err = 5022;
	fake_cufile.buffers += !error.err;
	return error;
}

static struct hr_cufile_error buf_deregister(const void *gpu)
{
	fake_cufile.buffers -= gpu != NULL;
	return answer("cuFileBufDeregister");
}

static ssize_t read_file(void *handle, void *gpu, size_t bytes, off_t at, off_t gpu_at)
{
	ssize_t got = fake_cufile.answer;

	while (fake_cufile.stall)
		usleep(1000);
	if (!got && handle == &file)
		got = pread(file, (char *)gpu + gpu_at, bytes - (size_t)fake_cufile.short_by, at);
	else
		errno = EBADF;
	fake_cufile.reads++; /* last, because the test may free the memory after it */
	return got ? got : -1;
}

static void *find_symbol(const char *name)
{
	static const struct hr_cufile own = { driver_open,	 driver_close, handle_register,
					      handle_deregister, buf_register, buf_deregister,
					      read_file,	 NULL,	       false };
	const struct {
		const char *name;
		const void *function; /* address of the function */
	} row[] = {
		{ "cuFileDriverOpen", &own.driver_open },
		{ "cuFileDriverClose", &own.driver_close },
		{ "cuFileDriverClose_v2", &own.driver_close },
		{ "cuFileHandleRegister", &own.handle_register },
		{ "cuFileHandleDeregister", &own.handle_deregister },
		{ "cuFileBufRegister", &own.buf_register },
		{ "cuFileBufDeregister", &own.buf_deregister },
		{ "cuFileRead", &own.read },
	};
	void *at = NULL;

	for (int i = 0; i < 2; i++)
		if (fake_cufile.missing[i] && strcmp(fake_cufile.missing[i], name) == 0)
			return NULL;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (strcmp(row[i].name, name) == 0)
			memcpy(&at, row[i].function, sizeof at);
	return at;
}

int hr_cufile_library(void *(**find)(const char *name), struct hr_error *e)
{
	*find = find_symbol;
	if (fake_cufile.no_library)
		hr_fail(e, HR_ERROR_MISSING, -ENODEV, "no library in this test");
	return fake_cufile.no_library;
}

void fake_cufile_reset(void)
{
	memset(&fake_cufile, 0, sizeof fake_cufile);
}
