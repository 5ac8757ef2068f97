/*
 * boot/cmd/topo/views/peers.h - equal GPUs, SSDs and network cards of --peers, for text and for pages.
 *
 * Two peers of a kind are equal when their cells against all other peers have the same text. Then
 * they share one row and one column.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_PEERS_H
#define BOOT_CMD_TOPO_VIEWS_PEERS_H

#include "boot/cmd/topo/topo.h"

#include "boot/cmd/topo/survey.h"
#include "pci/topo/rules/peers.h"

#define HR_PEERS_SHOWN 1024u   /* beyond this number --peers shows nothing */
#define HR_PEERS_COMPARED 512u /* beyond this number no peers are compared; each has its own row */

/* A set of equal peers. */
struct hr_topo_peer_set {
	enum hr_topo_peer_kind kind;
	uint32_t first; /* index in peers->peer */
	/* Another member, for the cell of the set with itself; equal to first: none. */
	uint32_t second;
	struct hr_set set; /* numbers within their kind */
};

/*
 * The sets in the order of their first peers; *count is their number. The caller frees them. NULL:
 * out of memory.
 */
struct hr_topo_peer_set *hr_peer_sets(const struct hr_topo_peers *peers, uint32_t *count);
/* Name of a set: "NVME0-5". Returns text. */
char *hr_peer_set_name(const struct hr_topo_peer_set *s, char *text, size_t capacity);
/* Text of a cell: "NV18 DIRECT", "PIX REDIR*", "PHB RC GNS", without a GPU "PHB". text[48]. */
char *hr_peer_cell(const struct hr_topo_peers *peers, const struct hr_peer_pair *p, char *text);
/*
 * The sentence about two GPUs whose peer access NVIDIA's driver refuses; `verdict` is that of PCI
 * Express. Returns text.
 */
char *hr_peer_refusal(enum hr_p2p_status driver, enum hr_verdict verdict, char *text,
		      size_t capacity);
/* The direction that decided. */
const struct hr_pair *hr_peer_worst(const struct hr_peer_pair *p);

/*
 * Show GPUs, SSDs and network cards of these kinds (1 << enum hr_topo_peer_kind) against each other, in
 * format "table" or "json"; another format is a usage error.
 */
int hr_topo_peers(struct hr_topo *t, unsigned kinds, const char *format);

/* The same as a part of another output: text, or members "peers" and "peer_pairs" of *o. */
void hr_topo_peers_text(struct hr_topo *t, unsigned kinds);
void hr_topo_peers_json(struct hr_topo *t, unsigned kinds, struct hr_json *o);

#endif
