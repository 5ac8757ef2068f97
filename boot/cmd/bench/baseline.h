/*
 * boot/cmd/bench/baseline.h - `headrace bench`: data rates of an ordinary program.
 */
#ifndef BOOT_CMD_BENCH_BASELINE_H
#define BOOT_CMD_BENCH_BASELINE_H

#include "boot/cmd/bench/bench.h"

/*
 * Data rates of an ordinary program: CPU threads read request->baseline.
 * An existing file is only read. A missing file is created with the size of the object (at least
 * HR_BASELINE_FILE_MIN), and removed at the end. A method that this machine does not support is
 * reported with the reason, and is not an error. 0; -EINVAL: not a regular file, or too short;
 * -ENOTSUP: no GPU; -EINTR; other errors of the file or the GPU. All but -EINTR fill
 * run->app->error.
 */
int hr_bench_baseline(struct hr_bench_run *run);

#endif
