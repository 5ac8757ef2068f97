/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/store/store.h"
#include "boot/cmd/store/local.h"
#include "boot/cmd/store_client.h"
#include "boot/engine/devices/devices.h"
#include "config/base/process.h"
#include "boot/engine/devices/ssd_store.h"
#include "config/base/clock.h"
#include "config/config.h"
#include "config/base/log.h"
#include "config/base/text.h"
#include "nvme/dma/hostmem.h"

#define TILE_ROWS 65536u /* of --tile-rows */
#define WAIT_STEP_NS (HR_NS_PER_S / 4)
#define TIMEOUT_MAX_NS (600 * HR_NS_PER_S)

#define SSD_HELP                                                                                \
	"\nSSD is a device string, as in a configuration (soft:PATH[,size=1G]..., pci:BDF,\n"   \
	"vfio:BDF), kernel:/dev/DISK, or with --config the name of an ssd in that file.\n\n"    \
	"  -c, --config FILE   look SSD up in FILE\n"                                           \
	"      --nsid N        namespace of a device string; 1\n"                               \
	"      --allow-serial SERIAL\n"                                                         \
	"                      use the disk with this serial number, whatever data it has\n"    \
	"      --bind          take pci:BDF and vfio:BDF from the kernel's nvme driver, if\n"   \
	"                      the disk is not in use, and give it back at the end\n"           \
	"      --wait[=SECONDS]\n"                                                              \
	"                      wait for an ssd that another process uses; without SECONDS\n"    \
	"                      for as long as it takes\n"                                       \
	"      --timeout TIME  deadline of each command of the disk, 1ms to 10m; 30s, and 1m\n" \
	"                      for admin commands, or as in FILE\n"

static const char help[] =
	"usage: headrace store SUBCOMMAND [OPTIONS] SSD [...]\n"
	"       headrace store SUBCOMMAND --help\n\n"
	"The object store of one ssd: contiguous objects by name. After a power cut the object\n"
	"map is either the old one or the new one.\n\n"
	"  format SSD              write an empty store\n"
	"  put SSD OBJECT FILE     store a file, or standard input, as an object\n"
	"  get SSD OBJECT FILE     write an object to a file, or standard output\n"
	"  ls SSD                  list the objects\n"
	"  rm SSD OBJECT...        remove objects\n"
	"  mv SSD OBJECT NAME      give an object another name\n"
	"  cp SSD OBJECT NAME      make a copy of an object\n"
	"  verify SSD              check the object map and the checksum of each object\n"
	"  df SSD                  show the used and the free space\n"
	"  unlock SSD              remove another host's reservation\n\n"
	"When a running appliance drives SSD, its engine carries out all but format and unlock,\n"
	"beside its pipelines (control.store_percent and control.mode in its configuration).\n"
	"One line on stderr names the appliance.\n" SSD_HELP HR_EXIT_HELP;

/* ---- command line */

enum option_value {
	OPT_CONFIG = 'c',
	OPT_QUIET = 'q',
	OPT_JSON = 256,
	OPT_NSID,
	OPT_FORCE,
	OPT_OBJECTS,
	OPT_SIZE,
	OPT_REPLACE,
	OPT_PENDING,
	OPT_MAP,
	OPT_SERIAL,
	OPT_BIND,
	OPT_OLDER,
	OPT_WAIT,
	OPT_TIMEOUT,
	OPT_SHARD,
	OPT_ROW_BYTES,
	OPT_TILE_ROWS,
	OPT_NPY
};

