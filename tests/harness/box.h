/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/box.h - a machine with several switches, each with GPUs and SSDs, and the output of
 * `headrace topo` about it.
 */
#ifndef TESTS_HARNESS_BOX_H
#define TESTS_HARNESS_BOX_H

#include "boot/cmd/topo/topo.h"
#include "tests/harness/machine.h"

/*
 * Host bridge 00:00.0 (8086:1234) and `switches` root ports. Below each is a switch with `gpus`
 * GPUs and then `ssds` SSDs, each behind its own port. No ACS redirects.
 */
void fake_box(struct fake_machine *m, unsigned switches, unsigned gpus, unsigned ssds);
/* The card, or the port above it; `at` counts GPUs first, then SSDs. */
struct fake_fn *fake_box_card(struct fake_machine *m, unsigned on_switch, unsigned at);
struct fake_fn *fake_box_port(struct fake_machine *m, unsigned on_switch, unsigned at);

/* Read the machine and evaluate it as `headrace topo` does; *t is zeroed but for its options. */
void fake_box_evaluate(const struct fake_machine *m, struct hr_topo *t);
/* Output of a view that prints to t->out; the caller frees it. */
char *fake_box_print(struct hr_topo *t, void (*view)(struct hr_topo *t));

#endif
