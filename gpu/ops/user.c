#include "gpu/ops/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/log.h"
#include "cache/crc32c.h"
#include "gpu/ops/operators.h"

/* One that is loaded. */
struct loaded {
	const struct hr_operator *op;
	uint32_t checksum;
	dev_t device;
	ino_t inode;
};

static struct loaded loaded[HR_OPERATORS_MAX];
static uint32_t count;

static int refuse(char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *message, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(message, HR_LOG_LINE_MAX, format, args);
	va_end(args);
	return -EINVAL;
}

static bool name_is_good(const char *name)
{
	const size_t length = name ? strnlen(name, HR_NAME_MAX) : 0;

	return length && length < HR_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static bool help_is_good(const char *help)
{
	const size_t length = help ? strnlen(help, HR_OP_HELP_MAX) : 0;

	for (size_t i = 0; i < length; i++)
		if ((uint8_t)help[i] < ' ' && help[i] != '\n')
			return false;
	return length && length < HR_OP_HELP_MAX;
}

static int judge_shape(const struct hr_operator *op, char *message)
{
	if (op->sources_min > op->sources_max || op->sources_max > HR_SOURCES_MAX ||
	    (op->sources_min == 0 && op->sources_max != 0))
		return refuse(message, "operator '%s' takes %u to %u sources, expected 1 to %u",
			      op->name, op->sources_min, op->sources_max, HR_SOURCES_MAX);
	if (op->output != HR_OUT_NONE && op->output != HR_OUT_DATA)
		return refuse(message,
			      "operator '%s' has output %d, expected HR_OUT_NONE or HR_OUT_DATA",
			      op->name, (int)op->output);
	if (op->output == HR_OUT_DATA && (op->out_num < 1 || op->out_num > HR_OP_RATIO_MAX ||
					  op->out_den < 1 || op->out_den > HR_OP_RATIO_MAX))
		return refuse(message,
			      "operator '%s' makes %u bytes of output from %u of input, "
			      "expected 1 to %u of each",
			      op->name, op->out_num, op->out_den, HR_OP_RATIO_MAX);
	if (op->tile_record_bytes > HR_OP_RECORD_MAX)
		return refuse(message, "operator '%s' has records of %u bytes, expected at most %u",
			      op->name, op->tile_record_bytes, HR_OP_RECORD_MAX);
	return 0;
}

int hr_op_user_judge(const struct hr_operator *op, char *message)
{
	if (op->abi != HR_OP_ABI || op->bytes != sizeof *op)
		return refuse(message,
			      "its description is of version %u and %u bytes, expected "
			      "version %u and %zu bytes",
			      op->abi, op->bytes, HR_OP_ABI, sizeof *op);
	if (!name_is_good(op->name))
		return refuse(message,
			      "its operator has no good name: expected a-z, then up to %u "
			      "of a-z, 0-9 and _",
			      HR_NAME_MAX - 2);
	if (hr_op_find(op->name))
		return refuse(message,
			      "operator '%s' has the name of a built-in one, expected another",
			      op->name);
	if (!help_is_good(op->help))
		return refuse(message,
			      "operator '%s' has no good help: expected 1 to %u characters",
			      op->name, HR_OP_HELP_MAX - 1);
	if (!op->init || !op->tile || !op->finish)
		return refuse(message, "operator '%s' lacks init, tile or finish", op->name);
	if (!op->gpu || op->gpu_end < op->gpu || (size_t)(op->gpu_end - op->gpu) > HR_OP_FILE_MAX)
		return refuse(message, "operator '%s' has no good GPU part", op->name);
	return judge_shape(op, message);
}

static int read_whole(int fd, uint8_t *to, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		const ssize_t n = read(fd, to + at, bytes - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += (size_t)n;
	}
	return 0;
}

/* The contents, to be freed, of a file that may be an operator. */
static int take_file(int fd, struct stat *st, uint8_t **file, char *message)
{
	int err;

	if (fstat(fd, st) != 0) {
		err = -errno;
		refuse(message, "cannot be examined: %s", strerror(-err));
		return err;
	}
	if (!S_ISREG(st->st_mode))
		return refuse(message, "is no file");
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return refuse(message,
			      "belongs to user %u, and headrace would run what that user writes; "
			      "expected a file of root or of user %u, who runs headrace",
			      (unsigned)st->st_uid, (unsigned)geteuid());
	if (st->st_mode & S_IWOTH)
		return refuse(message,
			      "may be written by everyone (mode %03o), and headrace would run "
			      "what they write; chmod o-w it",
			      st->st_mode & 0777);
	if (st->st_size > (off_t)HR_OP_FILE_MAX)
		return refuse(message, "has %lld bytes, expected at most %u",
			      (long long)st->st_size, HR_OP_FILE_MAX);
	*file = malloc((size_t)st->st_size + 1);
	err = *file ? read_whole(fd, *file, (size_t)st->st_size) : -ENOMEM;
	if (err) {
		free(*file);
		refuse(message, "cannot be read: %s", strerror(-err));
	}
	return err;
}

static int judge_file(const char *path, struct stat *st, uint32_t *checksum, char *message)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	uint8_t *file = NULL;
	int err;

	if (fd < 0) {
		err = -errno;
		refuse(message, "cannot be opened: %s", strerror(-err));
		return err;
	}
	err = take_file(fd, st, &file, message);
	close(fd);
	if (err)
		return err;
	err = hr_op_file_judge(file, (size_t)st->st_size, message);
	*checksum = hr_crc32c(0, file, (size_t)st->st_size);
	free(file);
	return err;
}

static int load_new(const char *path, struct loaded *into, char *message)
{
	void *handle;
	int err = hr_op_user_open(path, &handle, &into->op, message);

	if (err)
		return err;
	err = hr_op_user_judge(into->op, message);
	if (err)
		hr_op_user_close(handle);
	return err;
}

int hr_op_user_load(const char *path, const struct hr_operator **op, char *message)
{
	struct loaded *l = loaded;
	struct stat st = { 0 };
	uint32_t checksum = 0;
	int err = judge_file(path, &st, &checksum, message);

	if (err)
		return err;
	while (l < &loaded[count] && (l->device != st.st_dev || l->inode != st.st_ino))
		l++;
	if (l == &loaded[HR_OPERATORS_MAX]) {
		refuse(message, "is one more than the %u operators that a process can load",
		       HR_OPERATORS_MAX);
		return -ENOSPC;
	}
	if (l == &loaded[count]) {
		err = load_new(path, l, message);
		if (err)
			return err;
		l->device = st.st_dev;
		l->inode = st.st_ino;
		l->checksum = checksum;
		count++;
	} else if (l->checksum != checksum) {
		return refuse(message, "has changed since this process has loaded it");
	}
	*op = l->op;
	return 0;
}

const struct hr_operator *hr_op_user_get(uint32_t i)
{
	return i < count ? loaded[i].op : NULL;
}

uint32_t hr_op_user_checksum(const struct hr_operator *op)
{
	for (uint32_t i = 0; i < count; i++)
		if (loaded[i].op == op)
			return loaded[i].checksum;
	return 0;
}
