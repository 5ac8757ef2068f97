/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a pipeline with an access operator: every value, every mistake, and the objects that a
 * pipeline of either shape uses.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/file/file.h"
#include "config/derived.h"
#include "tests/harness/error.h"

TestSuite(config_access, .timeout = 60);

static struct hr_config config;
static char reports[2 * HR_ERROR_BYTES];

static const struct hr_op_object object[] = {
	{ "edges", "the edges", false, false, 1 },
	{ "weights", "the weights of the edges", false, true, 0 },
	{ "levels", "the level of each vertex", true, false, 0 },
};

static const struct hr_operator walk = {
	.name = "walk", .help = "Walks.", .object = object, .objects = 3
};

static uint32_t row = 4;

static uint32_t row_bytes(const void *args, uint32_t of)
{
	return row;
}

static const struct hr_operator spread = { .name = "spread",
					   .help = "Spreads.",
					   .object = object,
					   .objects = 1,
					   .several_gpus = true,
					   .several_ranks = true,
					   .row_bytes = row_bytes };

static const struct hr_operator *operator_at(uint32_t i)
{
	if (i > 1)
		return hr_lookup.operator_at(i - 2);
	return i ? &spread : &walk;
}

static int parse(const char *text)
{
	struct hr_config_lookup names = hr_lookup;
	int err;

	names.operator_at = operator_at;
	err = hr_config_parse(&config, &names, "f", text, strlen(text), test_error());
	test_error_lines(reports, sizeof reports);
	config.names = NULL;
	return err;
}

#define HEAD                                                       \
	"ssds = ( { name = \"a\"; device = \"soft:a.img\"; },\n"   \
	"         { name = \"b\"; device = \"soft:b.img\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
#define EDGES "edges = { ssd = \"a\"; object = \"e\"; }; "
#define LEVELS "levels = { ssd = \"b\"; object = \"l\"; bytes = \"1M\"; }; "
#define PIPE(text) HEAD "pipelines = ( { name = \"p\"; operator = \"walk\";\n" text "} );\n"
#define WITH(text) PIPE("objects = { " EDGES LEVELS "};\n" text)

#define SPREAD(text)                                                                               \
	HEAD "pipelines = ( { name = \"p\"; operator = \"spread\"; objects = { " EDGES "};\n" text \
	     "} );\n"

Test(config_access, ranks_divide_an_operator_that_says_so)
{
	cr_assert_eq(parse(SPREAD("shard = \"objects\";")), 0, "%s", reports);
	cr_expect_eq(config.pipeline[0].shard, HR_SHARD_OBJECTS);
	for (row = 0; row <= HR_TILE_MAX + 1; row += HR_TILE_MAX + 1) {
		cr_expect_eq(parse(SPREAD("")), -EINVAL);
		cr_expect(strstr(reports, "pipelines[0].operator: spread has rows of "), "%s",
			  reports);
		cr_expect(strstr(reports, " bytes in object 'edges', expected 1 to "), "%s",
			  reports);
	}
}

Test(config_access, omitted_keys_have_the_documented_defaults)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];

	cr_assert_eq(parse(WITH("")), 0, "%s", reports);
	cr_expect_eq(p->objects, 3u);
	cr_expect_eq(p->cache.frames, 0u);
	cr_expect_eq(p->cache.frame_bytes, 0u);
	cr_expect_eq(p->cache.page_bytes, 4096u);
	cr_expect_eq(p->cache.policy, HR_CACHE_CLOCK);
	cr_expect_eq(p->io_blocks, 0u);
	cr_expect_eq(p->compute_blocks, 0u);
	cr_expect_eq(p->threads, 0u);
}

