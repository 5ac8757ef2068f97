/*
 * config/base/process.h - start time (exec) of this process, on the clock of config/base/clock.h.
 */
#ifndef CONFIG_BASE_PROCESS_H
#define CONFIG_BASE_PROCESS_H

#include <stdint.h>

/* Call first in main. */
void hr_start_mark(void);

/* hr_now_ns() at exec: the time of hr_start_mark() minus the processor time used until then, by
 * exec and the loader. */
uint64_t hr_start_ns(void);

#endif
