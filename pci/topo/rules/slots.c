/* SPDX-License-Identifier: Apache-2.0 */
/* Free slots, for the remedy of cards that do not share a switch. */
#include "pci/topo/rules/rules.h"

#include <errno.h>
#include <stdio.h>

#include "pci/topo/fields.h"
#include "pci/topo/uplink.h"

static uint32_t port_of(const struct hr_topology *e, int32_t index)
{
	return hr_get(&e->m->fn[index], HR_F_PORT, HR_PORT_ENDPOINT);
}

/* The upstream port nearest to the root; switches below it are parts of the same switch. */
static int32_t top_switch(const struct hr_topology *e, int32_t index)
{
	int32_t top = HR_NO_FN;

	for (int32_t up = index; up != HR_NO_FN; up = e->m->fn[up].parent)
		if (port_of(e, up) == HR_PORT_UPSTREAM)
			top = up;
	return top;
}

/*
 * True when a card can be put below the port: it is known to have a slot, has no card below it and
 * does not report one.
 */
static bool is_free(const struct hr_topology *e, int32_t index)
{
	const struct hr_fn *f = &e->m->fn[index];

	return hr_is_bridge(f) && f->child == HR_NO_FN && hr_get(f, HR_F_PRESENT, 0) == 0 &&
	       (hr_has(f, HR_F_SLOT_IMPL, 1) || f->pci_slot) && !hr_fn_pch(e, f) &&
	       !hr_uplink_is_tunnel_end(f);
}

static void add_free(struct hr_topology *e, int32_t index, int32_t *first)
{
	e->free_next[index] = *first;
	*first = index;
}

int hr_pci_slots_find(struct hr_topology *e, struct hr_model *m)
{
	e->free_first = hr_model_alloc(m, m->count * sizeof *e->free_first);
	e->free_next = hr_model_alloc(m, m->count * sizeof *e->free_next);
	e->free_root = HR_NO_FN;
	if (!e->free_first || !e->free_next)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->count; i++)
		e->free_first[i] = e->free_next[i] = HR_NO_FN;
	for (int32_t i = (int32_t)m->count - 1; i >= 0; i--) {
		const uint32_t port = port_of(e, i);
		int32_t top;

		if ((port != HR_PORT_DOWNSTREAM && port != HR_PORT_ROOT) || !is_free(e, i))
			continue;
		top = top_switch(e, i);
		if (port == HR_PORT_ROOT)
			add_free(e, i, &e->free_root);
		else if (top != HR_NO_FN && !hr_fn_pch(e, &m->fn[top]))
			add_free(e, i, &e->free_first[top]);
	}
	return 0;
}

/* Lanes that the card uses now; those of its own switch, if it has one. 0: not known. */
static uint32_t lanes_of(const struct hr_topology *e, int32_t card)
{
	const struct hr_fn *f;

	for (int32_t up = card; up != HR_NO_FN; up = e->m->fn[up].parent)
		if (e->derived[up].card_port)
			card = up;
	f = &e->m->fn[card];
	return hr_get(f, HR_F_WIDTH, hr_get(f, HR_F_WIDTH_MAX, 0));
}

/* The slots of a list that are wide enough, with a sentence before the first. */
static size_t put_list(const struct hr_topology *e, int32_t slot, int32_t moved, const char *before,
		       char *to, size_t capacity)
{
	const uint32_t lanes = lanes_of(e, moved);
	char bdf[HR_BDF_MAX];
	size_t used = 0;
	unsigned n = 0;

	for (; slot != HR_NO_FN && used < capacity; slot = e->free_next[slot]) {
		const uint32_t wide = hr_get(&e->m->fn[slot], HR_F_WIDTH_MAX, 0);

		if (wide == 0 || wide < lanes)
			continue;
		if (n++ < HR_PCI_SLOTS_NAMED)
			used += (size_t)snprintf(to + used, capacity - used, "%s%s",
						 n > 1 ? " " : before,
						 hr_bdf(&e->m->fn[slot], bdf));
	}
	if (n > HR_PCI_SLOTS_NAMED && used < capacity)
		used += (size_t)snprintf(to + used, capacity - used, " and %u more",
					 n - HR_PCI_SLOTS_NAMED);
	return used < capacity ? used : capacity - 1;
}

size_t hr_pci_slots_text(const struct hr_topology *e, int32_t card, int32_t moved,
			 const char *whose, char *to, size_t capacity)
{
	int32_t top = top_switch(e, card);
	char before[64];

	snprintf(before, sizeof before, "; free slots of the %s's switch: ", whose);
	return put_list(e, top == HR_NO_FN ? top : e->free_first[top], moved, before, to, capacity);
}

size_t hr_pci_move_text(const struct hr_topology *e, const struct hr_pair *p, char *to,
			size_t capacity)
{
	const bool gpu = e->derived[p->gpu].chipset, ssd = e->derived[p->ssd].chipset;
	int n;

	if (gpu || ssd)
		n = snprintf(to, capacity,
			     "move %s from the chipset to %s that %s wired to the CPU",
			     gpu && ssd ? "both cards"
			     : gpu	? "the GPU"
					: "the SSD",
			     gpu && ssd ? "slots" : "a slot", gpu && ssd ? "are" : "is");
	else
		n = snprintf(to, capacity, "move a card so that both are below one switch");
	return n < (int)capacity ? (size_t)n : capacity - 1;
}

size_t hr_pci_move_slots(const struct hr_topology *e, const struct hr_pair *p, char *to,
			 size_t capacity)
{
	const bool gpu = e->derived[p->gpu].chipset, ssd = e->derived[p->ssd].chipset;
	size_t used;

	to[0] = '\0';
	if (gpu || ssd)
		return put_list(e, e->free_root, gpu ? p->gpu : p->ssd,
				"; free slots of the CPU: ", to, capacity);
	used = hr_pci_slots_text(e, p->gpu, p->ssd, "GPU", to, capacity);
	return used + hr_pci_slots_text(e, p->ssd, p->gpu, "SSD", to + used, capacity - used);
}
