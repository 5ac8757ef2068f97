/*
 * boot/cmd/bench/misses.h - `headrace bench`: reads of single pages through the page cache of access
 * operators, beside raw reads of the same ssd.
 */
#ifndef BOOT_CMD_BENCH_MISSES_H
#define BOOT_CMD_BENCH_MISSES_H

#include "boot/cmd/bench/bench.h"

/*
 * On ssd d, which has a store:
 *   - one worker reads 4 KiB at a time: the latency of a raw read;
 *   - `chase` follows one chain through a cache of an eighth of the object: the latency of a miss, and
 *     the times of its steps in an I/O worker;
 *   - `gather` reads random pages by all compute workers: the rate of misses, compared with the best
 *     rate of raw random reads of 4 KiB in run->found.
 * --blocks sets the number of I/O blocks of `gather`. The object of the bench is removed at the end.
 * The appliance is up to HR_STAGE_STORES, and stays so unless an error occurs, which fills
 * run->app->error. out: the ssd's object is open in it; or NULL. -EINTR: a signal requested a stop.
 */
int hr_bench_misses(struct hr_bench_run *run, uint32_t d, struct hr_json *out);

#endif
