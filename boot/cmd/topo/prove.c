/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --prove: bring up one SSD and one GPU, and compare the data that they exchange
 * (boot/engine/exchange/exchange.h). Names and addresses become device strings: a GPU of
 * NVIDIA's driver is cuda:N, another function is the BAR that SSDs reach; an SSD is vfio:BDF
 * where an IOMMU is active or the GPU's driver keeps its physical addresses, else pci:BDF.
 */
#include "boot/cmd/topo/prove.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/output.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/headline.h"
#include "boot/engine/devices/devices.h"
#include "boot/engine/exchange/exchange.h"
#include "boot/engine/devices/foreign_data.h"
#include "boot/engine/shape/paths.h"
#include "config/base/process.h"
#include "boot/engine/devices/ssd_store.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/dma/hostmem.h"
#include "pci/machine.h"
#include "pci/path.h"

#define CUDA_GPUS 64u
#define QUEUE_ENTRIES 256u
#define TIMEOUT_NS (10 * HR_NS_PER_S)
#define VENDOR_NVIDIA 0x10deu
#define SIZE_TEXT 32u
#define CLASS_BRIDGE 0x06u

struct prove {
	struct hr_topo *t;
	const struct hr_topo_prove *p;
	int32_t gpu_fn, ssd_fn; /* HR_NO_FN: a device string */
	char gpu_device[HR_DEVICE_MAX], ssd_device[HR_DEVICE_MAX];
	char foreign[HR_FOREIGN_DATA_TEXT]; /* data on the disk that is not headrace's, or "" */
	struct hr_pair pair;		    /* valid when both are functions */
	struct hr_backend backend;
	struct hr_ssd *ssd;
	bool rows;
	struct hr_error e;
};

/* A device string of a configuration, not the name or the address of a function: its first word is
 * no number. */
static bool is_device(const char *text)
{
	const size_t word = strcspn(text, ":");

	return strcmp(text, "auto") == 0 ||
	       (text[word] == ':' && strspn(text, "0123456789abcdefABCDEF") < word);
}

static int no_access(struct prove *s, int err)
{
	const int code = hr_error_report(&s->e, err);

	return code == HR_ERROR_USAGE ? HR_TOPO_USAGE : HR_TOPO_NO_ACCESS;
}

/* ---- functions */

static int read_machine(struct prove *s)
{
	struct hr_topo *t = s->t;
	const int err = hr_source_live(&t->model);

	if (err) {
		hr_error_report(&t->model.error, err);
		return HR_TOPO_NO_ACCESS;
	}
	if (hr_topo_evaluate(t, &t->topology, &t->model) == 0)
		return 0;
	hr_error("out of memory");
	return HR_TOPO_NO_ACCESS;
}

static int find_proved(struct prove *s, const char *name, uint32_t count, const char *what,
		       int32_t *fn)
{
	const struct hr_topo *t = s->t;

	*fn = is_device(name) ? HR_NO_FN : hr_topo_find(t, name);
	if (*fn != HR_NO_FN || is_device(name))
		return 0;
	if (count == 0) {
		hr_error("topo: no %s in this machine (%u functions): nothing to prove", what,
			 t->model.count);
		return HR_TOPO_NONE;
	}
	return hr_topo_no_function(t, name);
}

static bool has_driver(const struct hr_fn *f, const char *driver)
{
	return f->driver && strcmp(f->driver, driver) == 0;
}

/* True for a GPU that its driver drives, and that CUDA can use. */
static bool is_cuda(const struct hr_fn *f)
{
	return hr_get(f, HR_F_VENDOR, 0) == VENDOR_NVIDIA && hr_is_gpu(f) &&
	       has_driver(f, "nvidia");
}

