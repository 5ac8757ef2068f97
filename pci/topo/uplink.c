/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/uplink.h"

#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"

static bool is_device_kind(const struct hr_fn *f, enum hr_device_kind kind)
{
	return hr_device_is(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0), kind);
}

static const struct hr_fn *parent(const struct hr_model *m, const struct hr_fn *f)
{
	return f->parent == HR_NO_FN ? NULL : &m->fn[f->parent];
}

static bool is_port(const struct hr_fn *f, enum hr_port_type type)
{
	return hr_is_bridge(f) && hr_get(f, HR_F_PORT, HR_PORT_ENDPOINT) == type;
}

/* ---- cards with a switch */

/* A GPU with this link capability is not real: its register is a constant. */
static bool is_constant(const struct hr_fn *f)
{
	return hr_is_gpu(f) && hr_get(f, HR_F_SPEED_MAX, 2) <= 1 &&
	       hr_get(f, HR_F_WIDTH_MAX, 2) <= 1;
}

static bool is_faster(const struct hr_fn *up, const struct hr_fn *f)
{
	return hr_get(up, HR_F_SPEED_MAX, 0) > hr_get(f, HR_F_SPEED_MAX, 0) ||
	       hr_get(up, HR_F_WIDTH_MAX, 0) > hr_get(f, HR_F_WIDTH_MAX, 0);
}

static bool is_inside(const struct hr_model *m, const struct hr_fn *f)
{
	const struct hr_fn *down = parent(m, f), *up = down ? parent(m, down) : NULL;

	if (hr_is_bridge(f) || !up || !is_port(up, HR_PORT_UPSTREAM))
		return false;
	return is_device_kind(down, HR_DEV_CARD_SWITCH) || (is_constant(f) && is_faster(up, f));
}

bool hr_uplink_is_card(const struct hr_model *m, const struct hr_fn *f)
{
	if (!is_port(f, HR_PORT_UPSTREAM))
		return false;
	if (is_device_kind(f, HR_DEV_CARD_SWITCH))
		return true;
	for (int32_t down = f->child; down != HR_NO_FN; down = m->fn[down].sibling)
		for (int32_t at = m->fn[down].child; at != HR_NO_FN; at = m->fn[at].sibling)
			if (is_inside(m, &m->fn[at]))
				return true;
	return false;
}

/* ---- tunnels */

bool hr_uplink_is_tunnel_end(const struct hr_fn *f)
{
	static const char *const names[] = { "Thunderbolt", "USB4", "USB 4", "JHL" };

	if (!hr_is_bridge(f))
		return false;
	if (hr_get(f, HR_F_TUNNEL, 0) || is_device_kind(f, HR_DEV_TUNNEL) ||
	    is_device_kind(f, HR_DEV_TUNNEL_ROOT))
		return true;
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(f->name, names[i]))
			return true;
	return false;
}

/* Controllers of other generations: below 20 Gbit/s, or Thunderbolt 5. */
static bool is_slow_end(const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_TUNNEL_SLOW) || strstr(f->name, "Thunderbolt 2") ||
	       strstr(f->name, "Thunderbolt Controller");
}

static bool is_fast_end(const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_TUNNEL_FAST) || strstr(f->name, "Thunderbolt 5") ||
	       strstr(f->name, "80/120G");
}

/*
 * A root port without a row in the table, as new processors have, above the controller of a device:
 * on a board that controller has lanes of 5 GT/s or more, so 2.5 GT/s at both ends is a tunnel.
 */
static bool is_new_tunnel(const struct hr_fn *up, const struct hr_fn *f)
{
	return up->parent == HR_NO_FN && !up->orphan && is_port(f, HR_PORT_UPSTREAM) &&
	       hr_uplink_is_tunnel_end(f) && hr_get(up, HR_F_SPEED_MAX, 0) == 1 &&
	       hr_get(f, HR_F_SPEED_MAX, 0) == 1;
}

/*
 * A root port that belongs to a processor's controller has nothing but a tunnel below it. A
 * controller on the board or in a device has real lanes to other parts; only its link with another
 * controller is a tunnel.
 */
static bool is_tunnel(const struct hr_fn *up, const struct hr_fn *f)
{
	if (!hr_uplink_is_tunnel_end(up))
		return is_new_tunnel(up, f);
	if (up->parent == HR_NO_FN && !up->orphan)
		return true;
	return hr_uplink_is_tunnel_end(f) && !is_port(up, HR_PORT_UPSTREAM) &&
	       !is_port(f, HR_PORT_DOWNSTREAM);
}

/* A port for devices that reports 2.5 GT/s, whatever its link does; the tunnel is the limit. */
static bool is_behind_tunnel(const struct hr_fn *up)
{
	return is_port(up, HR_PORT_DOWNSTREAM) && hr_get(up, HR_F_SPEED_MAX, 0) == 1 &&
	       hr_uplink_is_tunnel_end(up);
}

/* ---- all kinds */

static bool is_chipset(const struct hr_fn *f)
{
	return hr_known(f, HR_F_DEVICE) ? is_device_kind(f, HR_DEV_CHIPSET_PORT)
					: hr_name_chipset(hr_get(f, HR_F_VENDOR, 0), f->name);
}

enum hr_uplink hr_uplink_of(const struct hr_model *m, const struct hr_fn *f)
{
	const struct hr_fn *up = parent(m, f);

	if (!up)
		return HR_UPLINK_LANES;
	if (is_tunnel(up, f))
		return is_slow_end(f) || is_slow_end(up) || (is_fast_end(f) && is_fast_end(up))
			       ? HR_UPLINK_TUNNEL_OTHER
			       : HR_UPLINK_TUNNEL;
	if (is_inside(m, f) || is_behind_tunnel(up))
		return HR_UPLINK_INSIDE;
	return is_port(f, HR_PORT_UPSTREAM) && is_chipset(f) ? HR_UPLINK_CHIPSET : HR_UPLINK_LANES;
}

bool hr_uplink_is_wired(const struct hr_model *m, const struct hr_fn *f)
{
	const struct hr_fn *up = parent(m, f);

	if (!up)
		return false;
	return hr_lacks(up, HR_F_SLOT_IMPL, 1) || hr_uplink_of(m, f) == HR_UPLINK_CHIPSET;
}

const char *hr_link_speed_text(uint32_t code)
{
	static const char *const text[] = { "?", "2.5", "5", "8", "16", "32", "64" };

	return text[code < sizeof text / sizeof *text ? code : 0];
}
