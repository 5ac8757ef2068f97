/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(zone, .timeout = 60);

Test(zone, knows_rules_and_no_others)
{
	static const struct {
		const char *zone;
		bool known;
	} row[] = {
		{ "", true },
		{ ":", true },
		{ "UTC", true },
		{ "UTC0", true },
		{ "EST5", true },
		{ "EST+5EDT", true },
		{ "CET-1CEST,M3.5.0,M10.5.0/3", true },
		{ "IST-5:30", true },
		{ "<+0330>-3:30<+0430>,J79/24,J263/24", true },
		{ "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", true },
		{ "AEST-10AEDT-11:00:00,59,J365/167", true },
		{ "Mars", false },
		{ "Mars/Olympus", false },
		{ "/etc/passwd", false },
		{ "/", false },
		{ "CE-1", false },
		{ "CET", false },
		{ "CET-25", false },
		{ "CET-1:60", false },
		{ "CET-1CE", false },
		{ "CET-1CEST,M3.5.0", false },
		{ "CET-1CEST,M13.5.0,M10.5.0/3", false },
		{ "CET-1CEST,M3.6.0,M10.5.0/3", false },
		{ "CET-1CEST,M3.5.7,M10.5.0/3", false },
		{ "CET-1CEST,J0,J366", false },
		{ "CET-1CEST,M3.5.0,M10.5.0/3 ", false },
		{ "<+03", false },
		{ "<+0330-3:30", false },
		{ "99999999999999999999", false },
	};

	setenv("TZDIR", "/nowhere", 1);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_assert_eq(hr_zone_is_known(row[i].zone), row[i].known, "%s", row[i].zone);
}

static void make(const char *folder, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "we");
	cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

Test(zone, knows_the_files_of_the_machine)
{
	char folder[] = "/tmp/zone.XXXXXX", path[128];

	cr_assert(mkdtemp(folder));
	make(folder, "Berlin", "TZif2");
	make(folder, "other", "zone");
	make(folder, "short", "TZ");
	setenv("TZDIR", folder, 1);
	cr_assert(hr_zone_is_known("Berlin"));
	cr_assert(hr_zone_is_known(":Berlin"));
	cr_assert_not(hr_zone_is_known("other"));
	cr_assert_not(hr_zone_is_known("short"));
	cr_assert_not(hr_zone_is_known("absent"));
	snprintf(path, sizeof path, "%s/Berlin", folder);
	cr_assert(hr_zone_is_known(path));
	unlink(path);
	snprintf(path, sizeof path, "%s/other", folder);
	unlink(path);
	snprintf(path, sizeof path, "%s/short", folder);
	unlink(path);
	rmdir(folder);
}