static const struct option options[] = { { "config", required_argument, NULL, OPT_CONFIG },
					 { "quiet", no_argument, NULL, OPT_QUIET },
					 { "json", no_argument, NULL, OPT_JSON },
					 { "nsid", required_argument, NULL, OPT_NSID },
					 { "force", no_argument, NULL, OPT_FORCE },
					 { "objects", required_argument, NULL, OPT_OBJECTS },
					 { "size", required_argument, NULL, OPT_SIZE },
					 { "replace", no_argument, NULL, OPT_REPLACE },
					 { "pending", no_argument, NULL, OPT_PENDING },
					 { "map", no_argument, NULL, OPT_MAP },
					 { "allow-serial", required_argument, NULL, OPT_SERIAL },
					 { "bind", no_argument, NULL, OPT_BIND },
					 { "older-than", required_argument, NULL, OPT_OLDER },
					 { "wait", optional_argument, NULL, OPT_WAIT },
					 { "timeout", required_argument, NULL, OPT_TIMEOUT },
					 { "shard", required_argument, NULL, OPT_SHARD },
					 { "row-bytes", required_argument, NULL, OPT_ROW_BYTES },
					 { "tile-rows", required_argument, NULL, OPT_TILE_ROWS },
					 { "npy", no_argument, NULL, OPT_NPY },
					 { NULL, 0, NULL, 0 } };

