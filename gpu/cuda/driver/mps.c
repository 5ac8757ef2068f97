/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/driver/device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/files.h"

#define DEFAULT_FOLDER "/tmp/nvidia-mps"

/* The kernel keeps 15 characters of a name. */
static const char daemon_name[] = "nvidia-cuda-mps";

/* The folder may be one that every user can make, with a FIFO. */
static int read_number(const char *path)
{
	char text[16] = "";
	const char *why;
	const int fd = hr_open(path, O_RDONLY, HR_OPEN_FILE, &why);
	int number = 0;

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof text - 1) <= 0 || sscanf(text, "%d", &number) != 1)
		number = 0;
	close(fd);
	return number;
}

static bool is_daemon(int process)
{
	char path[32], name[32] = "";
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/comm", process);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(name, sizeof name, file))
		name[0] = '\0';
	fclose(file);
	return strncmp(name, daemon_name, sizeof daemon_name - 1) == 0;
}

bool hr_cuda_mps_runs(void)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char path[512];
	int process;

	snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid",
		 folder && *folder ? folder : DEFAULT_FOLDER);
	process = read_number(path);
	return process > 0 && is_daemon(process);
}
