#include "gpu/worker/op.h"

#ifdef __CUDACC__

/* There an operator of the user has an image of its own: gpu/cuda/image_user.cu. */
HR_WORKER void hr_op_loaded_init(uint32_t op, const void *args, void *state)
{
}

HR_WORKER uint32_t hr_op_loaded_tile(uint32_t op, const void *args, void *state,
				     const struct hr_op_tile *tile)
{
	return 0;
}

HR_WORKER void hr_op_loaded_finish(uint32_t op, const struct hr_op_all *all)
{
}

#else
#include "gpu/ops/user.h"
#endif

HR_DEVICE void hr_op_init(uint32_t op, const void *args, void *state)
{
	switch (op) {
#define HR_OP_CASE(name)                          \
	case HR_OP_##name:                        \
		hr_op_##name##_init(args, state); \
		return;
		HR_OPS(HR_OP_CASE)
#undef HR_OP_CASE
	}
	hr_op_loaded_init(op, args, state);
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
	return hr_op_loaded_tile(op, args, state, tile);
}

HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all)
{
	switch (op) {
#define HR_OP_CASE(name)                    \
	case HR_OP_##name:                  \
		hr_op_##name##_finish(all); \
		return;
		HR_OPS(HR_OP_CASE)
#undef HR_OP_CASE
	}
	hr_op_loaded_finish(op, all);
}
