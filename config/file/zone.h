/*
 * config/file/zone.h - whether the C library knows a time zone. It takes a value of TZ that it does not
 * know for UTC, without an error.
 */
#ifndef CONFIG_FILE_ZONE_H
#define CONFIG_FILE_ZONE_H

#include <stdbool.h>

/*
 * True for a value that TZ can have (tzset(3)): "", a file of TZDIR or /usr/share/zoneinfo like
 * "Europe/Berlin", the absolute path of such a file, both also after ':', and rules like
 * "CET-1CEST,M3.5.0,M10.5.0/3".
 */
bool hr_zone_is_known(const char *zone);

#endif