Test(config_access, every_value_arrives_where_it_belongs)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];

	cr_assert_eq(parse(PIPE("objects = { levels = { ssd = \"b\"; object = \"l\"; bytes = "
				"4096; replace = true; };\n"
				" " EDGES "};\n"
				"cache = { frames = 100; page = \"64K\"; policy = \"lru\"; };\n"
				"io = 2; compute = 3; threads = 512;")),
		     0, "%s", reports);
	cr_expect_str_eq(p->object[0].object, "e");
	cr_expect_eq(p->object[0].ssd, 0u);
	cr_expect_not(p->object[0].writes);
	cr_expect_str_eq(p->object[1].object, "");
	cr_expect_str_eq(p->object[2].object, "l");
	cr_expect_eq(p->object[2].ssd, 1u);
	cr_expect_eq(p->object[2].bytes, 4096u);
	cr_expect_eq(p->object[2].line, 5u);
	cr_expect(p->object[2].replace && p->object[2].writes);
	cr_expect_eq(p->cache.frames, 100u);
	cr_expect_eq(p->cache.frame_bytes, 0u);
	cr_expect_eq(p->cache.page_bytes, 65536u);
	cr_expect_eq(p->cache.policy, HR_CACHE_LRU);
	cr_expect_eq(p->io_blocks, 2u);
	cr_expect_eq(p->compute_blocks, 3u);
	cr_expect_eq(p->threads, 512u);
	cr_assert_eq(parse(WITH("cache = { frames = \"1G\"; policy = \"stream\"; };")), 0, "%s",
		     reports);
	cr_expect_eq(p->cache.frames, 0u);
	cr_expect_eq(p->cache.frame_bytes, 1ull << 30);
	cr_expect_eq(p->cache.policy, HR_CACHE_STREAM);
}

#define GPUS                                                      \
	"ssds = ( { name = \"a\"; device = \"soft:a.img\"; } ); " \
	"gpus = ( { name = \"g\"; device = \"host:1\"; },\n"      \
	"         { name = \"h\"; device = \"host:1\"; },\n"      \
	"         { name = \"k\"; device = \"host:1\"; } );\n"
#define ON(text)                                                                                   \
	GPUS "pipelines = ( { name = \"p\"; operator = \"spread\"; objects = { " EDGES "};\n" text \
	     "} );\n"

Test(config_access, gpus_are_those_of_the_list_in_its_order)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];
	char names[HR_GPUS_MAX * HR_NAME_MAX];

	cr_assert_eq(parse(ON("gpus = [ \"k\", \"g\" ];")), 0, "%s", reports);
	cr_assert_eq(hr_config_gpus(p), 2u);
	cr_expect_eq(p->gpu, 2u);
	cr_expect_eq(hr_config_gpu(p, 0), 2u);
	cr_expect_eq(hr_config_gpu(p, 1), 0u);
	cr_expect(hr_config_uses_gpu(p, 0) && !hr_config_uses_gpu(p, 1) &&
		  hr_config_uses_gpu(p, 2));
	cr_expect_str_eq(hr_config_gpu_names(&config, p, names, sizeof names), "k, g");
	cr_assert_eq(parse(ON("gpus = [ \"g\", \"h\", \"k\" ];")), 0, "%s", reports);
	cr_expect_eq(hr_config_gpus(p), 3u);
	cr_assert_eq(parse(ON("gpu = \"h\";")), 0, "%s", reports);
	cr_expect_eq(hr_config_gpus(p), 1u);
	cr_expect_eq(hr_config_gpu(p, 0), 1u);
	cr_expect_str_eq(hr_config_gpu_names(&config, p, names, sizeof names), "h");
}

