#include "gpu/ops/desc.h"

const struct hr_op_desc hr_op_cast_f32_bf16_desc = {
	.name = "cast_f32_bf16",
	.help = "One source: little-endian f32. No arguments. The sink becomes the same numbers as "
		"bf16,\n  half as long: rounded to nearest, ties to even; a NaN stays a (quiet) "
		"NaN.",
	.id = HR_OP_cast_f32_bf16,
	.sources_min = 1,
	.sources_max = 1,
	.output = HR_OUT_DATA,
	.out_num = 1,
	.out_den = 2,
	.reads_once = true,
	.parse = hr_op_parse_none,
	.row_bytes = hr_op_row_4,
	.state_bytes = hr_op_state_none,
	.print = hr_op_print_none,
	.json = hr_op_json_none,
};
