/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of all groups of a configuration: the value that each one sets, its least and its largest value,
 * and the text for those beyond; the folder of files, and the name of an appliance.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/file/file.h"
#include "config/file/mistakes.h"
#include "config/file/keys.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define S 1000000000ull

TestSuite(fields, .timeout = 60);

static struct hr_config config;
static char reports[2 * HR_ERROR_BYTES];

static int parse(const char *text)
{
	const int err = hr_config_parse(&config, &hr_lookup, "f", text, strlen(text), test_error());

	test_error_lines(reports, sizeof reports);
	return err;
}

/* A configuration with a group or key more. */
#define SSDS(more) "ssds = ( { name = \"a\"; device = \"soft:a.img\"; " more " } );\n"
#define GPUS(more) "gpus = ( { name = \"g\"; device = \"host:1\"; " more " } );\n"
#define HEAD SSDS("") GPUS("")
#define APP(text) HEAD "appliance = { " text " };\n"
#define MEMORY(text) HEAD "memory = { " text " };\n"
#define SSD(text) SSDS(text) GPUS("")
#define MEM_SSD(text) \
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=1M\"; " text " } );\n" GPUS("")
#define GPU(text) SSDS("") GPUS(text)
#define BOOT(text) HEAD "boot = { " text " };\n"
#define PIPE(text) HEAD "pipelines = ( { name = \"p\";\n" text "} );\n"
#define SOURCE "source = { object = \"in\"; }; "
#define COPY(text) PIPE(SOURCE "operator = \"copy\"; sink = { object = \"o\"; }; " text)
#define TAP(text) PIPE(SOURCE "operator = \"copy\"; sink = { tap = \"t\"; " text " };")
#define FED(text, more) \
	PIPE("source = { feed = \"f\"; bytes = " text " }; operator = \"crc32c\";" more)
#define FEED(text) PIPE("source = { feed = \"f\"; bytes = 4096; " text " }; operator = \"crc32c\";")

/* Three pipelines with taps or feeds of these names. */
#define LENDS(name, tap) \
	"{ name = \"" name "\"; " SOURCE "operator = \"copy\"; sink = { tap = \"" tap "\"; }; }"
#define TAPS(first, last)                                                                \
	HEAD "pipelines = (\n" LENDS("p", first) ",\n" LENDS("q", "t2") ",\n" LENDS("r", \
										    last) " );\n"
#define TAKES(name, feed)                                  \
	"{ name = \"" name "\"; source = { feed = \"" feed \
	"\"; bytes = 1; }; operator = \"crc32c\"; "        \
	"}"
#define FEEDS(first, last)                                                               \
	HEAD "pipelines = (\n" TAKES("p", first) ",\n" TAKES("q", "f2") ",\n" TAKES("r", \
										    last) " );\n"

#define U32(field, value) offsetof(struct hr_config, field), 4, (value)
#define U64(field, value) offsetof(struct hr_config, field), 8, (value)
#define P0 pipeline[0]

