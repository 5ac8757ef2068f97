/*
 * boot/engine/start.h - when this process was started (exec), on the clock of config/clock.h.
 */
#ifndef BOOT_ENGINE_START_H
#define BOOT_ENGINE_START_H

#include <stdint.h>

/* To be called first in main. */
void hr_start_mark(void);

/* hr_now_ns() at exec: the time of hr_start_mark() less the processor time used until then, which
 * is exec's and the loader's. */
uint64_t hr_start_ns(void);

#endif
