#include "gpu/cuda/mps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_FOLDER "/tmp/nvidia-mps"

/* The kernel keeps 15 characters of a name. */
static const char daemon_name[] = "nvidia-cuda-mps";

static int read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	int number = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%d", &number) != 1)
		number = 0;
	fclose(file);
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
