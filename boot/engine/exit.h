/*
 * boot/engine/exit.h - exit codes of this process.
 */
#ifndef BOOT_ENGINE_EXIT_H
#define BOOT_ENGINE_EXIT_H

/* Exit codes, the same for every command (topo has its own, documented there). */
enum hr_exit {
	HR_EXIT_DONE = 0,
	HR_EXIT_FAILED = 1,  /* not done: interrupted, wrong data, disk full, ... */
	HR_EXIT_USAGE = 2,   /* command line or configuration */
	HR_EXIT_MISSING = 3, /* a requirement or a device is missing */
	HR_EXIT_DEVICE = 4,  /* a device failed: NVMe status, lost command, gone */
};

/*
 * Exit code of a call's return value: 0; > 0 (NVMe status), lost, broken, failed device:
 * HR_EXIT_DEVICE; no such device, file or permission, or not supported: HR_EXIT_MISSING; -EINVAL:
 * HR_EXIT_USAGE; everything else HR_EXIT_FAILED.
 */
int hr_exit_code(int error);

/* The same for a device that was up: one that is gone now has failed, and is not missing. */
int hr_exit_code_up(int error);

#endif
