/* Free slots of each switch, for the remedy of cards that do not share a switch. */
#include "pci/topo/rules.h"

#include <errno.h>
#include <stdio.h>

#include "pci/topo/fields.h"
#include "pci/topo/slots.h"

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

/* True when the port has no card below it and does not report one. */
static bool is_free(const struct hr_topology *e, int32_t index)
{
	const struct hr_fn *f = &e->m->fn[index];

	return hr_is_bridge(f) && port_of(e, index) == HR_PORT_DOWNSTREAM && f->child == HR_NO_FN &&
	       hr_get(f, HR_F_PRESENT, 0) == 0;
}

int hr_pci_slots_find(struct hr_topology *e, struct hr_model *m)
{
	e->free_first = hr_model_alloc(m, m->count * sizeof *e->free_first);
	e->free_next = hr_model_alloc(m, m->count * sizeof *e->free_next);
	if (!e->free_first || !e->free_next)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->count; i++)
		e->free_first[i] = e->free_next[i] = HR_NO_FN;
	for (int32_t i = (int32_t)m->count - 1; i >= 0; i--) {
		int32_t top = is_free(e, i) ? top_switch(e, i) : HR_NO_FN;

		if (top == HR_NO_FN)
			continue;
		e->free_next[i] = e->free_first[top];
		e->free_first[top] = i;
	}
	return 0;
}

size_t hr_pci_slots_text(const struct hr_topology *e, int32_t card, const char *whose, char *to,
			 size_t capacity)
{
	int32_t top = top_switch(e, card), slot = top == HR_NO_FN ? top : e->free_first[top];
	char bdf[HR_BDF_MAX];
	size_t used = 0;
	unsigned n = 0;

	for (; slot != HR_NO_FN && used < capacity; slot = e->free_next[slot], n++) {
		if (n < HR_PCI_SLOTS_NAMED)
			used += (size_t)snprintf(
				to + used, capacity - used, "%s%s%s%s",
				n ? " " : "; free slots of the ", n ? "" : whose,
				n ? "" : "'s switch: ", hr_bdf(&e->m->fn[slot], bdf));
	}
	if (n > HR_PCI_SLOTS_NAMED && used < capacity)
		used += (size_t)snprintf(to + used, capacity - used, " and %u more",
					 n - HR_PCI_SLOTS_NAMED);
	return used < capacity ? used : capacity - 1;
}
