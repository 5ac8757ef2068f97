/* --fix: the smallest ACS change, how to make it, what else it does, and how to undo it. */
#include "boot/cmd/topo/fix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "boot/cmd/report/json.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/matrix.h"
#include "config/log.h"
#include "nvme/inuse.h"
#include "pci/apply.h"
#include "pci/topo/change.h"
#include "pci/topo/groups.h"

/* What that version takes; 6.11 to 6.14 take both with faults, unless a stable update mended them. */
static void put_boot(const struct hr_topo *t, const struct hr_fix *fix)
{
	const uint32_t kernel = t->engine.boot.kernel;
	char bdf[HR_BDF_MAX];

	if (kernel < HR_KERNEL_DISABLE_REDIR) {
		fputs("at boot:  no parameter of this kernel does it: pci=disable_acs_redir= came "
		      "with 4.19\n",
		      t->out);
		return;
	}
	fputs("at boot:  pci=disable_acs_redir=", t->out);
	for (unsigned i = 0; i < fix->boots; i++)
		fprintf(t->out, "%s%s", i ? ";" : "", hr_bdf(&t->model.fn[fix->boot[i]], bdf));
	fputs("\n", t->out);
	if (kernel >= HR_KERNEL_CONFIG_ACS) {
		fputs("   or:    pci=config_acs=", t->out);
		for (unsigned i = 0; i < fix->boots; i++)
			fprintf(t->out, "%sx0x00xx@%s", i ? ";" : "",
				hr_bdf(&t->model.fn[fix->boot[i]], bdf));
		fputs("\n", t->out);
	}
	fputs("          (quote the semicolons in GRUB; config_acs needs Linux 6.11; 6.11 to 6.14, "
	      "if no stable update mended\n          them, keep the redirect that firmware sets, "
	      "and take one address in config_acs)\n",
	      t->out);
}

/* The command line of one write, or of its undoing. */
static const char *setpci(const struct hr_topo *t, const struct hr_fix_write *w, bool undo,
			  char *text, size_t bytes)
{
	const bool wide = w->width == 4;
	char bdf[HR_BDF_MAX];

	snprintf(text, bytes, "setpci -s %s ECAP_ACS+%u.%c=%x:2c", hr_bdf(&t->model.fn[w->fn], bdf),
		 wide ? 8u : 6u, wide ? 'l' : 'w', undo ? w->before & 0x2c : 0);
	return text;
}

static void put_setpci(const struct hr_topo *t, const struct hr_fix *fix, bool undo)
{
	char text[80];

	for (unsigned i = 0; i < fix->count; i++)
		fprintf(t->out, "          %s\n",
			setpci(t, &fix->write[i], undo, text, sizeof text));
}

/* Rule A16: registers cannot be written from user space. */
static bool locked(const struct hr_topo *t)
{
	return t->model.sys.lockdown[0] && strcmp(t->model.sys.lockdown, "none") != 0;
}

static void put_plan(const struct hr_topo *t, const struct hr_fix *fix)
{
	if (fix->pairs)
		fprintf(t->out, "%llu pairs are redirected at %u ports\n",
			(unsigned long long)fix->pairs, fix->count);
	if (fix->boot_pairs)
		fprintf(t->out,
			"%llu pairs are direct now, as ACS was cleared since the last boot; the "
			"next boot redirects them again\n",
			(unsigned long long)fix->boot_pairs);
	put_boot(t, fix);
	if (fix->count == 0)
		return;
	if (locked(t)) {
		fprintf(t->out,
			"now:      not on this machine: kernel lockdown (%s) refuses setpci, only "
			"the boot parameter works\n",
			t->model.sys.lockdown);
		return;
	}
	fputs("now:\n", t->out);
	put_setpci(t, fix, false);
	fputs("undo:\n", t->out);
	put_setpci(t, fix, true);
}

static void put_groups(const struct hr_topo *t, const struct hr_groups *g, const char *when)
{
	const struct hr_engine *e = &t->engine;
	char name[16], bdf[HR_BDF_MAX];

	fprintf(t->out, "  %s: %u IOMMU groups predicted", when, g->count);
	for (uint32_t j = 0; j < e->ssds && j < 16; j++) {
		int32_t blocker = hr_groups_blocker(&t->model, g, e->ssd[j], false);

		bool unsure = hr_groups_unsure(g, e->ssd[j], blocker);

		fprintf(t->out, "%s %s in group %u, VFIO %s", j ? ";" : ":",
			hr_topo_name(t, e->ssd[j], name), g->of[e->ssd[j]],
			unsure		      ? "not known to open it"
			: blocker == HR_NO_FN ? "can open it"
					      : "kept out by ");
		if (blocker != HR_NO_FN && !unsure)
			fprintf(t->out, "%s (%s)", hr_bdf(&t->model.fn[blocker], bdf),
				t->model.fn[blocker].driver);
	}
	fputc('\n', t->out);
}

