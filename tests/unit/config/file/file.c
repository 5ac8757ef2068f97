/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/default.h"
#include "config/file/file.h"
#include "config/tile.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/file/scan.h"
#include "config/base/text.h"
#include "tests/harness/error.h"

TestSuite(config, .timeout = 60);

/* Texts of all reports, one line each. */
struct reports {
	char text[2 * HR_ERROR_BYTES];
	unsigned count;
};

static struct hr_config config;
static struct reports reports;

static int parse_bytes(const char *text, size_t bytes)
{
	const int err = hr_config_parse(&config, &hr_lookup, "f", text, bytes, test_error());

	reports.count = test_error_lines(reports.text, sizeof reports.text);
	return err;
}

static int parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

/* A file with one mistake: lines 1 to 3 are correct, the following lines are the row's. */
#define HEAD                                                       \
	"ssds = ( { name = \"a\"; device = \"soft:a.img\"; },\n"   \
	"         { name = \"b\"; device = \"soft:b.img\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
#define SOURCE "source = { ssd = \"a\"; object = \"in\"; }; "
#define SINK "sink = { ssd = \"a\"; object = \"out\"; }; "
#define PIPE(text) HEAD "pipelines = ( {\n name = \"p\"; " SOURCE "\n" text "} );\n"

Test(config, built_in_configuration_is_right)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];

	cr_assert_eq(parse_bytes(hr_config_default, hr_config_default_bytes), 0, "%s",
		     reports.text);
	cr_assert_eq(reports.count, 0u);
	cr_assert_str_eq(config.name, "headrace");
	cr_assert_eq(config.checkpoint_ns, 5000000000u);
	cr_assert_eq(config.memory_host, 64u << 20);
	cr_assert_eq(config.ssds, 1u);
	cr_assert(config.ssd[0].in_memory);
	cr_assert_eq(config.ssd[0].prepared_count, 1u);
	cr_assert_str_eq(config.ssd[0].prepared[0].object, "counting");
	cr_assert_eq(config.ssd[0].prepared[0].bytes, 16u << 20);
	cr_assert_eq(config.ssd[0].queue_entries, 256u);
	cr_assert_eq(config.ssd[0].timeout_ns, 5000000000u);
	cr_assert_eq(config.gpus, 1u);
	cr_assert_eq(config.pipelines, 2u);
	cr_assert_str_eq(p->op->name, "crc32c");
	cr_assert_eq(p->tile_bytes, 1u << 20);
	cr_assert_eq(p->slots, 4u);
	cr_assert_eq(p->writeback_blocks, 0u);
	cr_assert_eq(hr_config_sink_tile_bytes(p), 0u);
	cr_assert(config.pipeline[1].has_sink);
	cr_assert_eq(hr_config_sink_tile_bytes(&config.pipeline[1]), 1u << 20);
}

Test(config, omitted_keys_have_the_documented_defaults)
{
	memset(&config, 0xff, sizeof config);
	cr_assert_eq(parse(PIPE("operator = \"crc32c\";")), 0, "%s", reports.text);
	cr_expect_eq(config.log, HR_LOG_WARN);
	cr_expect_eq(config.checkpoint_ns, 5000000000u);
	cr_expect_eq(config.memory_host, 0u);
	cr_expect_eq(config.memory_gpu, 0u);
	cr_expect_eq(config.path, HR_PATH_AUTO);
	cr_expect_eq(config.queues, HR_QUEUES_HOST);
	cr_expect_eq(config.boot.modules, 0u);
	cr_expect_eq(config.boot.hugepage_bytes, 0u);
	cr_expect_eq(config.boot.post, HR_BOOT_POST_FULL);
	cr_expect_eq(config.boot.restarts, 3u);
	cr_expect_eq(config.boot.backoff_ns, 1000000000u);
	cr_expect_eq(config.boot.collect_ns, 0u);
	cr_expect_eq(config.boot.heal_ns, 600000000000u);
	cr_expect_eq(config.boot.wait_s, 60u);
	cr_expect_eq(config.boot.watchdog_ns, 0u);
	cr_expect_eq(config.boot.after, HR_BOOT_POWEROFF);
	cr_expect_eq(config.boot.last_resort, HR_BOOT_POWEROFF);
	cr_expect_eq(config.ssd[1].nsid, 1u);
	cr_expect_eq(config.ssd[1].queue_entries, 256u);
	cr_expect_eq(config.ssd[1].timeout_ns, 5000000000u);
	cr_expect_eq(config.pipeline[0].gpu, 0u);
	cr_expect_eq(config.pipeline[0].slots, 0u);
	cr_expect_eq(config.pipeline[0].threads, 0u);
	cr_expect_eq(config.pipeline[0].bounce, HR_BOUNCE_AUTO);
}

