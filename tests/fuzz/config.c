/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: for any bytes the parser returns, and reports each refusal. An accepted
 * configuration has the properties that bring-up needs. A number in the same bytes has its exact
 * value in a key and in arguments of operators, or is refused.
 */
#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/file/file.h"
#include "config/tile.h"
#include "tests/harness/operators.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
const char *__lsan_default_suppressions(void);

/* libconfig 1.5 forgets the string it was reading when a syntax error ends the parse. */
const char *__lsan_default_suppressions(void)
{
	return "leak:strbuf_append\nleak:libconfig_yylex\n";
}

static void demand(int promise)
{
	if (!promise)
		abort();
}

static void check_pipeline(const struct hr_config *config, const struct hr_config_pipeline *p)
{
	demand(p->name[0] && p->op != NULL && p->gpu < config->gpus);
	demand(p->sources >= hr_op_sources_min(p->op) && p->sources <= hr_op_sources_max(p->op));
	demand(p->slots <= HR_SLOTS_MAX);
	demand(!p->slots || p->prefetch_blocks <= p->slots);
	demand(!p->slots || p->compute_blocks <= p->slots);
	demand(p->has_sink || p->writeback_blocks == 0);
	demand(p->threads % 32 == 0 && p->threads <= HR_THREADS_MAX);
	demand((p->has_sink || p->tap.name[0]) == (p->op->output == HR_OUT_DATA));
	demand(!p->has_sink || !p->tap.name[0]);
	demand(!p->tap.name[0] ||
	       (p->tap.consumers >= 1 && p->tap.consumers <= HR_TAP_CONSUMERS_MAX));
	demand(!p->feed.name[0] || (p->sources == 1 && p->feed.bytes > 0 &&
				    p->prefetch_blocks == 0 && p->verify != HR_VERIFY_ON));
	demand(!p->to.address[0] ||
	       (p->tap.name[0] && config->remotes.key[0] && p->to.depth <= HR_SLOTS_MAX));
	demand(!p->from.address[0] || (p->feed.name[0] && config->remotes.key[0]));
	demand(config->remotes.allowed_count <= HR_REMOTE_ALLOWED_MAX);
	demand(p->op_args_bytes <= HR_OP_ARGS_MAX);
	demand(p->tile_bytes >= 512 && p->tile_bytes <= HR_TILE_MAX);
	demand(hr_config_tile_rows(p) > 0);
	for (uint32_t s = 0; s < p->sources; s++) {
		demand(p->feed.name[0] ||
		       (p->source[s].ssd < config->ssds && p->source[s].object[0]));
		demand(hr_config_tile_bytes(p, s) % 512 == 0);
		demand(hr_config_tile_bytes(p, s) <= p->tile_bytes);
	}
	demand(hr_config_sink_tile_bytes(p) % 512 == 0);
	demand(hr_config_sink_tile_bytes(p) <= HR_TILE_MAX);
}

/* ---- numbers: an accepted number has the value of its digits */

#define NUMBER_BYTES 48u

/*
 * A second parser: the value of a decimal or hexadecimal integer with sign and suffix. False: no
 * integer.
 */
static int integer(const char *text, __int128 *value)
{
	const __int128 limit = (__int128)1 << 100;
	const int minus = *text == '-';
	int base = 10, digits = 0;

	text += *text == '-' || *text == '+';
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		base = 16;
		text += 2;
	}
	for (*value = 0; isxdigit((unsigned char)*text); text++, digits++) {
		const int digit = isdigit((unsigned char)*text)
					  ? *text - '0'
					  : tolower((unsigned char)*text) - 'a' + 10;

		if (digit >= base)
			return 0;
		if (*value < limit)
			*value = *value * base + digit;
	}
	*value = minus ? -*value : *value;
	text += *text == 'L';
	text += *text == 'L';
	return digits && !*text;
}

/* The first characters of the input that may be in a number. */
static void take_number(char *number, const uint8_t *data, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes && n < NUMBER_BYTES; i++)
		if (data[i] && strchr("0123456789abcdefABCDEFxXL.+-", data[i]))
			number[n++] = (char)data[i];
	number[n] = '\0';
}

static const char devices[] = "ssds = ({name = \"a\"; device = \"soft:a\";});\n"
			      "gpus = ({name = \"g\"; device = \"host:1\";});\n";

static int parse(struct hr_config *config, const char *text)
{
	return hr_config_parse(config, &hr_lookup, "fuzz", text, strlen(text), NULL);
}

static void check_numbers(struct hr_config *config, const uint8_t *data, size_t bytes)
{
	char number[NUMBER_BYTES + 1], text[1024];
	const struct hr_filter_args *filter;
	const struct hr_topk_args *topk;
	__int128 value;
	int whole;

	take_number(number, data, bytes);
	whole = integer(number, &value);
	snprintf(text, sizeof text, "%smemory = {host = %s;};", devices, number);
	if (parse(config, text) == 0)
		demand(whole && (__int128)config->memory_host == value);
	else
		demand(!whole || value < 0 || value > INT64_MAX);

	snprintf(text, sizeof text,
		 "%spipelines = ({name = \"p\"; operator = \"filter_sum\"; source = ({object = "
		 "\"a\";},{object = \"b\";},{object = \"c\";},{object = \"d\";}); args = "
		 "{shipdate_from = 0; shipdate_before = 1; discount_from = 0; discount_to = 1; "
		 "quantity_below = %s;};});",
		 devices, number);
	filter = (const struct hr_filter_args *)(const void *)config->pipeline[0].op_args;
	if (parse(config, text) == 0)
		demand(whole && filter->quantity_below == value);
	else
		demand(!whole || value < INT32_MIN || value > INT32_MAX);

	snprintf(text, sizeof text,
		 "%spipelines = ({name = \"p\"; operator = \"topk_dot\"; source = {object = "
		 "\"a\";}; args = {k = 1; query = [%s];};});",
		 devices, number);
	topk = (const struct hr_topk_args *)(const void *)config->pipeline[0].op_args;
	if (parse(config, text) == 0)
		demand(isfinite(topk->query[0]) &&
		       (!whole || value >= (__int128)1 << 53 || value <= -((__int128)1 << 53) ||
			(__int128)topk->query[0] == value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct hr_config config;
	static struct hr_error e;
	int err;

	hr_error_clear(&e);
	err = hr_config_parse(&config, &hr_lookup, "fuzz", (const char *)data, bytes, &e);
	demand((err == 0) == (e.text[0] == '\0'));
	if (err) {
		check_numbers(&config, data, bytes);
		return 0;
	}
	demand(config.ssds >= 1 && config.gpus >= 1);
	for (uint32_t i = 0; i < config.ssds; i++)
		demand(config.ssd[i].name[0] && config.ssd[i].device[0] &&
		       config.ssd[i].queue_entries >= HR_QUEUE_ENTRIES_MIN &&
		       config.ssd[i].queue_entries <= HR_QUEUE_ENTRIES_MAX);
	for (uint32_t i = 0; i < config.pipelines; i++)
		check_pipeline(&config, &config.pipeline[i]);
	return 0;
}