/* One command line for each write; undo: with the bits of before. */
static void json_setpci(const struct hr_topo *t, const struct hr_fix *fix, const char *key,
			bool undo)
{
	struct json_object *list = hr_json_array(t->json, key);
	char text[80];

	for (unsigned i = 0; i < fix->count && !locked(t); i++)
		json_object_array_add(list, json_object_new_string(setpci(t, &fix->write[i], undo,
									  text, sizeof text)));
}

static void json_plan(const struct hr_topo *t, const struct hr_fix *fix)
{
	struct json_object *list = hr_json_array(t->json, "ports");
	char bdf[HR_BDF_MAX];

	hr_json_u64(t->json, "pairs_redirected", fix->pairs);
	hr_json_u64(t->json, "pairs_unread", fix->unread);
	for (unsigned i = 0; i < fix->count; i++)
		json_object_array_add(
			list, json_object_new_string(hr_bdf(&t->model.fn[fix->write[i].fn], bdf)));
	hr_json_u64(t->json, "pairs_redirected_at_boot", fix->boot_pairs);
	list = hr_json_array(t->json, "boot_ports");
	for (unsigned i = 0; i < fix->boots; i++)
		json_object_array_add(
			list, json_object_new_string(hr_bdf(&t->model.fn[fix->boot[i]], bdf)));
	if (locked(t))
		hr_json_string(t->json, "lockdown", t->model.sys.lockdown);
	json_setpci(t, fix, "setpci", false);
	json_setpci(t, fix, "undo", true);
}

static void json_groups(const struct hr_topo *t, const struct hr_groups *g, const char *when)
{
	struct json_object *o = hr_json_object(t->json, when), *list, *item;
	const struct hr_engine *e = &t->engine;

	hr_json_u64(o, "predicted_groups", g->count);
	list = hr_json_array(o, "nvme");
	for (uint32_t j = 0; j < e->ssds; j++) {
		int32_t blocker = hr_groups_blocker(&t->model, g, e->ssd[j], false);

		item = hr_json_append(list);
		hr_topo_json_address(t, item, "address", e->ssd[j]);
		hr_json_u64(item, "group", g->of[e->ssd[j]]);
		if (!hr_groups_unsure(g, e->ssd[j], blocker))
			hr_json_bool(item, "vfio_viable", blocker == HR_NO_FN);
	}
}

static void put_triangle(const struct hr_topo *t, const struct hr_groups *before,
			 const struct hr_groups *after)
{
	if (after->count == before->count)
		return;
	fputs("  The corner that is given up: without redirect GPU and SSD may share an IOMMU "
	      "group, "
	      "and a GPU on its own\n  driver then keeps VFIO from the SSD. setpci leaves the "
	      "groups of boot in place, though they no longer isolate.\n",
	      t->out);
}

/* Groups after a boot with the parameter. */
static int boot_groups(struct hr_topo *t, const struct hr_fix *fix, struct hr_groups *g)
{
	struct hr_boot boot = t->engine.boot;

	boot.disable = hr_fix_list(&t->model, fix);
	return !boot.disable || hr_groups_at_boot(&t->model, &boot, g) ? HR_TOPO_NO_ACCESS : 0;
}

/* Facts change to what the fix will make of them; verdicts and groups are computed anew. */
static int predict(struct hr_topo *t, const struct hr_fix *fix, bool written)
{
	struct hr_groups before = { 0 }, after = { 0 };

	if (hr_groups_at_boot(&t->model, &t->engine.boot, &before))
		return HR_TOPO_NO_ACCESS;
	if (t->json) {
		json_groups(t, &before, "before");
	} else {
		fputs("side effects:\n", t->out);
		put_groups(t, &before, "before");
	}
	hr_fix_assume(&t->model, fix);
	t->model.regrouped = !written; /* a running kernel keeps the groups of boot */
	after = before;
	if (hr_topo_engine(t, &t->engine, &t->model) || (!written && boot_groups(t, fix, &after)))
		return HR_TOPO_NO_ACCESS;
	if (t->json) {
		json_groups(t, &after, "after");
		t->json_pairs = true;
		return 0;
	}
	put_groups(t, &after, "after ");
	put_triangle(t, &before, &after);
	fputs("verdicts after it:\n", t->out);
	hr_topo_matrix(t);
	return 0;
}

