/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo_compare.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/topo/prove.h"
#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/text.h"
#include "nvme/transport/transport.h"

enum option_code { PROVE = 256, JSON, FORMAT, BIND, SERIAL, NSID, SCRATCH, FORCE, FROM };

struct request {
	struct hr_topo_prove prove;
	bool json, force;
};

bool hr_topo_proves(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--prove") == 0 || strncmp(argv[i], "--prove=", 8) == 0)
			return true;
	return false;
}

static int bad(const char *what, const char *value)
{
	hr_usage_error("topo", "%s '%s'", what, value);
	return HR_TOPO_USAGE;
}

/* "FIRST,BYTES", both whole pages. */
static bool read_scratch(struct hr_topo_prove *p, const char *text)
{
	const char *comma = strchr(text, ',');
	char first[32];

	if (!comma || (size_t)(comma - text) >= sizeof first)
		return false;
	snprintf(first, sizeof first, "%.*s", (int)(comma - text), text);
	return hr_size_parse(first, &p->scratch) == 0 &&
	       hr_size_parse(comma + 1, &p->scratch_bytes) == 0 && p->scratch_bytes &&
	       (p->scratch | p->scratch_bytes) % HR_PAGE == 0;
}

static int apply_prove_option(struct request *r, int code, char **argv)
{
	struct hr_topo_prove *p = &r->prove;

	switch (code) {
	case PROVE:
		p->gpu = optarg;
		p->ssd = argv[optind] ? argv[optind++] : NULL;
		return p->ssd ? 0 : bad("--prove takes a GPU and an SSD, not only", optarg);
	case FORMAT:
		r->json = strcmp(optarg, "json") == 0;
		return r->json || strcmp(optarg, "table") == 0
			       ? 0
			       : bad("--prove is shown as text or json, not as", optarg);
	case SERIAL:
		p->serial = optarg;
		return *optarg && strlen(optarg) < HR_SERIAL_MAX
			       ? 0
			       : bad("--allow-serial is the serial number of a disk, not", optarg);
	case NSID:
		return hr_option_count(optarg, UINT32_MAX - 1, &p->nsid)
			       ? 0
			       : bad("--nsid is the number of a namespace, not", optarg);
	case SCRATCH:
		return read_scratch(p, optarg)
			       ? 0
			       : bad("--scratch is FIRST,BYTES, multiples of 4096 like 1G,64M, not",
				     optarg);
	case FROM:
		return bad("--prove moves data on this machine; not together with --from", optarg);
	case BIND:
		hr_transport_allow_bind();
		return 0;
	default:
		r->json |= code == JSON;
		r->force |= code == FORCE;
		return 0;
	}
}

static int parse_prove_options(struct request *r, int argc, char **argv)
{
	static const struct option options[] = {
		{ "prove", required_argument, NULL, PROVE },
		{ "json", no_argument, NULL, JSON },
		{ "format", required_argument, NULL, FORMAT },
		{ "bind", no_argument, NULL, BIND },
		{ "allow-serial", required_argument, NULL, SERIAL },
		{ "nsid", required_argument, NULL, NSID },
		{ "scratch", required_argument, NULL, SCRATCH },
		{ "force", no_argument, NULL, FORCE },
		{ "from", required_argument, NULL, FROM },
		{ NULL, 0, NULL, 0 },
	};
	int code, err = 0;

	optind = 1;
	opterr = 0;
	while (!err && (code = getopt_long(argc, argv, ":", options, NULL)) != -1)
		err = code == '?'   ? (hr_usage_error("topo", "not together with --prove: '%s'",
						      argv[optind - 1]),
				       HR_TOPO_USAGE)
		      : code == ':' ? bad("a value is missing:", argv[optind - 1])
				    : apply_prove_option(r, code, argv);
	if (!err && optind < argc)
		err = bad("--prove moves data on this machine; unexpected argument", argv[optind]);
	if (!err && r->prove.scratch_bytes && !r->force)
		err = bad("--scratch overwrites that range of the disk; with --force it does so:",
			  r->prove.ssd);
	if (!err && r->force && !r->prove.scratch_bytes)
		err = bad("only together with --scratch:", "--force");
	return err;
}

int hr_topo_prove_command(struct hr_topo *t, int argc, char **argv)
{
	static struct hr_json out; /* one document per process */
	struct request r = { .prove.nsid = 1 };
	int code = parse_prove_options(&r, argc, argv);

	if (code)
		return code;
	t->out = stdout;
	t->view = "prove";
	t->json = r.json ? &out : NULL;
	if (hr_model_init(&t->model)) {
		hr_error("out of memory");
		return HR_TOPO_NO_ACCESS;
	}
	code = hr_topo_prove(t, &r.prove);
	hr_model_fini(&t->model);
	return code;
}
