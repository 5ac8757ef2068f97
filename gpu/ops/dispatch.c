#include "gpu/op.h"

HR_DEVICE void hr_op_init(uint32_t op, const void *args, void *state)
{
	switch (op) {
#define HR_OP_CASE(name)                          \
	case HR_OP_##name:                        \
		hr_op_##name##_init(args, state); \
		break;
		HR_OPS(HR_OP_CASE)
#undef HR_OP_CASE
	}
}

HR_DEVICE uint32_t hr_op_tile(uint32_t op, const void *args, void *state,
			      const struct hr_op_tile *tile)
{
	switch (op) {
#define HR_OP_CASE(name)   \
	case HR_OP_##name: \
		return hr_op_##name##_tile(args, state, tile);
		HR_OPS(HR_OP_CASE)
#undef HR_OP_CASE
	}
	return 0;
}

HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all)
{
	switch (op) {
#define HR_OP_CASE(name)                    \
	case HR_OP_##name:                  \
		hr_op_##name##_finish(all); \
		break;
		HR_OPS(HR_OP_CASE)
#undef HR_OP_CASE
	}
}
