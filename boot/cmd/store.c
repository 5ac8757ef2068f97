#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "boot/engine/names.h"
#include "config/clock.h"
#include "boot/cmd/cmd.h"
#include "config/log.h"
#include "boot/engine/pending.h"
#include "boot/engine/signals.h"
#include "boot/cmd/store/store.h"
#include "config/config.h"
#include "config/nearest.h"
#include "config/units.h"
#include "nvme/hostmem.h"
#include "nvme/status.h"

#define QUEUE_ENTRIES 64u
#define TIMEOUT_NS (5 * HR_NS_PER_S)

#define SSD_HELP                                                                               \
	"\nSSD is a device string, as in a configuration (soft:PATH[,size=1G]..., pci:BDF,\n"  \
	"vfio:BDF), kernel:/dev/DISK, or with --config the name of an ssd in that file.\n\n"   \
	"  -c, --config FILE   look SSD up in FILE\n"                                          \
	"      --nsid N        namespace of a device string; 1\n"                              \
	"      --allow-serial SERIAL\n"                                                        \
	"                      the disk with this serial number is meant, whatever is on it\n" \
	"      --bind          take pci:BDF and vfio:BDF from the kernel's nvme driver, if\n"  \
	"                      nobody uses the disk, and give it back at the end\n"

static const char help[] =
	"usage: headrace store SUBCOMMAND [OPTIONS] SSD [...]\n"
	"       headrace store SUBCOMMAND --help\n\n"
	"The object store of one ssd: contiguous objects by name, changed so that a power cut\n"
	"leaves the old object map or the new one.\n\n"
	"  format SSD              write an empty store\n"
	"  put SSD OBJECT FILE     store a file, or standard input, as an object\n"
	"  get SSD OBJECT FILE     write an object to a file, or standard output\n"
	"  ls SSD                  list the objects\n"
	"  rm SSD OBJECT...        remove objects\n"
	"  verify SSD              check the object map and the checksum of each object\n"
	"  df SSD                  show how much space is used and free\n"
	"  unlock SSD              remove another host's reservation\n" SSD_HELP HR_EXIT_HELP;

static int format(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	const int err = hr_ssd_format_store(ssd, wishes->objects, wishes->force);

	if (err == -EEXIST)
		hr_error("%s: holds an object store already; --force erases it",
			 ssd->transport.name);
	else if (err == -EMEDIUMTYPE)
		hr_error("%s: is not blank: something else is stored there; --force erases it",
			 ssd->transport.name);
	if (err)
		return err == -EEXIST ? HR_EXIT_FAILED : hr_exit_code_up(err);
	printf("%s: room for %u objects\n", ssd->transport.name, wishes->objects);
	return HR_EXIT_DONE;
}

static int unlock(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	struct hr_resv_holder holder;
	char text[HR_RESV_TEXT];
	const int err = hr_ssd_unlock(ssd, &holder);

	if (err)
		return hr_exit_code_up(err);
	if (holder.type)
		printf("%s: removed: %s\n", ssd->transport.name, hr_resv_text(&holder, text));
	else
		printf("%s: there is no reservation\n", ssd->transport.name);
	return HR_EXIT_DONE;
}

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
	OPT_OLDER
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
					 { NULL, 0, NULL, 0 } };

