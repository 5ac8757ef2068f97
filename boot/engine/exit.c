#include "boot/engine/exit.h"

#include <errno.h>

int hr_exit_code(int error)
{
	if (error > 0)
		return HR_EXIT_DEVICE;
	switch (error) {
	case 0:
		return HR_EXIT_DONE;
	case -EINVAL:
		return HR_EXIT_USAGE;
	case -ENODEV:
	case -ENXIO:
	case -ENOENT:
	case -EACCES:
	case -EPERM:
	case -EROFS:
	case -EBUSY:
	case -ENOTSUP:
	case -ENOMEM:
		return HR_EXIT_MISSING;
	case -EIO:
	case -EBADMSG: /* data that are not what was stored */
	case -EPROTO:
	case -ENOLINK:
	case -ECONNRESET:
	case -ETIMEDOUT:
		return HR_EXIT_DEVICE;
	default:
		return HR_EXIT_FAILED;
	}
}

int hr_exit_code_up(int error)
{
	return error == -ENODEV || error == -ENXIO ? HR_EXIT_DEVICE : hr_exit_code(error);
}
