#include <errno.h>
#include <string.h>

#include "gpu/ops/args.h"
#include "gpu/ops/desc.h"
#include "gpu/ops/user.h"

static const struct hr_op_desc *const all_ops[HR_OP_COUNT] = {
#define HR_OP_ENTRY(name) &hr_op_##name##_desc,
	HR_OPS(HR_OP_ENTRY)
#undef HR_OP_ENTRY
};

const struct hr_op_desc *hr_op_get(enum hr_op_id id)
{
	return (unsigned)id < HR_OP_COUNT ? all_ops[id] : hr_op_user_get((uint32_t)id);
}

const struct hr_op_desc *hr_op_find(const char *name)
{
	for (unsigned id = 0; id < HR_OP_COUNT; id++)
		if (strcmp(all_ops[id]->name, name) == 0)
			return all_ops[id];
	return NULL;
}

void hr_op_print(const struct hr_op_desc *op, const struct hr_op_all *all, FILE *out)
{
	if (op->user)
		hr_op_user_print(op->user, all, out);
	else
		op->print(all, out);
}

void hr_op_json(const struct hr_op_desc *op, const struct hr_op_all *all, void *json_object)
{
	if (op->user)
		hr_op_user_json(op->user, all, json_object);
	else
		op->json(all, json_object);
}

int hr_op_parse_none(const struct hr_op_arg *arg, uint32_t count, void *args,
		     void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	struct hr_args given = { arg, count, complain, to, false };

	hr_args_known(&given, NULL, 0);
	return given.bad ? -EINVAL : 0;
}

uint32_t hr_op_state_none(const void *args)
{
	return 0;
}

void hr_op_print_none(const struct hr_op_all *all, FILE *out)
{
}

void hr_op_json_none(const struct hr_op_all *all, void *json_object)
{
}

uint32_t hr_op_row_1(const void *args, uint32_t source)
{
	return 1;
}

uint32_t hr_op_row_4(const void *args, uint32_t source)
{
	return 4;
}
