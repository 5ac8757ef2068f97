/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a command as root without CAP_SYS_ADMIN, as in a container: withhold COMMAND...
 */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <linux/capability.h>

int main(int argc, char **argv)
{
	if (argc < 2 || prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) != 0) {
		perror("withhold");
		return 127;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
