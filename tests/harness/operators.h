/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/operators.h - the arguments and results of built-in operators, from the operators'
 * own files.
 */
#ifndef TESTS_HARNESS_OPERATORS_H
#define TESTS_HARNESS_OPERATORS_H

#define HR_OP_WORKER_CODE

#define HR_OP_NAME crc32c
#include "gpu/ops/crc32c.c"
#undef HR_OP_NAME
#define HR_OP_NAME filter_sum
#include "gpu/ops/filter_sum.c"
#undef HR_OP_NAME
#define HR_OP_NAME topk_dot
#include "gpu/ops/topk_dot.c"
#undef HR_OP_NAME
#define HR_OP_NAME chase
#include "gpu/ops/chase.c"
#undef HR_OP_NAME
#define HR_OP_NAME gather
#include "gpu/ops/gather.c"
#undef HR_OP_NAME
#define HR_OP_NAME join
#include "gpu/ops/join.c"
#undef HR_OP_NAME
#define HR_OP_NAME bfs
#include "gpu/ops/bfs.c"
#undef HR_OP_NAME

#endif
