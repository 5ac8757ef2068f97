#include "pci/topo/rules/atomics.h"

#include <string.h>

#include "pci/topo/fields.h"

/*
 * Registers show all bits. A text shows those of AtomicOps only on lines of their own, which older
 * releases of lspci do not print.
 */
static bool read_bits(const struct hr_fn *f, enum hr_fact_id whole, enum hr_fact_id text,
		      uint32_t *bits)
{
	if (f->fact[whole].source >= HR_SRC_CONFIG)
		*bits = f->fact[whole].value;
	else if (hr_known(f, text))
		*bits = f->fact[text].value;
	else
		return false;
	return true;
}

static bool lacks_cap(const struct hr_fn *f, uint32_t all)
{
	uint32_t bits;

	return read_bits(f, HR_F_DEVCAP2, HR_F_ATOMIC_CAP, &bits) && (bits & all) != all;
}

static enum hr_atomics cause_at(const struct hr_fn *f)
{
	const uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_ENDPOINT);
	uint32_t bits;

	if (port == HR_PORT_ROOT)
		return lacks_cap(f, HR_DEVCAP2_ATOMIC_32 | HR_DEVCAP2_ATOMIC_64)
			       ? HR_ATOMICS_INCOMPLETE
			       : HR_ATOMICS_FINE;
	if (port != HR_PORT_UPSTREAM && port != HR_PORT_DOWNSTREAM)
		return HR_ATOMICS_FINE;
	if (lacks_cap(f, HR_DEVCAP2_ATOMIC_ROUTE))
		return HR_ATOMICS_UNROUTED;
	return read_bits(f, HR_F_DEVCTL2, HR_F_ATOMIC_CTL, &bits) && bits & HR_DEVCTL2_ATOMIC_BLOCK
		       ? HR_ATOMICS_BLOCKED
		       : HR_ATOMICS_FINE;
}

enum hr_atomics hr_atomics_of(const struct hr_model *m, const struct hr_fn *gpu,
			      const struct hr_fn **at)
{
	uint32_t bits;

	for (int32_t up = gpu->parent; up != HR_NO_FN; up = m->fn[up].parent) {
		enum hr_atomics cause = cause_at(&m->fn[up]);

		*at = &m->fn[up];
		if (cause != HR_ATOMICS_FINE)
			return cause;
	}
	*at = gpu;
	/* The GPU's driver enables them; another driver, or none, says nothing about the path. */
	if (gpu->vf || (gpu->driver && strcmp(gpu->driver, "amdgpu") != 0) ||
	    !read_bits(gpu, HR_F_DEVCTL2, HR_F_ATOMIC_CTL, &bits))
		return HR_ATOMICS_FINE;
	return bits & HR_DEVCTL2_ATOMIC_ENABLE ? HR_ATOMICS_FINE : HR_ATOMICS_OFF;
}
