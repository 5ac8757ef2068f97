/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo/views/views.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/headline.h"

#define UNREAD_MAX 8u  /* ports without an ACS control that are listed */
#define LISTED_MAX 16u /* ports that are listed without --all */
#define OTHERS_MAX 6u  /* also if they are not between cards of one switch */

enum role { UNKNOWN_ROLE, ROOT_PORT, NO_CARD, LONE_CARD, BETWEEN, ROLES };

static const struct {
	const char *word, *what;
} roles[ROLES] = {
	[UNKNOWN_ROLE] = { "unknown", "the tree above and below it is not in the text" },
	[ROOT_PORT] = { "no", "root port: leave it; data of devices below one switch does not "
			      "reach it, and other data goes through the CPU anyway" },
	[NO_CARD] = { "no", "no GPU, SSD or network card below it: leave it" },
	[LONE_CARD] = { "no", "no second GPU, SSD or network card below its switch: leave it" },
	[BETWEEN] = { "yes", "between cards of one switch: clear it, and all others of the path" },
};

const char *hr_topo_setpci(const struct hr_topo *t, const struct hr_fix_write *w, bool undo,
			   char *text, size_t bytes)
{
	const bool wide = w->width == 4;
	char bdf[HR_BDF_MAX];

	snprintf(text, bytes, "setpci -s %s ECAP_ACS+%u.%c=%x:2c", hr_bdf(&t->model.fn[w->fn], bdf),
		 wide ? 8u : 6u, wide ? 'l' : 'w', undo ? w->before & 0x2c : 0);
	return text;
}

/* lspci -t shows functions without a class: any of them may be a card. */
static bool is_card(const struct hr_fn *f)
{
	if (!hr_known(f, HR_F_CLASS))
		return !hr_is_bridge(f);
	return hr_is_gpu(f) || hr_is_nvme(f) || hr_is_nic(f);
}

/* Cards below each function; NULL: out of memory. */
static uint32_t *count_cards(const struct hr_topo *t)
{
	const struct hr_model *m = &t->model;
	uint32_t *cards = calloc(m->count + 1, sizeof *cards);

	for (uint32_t i = 0; cards && i < m->count; i++) {
		unsigned steps = 0;

		if (!is_card(&m->fn[i]))
			continue;
		for (int32_t at = m->fn[i].parent; at != HR_NO_FN && steps++ < HR_DEPTH_MAX;
		     at = m->fn[at].parent)
			cards[at]++;
	}
	return cards;
}

static enum role role_of(const struct hr_topo *t, const uint32_t *cards, int32_t index)
{
	const struct hr_fn *f = &t->model.fn[index];

	if (f->parent == HR_NO_FN && f->bus == 0 && hr_known(f, HR_F_CLASS))
		return ROOT_PORT;
	if (!hr_known(f, HR_F_SECONDARY) || f->orphan)
		return UNKNOWN_ROLE;
	if (f->parent == HR_NO_FN)
		return ROOT_PORT;
	if (cards[index] == 0)
		return NO_CARD;
	return cards[f->parent] > cards[index] || cards[index] > 1 ? BETWEEN : LONE_CARD;
}

bool hr_topo_ports_matter(const struct hr_topo *t)
{
	if (t->topology.guest)
		return false;
	if (t->model.acs_lines.lines)
		return true;
	for (uint32_t i = 0; i < t->model.count; i++)
		if (t->topology.derived[i].redirect)
			return true;
	return false;
}

static void put_port(const struct hr_topo *t, const struct hr_fix_write *w, enum role role)
{
	const struct hr_fn *f = &t->model.fn[w->fn];
	char bdf[HR_BDF_MAX], what[256], text[640], set[80], undo[80];

	hr_topo_describe(t, f, what, sizeof what);
	snprintf(text, sizeof text, "%s  ACSCtl %04x, %s%s%s", hr_bdf(f, bdf), w->before, what,
		 what[0] ? ": " : "", roles[role].what);
	fputs("  ", t->out);
	hr_print_wrapped(t->out, 2, 16, text);
	if (role != UNKNOWN_ROLE && role != BETWEEN)
		return;
	fprintf(t->out, "                %s\n          undo: %s\n",
		hr_topo_setpci(t, w, false, set, sizeof set),
		hr_topo_setpci(t, w, true, undo, sizeof undo));
}

