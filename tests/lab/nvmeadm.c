/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/lab/nvmeadm.c - sends one admin command without data through the kernel's driver.
 *
 *   nvmeadm DEVICE reset
 *   nvmeadm DEVICE OPCODE CDW10 CDW11
 *
 * DEVICE is /dev/nvmeN; numbers are decimal or 0x... Exit code 0: done; 1: the kernel or the
 * controller refused it; 2: usage. Scenarios enable virtual functions with it (Virtualization
 * Management, NVMe Base 5.28).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

static int usage(void)
{
	fprintf(stderr, "usage: nvmeadm DEVICE reset | nvmeadm DEVICE OPCODE CDW10 CDW11\n");
	return 2;
}

static int number(const char *text, uint32_t max, uint32_t *to)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || end == text || *end || value > max)
		return usage();
	*to = (uint32_t)value;
	return 0;
}

int main(int argc, char **argv)
{
	struct nvme_admin_cmd cmd = { 0 };
	uint32_t opcode;
	int fd, err;

	if (argc != 5 && (argc != 3 || strcmp(argv[2], "reset") != 0))
		return usage();
	if (argc == 5 &&
	    (number(argv[2], UINT8_MAX, &opcode) || number(argv[3], UINT32_MAX, &cmd.cdw10) ||
	     number(argv[4], UINT32_MAX, &cmd.cdw11)))
		return 2;
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "nvmeadm: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	if (argc == 5)
		cmd.opcode = (uint8_t)opcode;
	err = argc == 3 ? ioctl(fd, NVME_IOCTL_RESET) : ioctl(fd, NVME_IOCTL_ADMIN_CMD, &cmd);
	if (err < 0)
		fprintf(stderr, "nvmeadm: %s: %s\n", argv[1], strerror(errno));
	else if (err > 0)
		fprintf(stderr, "nvmeadm: %s: status %03x\n", argv[1], (unsigned)err);
	return err ? 1 : 0;
}
