/*
 * boot/cmd/topo/peers.h - equal GPUs, SSDs and network cards of --peers, for text and for pages.
 *
 * Two peers of a kind are equal when the cells of both read the same against all others: then one
 * row and one column stand for them.
 */
#ifndef BOOT_CMD_TOPO_PEERS_H
#define BOOT_CMD_TOPO_PEERS_H

#include "boot/cmd/topo/topo.h"

#include "boot/cmd/topo/survey.h"
#include "pci/topo/peers.h"

#define HR_PEERS_COMPARED 512u /* of more, each is one of its own */

/* Peers that are equal. */
struct hr_peer_set {
	enum hr_peer_kind kind;
	uint32_t first; /* of peers->peer */
	uint32_t
		second; /* another one, for the cell of the set with itself; first: there is none */
	struct hr_set set; /* numbers in their kind */
};

/* Sets in the order of their first peers; *count of them; the caller frees. NULL: out of memory. */
struct hr_peer_set *hr_peer_sets(const struct hr_peers *peers, uint32_t *count);
/* "NVME0-5": returns text. */
char *hr_peer_set_name(const struct hr_peer_set *s, char *text, size_t capacity);
/* What stands in the matrix: "NV18 DIRECT", "PIX REDIR*", of two without a GPU "PHB". text[48]. */
char *hr_peer_cell(const struct hr_peers *peers, const struct hr_peer_pair *p, char *text);
/* The direction that decided. */
const struct hr_pair *hr_peer_worst(const struct hr_peer_pair *p);

/*
 * GPUs, SSDs and network cards of these kinds (1 << enum hr_peer_kind) against each other, as "table"
 * or "json"; another format is wrong usage.
 */
int hr_topo_peers(struct hr_topo *t, unsigned kinds, const char *format);

#endif