/* Ports without a known control: a pair may need them, too. */
static void put_unread(const struct hr_topo *t)
{
	char text[512] = "not in the text: the ACS control of", bdf[HR_BDF_MAX];
	size_t used = strlen(text);
	unsigned n = 0;

	for (uint32_t i = 0; i < t->model.count; i++) {
		const struct hr_fn *f = &t->model.fn[i];

		if (hr_get(f, HR_F_CLASS, 0) >> 8 != 0x0604 || !t->topology.derived[i].acs_unknown)
			continue;
		if (n++ < UNREAD_MAX)
			used += (size_t)snprintf(text + used, sizeof text - used, " %s",
						 hr_bdf(f, bdf));
	}
	if (n > UNREAD_MAX)
		used += (size_t)snprintf(text + used, sizeof text - used, " and %u more ports",
					 n - UNREAD_MAX);
	if (!n)
		return;
	snprintf(text + used, sizeof text - used,
		 " (an upstream port often has none); a pair is direct only when no port between "
		 "its devices redirects");
	hr_print_wrapped(t->out, 0, 2, text);
}

/* Lines of ACSCtl whose port the text does not name. */
static void put_unnamed(const struct hr_topo *t)
{
	const struct hr_acs_lines *a = &t->model.acs_lines;
	char text[384];

	if (!a->lines)
		return;
	snprintf(text, sizeof text,
		 "%u line%s of ACSCtl without the address of the port: %u redirect%s; sudo lspci "
		 "-vvv | grep -E '^[0-9a-f]|ACSCtl' shows the addresses",
		 a->lines, a->lines == 1 ? "" : "s", a->redirecting,
		 a->redirecting == 1 ? "s" : "");
	hr_print_wrapped(t->out, 0, 2, text);
}

static void put_caution(const struct hr_topo *t, const unsigned *by)
{
	if (by[UNKNOWN_ROLE])
		hr_print_wrapped(
			t->out, 0, 2,
			"clear only ports between a switch and the devices of a pair, not root "
			"ports. lspci -tv shows them, also without root; below this text in one "
			"file it lets the answer name them");
	if (by[UNKNOWN_ROLE] || by[BETWEEN])
		hr_print_wrapped(
			t->out, 0, 2,
			"run setpci as root; it lasts until the next boot. Devices below a cleared "
			"port reach their neighbours without the IOMMU, so virtual machines that own "
			"them are no longer isolated");
}

void hr_topo_ports(const struct hr_topo *t)
{
	static struct hr_fix fix; /* one command per process */
	uint32_t *cards = count_cards(t);
	unsigned by[ROLES] = { 0 }, shown = 0;
	const bool cut = hr_fix_all_ports(&t->topology, &fix) != 0;

	if (!cards)
		return;
	fputc('\n', t->out);
	put_unnamed(t);
	if (fix.count)
		fprintf(t->out, "%s%u port%s redirect%s (ReqRedir, CmpltRedir or EgressCtrl):\n",
			cut ? "more than " : "", fix.count, fix.count == 1 ? "" : "s",
			fix.count == 1 ? "s" : "");
	for (unsigned i = 0; i < fix.count; i++)
		by[role_of(t, cards, fix.write[i].fn)]++;
	/* Those that a pair needs first. */
	for (unsigned role = ROLES; role-- > 0;)
		for (unsigned i = 0; i < fix.count; i++) {
			if (role_of(t, cards, fix.write[i].fn) != role ||
			    (shown >= (role == BETWEEN ? LISTED_MAX : OTHERS_MAX) && !t->all))
				continue;
			put_port(t, &fix.write[i], (enum role)role);
			shown++;
		}
	if (shown < fix.count)
		fprintf(t->out, "  ... and %u more (--all)\n", fix.count - shown);
	if (fix.count) {
		put_unread(t);
		put_caution(t, by);
	}
	free(cards);
}

void hr_topo_ports_json(const struct hr_topo *t)
{
	static struct hr_fix fix; /* one command per process */
	uint32_t *cards = count_cards(t);
	struct hr_json *o = t->json;
	char text[80];

	hr_json_array(o, "redirecting");
	hr_fix_all_ports(&t->topology, &fix);
	for (unsigned i = 0; cards && i < fix.count; i++) {
		const struct hr_fix_write *w = &fix.write[i];

		hr_json_object(o, NULL);
		hr_topo_json_address(t, o, "address", w->fn);
		hr_json_u64(o, "acs_ctl", w->before);
		hr_json_string(o, "clear", roles[role_of(t, cards, w->fn)].word);
		hr_json_string(o, "setpci", hr_topo_setpci(t, w, false, text, sizeof text));
		hr_json_string(o, "undo", hr_topo_setpci(t, w, true, text, sizeof text));
		hr_json_close(o);
	}
	hr_json_close(o);
	free(cards);
}