static const struct {
	const char *text, *want;
} mistake[] = {
	{ ON(""),
	  "f:4: pipelines[0]: key 'gpu' is missing; expected the name of one of the 3 gpus\n" },
	{ ON("gpus = [ \"h\" ];"),
	  "f:5: pipelines[0].gpus: has 1 name, expected 2 to 8; gpu = \"NAME\" is for one gpu\n" },
	{ ON("gpus = [];"),
	  "f:5: pipelines[0].gpus: has 0 names, expected 2 to 8; gpu = \"NAME\" is for one gpu\n" },
	{ ON("gpus = [ \"h\", \"g\", \"h\" ];"),
	  "f:5: pipelines[0].gpus: names 'h' twice, expected different gpus\n" },
	{ ON("gpus = [ \"x\", \"g\", \"h\" ];"), "f:5: pipelines[0].gpus: there is no gpu 'x'\n" },
	{ ON("gpus = [ \"g\", \"\" ];"), "f:5: pipelines[0].gpus: name 2 is empty\n" },
	{ ON("gpus = [ \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\" ];"),
	  "f:5: pipelines[0].gpus: has 9 names, expected at most 8\n" },
	{ ON("gpus = [ 0, 1 ];"),
	  "f:5: pipelines[0].gpus: is an array, expected an array of names [ \"first\", "
	  "\"second\" ]\n" },
	{ ON("gpus = \"g\";"), "f:5: pipelines[0].gpus: is a string, expected an array of names [ "
			       "\"first\", \"second\" ]\n" },
	{ ON("gpu = \"g\"; gpus = [ \"g\", \"h\" ];"),
	  "f:5: pipelines[0].gpus: is beside gpu, expected one of the two\n" },
	{ GPUS "pipelines = ( { name = \"p\"; operator = \"crc32c\"; source = { object = \"e\"; "
	       "};\ngpus = [ \"g\", \"h\" ]; } );\n",
	  "f:5: pipelines[0].gpus: operator crc32c runs on one gpu; expected gpu = \"NAME\" in "
	  "place of gpus\n" },
	{ GPUS "pipelines = ( { name = \"p\"; operator = \"bfs\"; objects = { offsets = { object = "
	       "\"e\"; }; edges = { object = \"f\"; }; };\nargs = { root = 0; }; gpus = [ \"g\", "
	       "\"h\" ]; } );\n",
	  "f:5: pipelines[0].gpus: operator bfs runs on one gpu; expected gpu = \"NAME\" in place "
	  "of gpus\n" },
	{ PIPE(""), "f:4: pipelines[0]: key 'objects' is missing; expected for example: objects = "
		    "{ edges = { ssd = \"ssd0\"; object = \"data\"; }; };\n" },
	{ PIPE("objects = 5;"),
	  "f:5: pipelines[0].objects: is an integer, expected a group { ... }\n" },
	{ PIPE("objects = { " EDGES "};"),
	  "f:5: pipelines[0].objects: object 'levels' of operator walk is missing: the level of "
	  "each vertex; expected for example: levels = { ssd = \"ssd0\"; object = \"data\"; };\n" },
	{ PIPE("objects = { " EDGES LEVELS "edge = { }; };"),
	  "f:5: pipelines[0].objects.edge: operator walk has no such object; did you mean "
	  "'edges'?\n" },
	{ PIPE("objects = { " EDGES LEVELS "unrelated = { }; };"),
	  "f:5: pipelines[0].objects.unrelated: operator walk has no such object; expected one of: "
	  "edges, weights, levels\n" },
	{ PIPE("objects = { " EDGES LEVELS "weights = \"w\"; };"),
	  "f:5: pipelines[0].objects.weights: expected a group: weights = { ssd = \"ssd0\"; object "
	  "= \"data\"; };\n" },
	{ PIPE("objects = { edges = { object = \"e\"; }; " LEVELS "};"),
	  "f:5: pipelines[0].objects.edges: key 'ssd' is missing; expected the name of one of the 2 "
	  "ssds\n" },
	{ PIPE("objects = { edges = { ssd = \"a\"; }; " LEVELS "};"),
	  "f:5: pipelines[0].objects.edges: key 'object' is missing; expected for example: object = "
	  "\"lineitem.discount\";\n" },
	{ PIPE("objects = { edges = { ssd = \"a\"; object = \"e\"; bytes = 5; }; " LEVELS "};"),
	  "f:5: pipelines[0].objects.edges.bytes: operator walk only reads this object; expected an "
	  "object that exists, without 'bytes' and 'replace'\n" },
	{ PIPE("objects = { edges = { ssd = \"a\"; object = \"e\"; replace = true; }; " LEVELS
	       "};"),
	  "f:5: pipelines[0].objects.edges.replace: operator walk only reads this object; expected "
	  "an object that exists, without 'bytes' and 'replace'\n" },
	{ PIPE("objects = { " EDGES
	       "levels = { ssd = \"b\"; object = \"l\"; replace = true; }; };"),
	  "f:5: pipelines[0].objects.levels.replace: expected 'bytes' beside it: the length of the "
	  "new object\n" },
	{ PIPE("objects = { " EDGES "levels = { ssd = \"b\"; object = \"l\"; bytes = 0; }; };"),
	  "f:5: pipelines[0].objects.levels.bytes: is 0, expected 1 to 9223372036854775807\n" },
	{ PIPE("objects = { " EDGES "levels = { ssd = \"b\"; object = \"l\"; keep = 2; }; };"),
	  "f:5: pipelines[0].objects.levels.keep: unknown key; expected one of: ssd, object, "
	  "bytes, replace, checksum\n" },
	{ PIPE("objects = { edges = { ssd = \"a\"; object = \"e\"; checksum = false; }; };"),
	  "f:5: pipelines[0].objects.edges.checksum: operator walk only reads this object; expected "
	  "'verify' of the pipeline, which compares it with its checksum\n"
	  "f:5: pipelines[0].objects: object 'levels' of operator walk is missing: the level of each "
	  "vertex; expected for example: levels = { ssd = \"ssd0\"; object = \"data\"; };\n" },
	{ PIPE("objects = { " EDGES "\nlevels = { ssd = \"a\"; object = \"e\"; }; };"),
	  "f:6: pipelines[0].objects: 'e' is already object 'edges' of the operator on line 5, and "
	  "the operator writes one of them; expected another\n" },
	{ WITH("cache = { frames = 6; };"),
	  "f:6: pipelines[0].cache.frames: is 6, expected 7 to 4294967295\n" },
	{ WITH("cache = { frames = \"27K\"; };"),
	  "f:6: pipelines[0].cache.frames: is 27648 bytes, expected at least 7 pages of 4096 "
	  "bytes\n" },
	{ WITH("cache = { frames = true; };"),
	  "f:6: pipelines[0].cache.frames: is a boolean, expected a size: an integer, or like "
	  "\"64M\"\n" },
	{ WITH("cache = { page = 12288; };"),
	  "f:6: pipelines[0].cache.page: is 12288 bytes, expected 4K, 8K, 16K, 32K or 64K\n" },
	{ WITH("cache = { page = \"2K\"; };"),
	  "f:6: pipelines[0].cache.page: is 2K, expected 4K to 64K\n" },
	{ WITH("cache = { page = \"128K\"; };"),
	  "f:6: pipelines[0].cache.page: is 128K, expected 4K to 64K\n" },
	{ WITH("cache = { policy = \"fifo\"; };"),
	  "f:6: pipelines[0].cache.policy: is \"fifo\", expected \"clock\" or \"lru\" or "
	  "\"stream\" or \"count\"\n" },
	{ WITH("cache = { size = 5; };"),
	  "f:6: pipelines[0].cache.size: unknown key; expected one of: frames, page, policy\n" },
	{ WITH("io = 0;"), "f:6: pipelines[0].io: is 0, expected an integer from 1 to 256\n" },
	{ WITH("compute = 257;"),
	  "f:6: pipelines[0].compute: is 257, expected an integer from 1 to 256\n" },
	{ WITH("threads = 48;"), "f:6: pipelines[0].threads: is 48, expected a multiple of 32\n" },
	{ WITH("shard = \"objects\";"),
	  "f:6: pipelines[0].shard: operator walk does not divide its work over ranks, expected no "
	  "shard\n" },
	{ SPREAD("shard = \"tiles\";"),
	  "f:5: pipelines[0].shard: operator spread has no tiles, expected \"objects\"\n" },
	{ WITH("slots = 4;"),
	  "f:6: pipelines[0].slots: operator walk accesses objects; expected objects, cache, io, "
	  "compute, threads or verify\n" },
	{ WITH("source = { ssd = \"a\"; object = \"e\"; };"),
	  "f:6: pipelines[0].source: operator walk accesses objects; expected objects, cache, io, "
	  "compute, threads or verify\n" },
	{ WITH("sink = { ssd = \"a\"; object = \"e\"; }; tile = \"1M\"; blocks = { };\n"
	       "bounce = \"copy\";"),
	  "f:6: pipelines[0].sink: operator walk accesses objects; expected objects, cache, io, "
	  "compute, threads or verify\n"
	  "f:6: pipelines[0].tile: operator walk accesses objects; expected objects, cache, io, "
	  "compute, threads or verify\n"
	  "f:6: pipelines[0].blocks: operator walk accesses objects; expected objects, cache, io, "
	  "compute, threads or verify\n"
	  "f:7: pipelines[0].bounce: operator walk accesses objects; expected objects, cache, io, "
	  "compute, threads or verify\n" },
	{ HEAD "pipelines = ( { name = \"p\"; operator = \"crc32c\"; source = { ssd = \"a\"; "
	       "object = \"in\"; };\nio = 1;\ncache = { }; } );\n",
	  "f:5: pipelines[0].io: operator crc32c reads tiles of sources; expected source, sink, "
	  "tile, slots, blocks, bounce, verify or shard\n"
	  "f:6: pipelines[0].cache: operator crc32c reads tiles of sources; expected source, sink, "
	  "tile, slots, blocks, bounce, verify or shard\n" },
	{ HEAD "pipelines = ( { name = \"p\"; operator = \"wolk\"; objects = { " EDGES "}; } );\n",
	  "f:4: pipelines[0].operator: there is no operator 'wolk'; did you mean 'walk'?\n" },
	{ HEAD "memory = { host = \"1M\"; gpu = \"2M\"; };\n"
	       "pipelines = ( { name = \"p\"; operator = \"walk\"; objects = { " EDGES LEVELS
	       "};\ncache = { frames = 513; }; } );\n",
	  "f:6: pipelines[0].cache.frames: frames take 2101248 bytes, but memory allows "
	  "2097152\n" },
	{ HEAD "pipelines = ( { name = \"p\"; operator = \"walk\"; objects = { " EDGES LEVELS
	       "}; },\n{ name = \"q\"; operator = \"walk\"; objects = { " EDGES LEVELS "}; } );\n",
	  "f:5: pipelines[1].objects: object 'l' is already a new object of pipelines[0] on line "
	  "4\n" },
	{ HEAD "pipelines = ( { name = \"p\"; operator = \"copy\"; source = { ssd = \"a\"; object "
	       "= \"e\"; }; sink = { ssd = \"b\"; object = \"l\"; }; },\n{ name = \"q\"; operator "
	       "= \"walk\"; objects = { " EDGES LEVELS "}; } );\n",
	  "f:5: pipelines[1].objects: object 'l' is already the sink of pipelines[0] on line 4\n" },
};

