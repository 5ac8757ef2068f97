/*
 * boot/cmd/bench/peers.h - `headrace bench --only peers`: pages of one set of data in the caches of two
 * gpus.
 */
#ifndef BOOT_CMD_BENCH_PEERS_H
#define BOOT_CMD_BENCH_PEERS_H

#include "boot/cmd/bench/bench.h"

/*
 * On ssd d, which has a store, by `gather` on the first two gpus of the configuration:
 *   - both read all pages at random from empty caches: reads of the ssd per page;
 *   - each holds half of the pages, and both read pages at random: the rate of pages that a gpu reads
 *     in the frames of the other one, and that of pages that its I/O workers copy meanwhile. On GPUs,
 *     beside it, the rate at which as many warps as the I/O blocks have copy random pages from there,
 *     and that of loads by all SMs.
 * --blocks sets the number of I/O blocks. The object of the bench is removed at the end. The appliance
 * is up to HR_STAGE_STORES, and stays so unless an error occurs, which fills run->app->error. out: the
 * ssd's object is open in it; or NULL. -EINTR: a signal requested a stop.
 */
int hr_bench_peers(struct hr_bench_run *run, uint32_t d, struct hr_json *out);

#endif
