/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/op/callback.h - arguments of the operator `callback`: functions of the process that loads it.
 */
#ifndef TESTS_OP_CALLBACK_H
#define TESTS_OP_CALLBACK_H

struct hr_objects;
struct hr_op_all;

struct callback_args {
	void (*run)(struct hr_objects *objects);
	void (*finish)(const struct hr_op_all *all); /* NULL: nothing */
};

#endif