Test(config_access, each_mistake_is_reported_with_line_and_expected_value)
{
	for (size_t i = 0; i < sizeof mistake / sizeof *mistake; i++) {
		cr_expect_eq(parse(mistake[i].text), -EINVAL, "row %zu", i);
		cr_expect_str_eq(reports, mistake[i].want, "row %zu:\n%s%s", i, reports,
				 mistake[i].want);
	}
}

/* Names of all objects of a kind, with blanks between them. */
static const char *names_of(
	const struct hr_config_object *(*kind)(const struct hr_config_pipeline *, uint32_t),
	uint32_t pipeline)
{
	static char text[256];
	const struct hr_config_object *found;

	text[0] = '\0';
	for (uint32_t k = 0; (found = kind(&config.pipeline[pipeline], k)) != NULL; k++) {
		strcat(text, found->object);
		strcat(text, " ");
	}
	return text;
}

Test(config_access, pipelines_of_both_shapes_list_their_inputs_outputs_and_new_objects)
{
	cr_assert_eq(parse(HEAD
			   "pipelines = ( { name = \"p\"; operator = \"walk\"; objects = { "
			   "weights = { ssd = \"a\"; object = \"w\"; }; " EDGES LEVELS "}; },\n"
			   "{ name = \"q\"; operator = \"walk\"; objects = { " EDGES
			   "levels = { ssd = \"b\"; object = \"m\"; }; }; },\n"
			   "{ name = \"r\"; operator = \"copy\"; source = { ssd = \"a\"; object "
			   "= \"e\"; }; sink = { ssd = \"a\"; object = \"out\"; }; } );\n"),
		     0, "%s", reports);
	cr_expect_str_eq(names_of(hr_config_reads, 0), "e w ");
	cr_expect_str_eq(names_of(hr_config_writes, 0), "l ");
	cr_expect_str_eq(names_of(hr_config_creates, 0), "l ");
	/* an object that exists keeps what the operator does not write, so it is read, too */
	cr_expect_str_eq(names_of(hr_config_reads, 1), "e m ");
	cr_expect_str_eq(names_of(hr_config_writes, 1), "m ");
	cr_expect_str_eq(names_of(hr_config_creates, 1), "");
	cr_expect_str_eq(names_of(hr_config_reads, 2), "e ");
	cr_expect_str_eq(names_of(hr_config_writes, 2), "out ");
	cr_expect_str_eq(names_of(hr_config_creates, 2), "out ");
	cr_expect(hr_config_uses_ssd(&config.pipeline[0], 0));
	cr_expect(hr_config_uses_ssd(&config.pipeline[0], 1));
	cr_expect_null(hr_config_writes_ssd(&config.pipeline[0], 0));
	cr_expect_eq(hr_config_writes_ssd(&config.pipeline[0], 1), &config.pipeline[0].object[2]);
	cr_expect(hr_config_creates_name(&config.pipeline[0], 1, "l"));
	cr_expect_not(hr_config_creates_name(&config.pipeline[0], 0, "l"));
	cr_expect_not(hr_config_creates_name(&config.pipeline[1], 1, "m"));
	cr_expect_not(hr_config_uses_ssd(&config.pipeline[2], 1));
}
