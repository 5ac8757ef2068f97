#include "config/file/zone.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/files.h"

#define FOLDER "/usr/share/zoneinfo"
#define NAME_MIN 3
#define DAYS_OF_YEAR 365

static bool is_zone_file(const char *zone)
{
	const char *folder = getenv("TZDIR");
	char path[4096], magic[4] = "";
	const char *why;
	int fd;

	if (*zone == '/')
		folder = "";
	else if (!folder || !*folder)
		folder = FOLDER;
	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, zone) >= sizeof path)
		return false;
	fd = hr_open(path, O_RDONLY, HR_OPEN_FILE, &why);
	if (fd < 0)
		return false;
	if (read(fd, magic, sizeof magic) != sizeof magic)
		magic[0] = '\0';
	close(fd);
	return memcmp(magic, "TZif", sizeof magic) == 0;
}

/* ---- rules: "CET-1CEST,M3.5.0,M10.5.0/3". Each function returns the text behind its part, or NULL. */

/* "CET", "<+0330>" */
static const char *skip_name(const char *at)
{
	const bool quoted = *at == '<';
	const char *from = at + quoted;

	at = from;
	while (isalpha((unsigned char)*at) ||
	       (quoted && (isdigit((unsigned char)*at) || *at == '+' || *at == '-')))
		at++;
	if (at - from < NAME_MIN || (quoted && *at != '>'))
		return NULL;
	return at + quoted;
}

static const char *skip_number(const char *at, unsigned least, unsigned most)
{
	unsigned value = 0;

	if (!isdigit((unsigned char)*at))
		return NULL;
	for (; isdigit((unsigned char)*at) && value <= most; at++)
		value = value * 10 + (unsigned)(*at - '0');
	return value >= least && value <= most ? at : NULL;
}

/* "-1", "5:30", "02:00:00" */
static const char *skip_time(const char *at, unsigned hours)
{
	at = skip_number(at + (*at == '+' || *at == '-'), 0, hours);
	for (int part = 0; at && *at == ':' && part < 2; part++)
		at = skip_number(at + 1, 0, 59);
	return at;
}

/* ",M3.5.0", ",J60", ",59", each also with "/3" */
static const char *skip_change(const char *at)
{
	if (*at++ != ',')
		return NULL;
	if (*at == 'M') {
		at = skip_number(at + 1, 1, 12);
		at = at && *at == '.' ? skip_number(at + 1, 1, 5) : NULL;
		at = at && *at == '.' ? skip_number(at + 1, 0, 6) : NULL;
	} else {
		at = *at == 'J' ? skip_number(at + 1, 1, DAYS_OF_YEAR)
				: skip_number(at, 0, DAYS_OF_YEAR);
	}
	return at && *at == '/' ? skip_time(at + 1, 167) : at;
}

static bool is_rule(const char *at)
{
	at = skip_name(at);
	at = at ? skip_time(at, 24) : NULL;
	if (!at || !*at)
		return at != NULL;
	at = skip_name(at);
	if (at && *at && *at != ',')
		at = skip_time(at, 24);
	if (!at || !*at)
		return at != NULL;
	at = skip_change(at);
	at = at ? skip_change(at) : NULL;
	return at && !*at;
}

bool hr_zone_is_known(const char *zone)
{
	zone += *zone == ':';
	return !*zone || strcmp(zone, "UTC") == 0 || strcmp(zone, "GMT") == 0 || is_rule(zone) ||
	       is_zone_file(zone);
}