Test(config, every_value_arrives_where_it_belongs)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];

	cr_assert_eq(
		parse("appliance = { name = \"x\"; checkpoint = \"250ms\"; log = \"info\"; };\n"
		      "ssds = ( { name = \"a\"; device = \"soft:a.img,lba=512\"; namespace = 3;\n"
		      "  queue_entries = 64; timeout_ms = 1500; },\n"
		      "  { name = \"b\"; device = \"pci:0000:41:00.0\"; } );\n"
		      "gpus = ( { name = \"g\"; device = \"host:1\"; },\n"
		      "  { name = \"h\"; device = \"auto\"; } );\n"
		      "memory = { host = \"2G\"; gpu = 1048576; path = \"bounce\"; "
		      "queues = \"gpu\"; };\n"
		      "pipelines = ( { name = \"p\"; gpu = \"h\";\n"
		      "  source = { ssd = \"b\"; object = \"in\"; };\n"
		      "  operator = \"cast_f32_bf16\";\n"
		      "  sink = { ssd = \"a\"; object = \"out\"; replace = true; "
		      "checksum = false; };\n"
		      "  tile = \"64K\"; slots = 5;\n"
		      "  blocks = { prefetch = 2; compute = 3; writeback = 4; threads = 512; };\n"
		      "  bounce = \"copy\"; verify = \"on\"; } );\n"),
		0, "%s", reports.text);
	cr_assert_str_eq(config.name, "x");
	cr_assert_eq(config.checkpoint_ns, 250000000u);
	cr_assert_eq(config.log, HR_LOG_INFO);
	cr_assert_eq(config.ssd[0].nsid, 3u);
	cr_assert_eq(config.ssd[0].queue_entries, 64u);
	cr_assert_eq(config.ssd[0].timeout_ns, 1500000000u);
	cr_assert_eq(config.ssd[0].line, 2u);
	cr_assert_eq(config.ssd[1].nsid, 1u);
	cr_assert_eq(config.memory_host, 2ull << 30);
	cr_assert_eq(config.memory_gpu, 1u << 20);
	cr_assert_eq(config.path, HR_PATH_BOUNCE);
	cr_assert_eq(config.queues, HR_QUEUES_GPU);
	cr_assert_eq(p->gpu, 1u);
	cr_assert_eq(p->sources, 1u);
	cr_assert_eq(p->source[0].ssd, 1u);
	cr_assert_str_eq(p->source[0].object, "in");
	cr_assert(p->has_sink && p->sink.replace && p->sink.ssd == 0);
	cr_assert_eq(p->tile_bytes, 65536u);
	cr_assert_eq(hr_config_tile_bytes(p, 0), 65536u);
	cr_assert_eq(hr_config_sink_tile_bytes(p), 32768u);
	cr_assert_eq(p->slots, 5u);
	cr_assert_eq(p->prefetch_blocks, 2u);
	cr_assert_eq(p->compute_blocks, 3u);
	cr_assert_eq(p->writeback_blocks, 4u);
	cr_assert_eq(p->threads, 512u);
	cr_assert_eq(p->bounce, HR_BOUNCE_COPY);
	cr_assert_eq(p->verify, HR_VERIFY_ON);
	cr_assert_not(p->sink.checksum);
	cr_assert_eq(p->tile_line, 12u);
}

