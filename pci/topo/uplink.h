/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/uplink.h - what the link above a function is. Not every link register describes lanes.
 *
 * A GPU card may have a switch of its own; the registers of the link between that switch and the
 * GPU are constants (2.5 GT/s x1 on Intel Arc), and the link of the card is that of the switch's
 * upstream port. The PCI Express link between two Thunderbolt or USB4 controllers is a tunnel; its
 * registers show 2.5 GT/s, whatever the tunnel carries. The upstream port of a chipset is wired to
 * the processor with the lanes that the board has, so its larger capability is no fault.
 */
#ifndef PCI_TOPO_UPLINK_H
#define PCI_TOPO_UPLINK_H

#include "pci/topo/model.h"

enum hr_uplink {
	HR_UPLINK_LANES,	/* as the registers say */
	HR_UPLINK_INSIDE,	/* inside a card or a Thunderbolt device: no limit of its own */
	HR_UPLINK_TUNNEL,	/* Thunderbolt 3, 4 or USB4: HR_TUNNEL_FROM to HR_TUNNEL_TO */
	HR_UPLINK_TUNNEL_OTHER, /* Thunderbolt 1, 2 or 5 on both sides: no rate is known */
	HR_UPLINK_CHIPSET,	/* of an AMD chipset, wired on the board */
};

/*
 * GB/s of payload through a tunnel: host-to-device copies of owners of external GPUs are 19 to
 * 24 Gbit/s.
 */
#define HR_TUNNEL_FROM 2.5
#define HR_TUNNEL_TO 3.0

/* The model is linked. */
enum hr_uplink hr_uplink_of(const struct hr_model *m, const struct hr_fn *f);
/* True for a bridge in a Thunderbolt or USB4 controller: no card can be put below it. */
bool hr_uplink_is_tunnel_end(const struct hr_fn *f);
/* True for the upstream port of a switch that is part of a GPU's card. */
bool hr_uplink_is_card(const struct hr_model *m, const struct hr_fn *f);
/* True when the link is known to be wired on the board, so that nothing can be reseated. */
bool hr_uplink_is_wired(const struct hr_model *m, const struct hr_fn *f);
/* GT/s of a code of the link registers, like "2.5"; "?" for 0 and for codes that are not known. */
const char *hr_link_speed_text(uint32_t code);

#endif
