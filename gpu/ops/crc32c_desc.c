#include <json-c/json.h>

#include "gpu/ops/crc32c.h"
#include "gpu/ops/desc.h"

static void print(const struct hr_op_all *all, FILE *out)
{
	const struct hr_crc32c_result *result = all->result;

	fprintf(out, "crc32c %08x of %llu bytes in %llu tiles", result->crc,
		(unsigned long long)all->bytes, (unsigned long long)all->tiles);
}

static struct json_object *hex(uint32_t crc)
{
	char text[9];

	snprintf(text, sizeof text, "%08x", crc);
	return json_object_new_string(text);
}

static void json(const struct hr_op_all *all, void *json_object)
{
	const struct hr_crc32c_result *result = all->result;
	const uint32_t *record = (const uint32_t *)(const void *)all->records;
	struct json_object *tiles = json_object_new_array();

	json_object_object_add(json_object, "crc32c", hex(result->crc));
	for (uint64_t i = 0; i < all->tiles; i++)
		json_object_array_add(tiles, hex(record[i]));
	json_object_object_add(json_object, "tiles", tiles);
}

const struct hr_op_desc hr_op_crc32c_desc = {
	.name = "crc32c",
	.help = "One source. No arguments. Result: the CRC-32C of each tile (with --json), and of "
		"the\n  whole object.",
	.id = HR_OP_crc32c,
	.sources_min = 1,
	.sources_max = 1,
	.output = HR_OUT_NONE,
	.out_den = 1,
	.tile_record_bytes = sizeof(uint32_t),
	.reads_once = true,
	.records_checksum = true,
	.parse = hr_op_parse_none,
	.row_bytes = hr_op_row_1,
	.state_bytes = hr_op_state_none,
	.print = print,
	.json = json,
};
