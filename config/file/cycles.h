/*
 * config/file/cycles.h - pipelines whose ends start each other.
 *
 * The end of a pipeline starts those with `after` of it, and those with `on` of an object that it
 * makes: its sink, the older versions of its sink (keep), or a new object of an access operator. A
 * cycle of such starts is a mistake. When all of them are `after`, no pipeline of the cycle ever
 * starts; otherwise one new version of an object starts all of them again and again. Pipelines
 * that are meant to alternate without end have `forever` in one of them, which makes the intent
 * visible, and `after` in the others.
 */
#ifndef CONFIG_FILE_CYCLES_H
#define CONFIG_FILE_CYCLES_H

#include "config/config.h"
#include "config/file/mistakes.h"

/*
 * Report each cycle once, at its first pipeline in the file, with its pipelines and objects. The
 * names in the keys have been resolved (hr_config_when_check()).
 */
void hr_config_cycles_check(const struct hr_config *config, struct hr_mistakes *mistakes);

#endif
