/*
 * gpu/ops/desc.h - the descriptions of all operators, and what several of them share. Host only.
 */
#ifndef GPU_OPS_DESC_H
#define GPU_OPS_DESC_H

#include "gpu/worker/op.h"

#define HR_OP_DESC(name) extern const struct hr_op_desc hr_op_##name##_desc;
HR_OPS(HR_OP_DESC)
#undef HR_OP_DESC

/* For operators without arguments, without state, and with nothing to tell. */
int hr_op_parse_none(const struct hr_op_arg *arg, uint32_t count, void *args,
		     void (*complain)(void *to, unsigned line, const char *text), void *to);
uint32_t hr_op_state_none(const void *args);
void hr_op_print_none(const struct hr_op_all *all, FILE *out);
void hr_op_json_none(const struct hr_op_all *all, void *json_object);

/* Rows of one byte, and of four. */
uint32_t hr_op_row_1(const void *args, uint32_t source);
uint32_t hr_op_row_4(const void *args, uint32_t source);

#endif
