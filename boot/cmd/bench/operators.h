/*
 * boot/cmd/bench/operators.h - `headrace bench`: the built-in operators.
 */
#ifndef BOOT_CMD_BENCH_OPERATORS_H
#define BOOT_CMD_BENCH_OPERATORS_H

#include "boot/cmd/bench/bench.h"

/*
 * Run each built-in operator over objects of the bench on ssd d, and remove them. The appliance is
 * up to HR_STAGE_STORES, and stays so unless an error occurs, which fills run->app->error. out: the
 * ssd's object is open in it; or NULL. -EINTR: a signal requested a stop.
 */
int hr_bench_operators(struct hr_bench_run *run, uint32_t d, struct hr_json *out);

#endif