static const struct verb {
	const char *name;
	const char *help;
	int own[3];   /* options of its own; those that say which ssd are everyone's */
	int min, max; /* arguments after SSD */
	enum hr_transport_access access; /* to an image; put and rm: it is there, and written */
	int (*fn)(struct hr_ssd *ssd, const struct hr_store_wishes *wishes);
} verbs[] = {
	{ "format",
	  "usage: headrace store format [--force] [--objects N] SSD\n\n"
	  "Write an empty object store. Refused when SSD holds a store, or anything else in its\n"
	  "first 4 MiB or last 64 KiB.\n\n"
	  "      --force         erase what is there\n"
	  "      --objects N     room in the object map, 1..16384; 4096\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_FORCE, OPT_OBJECTS },
	  0,
	  0,
	  HR_ACCESS_CREATE,
	  format },
	{ "put",
	  "usage: headrace store put [--replace] [--size BYTES] [--quiet] SSD OBJECT FILE\n\n"
	  "Store FILE, or standard input when it is '-', as OBJECT, with its CRC-32C. The object\n"
	  "appears when all of it is durable; interrupted, nothing of it stays.\n\n"
	  "      --replace       take the place of an object of that name, at the end, or of an\n"
	  "                      incomplete one\n"
	  "      --size BYTES    how much will come, when FILE is not a regular file (K, M, G, T)\n"
	  "  -q, --quiet         no progress bar\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_REPLACE, OPT_SIZE, OPT_QUIET },
	  2,
	  2,
	  HR_ACCESS_EXISTING,
	  hr_store_cmd_put },
	{ "get",
	  "usage: headrace store get [--force] [--quiet] SSD OBJECT FILE\n\n"
	  "Write OBJECT to FILE, or to standard output when it is '-', and check its CRC-32C on\n"
	  "the way. FILE appears when all of it is on the disk. When the CRC-32C does not match,\n"
	  "the exit code is 4 and FILE is not made; standard output has the data by then.\n\n"
	  "      --force         overwrite FILE when it exists, or is a block device\n"
	  "  -q, --quiet         no progress bar\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_FORCE, OPT_QUIET },
	  2,
	  2,
	  HR_ACCESS_READ,
	  hr_store_cmd_get },
	{ "ls",
	  "usage: headrace store ls [--json] SSD\n\n"
	  "List the objects: bytes, CRC-32C, time of creation (UTC), state, name. An incomplete\n"
	  "object is one whose writer was cut short or is still at work.\n\n"
	  "      --json          one JSON object\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_JSON },
	  0,
	  0,
	  HR_ACCESS_READ,
	  hr_store_cmd_ls },
	{ "rm",
	  "usage: headrace store rm SSD OBJECT...\n"
	  "       headrace store rm --pending [--older-than AGE] SSD [OBJECT...]\n\n"
	  "Remove objects, the finished and the incomplete one of each name.\n\n"
	  "      --pending       only incomplete ones; without OBJECT all of them, in one step\n"
	  "      --older-than AGE\n"
	  "                      without OBJECT: those that were begun so long ago, like \"90m\",\n"
	  "                      \"48h\" or \"7d\"\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_PENDING, OPT_OLDER },
	  0,
	  1 << 20,
	  HR_ACCESS_EXISTING,
	  hr_store_cmd_rm },
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
	  HR_ACCESS_READ,
	  hr_store_cmd_verify },
	{ "df",
	  "usage: headrace store df [--json] SSD\n\n"
	  "Show how much space is used and free, and the largest object that fits.\n\n"
	  "      --json          one JSON object\n" SSD_HELP HR_EXIT_HELP,
	  { OPT_JSON },
	  0,
	  0,
	  HR_ACCESS_READ,
	  hr_store_cmd_df },
	{ "unlock",
	  "usage: headrace store unlock SSD\n\n"
	  "Remove the NVMe reservation that keeps this machine from writing to SSD, and print its\n"
	  "type, key and host. For a host that is gone for good: one that is still at work loses\n"
	  "its right to write, and its pipelines fail.\n" SSD_HELP HR_EXIT_HELP,
	  { 0 },
	  0,
	  0,
	  HR_ACCESS_EXISTING,
	  unlock },
};

#define VERBS (sizeof verbs / sizeof *verbs)

static bool takes(const struct verb *verb, int option)
{
	if (option == OPT_CONFIG || option == OPT_NSID || option == OPT_SERIAL ||
	    option == OPT_BIND)
		return true;
	for (size_t i = 0; i < sizeof verb->own / sizeof *verb->own; i++)
		if (verb->own[i] == option)
			return true;
	return false;
}

/* A decimal number of 1..max. */
static bool read_number(const char *text, unsigned long max, uint32_t *number)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value == 0 || value > max)
		return false;
	*number = (uint32_t)value;
	return true;
}