static const struct {
	const char *text, *want;
} mistake[] = {
	{ HEAD "appliance = 5;\n", "f:4: appliance: is an integer, expected a group { ... }\n" },
	{ HEAD "aplliance = { };\n", "f:4: aplliance: unknown key; did you mean 'appliance'?\n" },
	{ HEAD "zzz = 1;\n", "f:4: zzz: unknown key; expected one of: appliance, ssds, gpus, "
			     "memory, boot, control, health, remote, operators, pipelines\n" },
	{ HEAD "appliance = { name = 1; };\n",
	  "f:4: appliance.name: is an integer, expected a string\n" },
	{ HEAD "appliance = { name = \"\"; };\n",
	  "f:4: appliance.name: has 0 characters, expected 1 to 63\n" },
	{ HEAD "appliance = { checkpoint = 5; };\n",
	  "f:4: appliance.checkpoint: is an integer, expected a duration like \"5s\" or "
	  "\"500ms\", or 0\n" },
	{ HEAD "appliance = { checkpoint = \"5x\"; };\n",
	  "f:4: appliance.checkpoint: '5x' is not a duration; expected digits and ms, s, m, h "
	  "or d\n" },
	{ HEAD "appliance = { log = \"loud\"; };\n",
	  "f:4: appliance.log: is \"loud\", expected \"error\" or \"warn\" or \"info\" or "
	  "\"debug\"\n" },
	{ HEAD "memory = { host = \"64Q\"; };\n",
	  "f:4: memory.host: '64Q' is not a size; expected digits and K, M, G or T\n" },
	{ HEAD "memory = { host = -1; };\n",
	  "f:4: memory.host: is -1, expected 0 to 9223372036854775807\n" },
	{ HEAD "memory = { path = true; };\n", "f:4: memory.path: is a boolean, expected "
					       "\"auto\" or \"direct\" or \"bounce\"\n" },
	{ "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f: key 'ssds' is missing; expected for example: ssds = ( { name = \"ssd0\"; device "
	  "= \"soft:ssd.img\"; } );\n" },
	{ "ssds = ( { name = \"a\"; device = \"x\"; } );\ngpus = ( { name = \"g\"; device = "
	  "\"host:1\"; } );\n",
	  "f:1: ssds[0].device: 'x': expected soft:PATH[,...], pci:BDF or vfio:BDF\n" },
	{ "ssds = ();\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:1: ssds: is empty, expected at least one\n" },
	{ "ssds = { };\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:1: ssds: is a group, expected a list of groups ( { ... } )\n" },
	{ "ssds = ( 7 );\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:1: ssds[0]: is an integer, expected a group { ... }\n" },
	{ "ssds = ( { name = \"a\"; device = \"soft:a\"; },\n { name = \"a\"; device = "
	  "\"soft:b\"; } );\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:2: ssds[1].name: 'a' is already the name of ssds[0] on line 1\n" },
	{ "ssds = ( { name = \"a\"; device = \"soft:a\"; },\n { name = \"b\"; device = "
	  "\"soft:a\"; } );\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:2: ssds[1].device: 'soft:a' is already the device of ssds[0] on line 1\n" },
	{ "ssds = ( { name = \"a\"; device = \"soft:a\"; },\n { name = \"b\"; namespace = 2; "
	  "device = \"soft:a\"; } );\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:2: ssds[1].device: 'soft:a' is already the device of ssds[0] on line 1\n" },
	{ "ssds = ( { name = \"a\"; namespace = 2; device = \"pci:41:00.0\"; },\n { name = "
	  "\"b\"; namespace = 2; device = \"pci:41:00.0\"; },\n { name = \"c\"; namespace = "
	  "3; device = \"pci:41:00.0\"; } );\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:2: ssds[1].device: 'pci:41:00.0' is already the device of ssds[0] on line 1\n" },
	{ "ssds = ( { name = \"a\"; device = \"soft:a\"; queue_entries = 1; } );\n"
	  "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:1: ssds[0].queue_entries: is 1, expected an integer from 2 to 4096\n" },
	{ "ssds = ( { name = \"a\"; device = \"soft:a\"; objects = ( { name = \"o\"; bytes = 1; "
	  "} ); } );\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
	  "f:1: ssds[0].objects: only an ssd \"soft:memory\" has objects made at bring-up; put "
	  "them on others with 'headrace store put'\n" },
	{ HEAD "pipelines = ( { name = \"p\"; operator = \"crc32c\"; } );\n",
	  "f:4: pipelines[0]: key 'source' is missing; expected for example: source = { ssd "
	  "= \"ssd0\"; object = \"data\"; };\n" },
	{ PIPE(""), "f:4: pipelines[0]: key 'operator' is missing; expected for example: "
		    "operator = \"crc32c\";\n" },
	{ PIPE("operator = \"crc32\";"), "f:6: pipelines[0].operator: there is no operator "
					 "'crc32'; did you mean 'crc32c'?\n" },
	{ PIPE("operator = \"crc32c\"; gpu = \"x\";"),
	  "f:6: pipelines[0].gpu: there is no gpu 'x'\n" },
	{ PIPE("operator = \"crc32c\"; sloots = 4;"),
	  "f:6: pipelines[0].sloots: unknown key; did you mean 'slots'?\n" },
	{ PIPE("operator = \"crc32c\"; slots = 2000;"),
	  "f:6: pipelines[0].slots: is 2000, expected an integer from 1 to 1024\n" },
	{ PIPE("operator = \"crc32c\"; slots = \"4\";"),
	  "f:6: pipelines[0].slots: is a string, expected an integer from 1 to 1024\n" },
	{ PIPE("operator = \"crc32c\"; tile = \"128M\";"),
	  "f:6: pipelines[0].tile: is 128M, expected 512 to 64M\n" },
	{ PIPE("operator = \"crc32c\"; tile = 1000;"),
	  "f:6: pipelines[0].tile: is 1000 bytes, expected whole blocks of 512 bytes in every "
	  "source and the sink: a multiple of 512\n" },
	{ PIPE("operator = \"cast_f32_bf16\"; " SINK "tile = 1026;"),
	  "f:6: pipelines[0].tile: is 1026 bytes, expected whole rows of operator "
	  "cast_f32_bf16: a multiple of 4\n" },
	{ PIPE("operator = \"cast_f32_bf16\"; " SINK "tile = 512;"),
	  "f:6: pipelines[0].tile: is 512 bytes, expected whole blocks of 512 bytes in every "
	  "source and the sink: a multiple of 1024\n" },
	{ PIPE("operator = \"copy\";"),
	  "f:4: pipelines[0]: key 'sink' is missing: operator copy produces data; expected "
	  "for example: sink = { ssd = \"ssd0\"; object = \"out\"; };\n" },
	{ PIPE("operator = \"crc32c\"; " SINK),
	  "f:6: pipelines[0].sink: operator crc32c produces no data, expected no sink\n" },
	{ PIPE("operator = \"copy\"; sink = { ssd = \"a\"; object = \"in\"; };"),
	  "f:6: pipelines[0].sink: object 'in' is also a source on line 5, expected another\n" },
	{ PIPE("operator = \"copy\"; sink = { ssd = \"c\"; object = \"o\"; };"),
	  "f:6: pipelines[0].sink.ssd: there is no ssd 'c'\n" },
	{ PIPE("operator = \"copy\"; sink = { object = \"o\"; };"),
	  "f:6: pipelines[0].sink: key 'ssd' is missing; expected the name of one of the 2 "
	  "ssds\n" },
	{ PIPE("operator = \"copy\"; sink = { ssd = \"a\"; object = \"x/y\"; };"),
	  "f:6: pipelines[0].sink.object: 'x/y' has a '/', expected a name\n" },
	{ PIPE("operator = \"crc32c\"; slots = 2; blocks = { prefetch = 3; };"),
	  "f:6: pipelines[0].blocks.prefetch: is 3, expected at most the 2 slots\n" },
	{ PIPE("operator = \"crc32c\"; slots = 512; blocks = { compute = 257; };"),
	  "f:6: pipelines[0].blocks.compute: is 257, expected an integer from 1 to 256\n" },
	{ PIPE("operator = \"crc32c\"; blocks = { threads = 48; };"),
	  "f:6: pipelines[0].blocks.threads: is 48, expected a multiple of 32\n" },
	{ PIPE("operator = \"crc32c\"; bounce = \"direct\";"),
	  "f:6: pipelines[0].bounce: is \"direct\", expected \"auto\" or \"in-place\" or "
	  "\"copy\"\n" },
	{ PIPE("operator = \"crc32c\"; verify = true;"),
	  "f:6: pipelines[0].verify: is a boolean, expected \"auto\" or \"on\" or \"off\" or "
	  "\"before\"\n" },
	{ PIPE("operator = \"crc32c\"; shard = \"rows\";"),
	  "f:6: pipelines[0].shard: is \"rows\", expected \"none\" or \"tiles\" or \"objects\"\n" },
	{ PIPE("sink = { tap = \"t\"; }; operator = \"copy\"; shard = \"tiles\";"),
	  "f:6: pipelines[0].shard: is not possible with a tap, expected an object\n" },
	{ HEAD "pipelines = ( {\n name = \"p\"; source = { feed = \"f\"; bytes = \"1M\"; };\n"
	       "operator = \"crc32c\"; shard = \"tiles\"; } );\n",
	  "f:6: pipelines[0].shard: is not possible with a feed, expected objects as sources\n" },
	{ PIPE("operator = \"crc32c\"; verify = \"no\";"),
	  "f:6: pipelines[0].verify: is \"no\", expected \"auto\" or \"on\" or \"off\" or "
	  "\"before\"\n" },
	{ PIPE("operator = \"crc32c\"; blocks = { writeback = 1; };"),
	  "f:6: pipelines[0].blocks.writeback: is 1, expected 0: there is no sink\n" },
	{ PIPE("operator = \"copy\"; " SINK "blocks = { writeback = 0; };"),
	  "f:6: pipelines[0].blocks.writeback: is 0, expected at least 1: there is a sink\n" },
	{ PIPE("operator = \"crc32c\"; args = { x = true; };"),
	  "f:6: pipelines[0].args.x: expected a number, a string, or an array of numbers\n" },
	{ HEAD "memory = { host = \"4M\"; path = \"bounce\"; };\n"
	       "pipelines = ( { name = \"p\"; " SOURCE "operator = \"crc32c\"; tile = \"1M\";\n"
	       " slots = 8; } );\n",
	  "f:6: pipelines[0].slots: 8 slots take 8388608 bytes of tiles, but memory allows "
	  "4194304\n" },
	{ HEAD "pipelines = ( { name = \"p\"; " SOURCE "operator = \"crc32c\"; },\n"
	       " { name = \"p\"; " SOURCE "operator = \"crc32c\"; } );\n",
	  "f:5: pipelines[1].name: 'p' is already the name of pipelines[0] on line 4\n" },
	{ HEAD "pipelines = ( { name = \"p\"; " SOURCE "operator = \"copy\"; " SINK "},\n"
	       " { name = \"q\"; " SOURCE "operator = \"copy\"; " SINK "} );\n",
	  "f:5: pipelines[1].sink: object 'out' is already the sink of pipelines[0] on line 4\n" },
	{ "a = ;\n", "f:1: syntax error; expected KEY = VALUE; with every '{', '(', '[' and "
		     "'\"' closed\n" },
	{ "a = 1;\na = 2;\n", "f:2: key 'a' is here twice, the first time on line 1\n" },
	{ "a = { b = 1; c = { b = 2; }; };\nd = ( { b = 1; }, { b = 2;\nc = 1; b : 3; } );\n",
	  "f:3: key 'b' is here twice, the first time on line 2\n" },
	{ "\xef\xbb\xbf"
	  "a = 1;\n",
	  "f:1: begins with a byte order mark (U+FEFF); expected text without one\n" },
	{ "a = 1;\nb = [ \"x\", 2 ];\n",
	  "f:2: an array [ ... ] has elements of several types; expected one type, as in [ \"gpu0\", "
	  "\"gpu1\" ]\n" },
	{ "a = 1;\n \t@include \"/etc/passwd\"\n",
	  "f:2: @include is not supported: an appliance has one file\n" },
	{ "@include \"x\"\n", "f:1: @include is not supported: an appliance has one file\n" },
};

