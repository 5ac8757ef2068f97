#include "pci/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/log.h"
#include "pci/custodian.h"

#define BUS "/sys/bus/pci"
#define NO_OVERRIDE "\n"

/* One write to an attribute. 0 or -errno. */
static int put(const char *path, const char *text)
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

static int leave(const char *path, const char *text)
{
	return hr_custodian_add(HR_CUSTODY_LATER, path, 0, text, strlen(text));
}

/* The way back, in its order. */
static int leave_will(struct hr_binding *b)
{
	char path[96];

	b->custody[0] =
		leave(override_path(b->bdf, path), b->override[0] ? b->override : NO_OVERRIDE);
	if (b->custody[0] < 0)
		return b->custody[0];
	b->custody[1] = leave(unbind_path(b->bdf, path), b->bdf);
	if (b->custody[1] < 0 || !b->driver[0])
		return b->custody[1] < 0 ? b->custody[1] : 0;
	b->custody[2] = leave(bind_path(b->driver, path), b->bdf);
	return b->custody[2] < 0 ? b->custody[2] : 0;
}

static int give(const struct hr_binding *b, const char *driver)
{
	char path[96];
	int err = driver ? put(override_path(b->bdf, path), driver) : 0;

	if (!err && b->driver[0])
		err = put(unbind_path(b->bdf, path), b->bdf);
	if (!err && driver)
		err = put(BUS "/drivers_probe", b->bdf);
	return err;
}

static int check_driver(const char *bdf, const char *driver, char *message)
{
	char path[96];

	snprintf(path, sizeof path, BUS "/drivers/%s", driver);
	if (access(path, F_OK) == 0)
		return 0;
	snprintf(message, HR_LOG_LINE_MAX, "%s: the kernel has no driver %s: modprobe %s", bdf,
		 driver, driver);
	return -ENODEV;
}

/* Is it where it should be? */
static int verify(const char *bdf, const char *driver, char *message)
{
	struct hr_function_state now;
	const int err = hr_function_look(bdf, &now, message);

	if (err || strcmp(now.driver, driver ? driver : "") == 0)
		return err;
	snprintf(message, HR_LOG_LINE_MAX, "%s: %s did not take it (bound: %s); see dmesg", bdf,
		 driver ? driver : "no driver", now.driver[0] ? now.driver : "none");
	return -ENODEV;
}

/* What was looked at before the lock was ours may be true no more. */
static int still_has(const struct hr_function_state *state, char *message)
{
	struct hr_function_state now;
	const int err = hr_function_look(state->bdf, &now, message);

	if (err || strcmp(now.driver, state->driver) == 0)
		return err;
	snprintf(message, HR_LOG_LINE_MAX,
		 "%s: somebody else binds it, too: its driver was %s and is %s; try again",
		 state->bdf, state->driver[0] ? state->driver : "none",
		 now.driver[0] ? now.driver : "none");
	return -EBUSY;
}

static int rebind(struct hr_binding *b, const char *driver, char *message)
{
	int err = leave_will(b);

	if (!err)
		err = give(b, driver);
	if (!err)
		return verify(b->bdf, driver, message);
	snprintf(message, HR_LOG_LINE_MAX, "%s: cannot be taken from %s%s%s: %s%s", b->bdf,
		 b->driver[0] ? b->driver : "no driver", driver ? " and given to " : "",
		 driver ? driver : "", strerror(-err),
		 err == -EACCES || err == -EPERM ? ": run as root" : "");
	return err == -EPERM ? -EACCES : err;
}

static void put_back(const struct hr_binding *b)
{
	struct hr_function_state now;
	char path[96], message[HR_LOG_LINE_MAX];
	int err;

	if (hr_function_look(b->bdf, &now, message) != 0) /* gone: nothing to give back */
		return;
	err = put(override_path(b->bdf, path), b->override[0] ? b->override : NO_OVERRIDE);
	if (err)
		hr_warn("%s: driver_override stays: %s", b->bdf, strerror(-err));
	if (strcmp(now.driver, b->driver) == 0)
		return;
	err = now.driver[0] ? put(unbind_path(b->bdf, path), b->bdf) : 0;
	if (err)
		hr_warn("%s: %s does not let go of it: %s", b->bdf, now.driver, strerror(-err));
	err = b->driver[0] ? put(bind_path(b->driver, path), b->bdf) : 0;
	if (err)
		hr_warn("%s: %s does not take it back: %s", b->bdf, b->driver, strerror(-err));
}

static void forget(struct hr_binding *b)
{
	for (unsigned i = 0; i < 3; i++)
		hr_custodian_drop(b->custody[i]);
	memset(b, 0, sizeof *b);
}

static int take(struct hr_binding *b, const struct hr_function_state *state, const char *driver,
		char *message)
{
	int err;

	for (unsigned i = 0; i < 3; i++)
		b->custody[i] = -1;
	memcpy(b->bdf, state->bdf, sizeof b->bdf);
	memcpy(b->driver, state->driver, sizeof b->driver);
	read_override(b);
	err = rebind(b, driver, message);
	if (err) {
		put_back(b);
		forget(b);
		return err;
	}
	hr_info("%s: taken from %s%s%s", b->bdf, b->driver[0] ? b->driver : "no driver",
		driver ? ", given to " : "", driver ? driver : "");
	return 0;
}

int hr_bind(struct hr_binding *b, const struct hr_function_state *state, const char *driver,
	    char *message)
{
	int lock, err = driver ? check_driver(state->bdf, driver, message) : 0;

	memset(b, 0, sizeof *b);
	if (!err)
		err = hr_function_lock(state->bdf, &lock, message);
	if (err)
		return err;
	err = still_has(state, message);
	if (!err)
		err = take(b, state, driver, message);
	close(lock);
	return err;
}

void hr_bind_undo(struct hr_binding *b)
{
	char message[HR_LOG_LINE_MAX];
	int lock, err;

	if (!b->bdf[0])
		return;
	err = hr_function_lock(b->bdf, &lock, message);
	if (err == -EBUSY)
		hr_warn("%s: is not given back to %s: another process drives it by now", b->bdf,
			b->driver[0] ? b->driver : "no driver");
	else
		put_back(b);
	if (!err)
		close(lock);
	forget(b);
}