/* False: the option's argument is no good. */
static bool take(struct hr_store_wishes *wishes, int option, const char *arg)
{
	switch (option) {
	case OPT_CONFIG:
		wishes->config = arg;
		return true;
	case OPT_NSID:
		return read_number(arg, UINT32_MAX - 1, &wishes->nsid);
	case OPT_SERIAL:
		wishes->serial = arg;
		return *arg && strlen(arg) < HR_SERIAL_MAX;
	case OPT_BIND:
		hr_transport_allow_bind();
		return true;
	case OPT_OBJECTS:
		return read_number(arg, HR_STORE_OBJECTS_MAX, &wishes->objects);
	case OPT_OLDER:
		return hr_duration_parse(arg, &wishes->older_ns) == 0 && wishes->older_ns;
	case OPT_SIZE:
		wishes->has_size = true;
		return hr_size_parse(arg, &wishes->size) == 0;
	default:
		wishes->quiet |= option == OPT_QUIET;
		wishes->json |= option == OPT_JSON;
		wishes->force |= option == OPT_FORCE;
		wishes->replace |= option == OPT_REPLACE;
		wishes->pending |= option == OPT_PENDING;
		wishes->map_only |= option == OPT_MAP;
		return true;
	}
}

/* argv[0] is the subcommand. 0, or an exit code. */
static int parse(const struct verb *verb, int argc, char **argv, struct hr_store_wishes *wishes)
{
	char name[32];
	int option;

	snprintf(name, sizeof name, "store %s", verb->name);
	*wishes = (struct hr_store_wishes){ .nsid = 1, .objects = HR_STORE_OBJECTS_DEFAULT };
	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, ":c:q", options, NULL)) != -1) {
		if (option == ':')
			return hr_usage_error(name, "option '%s' needs an argument",
					      argv[optind - 1]);
		if (option == '?' || !takes(verb, option))
			return hr_usage_error(name, "unknown option '%s'", argv[optind - 1]);
		if (!take(wishes, option, optarg))
			return hr_usage_error(name, "'%s' is out of range", optarg);
	}
	wishes->args = argc - optind - 1;
	if (wishes->args < verb->min || wishes->args > verb->max)
		return hr_usage_error(name, "wrong number of arguments (%d)", argc - optind);
	if (verb->fn == hr_store_cmd_rm && wishes->args == 0 && !wishes->pending)
		return hr_usage_error(name,
				      "which objects? --pending alone removes incomplete ones");
	if (wishes->older_ns && (!wishes->pending || wishes->args))
		return hr_usage_error(name, "--older-than goes with --pending, without an OBJECT");
	wishes->ssd = argv[optind];
	wishes->arg = argv + optind + 1;
	return 0;
}

/* ---- the ssd */

static void report(void *to, const char *line)
{
	hr_error("%s", line);
}

/* Find the ssd in the configuration file. 0, or an exit code. */
static int look_up(const struct hr_config *config, const struct hr_store_wishes *wishes,
		   struct hr_config_ssd *out)
{
	const char *known[HR_SSDS_MAX], *near;