static const struct {
	const char *text;
	size_t at, bytes;
	uint64_t value;
} good[] = {
	{ APP("checkpoint = 0;"), U64(checkpoint_ns, 0) },
	{ APP("checkpoint = \"2d\";"), U64(checkpoint_ns, 2 * 86400 * S) },
	{ APP("parallel = 16;"), U32(parallel, 16) },
	{ APP("name = \"a b\";"), U32(name, 0x622061) }, /* "a b" */
	{ APP("name = \"a~b\";"), U32(name, 0x627e61) },
	{ HEAD, U32(parallel, 1) },
	{ HEAD, U32(control.mode, 0600) },
	{ HEAD, U32(control.store_percent, 15) },
	{ APP("log = \"error\";"), U32(log, HR_LOG_ERROR) },
	{ APP("log = \"debug\";"), U32(log, HR_LOG_DEBUG) },
	{ MEMORY("host = 0;"), U64(memory_host, 0) },
	{ MEMORY("host = 9223372036854775807L;"), U64(memory_host, INT64_MAX) },
	{ MEMORY("gpu = \"8388607T\";"), U64(memory_gpu, 8388607ull << 40) },
	{ MEMORY("path = \"direct\";"), U32(path, HR_PATH_DIRECT) },
	{ MEMORY("queues = \"gpu\";"), U32(queues, HR_QUEUES_GPU) },
	{ SSD("namespace = 4294967294L;"), U32(ssd[0].nsid, 0xfffffffe) },
	{ SSD("queue_entries = 2;"), U32(ssd[0].queue_entries, 2) },
	{ SSD("queue_entries = 4096;"), U32(ssd[0].queue_entries, 4096) },
	{ SSD("timeout_ms = 1;"), U64(ssd[0].timeout_ns, 1000000) },
	{ SSD("timeout_ms = 600000;"), U64(ssd[0].timeout_ns, 600 * S) },
	{ SSD(""), U64(ssd[0].admin_timeout_ns, 60 * S) },
	{ SSD("admin_timeout_ms = 1;"), U64(ssd[0].admin_timeout_ns, 1000000) },
	{ SSD("admin_timeout_ms = 600000;"), U64(ssd[0].admin_timeout_ns, 600 * S) },
	{ "\n" SSD(""), U32(ssd[0].line, 2) },
	{ MEM_SSD("\nobjects = ( { name = \"o\"; bytes = 5; },\n{ name = \"q\"; bytes = \"1K\"; } );"),
	  U32(ssd[0].prepared_count, 2) },
	{ MEM_SSD("\nobjects = ( { name = \"o\"; bytes = 5; },\n{ name = \"q\"; bytes = \"1K\"; } );"),
	  U64(ssd[0].prepared[1].bytes, 1024) },
	{ MEM_SSD("\nobjects = ( { name = \"o\"; bytes = 5; },\n{ name = \"q\"; bytes = \"1K\"; } );"),
	  U32(ssd[0].prepared[1].line, 3) },
	{ GPU("blocks = 1;"), U32(gpu[0].blocks, 1) },
	{ GPU("blocks = 12288;"), U32(gpu[0].blocks, 12288) },
	{ GPU(""), U32(gpu[0].line, 2) },
	{ BOOT("modules = ( { name = \"m\"; },\n{ name = \"/k/n.ko\"; options = \"x=1\"; } );"),
	  U32(boot.modules, 2) },
	{ BOOT("modules = ( { name = \"m\"; },\n{ name = \"/k/n.ko\"; options = \"x=1\"; } );"),
	  U32(boot.module[1].line, 4) },
	{ BOOT("hugepages = \"4M\";"), U64(boot.hugepage_bytes, 4 << 20) },
	{ BOOT("post = \"quick\";"), U32(boot.post, HR_BOOT_POST_QUICK) },
	{ BOOT("post = \"off\";"), U32(boot.post, HR_BOOT_POST_OFF) },
	{ BOOT("restarts = 0;"), U32(boot.restarts, 0) },
	{ BOOT("restarts = 1000000;"), U32(boot.restarts, 1000000) },
	{ BOOT("backoff = \"7s\";"), U64(boot.backoff_ns, 7 * S) },
	{ BOOT("collect = \"3h\";"), U64(boot.collect_ns, 3 * 3600 * S) },
	{ BOOT("heal = \"9m\";"), U64(boot.heal_ns, 540 * S) },
	{ BOOT("wait_s = 0;"), U32(boot.wait_s, 0) },
	{ BOOT("wait_s = 86400;"), U32(boot.wait_s, 86400) },
	{ BOOT("watchdog = 0;"), U64(boot.watchdog_ns, 0) },
	{ BOOT("watchdog = \"5s\";"), U64(boot.watchdog_ns, 5 * S) },
	{ BOOT("after = \"reboot\";"), U32(boot.after, HR_BOOT_REBOOT) },
	{ BOOT("after = \"halt\";"), U32(boot.after, HR_BOOT_HALT) },
	{ BOOT("after = \"stay\";"), U32(boot.after, HR_BOOT_STAY) },
	{ BOOT("last_resort = \"shell\";"), U32(boot.last_resort, HR_BOOT_SHELL) },
	{ TAP(""), U32(P0.tap.consumers, 1) },
	{ TAP(""), U32(P0.tap.tries, 3) },
	{ TAP(""), U32(P0.tap.group, HR_CONTROL_NO_GROUP) },
	{ TAP(""), U32(P0.tap.line, 4) },
	{ TAP("deliver = \"each\";"), U32(P0.tap.deliver, HR_TAP_EACH) },
	{ TAP("lag = \"drop\";"), U32(P0.tap.lag, HR_TAP_DROP) },
	{ TAP("share = \"mps\";"), U32(P0.tap.share, HR_SHARE_MPS) },
	{ TAP("share = \"slice\";"), U32(P0.tap.share, HR_SHARE_SLICE) },
	{ TAP("credits = 1;"), U32(P0.tap.credits, 1) },
	{ TAP("credits = 1024;"), U32(P0.tap.credits, 1024) },
	{ TAP("consumers = 16;"), U32(P0.tap.consumers, 16) },
	{ TAP("tries = 1;"), U32(P0.tap.tries, 1) },
	{ TAP("tries = 1000;"), U32(P0.tap.tries, 1000) },
	{ TAP("lease = \"2s\";"), U64(P0.tap.lease_ns, 2 * S) },
	{ TAP("group = \"root\";"), U32(P0.tap.group, 0) },
	{ TAP("dtype = \"f64\"; columns = 1;"), U32(P0.tap.columns, 1) },
	{ FEED(""), U32(P0.feed.group, HR_CONTROL_NO_GROUP) },
	{ FEED(""), U32(P0.feed.line, 4) },
	{ FEED(""), U64(P0.feed.bytes, 4096) },
	{ FEED("credits = 1;"), U32(P0.feed.credits, 1) },
	{ FEED("credits = 1024;"), U32(P0.feed.credits, 1024) },
	{ FEED("lease = \"2s\";"), U64(P0.feed.lease_ns, 2 * S) },
	{ FEED("group = \"root\";"), U32(P0.feed.group, 0) },
	{ FEED("dtype = \"u8\"; columns = 512;"), U32(P0.feed.columns, 512) },
};

