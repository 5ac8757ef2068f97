#include "gpu/ops/desc.h"

const struct hr_op_desc hr_op_copy_desc = {
	.name = "copy",
	.help = "One source. No arguments. The sink becomes a copy of it.",
	.id = HR_OP_copy,
	.sources_min = 1,
	.sources_max = 1,
	.output = HR_OUT_DATA,
	.out_num = 1,
	.out_den = 1,
	.reads_once = true,
	.parse = hr_op_parse_none,
	.row_bytes = hr_op_row_1,
	.state_bytes = hr_op_state_none,
	.print = hr_op_print_none,
	.json = hr_op_json_none,
};
