/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --fix: the smallest ACS change, the commands for it, its side effects, and the commands that undo
 * it.
 */
#include "boot/cmd/topo/views/views.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "config/base/log.h"
#include "nvme/transport/disk_use.h"
#include "pci/machine.h"
#include "pci/topo/forecast/change.h"
#include "pci/topo/rules/groups.h"

/*
 * Print the boot parameter of this kernel version. 6.11 to 6.14 have both parameters with faults,
 * unless a stable update corrected them.
 */
static void put_boot(const struct hr_topo *t, const struct hr_fix *fix)
{
	const uint32_t kernel = t->topology.boot.kernel;
	char bdf[HR_BDF_MAX];

	if (kernel < HR_KERNEL_DISABLE_REDIR) {
		fputs("at boot:  this kernel has no parameter for it: pci=disable_acs_redir= came "
		      "with 4.19\n",
		      t->out);
		return;
	}
	fputs("at boot:  pci=disable_acs_redir=", t->out);
	for (unsigned i = 0; i < fix->boots; i++)
		fprintf(t->out, "%s%s", i ? ";" : "", hr_bdf(&t->model.fn[fix->boot[i]], bdf));
	fputs("\n", t->out);
	if (kernel < HR_KERNEL_CONFIG_ACS) {
		fputs("          (quote the semicolons in GRUB)\n", t->out);
		return;
	}
	fputs("   or:    pci=config_acs=", t->out);
	for (unsigned i = 0; i < fix->boots; i++)
		fprintf(t->out, "%sx0x00xx@%s", i ? ";" : "",
			hr_bdf(&t->model.fn[fix->boot[i]], bdf));
	fputs("\n", t->out);
	fputs("          (quote the semicolons in GRUB; config_acs needs Linux 6.11; 6.11 to 6.14, "
	      "if no stable\n          update corrected them, keep the redirect that firmware sets, "
	      "and take one address in\n          config_acs)\n",
	      t->out);
}