static void name_ssd(struct prove *s)
{
	const struct hr_topo *t = s->t;
	const struct hr_fn *f = &t->model.fn[s->ssd_fn];
	const bool cuda = s->gpu_fn == HR_NO_FN ? strncmp(s->p->gpu, "host:", 5) != 0
						: is_cuda(&t->model.fn[s->gpu_fn]);
	const bool vfio = cuda || t->topology.iommu_active || has_driver(f, "vfio-pci");
	char bdf[HR_BDF_MAX];

	snprintf(s->ssd_device, sizeof s->ssd_device, "%s:%s", vfio ? "vfio" : "pci",
		 hr_bdf(f, bdf));
}

static int refuse_blocked(struct prove *s)
{
	const enum hr_verdict v = s->pair.verdict;
	struct hr_path_choice choice;
	char verdict[48];

	if (v != HR_BLOCKED && v != HR_VFIO_CONFLICT)
		return 0;
	hr_path_evaluate(&s->t->topology, s->gpu_fn, s->ssd_fn, &choice);
	hr_error("topo: %s and %s: %s, rule %s: %s; nothing was moved; headrace topo --explain %s "
		 "%s shows the path",
		 s->p->gpu, s->p->ssd, hr_verdict_text(v, s->pair.rule, verdict), choice.rule,
		 choice.why, s->p->gpu, s->p->ssd);
	return HR_TOPO_BLOCKED;
}

/* Evaluate flows and addresses of the pair as this process uses them: the CPU writes doorbells. */
static int judge(struct prove *s)
{
	struct hr_topo *t = s->t;

	t->opt.mode = strncmp(s->ssd_device, "vfio:", 5) == 0 ? HR_MODE_VFIO_HOST : HR_MODE_HOST;
	if (hr_topo_evaluate(t, &t->topology, &t->model)) {
		hr_error("out of memory");
		return HR_TOPO_NO_ACCESS;
	}
	hr_pair_evaluate(&t->topology, s->gpu_fn, s->ssd_fn, &s->pair);
	return refuse_blocked(s);
}

/* A bridge of any kind, also one with the header of an endpoint: that of the host. */
static bool is_bridge(const struct prove *s, int32_t fn)
{
	const struct hr_fn *f = fn == HR_NO_FN ? NULL : &s->t->model.fn[fn];

	return f && (hr_is_bridge(f) || hr_get(f, HR_F_CLASS, 0) >> 16 == CLASS_BRIDGE);
}

/* Find both, and what the topology says about them. */
static int find_both(struct prove *s)
{
	const struct hr_topo_prove *p = s->p;
	int code = 0;

	s->gpu_fn = s->ssd_fn = HR_NO_FN;
	snprintf(s->gpu_device, sizeof s->gpu_device, "%s", p->gpu);
	snprintf(s->ssd_device, sizeof s->ssd_device, "%s", p->ssd);
	if (!is_device(p->gpu) || !is_device(p->ssd))
		code = read_machine(s);
	if (!code)
		code = find_proved(s, p->gpu, s->t->topology.gpus, "GPU", &s->gpu_fn);
	if (!code)
		code = find_proved(s, p->ssd, s->t->topology.ssds, "NVMe controller", &s->ssd_fn);
	if (code)
		return code;
	if (s->gpu_fn == s->ssd_fn && s->gpu_fn != HR_NO_FN) {
		hr_usage_error("topo", "the same function twice: '%s'", p->gpu);
		return HR_TOPO_USAGE;
	}
	if (is_bridge(s, s->gpu_fn) || is_bridge(s, s->ssd_fn)) {
		hr_usage_error("topo", "a bridge has no memory for SSDs, and no disk: '%s'",
			       is_bridge(s, s->gpu_fn) ? p->gpu : p->ssd);
		return HR_TOPO_USAGE;
	}
	if (s->ssd_fn != HR_NO_FN)
		name_ssd(s);
	if (s->gpu_fn == HR_NO_FN || s->ssd_fn == HR_NO_FN)
		return 0;
	return judge(s);
}

/* ---- devices */