static const struct verb {
	const char *name;
	const char *help;
	int own[7];   /* options of the subcommand; options that select the ssd are common to all */
	int min, max; /* arguments after SSD */
	/* To an image; what changes objects needs an existing image for writing. */
	enum hr_open_mode access;
	int (*fn)(struct hr_ssd *ssd, const struct hr_store_request *request);
	/* or: one that an appliance carries out on an ssd that it drives */
	int (*through)(struct hr_store_backend *access, const struct hr_store_request *request);
} verbs[] = {
	{ "format",
	  "usage: headrace store format [--force] [--objects N] SSD\n\n"
	  "Write an empty object store. Refused when SSD holds a store, or other data in its\n"
	  "first 4 MiB or last 64 KiB.\n\n"
	  "      --force         erase the store or other data\n"
	  "      --objects N     capacity of the object map, 1..16384; 4096\n" SSD_HELP
		  HR_EXIT_HELP,
	  { OPT_FORCE, OPT_OBJECTS },
	  0,
	  0,
	  HR_OPEN_CREATE,
	  hr_store_cmd_format,
	  NULL },
	{ "put",
	  "usage: headrace store put [--replace] [--size BYTES] [--npy] [--quiet] SSD OBJECT FILE\n"
	  "       headrace store put --shard R/N --row-bytes B [--tile-rows T] SSD OBJECT FILE\n\n"
	  "Store FILE, or standard input when it is '-', as OBJECT, with its CRC-32C. The object\n"
	  "appears when all of it is durable. After an interruption nothing of it remains.\n\n"
	  "      --replace       at the end, replace an object of that name; also replace an\n"
	  "                      incomplete object\n"
	  "      --size BYTES    length of FILE when it is not a regular file (K, M, G, T)\n"
	  "      --npy           FILE is of NumPy: store the numbers of the array, without the header\n"
	  "      --shard R/N     store only part R (from 0) of N of FILE, for rank R of N (headrace\n"
	  "                      run --mpi). All of FILE is read: its CRC-32C identifies the shards\n"
	  "                      of one data set\n"
	  "      --row-bytes B   bytes of a row of FILE\n"
	  "      --tile-rows T   shards begin at multiples of T rows, which must be a multiple of the\n"
	  "                      rows of a tile of each pipeline that reads the object; 65536\n"
	  "  -q, --quiet         no progress bar\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_REPLACE, OPT_SIZE, OPT_QUIET, OPT_SHARD, OPT_ROW_BYTES, OPT_TILE_ROWS, OPT_NPY },
	  2,
	  2,
	  HR_OPEN_EXISTING,
	  NULL,
	  hr_store_cmd_put },
	{ "get",
	  "usage: headrace store get [--force] [--quiet] SSD OBJECT FILE\n\n"
	  "Write OBJECT to FILE, or to standard output when it is '-', and check its CRC-32C.\n"
	  "FILE appears when all of it is on the disk. When the CRC-32C does not match,\n"
	  "the exit code is 4 and FILE is not created; standard output already has the data.\n\n"
	  "      --force         overwrite FILE when it exists, or is a block device\n"
	  "  -q, --quiet         no progress bar\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_FORCE, OPT_QUIET },
	  2,
	  2,
	  HR_OPEN_READ_ONLY,
	  NULL,
	  hr_store_cmd_get },
	{ "ls",
	  "usage: headrace store ls [--json] SSD\n\n"
	  "List the objects: bytes, CRC-32C, time of creation (UTC), state, name. An incomplete\n"
	  "object is one whose writer was interrupted or has not finished.\n\n"
	  "      --json          one JSON object\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_JSON },
	  0,
	  0,
	  HR_OPEN_READ_ONLY,
	  NULL,
	  hr_store_cmd_ls },
	{ "rm",
	  "usage: headrace store rm SSD OBJECT...\n"
	  "       headrace store rm --pending [--older-than AGE] SSD [OBJECT...]\n\n"
	  "Remove the finished and the incomplete object of each name.\n"
	  "An appliance that drives SSD refuses an object that a pipeline uses now.\n\n"
	  "      --pending       only incomplete ones; without OBJECT all of them, in one step\n"
	  "      --older-than AGE\n"
	  "                      without OBJECT: those at least so old, like \"90m\",\n"
	  "                      \"48h\" or \"7d\"\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_PENDING, OPT_OLDER },
	  0,
	  1 << 20,
	  HR_OPEN_EXISTING,
	  NULL,
	  hr_store_cmd_rm },
	{ "mv",
	  "usage: headrace store mv [--replace] SSD OBJECT NAME\n\n"
	  "Give a finished object another name, in one step; its data stay where they are. An\n"
	  "appliance that drives SSD refuses an object that a pipeline uses now.\n\n"
	  "      --replace       in the same step, remove an object of that name\n" SSD_HELP
		  HR_EXIT_HELP,
	  { OPT_REPLACE },
	  2,
	  2,
	  HR_OPEN_EXISTING,
	  NULL,
	  hr_store_cmd_mv },
	{ "cp",
	  "usage: headrace store cp [--replace] [--quiet] SSD OBJECT NAME\n\n"
	  "Copy a finished object on the same ssd, with its CRC-32C, which the copy is checked\n"
	  "against. The copy appears when all of it is durable. After an interruption nothing of\n"
	  "it remains.\n\n"
	  "      --replace       at the end, replace an object of that name; also replace an\n"
	  "                      incomplete object\n"
	  "  -q, --quiet         no progress bar\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_REPLACE, OPT_QUIET },
	  2,
	  2,
	  HR_OPEN_EXISTING,
	  NULL,
	  hr_store_cmd_cp },
	{ "verify",
	  "usage: headrace store verify [--map] [--json] [--quiet] SSD\n\n"
	  "Check both superblocks, both copies of the object map, every record, and the CRC-32C "
	  "of\n"
	  "each object that has one. One line per finding; the exit code is 1 when there is a "
	  "fault.\n\n"
	  "      --map           do not read the data\n"
	  "      --json          one JSON object\n"
	  "  -q, --quiet         no progress bar\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_MAP, OPT_JSON, OPT_QUIET },
	  0,
	  0,
	  HR_OPEN_READ_ONLY,
	  NULL,
	  hr_store_cmd_verify },
	{ "df",
	  "usage: headrace store df [--json] SSD\n\n"
	  "Show the used and the free space, and the size of the largest object that fits.\n\n"
	  "      --json          one JSON object\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_JSON },
	  0,
	  0,
	  HR_OPEN_READ_ONLY,
	  NULL,
	  hr_store_cmd_df },
	{ "unlock",
	  "usage: headrace store unlock SSD\n\n"
	  "Remove the NVMe reservation that prevents this machine from writing to SSD, and print\n"
	  "its type, key and host. Use it only when that host has stopped for ever: a host that\n"
	  "still runs loses its write access, and its pipelines fail.\n" SSD_HELP HR_EXIT_HELP,
	  { 0 },
	  0,
	  0,
	  HR_OPEN_EXISTING,
	  hr_store_cmd_unlock,
	  NULL },
};

