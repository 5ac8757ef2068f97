/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/gpu_peers.h - whether NVIDIA's driver lets one GPU access the memory of another one.
 *
 * The driver answers for each ordered pair of GPUs and each kind of access, and it may refuse what
 * PCI Express allows. The answers have the codes of `nvidia-smi topo -p2p`, which are those of
 * nvmlDeviceGetP2PStatus(). They are facts beside the verdict and do not change it.
 */
#ifndef PCI_TOPO_GPU_PEERS_H
#define PCI_TOPO_GPU_PEERS_H

#include "pci/topo/model.h"

/* Kinds of access: the letters of `-p2p`, in the order of nvmlGpuP2PCapsIndex_t. */
enum hr_p2p_access {
	HR_P2P_READ,
	HR_P2P_WRITE,
	HR_P2P_NVLINK,
	HR_P2P_ATOMICS,
	HR_P2P_PCI,
	HR_P2P_ACCESSES
};

/* Answers: those of nvmlGpuP2PStatus_t plus 1. */
enum hr_p2p_status {
	HR_P2P_UNREAD, /* no source states it */
	HR_P2P_OK,
	HR_P2P_CNS, /* chipset not supported */
	HR_P2P_GNS, /* GPU not supported */
	HR_P2P_TNS, /* topology not supported */
	HR_P2P_DR,  /* disabled by a registry key */
	HR_P2P_NS,  /* not supported */
	HR_P2P_U,   /* unknown */
	HR_P2P_STATUSES
};

/* Answers of the driver about a GPU that accesses the memory of another one. */
struct hr_p2p {
	uint64_t from, to; /* hr_address() */
	uint8_t status[HR_P2P_ACCESSES];
	uint8_t source;
};
#define HR_P2P_MAX 4096u /* ordered pairs of 64 GPUs */

/* Letter of an access in `-p2p`, and its name; the access of a letter, or HR_P2P_ACCESSES. */
char hr_p2p_letter(enum hr_p2p_access access);
const char *hr_p2p_name(enum hr_p2p_access access);
enum hr_p2p_access hr_p2p_access_of(char letter);

/* "GNS"; the status of such a word of `bytes` bytes, or HR_P2P_UNREAD. */
const char *hr_p2p_word(enum hr_p2p_status status);
enum hr_p2p_status hr_p2p_status_of(const char *word, size_t bytes);
/* Meaning of an answer, as part of a sentence. */
const char *hr_p2p_meaning(enum hr_p2p_status status);
static inline bool hr_p2p_refuses(enum hr_p2p_status status)
{
	return status >= HR_P2P_CNS && status <= HR_P2P_NS;
}

/*
 * Add the answers for an ordered pair. A better source wins for each access, and for equal sources
 * the later answer. 0, -ENOMEM or -E2BIG.
 */
int hr_p2p_add(struct hr_model *m, const struct hr_p2p *answer);
/* The answers for from -> to; NULL: none. */
const struct hr_p2p *hr_p2p_find(const struct hr_model *m, uint64_t from, uint64_t to);
/*
 * The refusal of reads or writes between two GPUs, in either direction; an answer that is OK in all
 * directions gives HR_P2P_OK, no answer HR_P2P_UNREAD.
 */
enum hr_p2p_status hr_p2p_between(const struct hr_model *m, uint64_t a, uint64_t b);

#endif
