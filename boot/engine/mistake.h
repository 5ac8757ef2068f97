/*
 * boot/engine/mistake.h - mistakes of the configuration that only devices can show.
 */
#ifndef BOOT_ENGINE_MISTAKE_H
#define BOOT_ENGINE_MISTAKE_H

#include "boot/engine/appliance.h"

/* A mistake with its place: "FILE:LINE: ...", to stderr. Returns -EINVAL. */
int hr_mistake_at(const struct hr_appliance *app, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