Test(config, each_mistake_is_reported_with_line_and_expected_value)
{
	for (size_t i = 0; i < sizeof mistake / sizeof *mistake; i++) {
		int err = parse(mistake[i].text);

		cr_expect_eq(err, -EINVAL, "row %zu: %d", i, err);
		cr_expect_str_eq(reports.text, mistake[i].want, "row %zu:\n%s%s", i, reports.text,
				 mistake[i].want);
	}
}

Test(config, all_mistakes_are_reported_in_one_pass_sorted_by_line)
{
	unsigned last = 0, line;

	cr_assert_eq(parse("pipelines = ( { name = \"p\"; operator = \"nope\";\n source = 5; } );\n"
			   "memory = { host = \"x\"; };\n"
			   "gpus = ( { nam = \"g\"; } );\n"
			   "ssds = ( { name = 1; } );\n"),
		     -EINVAL);
	cr_assert_eq(reports.count, 8u, "%s", reports.text);
	for (char *at = reports.text; *at; at = strchr(at, '\n') + 1) {
		cr_assert_eq(sscanf(at, "f:%u:", &line), 1, "%s", at);
		cr_assert_geq(line, last, "%s", reports.text);
		last = line;
	}
	cr_assert_eq(last, 5u);
}

/* Only "memory" and "null" are not files. Longer names that begin with these words are files. */
Test(config, files_of_a_device_lie_in_the_folder_of_the_configuration)
{
	static const struct {
		const char *device, *want;
	} row[] = {
		{ "soft:a.img", "soft:x/a.img" },
		{ "soft:/a.img", "soft:/a.img" },
		{ "soft:memory,size=1G", "soft:memory,size=1G" },
		{ "soft:null,size=1G", "soft:null,size=1G" },
		{ "soft:mem", "soft:x/mem" },
		{ "soft:n,lba=512", "soft:x/n,lba=512" },
		{ "soft:memory.img", "soft:x/memory.img" },
		{ "soft:nulls", "soft:x/nulls" },
		{ "soft:memory,size=1G,faults=f", "soft:memory,size=1G,faults=x/f" },
		{ "soft:a,faults=/f,lba=512", "soft:x/a,faults=/f,lba=512" },
	};
	char text[512];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		snprintf(text, sizeof text,
			 "ssds = ( { name = \"a\"; device = \"%s\"; } );\n"
			 "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
			 row[i].device);
		cr_expect_eq(hr_config_parse(&config, &hr_lookup, "x/f", text, strlen(text),
					     test_error()),
			     0, "%s: %s", row[i].device, test_error_text());
		cr_expect_str_eq(config.ssd[0].device, row[i].want, "%s: %s", row[i].device,
				 config.ssd[0].device);
	}
}

