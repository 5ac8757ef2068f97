/* SPDX-License-Identifier: Apache-2.0 */
/* Remote sources and sinks in a configuration: what is read, and each mistake with its line. */
#include "config/file/keys.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/file/file.h"
#include "config/derived.h"
#include "tests/harness/error.h"

TestSuite(remote, .timeout = 60);

static struct hr_config config;
static char text[16384];

static int parse(const char *file, const char *content)
{
	const int err =
		hr_config_parse(&config, &hr_lookup, file, content, strlen(content), test_error());

	test_error_lines(text, sizeof text);
	return err;
}

#define HEAD                                                       \
	"ssds = ( { name = \"a\"; device = \"soft:a.img\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
#define KEY "remote = { key = \"k\"; };\n"
#define IN "source = { object = \"in\"; }; operator = \"copy\"; "
#define OUT "sink = { object = \"out\"; }; operator = \"copy\"; "
/* Line 3 is the group, and line 4 is the pipeline. */
#define SINK(keys) HEAD KEY "pipelines = ( { name = \"p\"; " IN "sink = { " keys " }; } );\n"
#define SOURCE(keys) HEAD KEY "pipelines = ( { name = \"p\"; " OUT "source = { " keys " }; } );\n"
#define GROUP(keys)                              \
	HEAD "remote = { " keys " };\n"          \
	     "pipelines = ( { name = \"p\"; " IN \
	     "sink = { remote = \"10.0.0.2:1\"; name = \"s\"; }; } );\n"
#define TO "remote = \"10.0.0.2:1\"; name = \"s\"; "
#define FROM "remote = \"10.0.0.2:1\"; name = \"s\"; bytes = \"4M\"; "

Test(remote, a_sink_is_read)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];

	cr_assert_eq(parse("f", SINK("remote = \"10.0.0.2:65535\"; name = \"s\"; depth = 1024;")),
		     0, "%s", text);
	cr_assert(hr_config_sends(p) && !hr_config_receives(p) && hr_config_is_remote(p));
	cr_assert(hr_config_has_tap(p) && hr_config_has_output(p) && !p->has_sink);
	cr_assert_str_eq(p->to.address, "10.0.0.2:65535");
	cr_assert_str_eq(p->tap.name, "s");
	cr_assert_eq(p->to.depth, 1024u);
	cr_assert_eq(p->to.line, 4u);
	cr_assert_eq(p->tap.consumers, 1u);
	cr_assert_eq(p->tap.tries, 1u);
	cr_assert_eq(p->tap.line, 4u);
	cr_assert_eq(p->tap.share, HR_SHARE_SLICE);
	cr_assert_eq(p->tap.group, HR_CONTROL_NO_GROUP);
	cr_assert_str_eq(config.remotes.key, "k");
	cr_assert_eq(config.remotes.line, 3u);
	cr_assert_eq(config.remotes.allowed_count, 0u);
}

Test(remote, a_source_is_read)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];

	cr_assert_eq(
		parse("f", SOURCE("remote = \"10.255.0.1:4791\"; name = \"s\"; bytes = \"4M\";")),
		0, "%s", text);
	cr_assert(hr_config_receives(p) && !hr_config_sends(p) && hr_config_has_feed(p));
	cr_assert_str_eq(p->from.address, "10.255.0.1:4791");
	cr_assert_str_eq(p->feed.name, "s");
	cr_assert_eq(p->feed.bytes, 4u << 20);
	cr_assert_eq(p->sources, 1u);
	cr_assert_eq(hr_config_source_objects(p), 0u);
}

Test(remote, the_group_is_read)
{
	cr_assert_eq(parse("/etc/f", GROUP("key = \"k\"; device = \"rxe0\"; call = \"30s\"; "
					   "peers = [ \"10.0.0.1\", \"10.0.0.9\" ];")),
		     0, "%s", text);
	cr_assert_str_eq(config.remotes.key, "/etc/k");
	cr_assert_str_eq(config.remotes.device, "rxe0");
	cr_assert_eq(config.remotes.call_ns, 30000000000u);
	cr_assert_eq(config.remotes.allowed_count, 2u);
	cr_assert_str_eq(config.remotes.allowed[0], "10.0.0.1");
	cr_assert_str_eq(config.remotes.allowed[1], "10.0.0.9");
	cr_assert_eq(parse("/etc/f", GROUP("key = \"/k\";")), 0, "%s", text);
	cr_assert_str_eq(config.remotes.key, "/k");
}

/* The path of the key has up to two characters more than fit with its folder. */
Test(remote, a_key_has_a_path_that_is_not_too_long)
{
	for (size_t length = HR_FILE_MAX - 2; length <= HR_FILE_MAX + 1; length++) {
		static char file[HR_FILE_MAX], group[4 * HR_FILE_MAX], want[2 * HR_FILE_MAX];
		const size_t folder = HR_FILE_MAX - 40, rest = length - folder;

		memset(file, 'd', sizeof file);
		memcpy(file, "/", 1);
		memcpy(file + folder - 1, "/f", 3);
		snprintf(group, sizeof group,
			 "ssds = ( { name = \"a\"; device = \"soft:/a.img\"; } );\n"
			 "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
			 "remote = { key = \"%.*s\"; };\n",
			 (int)rest, "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk");
		cr_assert_eq(parse(file, group), length < HR_FILE_MAX ? 0 : -EINVAL, "%zu: %s",
			     length, text);
		snprintf(want, sizeof want, "%.*s%.*s", (int)folder, file, (int)rest,
			 "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk");
		if (length < HR_FILE_MAX)
			cr_expect_str_eq(config.remotes.key, want);
		else
			cr_expect_not_null(strstr(text, "is too long with the folder"));
	}
}