#define VERBS (sizeof verbs / sizeof *verbs)

static bool accepts_option(const struct verb *verb, int option)
{
	if (option == OPT_CONFIG || option == OPT_NSID || option == OPT_SERIAL ||
	    option == OPT_BIND || option == OPT_WAIT || option == OPT_TIMEOUT)
		return true;
	for (size_t i = 0; i < sizeof verb->own / sizeof *verb->own; i++)
		if (verb->own[i] == option)
			return true;
	return false;
}

static bool read_seconds(const char *text, uint64_t *ns)
{
	uint32_t seconds;

	if (!hr_option_count(text, 365u * 24 * 3600, &seconds))
		return false;
	*ns = seconds * HR_NS_PER_S;
	return true;
}

/* False: the option's argument is invalid. */
static bool apply_store_option(struct hr_store_request *request, int option, const char *arg)
{
	switch (option) {
	case OPT_CONFIG:
		request->config = arg;
		return true;
	case OPT_NSID:
		return hr_option_count(arg, UINT32_MAX - 1, &request->nsid);
	case OPT_SERIAL:
		request->serial = arg;
		return *arg && strlen(arg) < HR_SERIAL_MAX;
	case OPT_BIND:
		hr_transport_allow_bind();
		return true;
	case OPT_OBJECTS:
		return hr_option_count(arg, HR_STORE_OBJECTS_MAX, &request->objects);
	case OPT_OLDER:
		return hr_duration_parse(arg, &request->older_ns) == 0 && request->older_ns;
	case OPT_WAIT:
		request->waits = true;
		return !arg || read_seconds(arg, &request->wait_ns);
	case OPT_TIMEOUT:
		return hr_duration_parse(arg, &request->timeout_ns) == 0 &&
		       request->timeout_ns >= HR_NS_PER_MS && request->timeout_ns <= TIMEOUT_MAX_NS;
	case OPT_SHARD:
		return hr_option_part(arg, HR_SHARDS_MAX, &request->shard, &request->shards);
	case OPT_ROW_BYTES:
		return hr_option_count(arg, HR_TILE_MAX, &request->row_bytes);
	case OPT_TILE_ROWS:
		return hr_option_count(arg, UINT32_MAX - 1, &request->tile_rows);
	case OPT_SIZE:
		request->has_size = true;
		return hr_size_parse(arg, &request->size) == 0;
	default:
		request->quiet |= option == OPT_QUIET;
		request->json |= option == OPT_JSON;
		request->force |= option == OPT_FORCE;
		request->replace |= option == OPT_REPLACE;
		request->pending |= option == OPT_PENDING;
		request->map_only |= option == OPT_MAP;
		request->npy |= option == OPT_NPY;
		return true;
	}
}

/* Report an option that the subcommand does not take. */
static int unknown_option(const struct verb *verb, const char *name, const char *given)
{
	struct option own[sizeof options / sizeof *options] = { 0 };
	size_t count = 0;

	for (size_t i = 0; options[i].name; i++)
		if (accepts_option(verb, options[i].val))
			own[count++] = options[i];
	return hr_option_unknown(name, given, own);
}

/* Parse the options; argv[0] is the subcommand. 0, or an exit code. */
static int parse_store_options(const struct verb *verb, int argc, char **argv,
			       struct hr_store_request *request)
{
	char name[32];
	int option;