Test(fields, values_up_to_their_limits)
{
	for (size_t i = 0; i < ROWS(good); i++) {
		uint64_t got = 0;

		memset(&config, 0xee, sizeof config);
		cr_expect_eq(parse(good[i].text), 0, "row %zu: %s", i, reports);
		memcpy(&got, (const uint8_t *)&config + good[i].at, good[i].bytes);
		cr_expect_eq(got, good[i].value, "row %zu: %llu", i, (unsigned long long)got);
	}
}

#define TEN "aaaaaaaaaa"
#define SIXTY TEN TEN TEN TEN TEN TEN
#define FOUR(one) one ", " one ", " one ", " one
#define OBJECT "{ name = \"o\"; bytes = 1; }"
#define MODULE "{ name = \"m\"; }"
#define TIMES_8(one) FOUR(one) ", " FOUR(one)

static const struct {
	const char *text, *want;
} bad[] = {
	{ APP("parallel = 0;"),
	  "f:3: appliance.parallel: is 0, expected an integer from 1 to 16\n" },
	{ APP("parallel = 17;"),
	  "f:3: appliance.parallel: is 17, expected an integer from 1 to 16\n" },
	{ APP("parallel = 1.5;"),
	  "f:3: appliance.parallel: is a floating point number, expected an "
	  "integer from 1 to 16\n" },
	{ APP("name = \"" SIXTY "aaaa\";"),
	  "f:3: appliance.name: has 64 characters, expected 1 to 63\n" },
	{ APP("name = \"a\\x1f\";"),
	  "f:3: appliance.name: has byte 0x1f, expected printable ASCII\n" },
	{ APP("name = \"\\x7f\";"),
	  "f:3: appliance.name: has byte 0x7f, expected printable ASCII\n" },
	{ APP("name = ( 1 );"), "f:3: appliance.name: is a list, expected a string\n" },
	{ APP("name = [ 1 ];"), "f:3: appliance.name: is an array, expected a string\n" },
	{ APP("name = { };"), "f:3: appliance.name: is a group, expected a string\n" },
	{ APP("name = true;"), "f:3: appliance.name: is a boolean, expected a string\n" },
	{ APP("name = 5000000000L;"), "f:3: appliance.name: is an integer, expected a string\n" },
	{ APP("checkpoint = \"106752d\";"),
	  "f:3: appliance.checkpoint: '106752d' is too large, expected at most 292 years\n" },
	{ APP("log = 1;"), "f:3: appliance.log: is an integer, expected \"error\" or \"warn\" or "
			   "\"info\" or \"debug\"\n" },
	{ MEMORY("host = 1.0;"),
	  "f:3: memory.host: is a floating point number, expected a size: an "
	  "integer, or like \"64M\"\n" },
	{ MEMORY("host = \"8388608T\";"),
	  "f:3: memory.host: '8388608T' is too large, expected at most 9223372036854775807\n" },
	{ MEMORY("host = \"\";"),
	  "f:3: memory.host: '' is not a size; expected digits and K, M, G or T\n" },
	{ MEMORY("hosts = 1;"), "f:3: memory.hosts: unknown key; did you mean 'host'?\n" },
	{ MEMORY("zzzzzz = 1;"),
	  "f:3: memory.zzzzzz: unknown key; expected one of: host, gpu, path, queues\n" },
	{ SSD("namespace = 0;"),
	  "f:1: ssds[0].namespace: is 0, expected an integer from 1 to 4294967294\n" },
	{ SSD("namespace = 4294967295L;"),
	  "f:1: ssds[0].namespace: is 4294967295, expected an integer from 1 to 4294967294\n" },
	{ SSD("namespace = -1;"),
	  "f:1: ssds[0].namespace: is -1, expected an integer from 1 to 4294967294\n" },
	{ SSD("queue_entries = 4097;"),
	  "f:1: ssds[0].queue_entries: is 4097, expected an integer from 2 to 4096\n" },
	{ SSD("timeout_ms = 0;"),
	  "f:1: ssds[0].timeout_ms: is 0, expected an integer from 1 to 600000\n" },
	{ SSD("timeout_ms = 600001;"),
	  "f:1: ssds[0].timeout_ms: is 600001, expected an integer from 1 to 600000\n" },
	{ SSD("admin_timeout_ms = 600001;"),
	  "f:1: ssds[0].admin_timeout_ms: is 600001, expected an integer from 1 to 600000\n" },
	{ SSD("serial = \"" SIXTY "aaaa\";"),
	  "f:1: ssds[0].serial: has 64 characters, expected 1 to 63\n" },
	{ SSD("objects = 1;"),
	  "f:1: ssds[0].objects: is an integer, expected a list of groups ( { ... } )\n" },
	{ SSD("objects = ( );"), "" }, /* none is right on each ssd */
	{ MEM_SSD("objects = ( { bytes = 1; } );"),
	  "f:1: ssds[0].objects[0]: key 'name' is missing; expected for example: name = "
	  "\"counting\";\n" },
	{ MEM_SSD("objects = ( { name = \"o\"; } );"),
	  "f:1: ssds[0].objects[0]: key 'bytes' is missing; expected for example: bytes = "
	  "\"16M\";\n" },
	{ MEM_SSD("objects = (\n" OBJECT ",\n" OBJECT " );"),
	  "f:3: ssds[0].objects[1].name: 'o' is already the name of another object on line 2\n" },
	{ MEM_SSD("objects = ( { name = \"q\"; bytes = 1; },\n5,\n" OBJECT " );"),
	  "f:2: ssds[0].objects[1]: is an integer, expected a group { ... }\n" },
	{ GPU("blocks = 0;"), "f:2: gpus[0].blocks: is 0, expected an integer from 1 to 12288\n" },
	{ GPU("blocks = 12289;"),
	  "f:2: gpus[0].blocks: is 12289, expected an integer from 1 to 12288\n" },
	{ SSDS("") "gpus = ( );\n", "f:2: gpus: is empty, expected at least one\n" },
	{ SSDS(""), "f: key 'gpus' is missing; expected for example: gpus = ( { name = \"gpu0\"; "
		    "device = \"auto\"; } );\n" },
	{ SSDS("") "gpus = ( { device = \"host:1\"; } );\n",
	  "f:2: gpus[0]: key 'name' is missing; expected for example: name = \"gpu0\";\n" },
	{ SSDS("") "gpus = ( { name = \"g\"; } );\n",
	  "f:2: gpus[0]: key 'device' is missing; expected for example: device = \"auto\";\n" },
	{ SSDS("") "gpus = ( { name = \"g\"; device = \"host:1\"; },\n{ name = \"h\"; device = "
		   "\"host:1\"; },\n{ name = \"g\"; device = \"host:2\"; } );\n",
	  "f:4: gpus[2].name: 'g' is already the name of gpus[0] on line 2\n" },
	{ "ssds = ( { device = \"soft:a\"; } );\n" GPUS(""),
	  "f:1: ssds[0]: key 'name' is missing; expected for example: name = \"ssd0\";\n" },
	{ "ssds = ( { name = \"a\"; } );\n" GPUS(""),
	  "f:1: ssds[0]: key 'device' is missing; expected for example: device = "
	  "\"soft:ssd.img\";\n" },
	{ "ssds = ( { name = \"a\"; device = \"soft:memory,size=1M\"; },\n{ name = \"b\"; device = "
	  "\"soft:memory,size=1M\"; } );\n" GPUS(""),
	  "" }, /* each has a memory of its own */
	{ BOOT("restarts = 1000001;"),
	  "f:3: boot.restarts: is 1000001, expected an integer from 0 to 1000000\n" },
	{ BOOT("restarts = -1;"),
	  "f:3: boot.restarts: is -1, expected an integer from 0 to 1000000\n" },
	{ BOOT("wait_s = 86401;"),
	  "f:3: boot.wait_s: is 86401, expected an integer from 0 to 86400\n" },
	{ BOOT("watchdog = \"4999ms\";"),
	  "f:3: boot.watchdog: is under 5s, the time that bring-up can take; expected 0, or 5s or "
	  "more\n" },
	{ BOOT("post = \"half\";"),
	  "f:3: boot.post: is \"half\", expected \"full\" or \"quick\" or \"off\"\n" },
	{ BOOT("after = \"x\";"),
	  "f:3: boot.after: is \"x\", expected \"poweroff\" or \"reboot\" or "
	  "\"halt\" or \"stay\" or \"shell\"\n" },
	{ BOOT("modules = ( { options = \"x\"; } );"),
	  "f:3: boot.modules[0]: key 'name' is missing; expected for example: name = "
	  "\"vfio-pci\";\n" },
	{ BOOT("modules = ( " MODULE ",\n{ name = \"k/m.ko\"; } );"),
	  "f:4: boot.modules[1].name: 'k/m.ko' is neither a module's name nor an absolute path\n" },
	{ BOOT("modules = ( " TIMES_8(FOUR(MODULE)) " );"), "" },
	{ BOOT("modules = ( " TIMES_8(FOUR(MODULE)) ", " MODULE " );"),
	  "f:3: boot.modules: has 33 elements, expected at most 32\n" },
	{ BOOT("modules = ( 1, " MODULE ", \"x\" );"),
	  "f:3: boot.modules[0]: is an integer, expected a group { ... }\n"
	  "f:3: boot.modules[2]: is a string, expected a group { ... }\n" },
	{ TAP("credits = 0;"),
	  "f:4: pipelines[0].sink.credits: is 0, expected an integer from 1 to 1024\n" },
	{ TAP("credits = 1025;"),
	  "f:4: pipelines[0].sink.credits: is 1025, expected an integer from 1 to 1024\n" },
	{ TAP("consumers = 17;"),
	  "f:4: pipelines[0].sink.consumers: is 17, expected an integer from 1 to 16\n" },
	{ TAP("tries = 1001;"),
	  "f:4: pipelines[0].sink.tries: is 1001, expected an integer from 1 to 1000\n" },
	{ TAP("share = \"all\";"), "f:4: pipelines[0].sink.share: is \"all\", expected \"auto\" or "
				   "\"mps\" or \"park\" or \"slice\"\n" },
	{ TAP("dtype = \"f8\";"),
	  "f:4: pipelines[0].sink.dtype: is \"f8\", expected u8, i8, u16, i16, f16, bf16, u32, i32, "
	  "f32, u64, i64 or f64\n" },
	{ TAP("columns = 4;"),
	  "f:4: pipelines[0].sink.columns: needs dtype, the type of the elements\n" },
	{ TAP("dtype = \"u64\"; columns = 3;") "",
	  "f:4: pipelines[0].sink.columns: makes rows of 24 bytes, but a tile has 1048576 bytes of "
	  "output, expected whole rows\n" },
	{ PIPE(SOURCE "operator = \"copy\"; sink = { tap = \"t\"; credits = 5; }; slots = 4;"),
	  "f:4: pipelines[0].sink.credits: is 5, expected at most the 4 slots\n" },
	{ PIPE(SOURCE "operator = \"copy\"; sink = { tap = \"t\"; credits = 4; }; slots = 4;"),
	  "" },
	{ HEAD "pipelines = ( { name = \"p\"; " SOURCE
	       "operator = \"copy\"; sink = { tap = \"t\"; }; },"
	       "\n{ name = \"q\"; " SOURCE "operator = \"copy\"; sink = { tap = \"u\"; }; },"
	       "\n{ name = \"r\"; " SOURCE "operator = \"copy\"; sink = { tap = \"t\"; }; } );\n",
	  "f:5: pipelines[2].sink: 't' is already the tap of pipelines[0] on line 3\n" },
	{ PIPE("source = ( 5 ); operator = \"crc32c\";"),
	  "f:4: pipelines[0].source[0]: is an integer, expected a group { ... }\n" },
	{ TAPS("u", "t2"),
	  "f:6: pipelines[2].sink: 't2' is already the tap of pipelines[1] on line 5\n" },
	{ TAPS("t", "v"), "" },
	{ FEEDS("e", "f2"),
	  "f:6: pipelines[2].source: 'f2' is already the feed of pipelines[1] on line 5\n" },
	{ FEEDS("f", "g"), "" },
	{ HEAD "pipelines = ( { name = \"p\"; source = { feed = \"f\"; bytes = 1; }; operator = "
	       "\"crc32c\"; },\n{ name = \"q\"; source = { feed = \"e\"; bytes = 1; }; operator = "
	       "\"crc32c\"; },\n{ name = \"r\"; source = { feed = \"f\"; bytes = 1; }; operator = "
	       "\"crc32c\"; } );\n",
	  "f:5: pipelines[2].source: 'f' is already the feed of pipelines[0] on line 3\n" },
	{ FEED("credits = 1025;"),
	  "f:4: pipelines[0].source.credits: is 1025, expected an integer from 1 to 1024\n" },
	{ FEED("columns = 4;"),
	  "f:4: pipelines[0].source.columns: needs dtype, the type of the elements\n" },
	{ FEED("dtype = \"f32\"; columns = 3;"),
	  "f:4: pipelines[0].source.columns: makes rows of 12 bytes, but a tile has 1048576 bytes, "
	  "expected whole rows\n" },
	{ FED("4096; credits = 5;", " slots = 4;"),
	  "f:4: pipelines[0].source.credits: is 5, expected at most the 4 slots\n" },
	{ FED("4096; credits = 4;", " slots = 4;"), "" },
	{ FED("0;", ""),
	  "f:4: pipelines[0].source.bytes: is 0, expected 1 to 9223372036854775807\n" },
	{ FED("\"0K\";", ""),
	  "f:4: pipelines[0].source.bytes: is 0K, expected 1 to 9223372036854775807\n" },
	{ PIPE("source = { feed = \"f\"; bytes = 4098; }; operator = \"cast_f32_bf16\"; "
	       "sink = { object = \"o\"; };"),
	  "f:4: pipelines[0].source.bytes: is 4098, expected whole rows of 4 bytes for operator "
	  "cast_f32_bf16\n" },
	{ FED("4096;", " verify = \"on\";"),
	  "f:4: pipelines[0].verify: is \"on\", expected \"auto\" or \"off\": a feed has no "
	  "checksum\n" },
	{ FED("4096;", "\nblocks = { prefetch = 2; };"),
	  "f:5: pipelines[0].blocks.prefetch: is 2, expected no such key: a feed has one worker\n" },
	{ PIPE("source = ( { feed = \"f\"; bytes = 4096; }, { object = \"in\"; } ); operator = "
	       "\"crc32c\";"),
	  "f:4: pipelines[0].source: has a feed and other sources, expected the feed alone\n" },
	{ COPY("blocks = 5;"),
	  "f:4: pipelines[0].blocks: is an integer, expected a group { ... }\n" },
	{ PIPE("source = 5; operator = \"crc32c\";"),
	  "f:4: pipelines[0].source: is an integer, expected a group { ... } or a list of groups ( { "
	  "... } )\n" },
	{ PIPE(SOURCE "operator = \"copy\"; sink = { object = \"o\"; replace = 1; };"),
	  "f:4: pipelines[0].sink.replace: is an integer, expected true or false\n" },
	{ COPY("tile = \"65M\";"), "f:4: pipelines[0].tile: is 65M, expected 512 to 64M\n" },
	{ COPY("tile = 511;"), "f:4: pipelines[0].tile: is 511, expected 512 to 64M\n" },
	{ COPY("tile = \"64M\";"), "" },
};