/* The GPU of CUDA that is this function. */
static int open_cuda(struct prove *s, const char *address)
{
	int err = 0;

	for (unsigned n = 0; n < CUDA_GPUS; n++) {
		snprintf(s->gpu_device, sizeof s->gpu_device, "cuda:%u", n);
		err = hr_backend_open(&s->backend, s->gpu_device, 1, &s->e);
		if (err)
			break;
		if (strcasecmp(hr_gpu_address(&s->backend), address) == 0)
			return 0;
		s->backend.ops->close(&s->backend);
	}
	hr_error_context(&s->e, "%s: not found among the GPUs of the driver", address);
	return err ? err : -ENODEV;
}

static int open_gpu(struct prove *s)
{
	const struct hr_fn *f = s->gpu_fn == HR_NO_FN ? NULL : &s->t->model.fn[s->gpu_fn];
	char bdf[HR_BDF_MAX];

	if (f && is_cuda(f))
		return open_cuda(s, hr_bdf(f, bdf));
	if (f)
		snprintf(s->gpu_device, sizeof s->gpu_device, "host:1,bar=%s", hr_bdf(f, bdf));
	return hr_backend_open(&s->backend, s->gpu_device, 1, &s->e);
}

/* Only headrace's own scratch area is written, so a disk with other data is only read. */
static int open_store(struct prove *s)
{
	int err = 0;

	if (strncmp(s->ssd_device, "soft:", 5) != 0)
		err = hr_foreign_data_find(s->ssd->blk, s->foreign, &s->e);
	if (err == -EEXIST)
		return 0;
	if (!err)
		err = hr_ssd_open_store(s->ssd, &s->e);
	if (err == -ENOMEDIUM || err == -EMEDIUMTYPE || err == -ENOTSUP) {
		hr_error_clear(&s->e);
		err = 0;
	}
	return err;
}

static int check_scratch(struct prove *s)
{
	const struct hr_topo_prove *p = s->p;

	if (!p->scratch_bytes)
		return 0;
	if (s->ssd->has_store)
		return hr_fail(&s->e, HR_ERROR_USAGE, -EINVAL,
			       "%s has an object store, whose own scratch area is used: leave "
			       "--scratch out",
			       s->ssd->transport.name);
	return hr_blk_check(s->ssd->blk, "--scratch", p->scratch, p->scratch_bytes, &s->e);
}

static int open_ssd(struct prove *s)
{
	struct hr_config_ssd config = { .nsid = s->p->nsid,
					.queue_entries = QUEUE_ENTRIES,
					.timeout_ns = TIMEOUT_NS,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS,
					.reads_only = !s->p->scratch_bytes };
	int err = hr_transport_check(s->ssd_device, &s->e);

	hr_open_mode_set(HR_OPEN_EXISTING);
	memcpy(config.device, s->ssd_device, sizeof config.device);
	snprintf(config.serial, sizeof config.serial, "%s", s->p->serial ? s->p->serial : "");
	if (!err)
		err = hr_hostmem_set_kind(hr_transport_is_physical(config.device)
						  ? HR_HOSTMEM_PHYSICAL
						  : HR_HOSTMEM_OWN,
					  &s->e);
	if (!err)
		err = hr_ssd_up(s->ssd, &config, &s->e);
	if (!err)
		err = open_store(s);
	if (!err)
		err = check_scratch(s);
	if (!err && (s->ssd->has_store || s->p->scratch_bytes))
		err = hr_ssd_reserve(s->ssd, &s->e);
	return err;
}

/* ---- output */

static double rate(const struct hr_exchange_row *row)
{
	return row->ns ? (double)row->bytes / (double)row->ns : 0;
}

static void put_size(uint64_t bytes, char text[SIZE_TEXT])
{
	if (bytes == 0)
		snprintf(text, SIZE_TEXT, "-");
	else if (bytes < 1u << 20)
		snprintf(text, SIZE_TEXT, "%llu KiB", (unsigned long long)bytes >> 10);
	else
		snprintf(text, SIZE_TEXT, "%llu MiB", (unsigned long long)bytes >> 20);
}