/* One pipeline takes the tiles of another appliance, and sends its output to a third one. */
Test(remote, a_pipeline_has_both)
{
	cr_assert_eq(parse("f", HEAD KEY "pipelines = ( { name = \"p\"; operator = \"copy\"; "
					 "source = { " FROM "}; sink = { " TO "}; } );\n"),
		     0, "%s", text);
	cr_assert(hr_config_sends(&config.pipeline[0]) && hr_config_receives(&config.pipeline[0]));
}

/* A tap and a feed have names of their own. */
Test(remote, names_are_those_of_streams)
{
	cr_assert_eq(parse("f",
			   HEAD KEY "pipelines = ( { name = \"p\"; " IN "sink = { " TO "}; },\n"
				    "{ name = \"q\"; " IN "sink = { tap = \"s\"; }; },\n"
				    "{ name = \"r\"; " OUT "source = { " FROM "}; } );\n"),
		     0, "%s", text);
}

#define ADDRESS ", expected an IPv4 address and a port from 1 to 65535, like \"10.0.0.2:4791\"\n"

static const struct {
	const char *content, *report;
} mistakes[] = {
	{ SINK("remote = \"10.0.0.2:0\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2:0\"" ADDRESS },
	{ SINK("remote = \"10.0.0.2:65536\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2:65536\"" ADDRESS },
	{ SINK("remote = \"10.0.0.2:+1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2:+1\"" ADDRESS },
	{ SINK("remote = \"10.0.0.2:\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2:\"" ADDRESS },
	{ SINK("remote = \"10.0.0.2\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2\"" ADDRESS },
	{ SINK("remote = \"h:1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"h:1\"" ADDRESS },
	{ SINK("remote = \":1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \":1\"" ADDRESS },
	{ SINK("remote = \"10.0.0.2:1 \"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2:1 \"" ADDRESS },
	{ SINK("remote = \"10.0.0:1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0:1\"" ADDRESS },
	{ SINK("remote = \"10.0.0.256:1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.256:1\"" ADDRESS },
	{ SINK("remote = \"::1:1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"::1:1\"" ADDRESS },
	{ SINK("remote = \"10.0.0.2:1:1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2:1:1\"" ADDRESS },
	{ SINK("remote = \"10.0.0.2.3.4.5.6.7.8:1\"; name = \"s\";"),
	  "f:4: pipelines[0].sink.remote: is \"10.0.0.2.3.4.5.6.7.8:1\"" ADDRESS },
	{ SOURCE("remote = \"h:x\"; name = \"s\"; bytes = 1;"),
	  "f:4: pipelines[0].source.remote: is \"h:x\"" ADDRESS },
	{ SOURCE("remote = \"0.0.0.0:1\"; name = \"s\"; bytes = 4096;"),
	  "f:4: pipelines[0].source.remote: is \"0.0.0.0:1\", expected one address of this machine: "
	  "it is not allowed to listen on all of them\n" },
	{ SINK("remote = \"10.0.0.2:1\";"),
	  "f:4: pipelines[0].sink: key 'name' is missing; expected for example: name = \"tokens\";\n" },
	{ SOURCE("remote = \"10.0.0.2:1\"; name = \"s\";"),
	  "f:4: pipelines[0].source: key 'bytes' is missing; expected for example: bytes = "
	  "\"64M\";\n" },
	{ SOURCE("remote = \"10.0.0.2:1\"; bytes = 4096;"),
	  "f:4: pipelines[0].source: key 'name' is missing; expected for example: name = "
	  "\"tokens\";\n" },
	{ SINK(TO "depth = 0;"),
	  "f:4: pipelines[0].sink.depth: is 0, expected an integer from 1 to 1024\n" },
	{ SINK(TO "depth = 1025;"),
	  "f:4: pipelines[0].sink.depth: is 1025, expected an integer from 1 to 1024\n" },
	{ SOURCE("remote = \"10.0.0.2:1\"; name = \"s\"; bytes = 0;"),
	  "f:4: pipelines[0].source.bytes: is 0, expected 1 to 9223372036854775807\n" },
	{ GROUP("device = \"rxe0\";"),
	  "f:3: remote: key 'key' is missing; expected for example: key = "
	  "\"/etc/headrace/remote.key\";\n" },
	{ GROUP("key = \"k\"; peers = [ ];"),
	  "f:3: remote.peers: is empty, expected at least one address\n" },
	{ GROUP("key = \"k\"; peers = [ \"10.0.0.1\", \"h\" ];"),
	  "f:3: remote.peers: has \"h\", expected IPv4 addresses\n" },
	{ GROUP("key = \"k\"; peers = [ \"\" ];"),
	  "f:3: remote.peers: has \"\", expected IPv4 addresses\n" },
	{ HEAD "pipelines = ( { name = \"p\"; " IN "sink = { " TO "}; } );\n",
	  "f:3: pipelines[0]: a remote sink needs the group `remote`; expected for example: remote = "
	  "{ key = \"/etc/headrace/remote.key\"; };\n" },
	{ HEAD "pipelines = ( { name = \"p\"; " OUT "source = { " FROM "}; } );\n",
	  "f:3: pipelines[0]: a remote source needs the group `remote`; expected for example: remote "
	  "= { key = \"/etc/headrace/remote.key\"; };\n" },
	{ HEAD KEY "pipelines = ( { name = \"p\"; " IN "sink = { " TO "}; },\n"
		   "{ name = \"q\"; " IN "sink = { " TO "}; } );\n",
	  "f:5: pipelines[1].sink: the stream 's' to 10.0.0.2:1 is already that of pipelines[0] on "
	  "line 4\n" },
	{ HEAD KEY
	  "pipelines = ( { name = \"p\"; " OUT "source = { " FROM "}; },\n"
	  "{ name = \"q\"; source = { remote = \"10.0.0.2:1\"; name = \"t\"; bytes = 4096; };\n"
	  "operator = \"crc32c\"; } );\n",
	  "f:5: pipelines[1].source: 10.0.0.2:1 is already the address of pipelines[0] on line 4\n" },
	{ HEAD KEY "pipelines = ( { name = \"p\"; " IN "sink = { " TO "}; every = \"1s\"; } );\n",
	  "f:4: pipelines[0]: a remote sink is not possible beside pipelines[0], which runs again; "
	  "expected a configuration without the keys every, at, after, on and forever\n" },
	{ HEAD KEY "pipelines = ( { name = \"p\"; " OUT "source = { " FROM "}; },\n"
		   "{ name = \"q\"; source = { object = \"x\"; }; operator = \"crc32c\"; forever = "
		   "true; } );\n",
	  "f:4: pipelines[0]: a remote source is not possible beside pipelines[1], which runs again; "
	  "expected a configuration without the keys every, at, after, on and forever\n" },
	{ HEAD KEY
	  "pipelines = ( { name = \"p\"; operator = \"copy\"; sink = { object = \"o\"; };\n"
	  "source = ( { " FROM "}, { object = \"x\"; } ); } );\n",
	  "f:5: pipelines[0].source: has a remote source and others, expected the remote one "
	  "alone\n" },
	{ HEAD KEY "pipelines = ( { name = \"p\"; operator = \"crc32c\"; shard = \"tiles\";\n"
		   "source = { " FROM "}; } );\n",
	  "f:4: pipelines[0].shard: is not possible with a remote source, expected objects as "
	  "sources\n" },
	{ HEAD KEY "pipelines = ( { name = \"p\"; operator = \"crc32c\"; verify = \"on\";\n"
		   "source = { " FROM "}; } );\n",
	  "f:4: pipelines[0].verify: is \"on\", expected \"auto\" or \"off\": a remote source has no "
	  "checksum\n" },
	{ HEAD KEY "pipelines = ( { name = \"p\"; " OUT "blocks = { prefetch = 2; };\n"
		   "source = { " FROM "}; } );\n",
	  "f:4: pipelines[0].blocks.prefetch: is 2, expected no such key: a remote source has one "
	  "worker\n" },
	{ HEAD KEY "pipelines = ( { name = \"p\"; " IN "blocks = { writeback = 1; };\n"
		   "sink = { " TO "}; } );\n",
	  "f:4: pipelines[0].blocks.writeback: is 1, expected no such key: a remote sink has one "
	  "worker\n" },
};

Test(remote, each_mistake_has_its_line)
{
	for (size_t i = 0; i < HR_COUNT(mistakes); i++) {
		cr_assert_eq(parse("f", mistakes[i].content), -EINVAL, "%s", mistakes[i].content);
		cr_assert_str_eq(text, mistakes[i].report, "row %zu: %s", i, text);
	}
}

Test(remote, at_most_so_many_peers)
{
	char content[4096];

	for (unsigned peers = HR_REMOTE_ALLOWED_MAX; peers <= HR_REMOTE_ALLOWED_MAX + 1; peers++) {
		int at = snprintf(content, sizeof content,
				  HEAD "remote = { key = \"k\"; peers = [ \"10.0.0.1\"");

		for (unsigned i = 1; i < peers; i++)
			at += snprintf(content + at, sizeof content - (size_t)at, ", \"10.0.0.1\"");
		snprintf(content + at, sizeof content - (size_t)at,
			 " ]; };\npipelines = ( { name = \"p\"; " IN "sink = { " TO "}; } );\n");
		cr_assert_eq(parse("f", content), peers > HR_REMOTE_ALLOWED_MAX ? -EINVAL : 0, "%s",
			     text);
	}
	cr_assert(strstr(text, "f:3: remote.peers: "), "%s", text);
}