/* The first n writes, as they were read back; the last of them failed, or none. */
static void put_written(const struct hr_topo *t, const struct hr_fix *fix, unsigned n, bool failed)
{
	struct json_object *list = t->json ? hr_json_array(t->json, "written") : NULL, *o;
	char bdf[HR_BDF_MAX];

	for (unsigned i = 0; i < n; i++) {
		const struct hr_fix_write *w = &fix->write[i];
		const bool bad = failed && i == n - 1;

		if (!list) {
			fprintf(t->out, "written:  %s ACSCtl %04x -> %04x%s\n",
				hr_bdf(&t->model.fn[w->fn], bdf), w->before, w->after,
				bad ? "  FAILED" : "");
			continue;
		}
		o = hr_json_append(list);
		hr_topo_json_address(t, o, "address", w->fn);
		hr_json_u64(o, "before", w->before);
		hr_json_u64(o, "after", w->after);
		hr_json_bool(o, "failed", bad);
	}
}

/* VFIO gives a group to one process at a time. */
static bool held_through_vfio(const struct hr_fn *f)
{
	char path[64];
	int fd;

	if (!f->driver || !strstr(f->driver, "vfio") || !hr_known(f, HR_F_GROUP))
		return false;
	snprintf(path, sizeof path, "/dev/vfio/%u", hr_get(f, HR_F_GROUP, 0));
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EBUSY;
}

/* The change would reroute running transfers of a pair that is in use. */
static bool is_busy(const struct hr_topo *t, const struct hr_pair *p, char *reason)
{
	const struct hr_fn *const end[] = { &t->model.fn[p->gpu], &t->model.fn[p->ssd] };
	char bdf[HR_BDF_MAX];

	for (unsigned i = 0; i < 2; i++)
		if (held_through_vfio(end[i])) {
			snprintf(reason, HR_LOG_LINE_MAX, "%s: a process has it through VFIO",
				 hr_bdf(end[i], bdf));
			return true;
		}
	return hr_controller_unused(hr_bdf(end[1], bdf), reason) == -EBUSY;
}

static bool any_busy(const struct hr_topo *t, char *reason)
{
	const struct hr_engine *e = &t->engine;
	struct hr_pair p;

	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++) {
			hr_judge(e, e->gpu[i], e->ssd[j], &p);
			if (p.common != HR_NO_FN && p.any_redirect && is_busy(t, &p, reason))
				return true;
		}
	return false;
}

static int apply(struct hr_topo *t, struct hr_fix *fix)
{
	char reason[HR_LOG_LINE_MAX];
	unsigned failed = 0;
	int err;

	if (hr_fix_refused(&t->engine, fix, reason) || any_busy(t, reason)) {
		fprintf(stderr, "headrace: error: not applied: %s\n", reason);
		return HR_TOPO_REFUSED;
	}
	err = hr_fix_write_all(&t->model, fix, &failed);
	put_written(t, fix, err ? failed + 1 : fix->count, err != 0);
	if (!err)
		return 0;
	fprintf(stderr, "headrace: error: %s: ACSCtl was not changed: %s\n",
		hr_bdf(&t->model.fn[fix->write[failed].fn], reason), strerror(-err));
	return HR_TOPO_REFUSED;
}

int hr_topo_fix(struct hr_topo *t, bool now)
{
	struct hr_fix fix;
	int err = 0;

	if (hr_fix_plan(&t->engine, NULL, NULL, &fix)) {
		fprintf(stderr, "headrace: error: more than %u ports to change\n", HR_FIX_MAX);
		return HR_TOPO_REFUSED;
	}
	if (fix.unread && !t->json)
		fprintf(t->out,
			"%llu pairs share a switch, but ACS of their ports was not read: as root, "
			"or from sudo lspci -vvvxxxx, there may be more to change\n",
			(unsigned long long)fix.unread);
	if (fix.boots == 0 && fix.count == 0 && fix.unread && !t->json) {
		fputs("no ACS change can be named: nothing that was read redirects\n", t->out);
	} else if (fix.boots == 0 && fix.count == 0 && !t->json) {
		fputs("no ACS change would help: no pair shares a switch and is redirected\n",
		      t->out);
	} else if (t->json) {
		json_plan(t, &fix);
	} else {
		put_plan(t, &fix);
	}
	if (fix.count == 0)
		return now ? HR_TOPO_REFUSED : (int)hr_topo_exit_all(t);
	if (now)
		err = apply(t, &fix);
	if (!err)
		err = predict(t, &fix, now);
	return err ? err : (int)hr_topo_exit_all(t);
}