Test(fields, mistakes)
{
	for (size_t i = 0; i < ROWS(bad); i++) {
		const bool right = !*bad[i].want;

		cr_expect_eq(parse(bad[i].text), right ? 0 : -EINVAL, "row %zu: %s", i, reports);
		cr_expect_str_eq(reports, bad[i].want, "row %zu:\n%s%s", i, reports, bad[i].want);
		cr_expect_leq(config.boot.modules, HR_MODULES_MAX, "row %zu", i);
	}
}

Test(fields, data_types)
{
	static const struct {
		const char *name;
		uint32_t bytes;
	} row[] = { { "u8", 1 },   { "i8", 1 },	 { "u16", 2 }, { "i16", 2 }, { "f16", 2 },
		    { "bf16", 2 }, { "u32", 4 }, { "i32", 4 }, { "f32", 4 }, { "u64", 8 },
		    { "i64", 8 },  { "f64", 8 }, { "", 0 },    { "u", 0 },   { "f641", 0 } };

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(hr_config_dtype_bytes(row[i].name), row[i].bytes, "%s", row[i].name);
}

Test(fields, an_appliance_has_the_name_of_its_file)
{
	static const struct {
		const char *file, *name;
		uint32_t folder;
	} row[] = {
		{ "a.conf", "a", 0 },
		{ "/x/yz/a.b.conf", "a.b", 6 },
		{ "./plain", "plain", 2 },
		{ "x/.conf", ".conf", 2 },
		{ "a b.conf", "headrace", 0 },
		{ "a\x7f", "headrace", 0 },
		{ "a~!", "a~!", 0 },
		{ "f(1).conf", "headrace", 0 },
		{ "x/", "headrace", 2 },
		{ SIXTY "aaa.conf", SIXTY "aaa", 0 },
		{ SIXTY "aaaa.conf", "headrace", 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_config_parse(&config, &hr_lookup, row[i].file, HEAD, strlen(HEAD),
					     test_error()),
			     0);
		cr_expect_str_eq(config.name, row[i].name, "row %zu: %s", i, config.name);
		cr_expect_eq(config.folder, row[i].folder, "row %zu", i);
	}
}

