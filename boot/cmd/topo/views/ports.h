/*
 * boot/cmd/topo/views/ports.h - every port whose ACS control redirects, with the command that
 * clears it.
 *
 * --fix names the ports of pairs that share a switch. A capture without such a pair, such as lines
 * of ACSCtl, still tells which ports redirect. Which of them are between the two devices of a pair
 * follows from the tree of bridges, when the capture has it.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_PORTS_H
#define BOOT_CMD_TOPO_VIEWS_PORTS_H

#include "boot/cmd/topo/topo.h"

/* True when a port redirects, or lines of ACSCtl name no port; false in a virtual machine. */
bool hr_topo_ports_matter(const struct hr_topo *t);
/* Print these ports as text. */
void hr_topo_ports(const struct hr_topo *t);
/* Put member "redirecting" into t->json. */
void hr_topo_ports_json(const struct hr_topo *t);

#endif