static void json_row(struct hr_json *o, const struct hr_exchange_row *row)
{
	const struct hr_difference *d = &row->difference;
	char word[20];

	hr_json_object(o, NULL);
	hr_json_string(o, "direction",
		       row->way == HR_EXCHANGE_TO_GPU ? "ssd_to_gpu" : "gpu_to_ssd");
	if (row->bytes)
		hr_json_u64(o, "bytes", row->bytes);
	hr_json_string(o, "outcome", hr_exchange_word(row->outcome));
	if (*row->by)
		hr_json_string(o, "by", row->by);
	if (row->ns)
		hr_json_fixed(o, "gb_per_s", rate(row), 3);
	if (d->differing) {
		hr_json_string(o, "fault", hr_difference_word(d->kind));
		hr_json_i64(o, "offset", (int64_t)d->at);
	}
	if (d->differing && d->kind != HR_DIFFERENCE_UNKNOWN) {
		snprintf(word, sizeof word, "%016llx", (unsigned long long)d->expected);
		hr_json_string(o, "expected", word);
		snprintf(word, sizeof word, "%016llx", (unsigned long long)d->found);
		hr_json_string(o, "got", word);
	}
	hr_json_string(o, "text", row->text);
	hr_json_close(o);
}

/* Begin the output with the first row: an error before it leaves stdout empty. */
static void begin_rows(struct prove *s)
{
	struct hr_topo *t = s->t;
	const bool both = s->gpu_fn != HR_NO_FN && s->ssd_fn != HR_NO_FN;
	char verdict[48] = "";

	s->rows = true;
	if (both)
		hr_verdict_text(s->pair.verdict, s->pair.rule, verdict);
	if (t->json) {
		t->machine = hr_topo_machine(t);
		hr_topo_json_start(t);
		hr_json_string(t->json, "gpu", s->p->gpu);
		hr_json_string(t->json, "nvme", s->p->ssd);
		hr_json_string(t->json, "gpu_device", s->backend.name);
		hr_json_string(t->json, "nvme_device", s->ssd_device);
		if (both) {
			hr_json_string(t->json, "verdict", verdict);
			hr_json_string(t->json, "rule", hr_rules[s->pair.rule].id);
		}
		hr_json_array(t->json, "rows");
		return;
	}
	fputs(s->p->gpu, t->out);
	if (strcmp(s->p->gpu, s->backend.name) != 0)
		fprintf(t->out, " (%s)", s->backend.name);
	fprintf(t->out, " and %s (%s)%s%s\n", s->p->ssd, s->ssd->ctrl->model,
		both ? ": topology " : "", verdict);
	if (s->foreign[0])
		fprintf(t->out, "the disk holds %s: it is only read\n", s->foreign);
}

static void show_exchange_row(void *to, const struct hr_exchange_row *row)
{
	struct prove *s = to;
	char size[SIZE_TEXT], gbs[24] = "";

	if (!s->rows)
		begin_rows(s);
	if (s->t->json) {
		json_row(s->t->json, row);
		return;
	}
	put_size(row->bytes, size);
	if (row->ns)
		snprintf(gbs, sizeof gbs, "%.2f GB/s", rate(row));
	fprintf(s->t->out, "%-21s %8s  %-10s %11s  %s\n", hr_exchange_way_text(row->way), size,
		hr_exchange_word(row->outcome), gbs, row->by);
	if (row->outcome > HR_EXCHANGE_WEAK) {
		fputs("    ", s->t->out);
		hr_print_wrapped(s->t->out, 4, 4, row->text);
	}
	fflush(s->t->out);
}