	snprintf(name, sizeof name, "store %s", verb->name);
	*request = (struct hr_store_request){ .nsid = 1, .objects = HR_STORE_OBJECTS_DEFAULT };
	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, ":c:q", options, NULL)) != -1) {
		if (option == ':')
			return hr_usage_error(name, "option '%s' needs an argument",
					      argv[optind - 1]);
		if (option == '?' || !accepts_option(verb, option))
			return unknown_option(verb, name, argv[optind - 1]);
		if (!apply_store_option(request, option, optarg))
			return hr_usage_error(name, "'%s' is out of range", optarg);
	}
	request->args = argc - optind - 1;
	if (request->args < verb->min || request->args > verb->max)
		return hr_usage_error(name, "wrong number of arguments (%d)", argc - optind);
	if (verb->through == hr_store_cmd_rm && request->args == 0 && !request->pending)
		return hr_usage_error(name,
				      "no object given; --pending removes all incomplete objects");
	if (request->older_ns && (!request->pending || request->args))
		return hr_usage_error(name, "--older-than needs --pending, and no OBJECT");
	if (request->shards && !request->row_bytes)
		return hr_usage_error(name, "--shard needs --row-bytes");
	if (!request->shards && (request->row_bytes || request->tile_rows))
		return hr_usage_error(name, "--row-bytes and --tile-rows need --shard");
	request->tile_rows = request->tile_rows ? request->tile_rows : TILE_ROWS;
	request->ssd = argv[optind];
	request->arg = argv + optind + 1;
	return 0;
}

/* ---- the ssd */

/* The ssd is up. */
static int run_here(const struct verb *verb, const struct hr_store_request *request,
		    struct hr_ssd *ssd)
{
	struct hr_store_local local;
	struct hr_store_backend access;
	struct hr_error e = { 0 };
	const int err = verb->through ? hr_ssd_open_store(ssd, &e) : 0;

	if (err)
		return hr_store_failed(ssd, NULL, err, &e);
	if (!verb->through)
		return verb->fn(ssd, request);
	hr_store_local_open(&access, &local, ssd);
	return verb->through(&access, request);
}

static int bring_up(const struct verb *verb, const struct hr_config_ssd *config, struct hr_ssd *ssd,
		    struct hr_error *e)
{
	int err;

	memset(ssd, 0, sizeof *ssd);
	hr_error_clear(e);
	err = hr_ssd_up(ssd, config, e);
	if (err || verb->access == HR_OPEN_READ_ONLY || verb->fn == hr_store_cmd_unlock)
		return err;
	err = hr_ssd_reserve(ssd, e);
	if (err)
		hr_ssd_down(ssd);
	return err;
}

/* Through the appliance that drives the ssd. False: there is none; *why may say which one is busy. */
static bool run_there(const struct verb *verb, const struct hr_store_request *request,
		      const struct hr_config_ssd *config, const char *wanted, int *code, char *why,
		      size_t bytes)
{
	static struct hr_store_client client; /* one per process */
	struct hr_store_backend access;
	bool driven;

	*why = '\0';
	if (hr_store_client_open(&access, &client, config, wanted) != 0)
		return false;
	driven = hr_store_client_is_driven(&client);
	if (driven && verb->through) {
		*code = verb->through(&access, request);
	} else if (driven) {
		hr_error("%s: appliance '%s' drives this ssd: '%s' is possible when it has ended",
			 config->device, client.appliance.name, verb->name);
		*code = HR_EXIT_FAILED;
	} else {
		snprintf(why, bytes, "%s", client.reason);
	}
	hr_store_client_close(&client);
	return driven;
}

static bool may_wait(const struct hr_store_request *request, uint64_t since_ns)
{
	if (!request->waits || hr_signals_pending())
		return false;
	if (request->wait_ns && hr_now_ns() - since_ns >= request->wait_ns)
		return false;
	hr_wait_ns(WAIT_STEP_NS);
	return true;
}