static int any_ssd(const char *device, struct hr_error *e)
{
	return 0;
}

Test(fields, files_are_in_the_folder_of_the_configuration)
{
	static const struct {
		const char *device, *want;
	} row[] = {
		{ "soft:a.img", "soft:/f/a.img" },
		{ "soft:/a.img", "soft:/a.img" },
		{ "soft:a,lba=512", "soft:/f/a,lba=512" },
		{ "soft:memory", "soft:memory" },
		{ "soft:memory,bytes=1M,faults=x", "soft:memory,bytes=1M,faults=/f/x" },
		{ "soft:null,faults=/x", "soft:null,faults=/x" },
		{ "soft:memories", "soft:/f/memories" },
		{ "soft:nul", "soft:/f/nul" },
		{ "soft:a,faults=b,lba=512,faults=c/d",
		  "soft:/f/a,faults=/f/b,lba=512,faults=/f/c/d" },
		{ "soft:a,faults=", "soft:/f/a,faults=" },
		{ "soft:a,faults=,lba=512", "soft:/f/a,faults=/f/,lba=512" },
		{ "soft:,lba=512", "soft:,lba=512" },
		{ "pci:a,faults=b", "pci:a,faults=b" },
	};
	struct hr_config_lookup names = hr_lookup;

	names.ssd_check = any_ssd;
	for (size_t i = 0; i < ROWS(row); i++) {
		char text[400];

		snprintf(text, sizeof text,
			 "ssds = ( { name = \"a\"; device = \"%s\"; } );\n" GPUS(""),
			 row[i].device);
		cr_expect_eq(
			hr_config_parse(&config, &names, "/f/c", text, strlen(text), test_error()),
			0, "row %zu: %s", i, test_error_text());
		cr_expect_str_eq(config.ssd[0].device, row[i].want, "row %zu: %s", i,
				 config.ssd[0].device);
		/* without a folder nothing is resolved */
		hr_config_parse(&config, &names, "c", text, strlen(text), test_error());
		cr_expect_str_eq(config.ssd[0].device, row[i].device, "row %zu", i);
	}
}

