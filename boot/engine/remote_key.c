#include "boot/engine/remote_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_key(struct hr_error *e, int err, const char *file, const char *why)
{
	return hr_fail(e, HR_ERROR_USAGE, err, "key file %s: %s", file, why);
}

int hr_remote_key_read(const char *file, uint8_t key[HR_LINK_KEY_BYTES], struct hr_error *e)
{
	uint8_t data[HR_LINK_KEY_BYTES + 1];
	const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat stat;
	ssize_t n;
	int err = 0;

	if (fd < 0)
		return fail_key(e, -errno, file, strerror(errno));
	if (fstat(fd, &stat) != 0)
		err = fail_key(e, -errno, file, strerror(errno));
	else if (!S_ISREG(stat.st_mode))
		err = fail_key(e, -EINVAL, file, "is no regular file");
	else if (stat.st_mode & 077)
		err = fail_key(e, -EACCES, file,
			       "other users may access it; expected mode 0400 or 0600");
	if (!err) {
		n = read(fd, data, sizeof data);
		if (n != HR_LINK_KEY_BYTES)
			err = n < 0 ? fail_key(e, -errno, file, strerror(errno))
				    : fail_key(
					      e, -EMSGSIZE, file,
					      "expected exactly 32 bytes; 'head -c 32 /dev/urandom' "
					      "makes a key");
		else
			memcpy(key, data, HR_LINK_KEY_BYTES);
	}
	explicit_bzero(data, sizeof data);
	close(fd);
	return err;
}
