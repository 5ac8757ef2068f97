/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/gpu_peers.h"

#include <errno.h>
#include <string.h>

static const struct {
	char letter;
	const char *name;
} accesses[HR_P2P_ACCESSES] = {
	{ 'r', "read" }, { 'w', "write" }, { 'n', "nvlink" }, { 'a', "atomics" }, { 'p', "pci" },
};

static const struct {
	const char *word, *meaning;
} statuses[HR_P2P_STATUSES] = {
	[HR_P2P_UNREAD] = { "", "" },
	[HR_P2P_OK] = { "OK", "the driver allows peer access" },
	[HR_P2P_CNS] = { "CNS", "chipset not supported: the driver gives these GPUs no peer access "
				"on this platform; many GeForce cards report it on any platform" },
	[HR_P2P_GNS] = { "GNS", "GPU not supported: the driver gives this GPU's product line no "
				"peer access" },
	[HR_P2P_TNS] = { "TNS", "topology not supported: the driver does not use peers on this "
				"path between the GPUs" },
	[HR_P2P_DR] = { "DR", "disabled by a registry key of the driver (NVreg_RegistryDwords)" },
	[HR_P2P_NS] = { "NS", "not supported: the driver names no reason" },
	[HR_P2P_U] = { "U", "the driver does not know" },
};

char hr_p2p_letter(enum hr_p2p_access access)
{
	return accesses[access].letter;
}

const char *hr_p2p_name(enum hr_p2p_access access)
{
	return accesses[access].name;
}

enum hr_p2p_access hr_p2p_access_of(char letter)
{
	unsigned i = 0;

	while (i < HR_P2P_ACCESSES && accesses[i].letter != letter)
		i++;
	return (enum hr_p2p_access)i;
}

const char *hr_p2p_word(enum hr_p2p_status status)
{
	return statuses[status].word;
}

enum hr_p2p_status hr_p2p_status_of(const char *word, size_t bytes)
{
	for (unsigned i = HR_P2P_OK; i < HR_P2P_STATUSES; i++)
		if (strlen(statuses[i].word) == bytes && memcmp(statuses[i].word, word, bytes) == 0)
			return (enum hr_p2p_status)i;
	return HR_P2P_UNREAD;
}

const char *hr_p2p_meaning(enum hr_p2p_status status)
{
	return statuses[status].meaning;
}

int hr_p2p_add(struct hr_model *m, const struct hr_p2p *answer)
{
	struct hr_p2p *at = m->p2p;

	if (!at)
		at = m->p2p = hr_model_alloc(m, HR_P2P_MAX * sizeof *m->p2p);
	if (!at)
		return -ENOMEM;
	while (at < m->p2p + m->p2ps && (at->from != answer->from || at->to != answer->to))
		at++;
	if (at == m->p2p + HR_P2P_MAX)
		return -E2BIG;
	if (at == m->p2p + m->p2ps) {
		m->p2p[m->p2ps++] = *answer;
		return 0;
	}
	for (unsigned i = 0; i < HR_P2P_ACCESSES; i++)
		if (answer->status[i] && (answer->source >= at->source || !at->status[i]))
			at->status[i] = answer->status[i];
	if (answer->source > at->source)
		at->source = answer->source;
	return 0;
}

const struct hr_p2p *hr_p2p_find(const struct hr_model *m, uint64_t from, uint64_t to)
{
	for (uint32_t i = 0; i < m->p2ps; i++)
		if (m->p2p[i].from == from && m->p2p[i].to == to)
			return &m->p2p[i];
	return NULL;
}

enum hr_p2p_status hr_p2p_between(const struct hr_model *m, uint64_t a, uint64_t b)
{
	const struct hr_p2p *const way[] = { hr_p2p_find(m, a, b), hr_p2p_find(m, b, a) };
	enum hr_p2p_status found = HR_P2P_UNREAD;

	for (unsigned i = 0; i < 2; i++)
		for (unsigned j = HR_P2P_READ; way[i] && j <= HR_P2P_WRITE; j++) {
			enum hr_p2p_status status = (enum hr_p2p_status)way[i]->status[j];

			if (hr_p2p_refuses(status))
				return status;
			if (status)
				found = status;
		}
	return found;
}