/* A file with mistakes still decides about the end of the machine when that setting is readable. */
Test(config, last_resort_counts_beside_mistakes)
{
	static const struct {
		const char *text;
		enum hr_boot_end want;
	} row[] = {
		{ HEAD "boot = { last_resort = \"reboot\"; };\nzzz = 1;\n", HR_BOOT_REBOOT },
		{ "boot = { after = 1; last_resort = \"halt\"; };\n", HR_BOOT_HALT },
		{ HEAD "boot = { last_resort = \"explode\"; };\n", HR_BOOT_POWEROFF },
		{ HEAD "boot = { last_resort = \"reboot\"; };\n!", HR_BOOT_POWEROFF },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memset(&config, 0xff, sizeof config);
		cr_expect_eq(parse(row[i].text), -EINVAL, "row %zu", i);
		cr_expect_eq(config.boot.last_resort, row[i].want, "row %zu: %d", i,
			     (int)config.boot.last_resort);
	}
	memset(&config, 0xff, sizeof config);
	cr_expect_eq(hr_config_read(&config, &hr_lookup, "/nonexistent/x", test_error()), -ENOENT);
	cr_expect_eq(config.boot.last_resort, HR_BOOT_POWEROFF);
}

Test(config, too_many_mistakes_are_counted)
{
	char *text = malloc(1 << 16);
	size_t used = 0;

	for (unsigned i = 0; i < 500; i++)
		used += (size_t)sprintf(text + used, "unknown%u = 1;\n", i);
	cr_assert_eq(parse_bytes(text, used), -EINVAL);
	cr_assert_gt(reports.count, 20u);
	cr_assert_gt(reports.count, 10u);
	free(text);
}