/* A device string has up to 255 characters, with the folder. */
Test(fields, a_device_that_is_too_long_with_its_folder)
{
	struct hr_config_lookup names = hr_lookup;
	char name[256], text[400], want[600];

	names.ssd_check = any_ssd;
	for (size_t length = 247; length <= 248; length++) {
		memset(name, 'n', length);
		name[length] = '\0';
		snprintf(text, sizeof text,
			 "ssds = ( { name = \"a\"; device = \"soft:%s\"; } );\n" GPUS(""), name);
		cr_expect_eq(
			hr_config_parse(&config, &names, "/f/c", text, strlen(text), test_error()),
			length == 247 ? 0 : -EINVAL);
		snprintf(want, sizeof want,
			 "/f/c:1: ssds[0].device: 'soft:%s' is too long with the folder of the "
			 "configuration, expected under 256 characters",
			 name);
		cr_expect_str_eq(test_error_text(), length == 247 ? "" : want, "%s",
				 test_error_text());
	}
}

static int error_of_read; /* EINTR: once; 0: none */

ssize_t read(int fd, void *data, size_t bytes)
{
	if (!error_of_read)
		return (ssize_t)syscall(SYS_read, fd, data, bytes);
	errno = error_of_read;
	error_of_read = error_of_read == EINTR ? 0 : error_of_read;
	return -1;
}