/* In this process or through the appliance, until the ssd is not busy any more. */
static int run_somewhere(const struct verb *verb, const struct hr_store_request *request,
			 const struct hr_config_ssd *config, struct hr_ssd *ssd)
{
	const uint64_t since_ns = hr_now_ns();
	char why[HR_LOG_LINE_MAX];
	struct hr_error e = { 0 };
	int err, code;

	do {
		err = bring_up(verb, config, ssd, &e);
		if (err == -EBUSY && run_there(verb, request, config, NULL, &code, why, sizeof why))
			return code;
	} while (err == -EBUSY && may_wait(request, since_ns));
	if (err == -EBUSY && *why)
		hr_error_append(&e, "; %s", why);
	if (err)
		return hr_error_report(&e, err);
	code = run_here(verb, request, ssd);
	hr_ssd_down(ssd);
	return code;
}

/* An ssd in memory exists only in the appliance of its configuration. */
static int run_in_memory(const struct verb *verb, const struct hr_store_request *request,
			 const struct hr_config_ssd *config, const char *appliance)
{
	const uint64_t since_ns = hr_now_ns();
	char why[HR_LOG_LINE_MAX];
	int code;

	do {
		if (run_there(verb, request, config, appliance, &code, why, sizeof why))
			return code;
	} while (may_wait(request, since_ns));
	hr_error("%s: ssd '%s' is in the memory of appliance '%s'%s%s", request->config,
		 request->ssd, appliance, *why ? ": " : ", which does not run", why);
	return HR_EXIT_MISSING;
}

static int run_on_ssd(const struct verb *verb, const struct hr_store_request *request)
{
	char appliance[HR_NAME_MAX] = "";
	struct hr_config_ssd config;
	struct hr_error e = { 0 };
	struct hr_ssd *ssd;
	int err, code = hr_store_find_ssd(request, &config, appliance);

	if (code)
		return code;
	if (config.in_memory && *appliance)
		return run_in_memory(verb, request, &config, appliance);
	hr_open_mode_set(verb->access);
	err = hr_hostmem_set_kind(
		hr_transport_is_physical(config.device) ? HR_HOSTMEM_PHYSICAL : HR_HOSTMEM_OWN, &e);
	if (err)
		return hr_error_report(&e, err);
	ssd = calloc(1, sizeof *ssd);
	if (!ssd) {
		hr_error("out of memory for the ssd: %zu bytes", sizeof *ssd);
		return HR_EXIT_MISSING;
	}
	code = run_somewhere(verb, request, &config, ssd);
	free(ssd);
	return code;
}

static int unknown_verb(const char *name)
{
	const char *known[VERBS], *near;

	for (size_t i = 0; i < VERBS; i++)
		known[i] = verbs[i].name;
	near = hr_nearest(name, known, VERBS);
	return hr_usage_error("store", "there is no subcommand '%s'%s%s%s", name,
			      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool is_help(const char *text)
{
	return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static int cmd_store(int argc, char **argv)
{
	struct hr_store_request request;
	const struct verb *verb = NULL;
	int code;

	if (argc < 2)
		return hr_usage_error("store", "a subcommand is expected");
	if (is_help(argv[1])) {
		fputs(help, stdout);
		return HR_EXIT_DONE;
	}
	for (size_t i = 0; i < VERBS; i++)
		if (strcmp(verbs[i].name, argv[1]) == 0)
			verb = &verbs[i];
	if (!verb)
		return unknown_verb(argv[1]);
	for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (is_help(argv[i])) {
			fputs(verb->help, stdout);
			return HR_EXIT_DONE;
		}
	}
	code = parse_store_options(verb, argc - 1, argv + 1, &request);
	if (code)
		return code;
	hr_signals_catch();
	hr_signals_announce();
	return run_on_ssd(verb, &request);
}

const struct hr_command hr_cmd_store = {
	.name = "store",
	.summary = "objects of one ssd: format, put, get, ls, rm, mv, cp, verify, df, unlock",
	.help = help,
	.fn = cmd_store,
	.own_help = true,
};