Test(config, hostile_text_is_refused_without_harm)
{
	enum { BYTES = HR_CONFIG_BYTES_MAX };
	char *text = malloc(BYTES + 1);

	cr_assert_eq(parse_bytes("a = 1;\n\0b = 2;\n", 15), -EINVAL);
	cr_assert_str_eq(reports.text, "f:2: NUL byte; expected a text file\n");

	memset(text, '(', BYTES);
	memcpy(text, "a=", 2);
	cr_assert_eq(parse_bytes(text, BYTES), -EINVAL);
	cr_assert_str_eq(reports.text, "f:1: nested deeper than 16 levels\n");

	for (size_t i = 0; i + 8 <= BYTES; i += 8) {
		char setting[16];

		snprintf(setting, sizeof setting, "a%04zx=1;", i / 8 % 65536);
		memcpy(text + i, setting, 8);
	}
	cr_assert_eq(parse_bytes(text, BYTES / 8 * 8), -EINVAL);
	cr_assert_str_eq(reports.text, "f:1: more than 10000 settings\n");

	memset(text, ',', BYTES);
	memcpy(text, "a=[1", 4);
	cr_assert_eq(parse_bytes(text, BYTES), -EINVAL);
	cr_assert_str_eq(reports.text, "f:1: more than 65536 list elements\n");

	cr_assert_eq(parse_bytes(text, BYTES + 1), -EFBIG);
	cr_assert_eq(parse_bytes("\x1b[2J", 4), -EINVAL);
	cr_assert_null(strchr(reports.text, '\x1b'));
	cr_assert_eq(parse("ssds = ( { name = \"a\\x1b\"; device = \"soft:a\"; } );\n"
			   "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"),
		     -EINVAL);
	cr_assert_str_eq(reports.text,
			 "f:1: ssds[0].name: has byte 0x1b, expected printable ASCII\n");
	free(text);
}

Test(config, an_unreadable_file_is_reported_with_the_reason)
{
	char folder[] = "/tmp/hr-config-XXXXXX", path[64];

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/none.conf", folder);
	cr_assert_eq(hr_config_read(&config, &hr_lookup, path, test_error()), -ENOENT);
	cr_assert_not_null(strstr(test_error_text(), "none.conf: No such file or directory"));
	cr_assert_eq(hr_config_read(&config, &hr_lookup, folder, test_error()), -EISDIR);
	cr_assert_str_eq(test_error_text() + strlen(folder), ": is a folder, expected a file");
	cr_assert_eq(hr_config_read(&config, &hr_lookup, "/dev/zero", test_error()), -EINVAL);
	cr_assert_str_eq(test_error_text(), "/dev/zero: is a device, expected a file");
	cr_assert_eq(test_error_kind(), HR_ERROR_USAGE);
	rmdir(folder);
}