static int exit_of(const struct hr_exchange_result *r)
{
	static const int code[HR_EXCHANGE_OUTCOMES] = {
		[HR_EXCHANGE_EQUAL] = HR_TOPO_DIRECT,	  [HR_EXCHANGE_WEAK] = HR_TOPO_UNKNOWN,
		[HR_EXCHANGE_UNPROVEN] = HR_TOPO_UNKNOWN, [HR_EXCHANGE_FAILED] = HR_TOPO_BLOCKED,
		[HR_EXCHANGE_DIFFERS] = HR_TOPO_LOSS,
	};
	const int a = code[r->worst[0].outcome], b = code[r->worst[1].outcome];

	return (int)hr_topo_worse((enum hr_topo_exit)a, (enum hr_topo_exit)b);
}

static void conclude_prove(struct prove *s, const struct hr_exchange_result *r, int code)
{
	FILE *out = s->t->out;

	for (int way = 0; way < HR_EXCHANGE_WAYS; way++) {
		const struct hr_exchange_row *worst = &r->worst[way];
		const char *name = hr_exchange_way_text((enum hr_exchange_way)way);
		char most[SIZE_TEXT];

		put_size(r->most[way], most);
		if (worst->outcome == HR_EXCHANGE_EQUAL)
			fprintf(out, "proven: %s, 4 KiB to %s\n", name, most);
		else if (worst->outcome == HR_EXCHANGE_WEAK)
			fprintf(out, "NOT proven: %s: %s\n", name, worst->text);
		else
			fprintf(out, "NOT proven: %s: %s\n", name,
				worst->outcome == HR_EXCHANGE_UNPROVEN
					? "see above"
					: hr_exchange_word(worst->outcome));
	}
	if (r->cut)
		fputs("not tested: larger sizes; the namespace or the memory is smaller\n", out);
	fputs("not tested: doorbells written by the GPU (flow F1): here the CPU writes them; headrace "
	      "run uses them\n",
	      out);
	if (code == HR_TOPO_LOSS)
		fputs("Do not use this path, even if its rate is right: memory.path = \"bounce\" "
		      "does without.\n",
		      out);
	else if (code == HR_TOPO_UNKNOWN)
		hr_print_wrapped(out, 0, 2,
				 "for both ways: headrace store format on this SSD (destroys its "
				 "data), or --scratch FIRST,BYTES --force with a range that may be "
				 "overwritten");
}

static int run_exchange(struct prove *s)
{
	const struct hr_exchange x = { .ssd = s->ssd,
				       .backend = &s->backend,
				       .scratch = s->p->scratch,
				       .scratch_bytes = s->p->scratch_bytes,
				       .show = show_exchange_row,
				       .to = s };
	struct hr_exchange_result r;
	const int err = hr_exchange_run(&x, &r, &s->e);
	int code = err ? HR_TOPO_NO_ACCESS : exit_of(&r);

	if (err == -EINTR)
		hr_fail(&s->e, HR_ERROR_FAILED, err, "topo: interrupted");
	if (err)
		code = no_access(s, err);
	if (s->t->json && s->rows) {
		hr_json_close(s->t->json);
		hr_json_bool(s->t->json, "proven", code == HR_TOPO_DIRECT);
		hr_json_string(s->t->json, "doorbell_by_gpu", "not tested");
		return hr_topo_json_end(s->t->json, code);
	}
	if (!err)
		conclude_prove(s, &r, code);
	return code;
}

int hr_topo_prove(struct hr_topo *t, const struct hr_topo_prove *p)
{
	static struct prove s; /* one per process */
	static struct hr_ssd ssd;
	int code, err;

	s.t = t;
	s.p = p;
	s.ssd = &ssd;
	hr_signals_catch();
	hr_signals_announce();
	code = find_both(&s);
	if (code)
		return code;
	err = open_ssd(&s);
	if (!err)
		err = open_gpu(&s);
	if (err)
		code = no_access(&s, err);
	else
		code = run_exchange(&s);
	if (s.backend.ops)
		s.backend.ops->close(&s.backend);
	hr_ssd_down(&ssd);
	return code;
}
