/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/log.h"
#include "pci/undo.h"

#define BUS "/sys/bus/pci"
#define NO_OVERRIDE "\n"

/* Write text to an attribute with one write(). 0 or -errno. */
static int write_attribute(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static char *override_path(const char *bdf, char path[96])
{
	snprintf(path, 96, BUS "/devices/%s/driver_override", bdf);
	return path;
}

static char *unbind_path(const char *bdf, char path[96])
{
	snprintf(path, 96, BUS "/devices/%s/driver/unbind", bdf);
	return path;
}

static char *bind_path(const char *driver, char path[96])
{
	snprintf(path, 96, BUS "/drivers/%s/bind", driver);
	return path;
}

static void read_override(struct hr_binding *b)
{
	char path[96];
	FILE *file = fopen(override_path(b->bdf, path), "re");

	if (!file)
		return;
	if (!fgets(b->override, sizeof b->override, file))
		b->override[0] = '\0';
	fclose(file);
	b->override[strcspn(b->override, "\n")] = '\0';
	if (strcmp(b->override, "(null)") == 0)
		b->override[0] = '\0';
}

static int add_step(const char *path, const char *text)
{
	return hr_undo_add(HR_UNDO_AFTER_CLOSE, path, 0, text, strlen(text));
}

/* Record the steps that undo the change, in the order in which they are to run. */
static int record_undo(struct hr_binding *b)
{
	char path[96];

	b->undo[0] =
		add_step(override_path(b->bdf, path), b->override[0] ? b->override : NO_OVERRIDE);
	if (b->undo[0] < 0)
		return b->undo[0];
	b->undo[1] = add_step(unbind_path(b->bdf, path), b->bdf);
	if (b->undo[1] < 0 || !b->driver[0])
		return b->undo[1] < 0 ? b->undo[1] : 0;
	b->undo[2] = add_step(bind_path(b->driver, path), b->bdf);
	return b->undo[2] < 0 ? b->undo[2] : 0;
}

static int rebind_function(const struct hr_binding *b, const char *driver)
{
	char path[96];
	int err = driver ? write_attribute(override_path(b->bdf, path), driver) : 0;

	if (!err && b->driver[0])
		err = write_attribute(unbind_path(b->bdf, path), b->bdf);
	if (!err && driver)
		err = write_attribute(BUS "/drivers_probe", b->bdf);
	return err;
}

static int check_driver(const char *bdf, const char *driver, struct hr_error *e)
{
	char path[96];

	snprintf(path, sizeof path, BUS "/drivers/%s", driver);
	if (access(path, F_OK) == 0)
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, -ENODEV, "%s: the kernel has no driver %s: modprobe %s",
		       bdf, driver, driver);
}

/* Check that the driver that is bound now is the wanted one. */
static int verify_driver(const char *bdf, const char *driver, struct hr_error *e)
{
	struct hr_function_state now;
	const int err = hr_function_look(bdf, &now, e);

	if (err || strcmp(now.driver, driver ? driver : "") == 0)
		return err;
	return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
		       "%s: %s did not bind it (bound: %s); see dmesg", bdf,
		       driver ? driver : "no driver", now.driver[0] ? now.driver : "none");
}

/* The driver may have changed between the first look and the lock. */
static int recheck_driver(const struct hr_function_state *state, struct hr_error *e)
{
	struct hr_function_state now;
	const int err = hr_function_look(state->bdf, &now, e);

	if (err || strcmp(now.driver, state->driver) == 0)
		return err;
	return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
		       "%s: its driver changed from %s to %s meanwhile: another process binds it; "
		       "try again",
		       state->bdf, state->driver[0] ? state->driver : "none",
		       now.driver[0] ? now.driver : "none");
}

static int rebind(struct hr_binding *b, const char *driver, struct hr_error *e)
{
	int err = record_undo(b);

	if (!err)
		err = rebind_function(b, driver);
	if (!err)
		return verify_driver(b->bdf, driver, e);
	return hr_fail(e, HR_ERROR_MISSING, err == -EPERM ? -EACCES : err,
		       "%s: cannot be taken from %s%s%s: %s%s", b->bdf,
		       b->driver[0] ? b->driver : "no driver", driver ? " and given to " : "",
		       driver ? driver : "", strerror(-err),
		       err == -EACCES || err == -EPERM ? ": run as root" : "");
}

static void put_back(const struct hr_binding *b)
{
	struct hr_function_state now;
	char path[96];
	int err;

	if (hr_function_look(b->bdf, &now, NULL) != 0) /* the function is gone */
		return;
	err = write_attribute(override_path(b->bdf, path),
			      b->override[0] ? b->override : NO_OVERRIDE);
	if (err)
		hr_warn("%s: cannot restore driver_override: %s", b->bdf, strerror(-err));
	if (strcmp(now.driver, b->driver) == 0)
		return;
	err = now.driver[0] ? write_attribute(unbind_path(b->bdf, path), b->bdf) : 0;
	if (err)
		hr_warn("%s: cannot unbind it from %s: %s", b->bdf, now.driver, strerror(-err));
	err = b->driver[0] ? write_attribute(bind_path(b->driver, path), b->bdf) : 0;
	if (err)
		hr_warn("%s: cannot bind it to %s again: %s", b->bdf, b->driver, strerror(-err));
}

static void clear_binding(struct hr_binding *b)
{
	for (unsigned i = 0; i < 3; i++)
		hr_undo_drop(b->undo[i]);
	memset(b, 0, sizeof *b);
}

static int bind_and_record(struct hr_binding *b, const struct hr_function_state *state,
			   const char *driver, struct hr_error *e)
{
	int err;

	for (unsigned i = 0; i < 3; i++)
		b->undo[i] = -1;
	memcpy(b->bdf, state->bdf, sizeof b->bdf);
	memcpy(b->driver, state->driver, sizeof b->driver);
	read_override(b);
	err = rebind(b, driver, e);
	if (err) {
		put_back(b);
		clear_binding(b);
		return err;
	}
	hr_info("%s: taken from %s%s%s", b->bdf, b->driver[0] ? b->driver : "no driver",
		driver ? ", given to " : "", driver ? driver : "");
	return 0;
}

int hr_bind(struct hr_binding *b, const struct hr_function_state *state, const char *driver,
	    struct hr_error *e)
{
	int lock, err = driver ? check_driver(state->bdf, driver, e) : 0;

	memset(b, 0, sizeof *b);
	if (!err)
		err = hr_function_lock(state->bdf, &lock, e);
	if (err)
		return err;
	err = recheck_driver(state, e);
	if (!err)
		err = bind_and_record(b, state, driver, e);
	close(lock);
	return err;
}

void hr_bind_undo(struct hr_binding *b)
{
	int lock, err;

	if (!b->bdf[0])
		return;
	err = hr_function_lock(b->bdf, &lock, NULL);
	if (err == -EBUSY)
		hr_warn("%s: is not given back to %s: another process drives it now", b->bdf,
			b->driver[0] ? b->driver : "no driver");
	else
		put_back(b);
	if (!err)
		close(lock);
	clear_binding(b);
}