Test(fields, files)
{
	static const char text[] = HEAD;
	static const struct {
		size_t bytes; /* of the file: the text, and spaces */
		int error, want;
		const char *what;
	} row[] = {
		{ sizeof text - 1, 0, 0, "" },
		{ sizeof text - 1, EINTR, 0, "" },
		{ sizeof text - 1, EIO, -EIO, "Input/output error" },
		{ HR_CONFIG_BYTES_MAX, 0, 0, "" },
		{ HR_CONFIG_BYTES_MAX + 1, 0, -EFBIG,
		  "longer than the 1048576 bytes of a configuration" },
		{ HR_CONFIG_BYTES_MAX + 2, 0, -EFBIG,
		  "longer than the 1048576 bytes of a configuration" },
	};
	static char data[HR_CONFIG_BYTES_MAX + 2];
	char path[] = "/tmp/headrace-fields-XXXXXX";
	const int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	memset(data, ' ', sizeof data);
	memcpy(data, text, sizeof text - 1);
	for (size_t i = 0; i < ROWS(row); i++) {
		char want[200] = "";

		cr_assert_eq(ftruncate(fd, 0), 0);
		cr_assert_eq(pwrite(fd, data, row[i].bytes, 0), (ssize_t)row[i].bytes);
		error_of_read = row[i].error;
		cr_expect_eq(hr_config_read(&config, &hr_lookup, path, test_error()), row[i].want,
			     "row %zu", i);
		error_of_read = 0;
		if (row[i].want)
			snprintf(want, sizeof want, "%s: %s", path, row[i].what);
		cr_expect_str_eq(test_error_text(), want, "row %zu: %s", i, test_error_text());
		cr_expect_str_eq(config.name, path + 5);
		cr_expect_eq(config.folder, 5);
		cr_expect_eq(config.file, path);
	}
	close(fd);
	unlink(path);
	cr_expect_eq(hr_config_read(&config, &hr_lookup, "/", test_error()), -EISDIR);
	cr_expect_str_eq(test_error_text(), "/: is a folder, expected a file");
	cr_expect_eq(hr_config_read(&config, &hr_lookup, path, test_error()), -ENOENT);
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	cr_expect_eq(hr_config_parse(&config, &hr_lookup, "x", data, sizeof data, test_error()),
		     -EFBIG);
	cr_expect_str_eq(test_error_text(), "x: 1048578 bytes long, expected at most 1048576");
}

