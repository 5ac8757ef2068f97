/*
 * boot/cmd/topo/views/software.h - --software: a row of requirements per GPU and SSD, with the
 * answer to each.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_SOFTWARE_H
#define BOOT_CMD_TOPO_VIEWS_SOFTWARE_H

#include "boot/cmd/topo/topo.h"

/* Show the requirements: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_software(struct hr_topo *t);

/* Print the rows of both ends, as part of an explanation. */
void hr_topo_software_pair(const struct hr_topo *t, const struct hr_pair *p);

#endif
