/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/engine.h - appliances of a configuration as text, of which no
 * stage is up. A mistake in the text ends the test.
 */
#ifndef TESTS_HARNESS_ENGINE_H
#define TESTS_HARNESS_ENGINE_H

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/bringup/stages.h"
#include "config/file/file.h"
#include "tests/harness/error.h"

/* Begin anew with the configuration of the file "f". */
static inline void engine_read(struct hr_engine *engine, const char *text)
{
	memset(engine, 0, sizeof *engine);
	cr_assert_eq(
		hr_config_parse(&engine->config, &hr_lookup, "f", text, strlen(text), test_error()),
		0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(engine, NULL), 0);
}

/* The same; the text has the given values. */
__attribute__((format(printf, 2, 3))) static inline void engine_print(struct hr_engine *engine,
								      const char *format, ...)
{
	char text[4096];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	cr_assert(n > 0 && (size_t)n < sizeof text);
	engine_read(engine, text);
}

/* The same in new memory, which the caller frees. */
static inline struct hr_engine *engine_new(const char *text)
{
	struct hr_engine *engine = calloc(1, sizeof *engine);

	cr_assert_not_null(engine);
	engine_read(engine, text);
	return engine;
}

#endif