/* The lines are sorted, those of one line keep their order, and those behind the limit are counted. */
Test(fields, a_list_of_mistakes)
{
	struct hr_mistakes *m = calloc(1, sizeof *m);
	char lines[2 * HR_ERROR_BYTES], longer[HR_MISTAKE_BYTES + 1];
	struct hr_error *e = test_error();

	cr_assert_not_null(m);
	m->file = "f";
	hr_mistake(m, 3, "c%d", 1);
	hr_mistake(m, 1, "a");
	hr_mistake(m, 3, "c2");
	hr_mistake(m, 0, "whole");
	hr_mistake(m, 2, "b");
	hr_mistakes_report(m, e);
	test_error_lines(lines, sizeof lines);
	cr_expect_str_eq(lines, "f: whole\nf:1: a\nf:2: b\nf:3: c1\nf:3: c2\n");
	cr_expect_eq(e->left_out, 0u);
	memset(m, 0, sizeof *m);
	m->file = "f";
	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	for (size_t cut = 0; cut < 2; cut++) {
		longer[HR_MISTAKE_BYTES - 1 + cut] = '\0';
		hr_mistake(m, 1, "%s", longer);
		longer[HR_MISTAKE_BYTES - 1 + cut] = 'x';
		cr_expect_eq(strlen(m->list[cut].text), HR_MISTAKE_BYTES - 1);
		cr_expect_str_eq(m->list[cut].text + HR_MISTAKE_BYTES - 4, cut ? "..." : "xxx");
	}
	for (uint32_t i = 2; i < HR_MISTAKES_MAX + 3; i++)
		hr_mistake(m, i, "m");
	cr_expect_eq(m->count, HR_MISTAKES_MAX + 3);
	e = test_error();
	hr_mistakes_report(m, e);
	cr_expect_geq(e->left_out, 3u);
	free(m);
}
