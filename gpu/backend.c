#include "gpu/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/log.h"
#include "gpu/host/host.h"

#define NUMBER_MAX 4096u

/* "PREFIX:N" with N in least..NUMBER_MAX. */
static bool numbered(const char *device, const char *prefix, unsigned least, unsigned *number)
{
	const size_t n = strlen(prefix);
	char *end;
	unsigned long v;

	if (strncmp(device, prefix, n) != 0 || device[n] < '0' || device[n] > '9')
		return false;
	errno = 0;
	v = strtoul(device + n, &end, 10);
	*number = (unsigned)v;
	return !*end && !errno && v >= least && v <= NUMBER_MAX;
}

int hr_backend_check(const char *device, char *message)
{
	unsigned number;

	if (strcmp(device, "auto") == 0 || numbered(device, "cuda:", 0, &number) ||
	    numbered(device, "host:", 1, &number))
		return 0;
	snprintf(message, HR_LOG_LINE_MAX, "'%.200s': expected cuda:N, host:CPUS or auto", device);
	return -EINVAL;
}

int hr_backend_open(struct hr_backend *b, const char *device, uint32_t max_blocks, char *message)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	const unsigned cpus = online > 0 ? (unsigned)online : 1;
	unsigned wanted = cpus;
	const int err = hr_backend_check(device, message);

	if (err)
		return err;
	if (strncmp(device, "cuda:", 5) == 0) {
		snprintf(message, HR_LOG_LINE_MAX,
			 "%s: this build has no cuda backend; use host:CPUS or auto", device);
		return -ENOTSUP;
	}
	*message = '\0';
	if (!numbered(device, "host:", 1, &wanted))
		snprintf(message, HR_LOG_LINE_MAX,
			 "auto: this build has no cuda backend; worker blocks run on the %u CPUs",
			 cpus);
	else if (wanted > cpus)
		snprintf(message, HR_LOG_LINE_MAX, "%s: only %u CPUs are online", device, cpus);
	return hr_host_open(b, wanted < cpus ? wanted : cpus, max_blocks, message);
}
