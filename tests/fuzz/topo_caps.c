/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration space of hostile devices: capability chains that loop, point anywhere, or are cut.
 * The first byte selects the length of the space. The rest is the space of a GPU, an SSD and the two
 * ports above them, in turn.
 */
#include <stdlib.h>
#include <string.h>

#include "pci/topo/decode.h"
#include "pci/topo/rules/verdict.h"

static struct hr_model model;
static struct hr_topology topology;

static void add(uint32_t bus, uint32_t dev, const uint8_t *config, uint32_t bytes)
{
	struct hr_fn *f = hr_model_add(&model, 0, bus, dev, 0);
	/* A separate block, so that the sanitizer detects reads past it. */
	uint8_t *copy = malloc(bytes ? bytes : 1);

	if (!f || !copy)
		abort();
	memcpy(copy, config, bytes);
	f->config = copy;
	f->config_bytes = bytes;
	hr_decode(f, copy, bytes);
	f->config = NULL;
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hr_topo_options opt = { 0 };
	struct hr_pair p;
	uint8_t config[4096];
	uint32_t bytes;

	if (size < 2 || (!model.memory && hr_model_init(&model)))
		return 0;
	hr_model_reset(&model);
	bytes = (data[0] + 1u) * 16;
	memset(config, 0, sizeof config);
	memcpy(config, data + 1, size - 1 < sizeof config ? size - 1 : sizeof config);
	add(0, 1, config, bytes);
	config[0x0e] = 1;
	config[0x19] = 1;
	add(0, 2, config, bytes);
	config[0x0e] = 0;
	memcpy(config + 9, "\x02\x08\x01", 3);
	add(1, 0, config, bytes);
	memcpy(config + 9, "\x00\x02\x03", 3);
	add(1, 1, config, bytes);
	if (hr_model_connect(&model) || hr_topology_init(&topology, &model, &opt))
		abort();
	for (int32_t i = 0; i < (int32_t)model.count; i++)
		hr_pair_evaluate(&topology, i, (int32_t)model.count - 1 - i, &p);
	return 0;
}