static void put_setpci(const struct hr_topo *t, const struct hr_fix *fix, bool undo)
{
	char text[80];

	for (unsigned i = 0; i < fix->count; i++)
		fprintf(t->out, "          %s\n",
			hr_topo_setpci(t, &fix->write[i], undo, text, sizeof text));
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
			"%llu pairs are direct now, because ACS was cleared since the last boot; the "
			"next boot redirects them again\n",
			(unsigned long long)fix->boot_pairs);
	put_boot(t, fix);
	if (fix->count == 0)
		return;
	if (locked(t)) {
		fprintf(t->out,
			"now:      not possible: kernel lockdown (%s) refuses setpci, only "
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
	const struct hr_topology *e = &t->topology;
	char name[16], bdf[HR_BDF_MAX];

	fprintf(t->out, "  %s: %u IOMMU groups predicted", when, g->count);
	for (uint32_t j = 0; j < e->ssds && j < 16; j++) {
		int32_t blocker = hr_groups_blocker(&t->model, g, e->ssd[j], false);

		bool unsure = hr_groups_unsure(g, e->ssd[j], blocker);

		fprintf(t->out, "%s %s in group %u, VFIO %s", j ? ";" : ":",
			hr_topo_name(t, e->ssd[j], name), g->of[e->ssd[j]],
			unsure		      ? "may not open it"
			: blocker == HR_NO_FN ? "can open it"
					      : "blocked by ");
		if (blocker != HR_NO_FN && !unsure)
			fprintf(t->out, "%s (%s)", hr_bdf(&t->model.fn[blocker], bdf),
				t->model.fn[blocker].driver);
	}
	fputc('\n', t->out);
}

/* One command line for each write; undo: with the old bits. */
static void json_setpci(const struct hr_topo *t, const struct hr_fix *fix, const char *key,
			bool undo)
{
	char text[80];

	hr_json_array(t->json, key);
	for (unsigned i = 0; i < fix->count && !locked(t); i++)
		hr_json_string(t->json, NULL,
			       hr_topo_setpci(t, &fix->write[i], undo, text, sizeof text));
	hr_json_close(t->json);
}

static void json_plan(const struct hr_topo *t, const struct hr_fix *fix)
{
	hr_topo_json_start(t);
	hr_json_array(t->json, "ports");
	for (unsigned i = 0; i < fix->count; i++)
		hr_topo_json_address(t, t->json, NULL, fix->write[i].fn);
	hr_json_close(t->json);
	hr_json_u64(t->json, "pairs_redirected", fix->pairs);
	hr_json_u64(t->json, "pairs_unread", fix->unread);
	hr_json_u64(t->json, "pairs_redirected_at_boot", fix->boot_pairs);
	hr_json_array(t->json, "boot_ports");
	for (unsigned i = 0; i < fix->boots; i++)
		hr_topo_json_address(t, t->json, NULL, fix->boot[i]);
	hr_json_close(t->json);
	if (locked(t))
		hr_json_string(t->json, "lockdown", t->model.sys.lockdown);
	json_setpci(t, fix, "setpci", false);
	json_setpci(t, fix, "undo", true);
}

static void json_groups(const struct hr_topo *t, const struct hr_groups *g, const char *when)
{
	const struct hr_topology *e = &t->topology;
	struct hr_json *o = t->json;

	hr_json_object(o, when);
	hr_json_u64(o, "predicted_groups", g->count);
	hr_json_array(o, "nvme");
	for (uint32_t j = 0; j < e->ssds; j++) {
		int32_t blocker = hr_groups_blocker(&t->model, g, e->ssd[j], false);

		hr_json_object(o, NULL);
		hr_topo_json_address(t, o, "address", e->ssd[j]);
		hr_json_u64(o, "group", g->of[e->ssd[j]]);
		if (!hr_groups_unsure(g, e->ssd[j], blocker))
			hr_json_bool(o, "vfio_viable", blocker == HR_NO_FN);
		hr_json_close(o);
	}
	hr_json_close(o);
	hr_json_close(o);
}

static void put_triangle(const struct hr_topo *t, const struct hr_groups *before,
			 const struct hr_groups *after)
{
	if (after->count == before->count)
		return;
	fputs("  Side effect: without redirect GPU and SSD may share an IOMMU group; VFIO cannot open "
	      "the SSD\n  then while the GPU has a driver of its own. setpci leaves the groups of boot "
	      "in place, though\n  they no longer isolate.\n",
	      t->out);
}

/* Groups after a boot with the parameter. */
static int boot_groups(struct hr_topo *t, const struct hr_fix *fix, struct hr_groups *g)
{
	struct hr_next_boot boot = t->topology.boot;

	boot.disable = hr_fix_list(&t->model, fix);
	return !boot.disable || hr_groups_at_boot(&t->model, &boot, g) ? HR_TOPO_NO_ACCESS : 0;
}

/* Set the facts to their values after the fix, and compute verdicts and groups again. */
static int predict(struct hr_topo *t, const struct hr_fix *fix, bool written)
{
	struct hr_groups before = { 0 }, after = { 0 };

	if (hr_groups_at_boot(&t->model, &t->topology.boot, &before))
		return HR_TOPO_NO_ACCESS;
	if (t->json) {
		json_groups(t, &before, "before");
	} else {
		fputs("side effects:\n", t->out);
		put_groups(t, &before, "before");
	}
	hr_fix_assume(&t->model, fix);
	t->model.regrouped = !written; /* a running kernel keeps the groups of its boot */
	after = before;
	if (hr_topo_evaluate(t, &t->topology, &t->model) ||
	    (!written && boot_groups(t, fix, &after)))
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

/* Print the first n writes with the values read back; `failed`: the last one failed. */
static void put_written(const struct hr_topo *t, const struct hr_fix *fix, unsigned n, bool failed)
{
	struct hr_json *const o = t->json;
	char bdf[HR_BDF_MAX];

	if (o)
		hr_json_array(o, "written");
	for (unsigned i = 0; i < n; i++) {
		const struct hr_fix_write *w = &fix->write[i];
		const bool bad = failed && i == n - 1;

		if (!o) {
			fprintf(t->out, "written:  %s ACSCtl %04x -> %04x%s\n",
				hr_bdf(&t->model.fn[w->fn], bdf), w->before, w->after,
				bad ? "  FAILED" : "");
			continue;
		}
		hr_json_object(o, NULL);
		hr_topo_json_address(t, o, "address", w->fn);
		hr_json_u64(o, "before", w->before);
		hr_json_u64(o, "after", w->after);
		hr_json_bool(o, "failed", bad);
		hr_json_close(o);
	}
	if (o)
		hr_json_close(o);
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

/* True when the change would reroute running transfers of a pair in use. */
static bool is_busy(const struct hr_topo *t, const struct hr_pair *p, struct hr_error *e)
{
	const struct hr_fn *const end[] = { &t->model.fn[p->gpu], &t->model.fn[p->ssd] };
	char bdf[HR_BDF_MAX];

	for (unsigned i = 0; i < 2; i++)
		if (held_through_vfio(end[i]))
			return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
				       "%s: a process uses it through VFIO", hr_bdf(end[i], bdf));
	return hr_disks_check_unused(hr_bdf(end[1], bdf), e) !=
	       0; /* unknown users are users, too */
}

static bool any_busy(const struct hr_topo *t, struct hr_error *e)
{
	const struct hr_topology *topology = &t->topology;
	struct hr_pair p;

	for (uint32_t i = 0; i < topology->gpus; i++)
		for (uint32_t j = 0; j < topology->ssds; j++) {
			hr_pair_evaluate(topology, topology->gpu[i], topology->ssd[j], &p);
			if (p.common != HR_NO_FN && p.any_redirect && is_busy(t, &p, e))
				return true;
		}
	return false;
}

static int apply(struct hr_topo *t, struct hr_fix *fix)
{
	struct hr_error e = { 0 };
	char bdf[HR_BDF_MAX];
	unsigned failed = 0;
	int err;

	if (hr_fix_refused(&t->topology, fix, &e) || any_busy(t, &e)) {
		hr_error_context(&e, "not applied");
		hr_error_log(&e, HR_LOG_ERROR);
		return HR_TOPO_REFUSED;
	}
	err = hr_fix_write_all(&t->model, fix, &failed);
	put_written(t, fix, err ? failed + 1 : fix->count, err != 0);
	if (!err)
		return 0;
	hr_error("%s: ACSCtl was not changed: %s", hr_bdf(&t->model.fn[fix->write[failed].fn], bdf),
		 strerror(-err));
	return HR_TOPO_REFUSED;
}

int hr_topo_fix(struct hr_topo *t, bool now)
{
	struct hr_fix fix;
	int err = 0;

	if (hr_fix_plan(&t->topology, NULL, NULL, &fix)) {
		hr_error("more than %u ports to change", HR_FIX_MAX);
		return HR_TOPO_REFUSED;
	}
	if (fix.unread && !t->json)
		fprintf(t->out,
			"%llu pairs share a switch, but ACS of their ports was not read: as root, "
			"or with a capture by sudo lspci -vvvxxxx, more changes may be found\n",
			(unsigned long long)fix.unread);
	if (t->json)
		hr_topo_json_start(t);
	if (fix.boots == 0 && fix.count == 0 && t->json)
		hr_topo_ports_json(t);
	if (fix.boots == 0 && fix.count == 0 && fix.unread && !t->json) {
		fputs("no ACS change found: no ACS register that was read redirects\n", t->out);
	} else if (fix.boots == 0 && fix.count == 0 && !t->json && hr_topo_ports_matter(t)) {
		fputs("no pair is known to share a switch and to be redirected\n", t->out);
	} else if (t->topology.guest && !t->json) {
		fputs("no ACS change would help: the ports of this virtual machine are emulated\n"
		      "ask the host: run headrace topo on the machine that owns the hardware\n",
		      t->out);
	} else if (fix.boots == 0 && fix.count == 0 && !t->json) {
		fputs("no ACS change would help: no pair shares a switch and is redirected\n",
		      t->out);
	} else if (t->json) {
		json_plan(t, &fix);
	} else {
		put_plan(t, &fix);
	}
	if (fix.boots == 0 && fix.count == 0 && !t->json && hr_topo_ports_matter(t))
		hr_topo_ports(t);
	if (fix.count == 0)
		return now ? HR_TOPO_REFUSED : (int)hr_topo_exit_all(t);
	if (now)
		err = apply(t, &fix);
	if (!err)
		err = predict(t, &fix, now);
	return err ? err : (int)hr_topo_exit_all(t);
}
