/*
 * boot/cmd/topo/html/html_peers.h - the output of --peers as a table of the page.
 */
#ifndef BOOT_CMD_TOPO_HTML_HTML_PEERS_H
#define BOOT_CMD_TOPO_HTML_HTML_PEERS_H

#include "boot/cmd/topo/html/html.h"

/*
 * Write GPUs and network cards against each other as a table, if there are 2 to 32 of them. Memory
 * comes from the model. 0 or -ENOMEM.
 */
int hr_html_peers(struct hr_topo *t, FILE *out);

#endif
