/* In place of gpu/window_gdr.c in a static build, whose C library loads no others. */
#include "gpu/window.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/log.h"

int hr_gdr_load(struct hr_gdr *gdr, char *message)
{
	memset(gdr, 0, sizeof(*gdr));
	snprintf(message, HR_LOG_LINE_MAX, "libgdrapi.so.2: a static build loads no libraries");
	return -ENOTSUP;
}

void hr_gdr_unload(struct hr_gdr *gdr)
{
	memset(gdr, 0, sizeof(*gdr));
}