	for (uint32_t i = 0; i < config->ssds; i++) {
		known[i] = config->ssd[i].name;
		if (strcmp(known[i], wishes->ssd) == 0) {
			*out = config->ssd[i];
			return 0;
		}
	}
	near = hr_nearest(wishes->ssd, known, config->ssds);
	hr_error("%s: there is no ssd '%s'%s%s%s", wishes->config, wishes->ssd,
		 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return HR_EXIT_USAGE;
}

static int find_ssd(const struct hr_store_wishes *wishes, struct hr_config_ssd *out)
{
	struct hr_config *config;
	int code;

	*out = (struct hr_config_ssd){ .nsid = wishes->nsid,
				       .queue_entries = QUEUE_ENTRIES,
				       .timeout_ns = TIMEOUT_NS };
	if (!wishes->config) {
		if (strlen(wishes->ssd) >= sizeof out->device)
			return hr_usage_error("store", "the device string is too long (%u at most)",
					      HR_DEVICE_MAX - 1);
		memcpy(out->device, wishes->ssd, strlen(wishes->ssd) + 1);
		return 0;
	}
	config = calloc(1, sizeof *config);
	if (!config) {
		hr_error("out of memory for the configuration: %zu bytes", sizeof *config);
		return HR_EXIT_MISSING;
	}
	code = hr_config_read(config, &hr_names, wishes->config, report, NULL)
		       ? HR_EXIT_USAGE
		       : look_up(config, wishes, out);
	free(config);
	return code;
}

static int choose_ssd(const struct hr_store_wishes *wishes, struct hr_config_ssd *out)
{
	const int code = find_ssd(wishes, out);

	if (!code && wishes->serial)
		memcpy(out->serial, wishes->serial, strlen(wishes->serial) + 1);
	return code;
}

int hr_store_failed(const struct hr_ssd *ssd, const char *object, int err)
{
	const char *disk = ssd->transport.name;
	const char *quote = object ? "'" : "", *colon = object ? ": " : "";
	const char *why = NULL;
	char name[96];

	switch (err) {
	case -ENOMEDIUM:
		why = "the disk is blank; 'headrace store format' makes an object store";
		break;
	case -EMEDIUMTYPE:
		why = "the disk holds something else than an object store";
		break;
	case -EEXIST:
		why = "exists already; --replace takes its place";
		break;
	case -EBUSY:
		why = "an incomplete object has that name; 'rm' removes it, --replace takes its "
		      "place";
		break;
	case -ENOENT:
		why = "there is no such object";
		break;
	case -ENOSPC:
	case -ENFILE:
		hr_pending_hint(&ssd->store, ssd->device, err);
		break;
	case -EINVAL:
		why = "a name is 1..63 printable characters without '/'";
		break;
	case -ENOMEM:
		why = hr_error_name(err, name, sizeof name);
		break;
	default:
		break; /* logged where it was found */
	}
	if (why)
		hr_error("%s: %s%s%s%s%s", disk, quote, object ? object : "", quote, colon, why);
	return err == -ENOENT || err == -EBUSY ? HR_EXIT_FAILED : hr_exit_code_up(err);
}

const struct hr_object *hr_store_wanted(const struct hr_ssd *ssd, const char *name)
{
	const struct hr_object *object = hr_store_find(&ssd->store, name);

	if (object)
		return object;
	if (hr_store_find_pending(&ssd->store, name))
		hr_error("%s: '%s': incomplete: what writes it has not finished",
			 ssd->transport.name, name);
	else
		(void)hr_store_failed(ssd, name, -ENOENT);
	return NULL;
}

static int run(const struct verb *verb, const struct hr_store_wishes *wishes)
{
	struct hr_config_ssd config;
	struct hr_ssd *ssd;
	int err, code = choose_ssd(wishes, &config);

	if (code)
		return code;
	hr_transport_set_access(verb->access);
	err = hr_hostmem_choose(hr_transport_is_physical(config.device) ? HR_HOSTMEM_PHYSICAL
									: HR_HOSTMEM_OWN);
	if (err)
		return hr_exit_code(err);
	ssd = calloc(1, sizeof *ssd);
	if (!ssd) {
		hr_error("out of memory for the ssd: %zu bytes", sizeof *ssd);
		return HR_EXIT_MISSING;
	}
	err = hr_ssd_up(ssd, &config);
	if (!err && verb->access != HR_ACCESS_READ && verb->fn != unlock) {
		err = hr_ssd_reserve(ssd);
		if (err)
			hr_ssd_down(ssd);
	}
	code = hr_exit_code(err);
	if (!err) {
		err = verb->fn == format || verb->fn == unlock ? 0 : hr_ssd_open_store(ssd);
		code = err ? hr_store_failed(ssd, NULL, err) : verb->fn(ssd, wishes);
		if (ssd->disk.dead)
			hr_ssd_fail(ssd);
		hr_ssd_down(ssd);
	}
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
	struct hr_store_wishes wishes;
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
	code = parse(verb, argc - 1, argv + 1, &wishes);
	if (code)
		return code;
	hr_signals_catch();
	return run(verb, &wishes);
}

const struct hr_command hr_cmd_store = {
	.name = "store",
	.summary = "the object store of one ssd: format, put, get, ls, rm, verify, df, unlock",
	.help = help,
	.fn = cmd_store,
	.own_help = true,
};
