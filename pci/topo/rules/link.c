/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on one function: its link, its payload and request sizes, its ordering. */
#include <string.h>

#include "pci/topo/rules/rules.h"
#include "pci/topo/fields.h"
#include "pci/topo/tables.h"
#include "pci/topo/uplink.h"

static bool is_device_kind(const struct hr_fn *f, enum hr_device_kind kind)
{
	return hr_device_is(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0), kind);
}

static const struct hr_fn *parent(const struct hr_topology *e, const struct hr_fn *f)
{
	return f->parent == HR_NO_FN ? NULL : &e->m->fn[f->parent];
}

static const struct hr_derived *derived(const struct hr_topology *e, const struct hr_fn *f)
{
	return &e->derived[f - e->m->fn];
}

bool hr_fn_low_mrrs(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_MRRS, 512) < 512;
}

/* True when the function's own link register describes the lanes above it. */
static bool has_uplink(const struct hr_topology *e, const struct hr_fn *f)
{
	const uint8_t kind = derived(e, f)->uplink;
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_RC_ENDPOINT);

	if (kind != HR_UPLINK_LANES && kind != HR_UPLINK_CHIPSET)
		return false;
	return hr_get(f, HR_F_WIDTH, 0) != 0 &&
	       (port == HR_PORT_ENDPOINT || port == HR_PORT_LEGACY || port == HR_PORT_UPSTREAM);
}

/* The maximum that both ends of the link above support. */
static uint32_t both_ends(const struct hr_topology *e, const struct hr_fn *f, enum hr_fact_id id)
{
	const struct hr_fn *up = parent(e, f);
	uint32_t own = hr_get(f, id, 0), other = up ? hr_get(up, id, own) : own;

	return own < other || other == 0 ? own : other;
}

/* A chipset's link has the lanes of the board, even if both ends have more. */
bool hr_fn_narrow(const struct hr_topology *e, const struct hr_fn *f)
{
	return derived(e, f)->uplink != HR_UPLINK_CHIPSET && has_uplink(e, f) &&
	       hr_get(f, HR_F_WIDTH, 0) < both_ends(e, f, HR_F_WIDTH_MAX);
}

static bool below_speed(const struct hr_topology *e, const struct hr_fn *f)
{
	return has_uplink(e, f) && hr_known(f, HR_F_SPEED) &&
	       hr_get(f, HR_F_SPEED, 0) < both_ends(e, f, HR_F_SPEED_MAX);
}

/*
 * GPU cards lower their link speed when idle; the target speed distinguishes this from a fault. The
 * link of a card with a switch is that of the switch.
 */
bool hr_fn_idle(const struct hr_topology *e, const struct hr_fn *f)
{
	return (hr_is_gpu(f) || derived(e, f)->card_port) && below_speed(e, f) &&
	       hr_get(f, HR_F_SPEED_TARGET, hr_get(f, HR_F_SPEED_MAX, 0)) >=
		       both_ends(e, f, HR_F_SPEED_MAX);
}

/* A link has one speed. A port that reports more than the card describes another link, or none. */
static bool ends_differ(const struct hr_topology *e, const struct hr_fn *f)
{
	const struct hr_fn *up = parent(e, f);

	return up && hr_get(up, HR_F_SPEED, 0) > hr_get(f, HR_F_SPEED, 0);
}

bool hr_fn_slow(const struct hr_topology *e, const struct hr_fn *f)
{
	return below_speed(e, f) && !ends_differ(e, f) && !hr_fn_idle(e, f);
}

bool hr_fn_tunnel(const struct hr_topology *e, const struct hr_fn *f)
{
	return derived(e, f)->uplink == HR_UPLINK_TUNNEL;
}

bool hr_fn_tunnel_other(const struct hr_topology *e, const struct hr_fn *f)
{
	return derived(e, f)->uplink == HR_UPLINK_TUNNEL_OTHER;
}

/* The registers of a link inside a card, where they show less than the card's link. */
bool hr_fn_inside(const struct hr_topology *e, const struct hr_fn *f)
{
	const struct hr_fn *down = parent(e, f), *up = down ? parent(e, down) : NULL;

	return derived(e, f)->uplink == HR_UPLINK_INSIDE && up && derived(e, up)->card_port &&
	       hr_known(f, HR_F_SPEED) &&
	       (hr_get(f, HR_F_SPEED, 0) < hr_get(up, HR_F_SPEED, 0) ||
		hr_get(f, HR_F_WIDTH, 0) < hr_get(up, HR_F_WIDTH, 0));
}

bool hr_fn_aspm(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_has(f, HR_F_ASPM, 2);
}

/* A virtual function has no such bit; a port of the kernel's list has a rule of its own. */
bool hr_fn_ordered(const struct hr_topology *e, const struct hr_fn *f)
{
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_RC_ENDPOINT);

	if (f->vf || (port != HR_PORT_ENDPOINT && port != HR_PORT_LEGACY) ||
	    !hr_lacks(f, HR_F_DEVCTL, HR_DEVCTL_RO))
		return false;
	for (const struct hr_fn *up = parent(e, f); up; up = parent(e, up))
		if (is_device_kind(up, HR_DEV_NO_RELAXED))
			return false;
	return true;
}

bool hr_fn_atomics(const struct hr_topology *e, const struct hr_fn *f)
{
	const struct hr_fn *at;

	return hr_get(f, HR_F_VENDOR, 0) == 0x1002 && hr_is_gpu(f) && !hr_is_integrated(f) &&
	       hr_atomics_of(e->m, f, &at) != HR_ATOMICS_FINE;
}

bool hr_fn_no_relaxed(const struct hr_topology *e, const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_NO_RELAXED);
}

/* ---- AtomicOps */

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
