/*
 * tests/harness/box.h - a machine with several switches, each with GPUs and SSDs, and what
 * `headrace topo` prints of it.
 */
#ifndef TESTS_HARNESS_BOX_H
#define TESTS_HARNESS_BOX_H

#include "boot/cmd/topo/topo.h"
#include "tests/harness/machine.h"

/*
 * Host bridge 00:00.0 (8086:1234) and `switches` root ports, each with a switch below which are
 * `gpus` GPUs and then `ssds` SSDs, each behind a port of its own. ACS redirects nowhere.
 */
void fake_box(struct fake_machine *m, unsigned switches, unsigned gpus, unsigned ssds);
/* The card or the port above it: `at` counts GPUs first, then SSDs. */
struct fake_fn *fake_box_card(struct fake_machine *m, unsigned on_switch, unsigned at);
struct fake_fn *fake_box_port(struct fake_machine *m, unsigned on_switch, unsigned at);

/* Read the machine and judge it as `headrace topo` does; *t is zeroed but for its options. */
void fake_box_judge(const struct fake_machine *m, struct hr_topo *t);
/* What a view prints to t->out; the caller frees. */
char *fake_box_print(struct hr_topo *t, void (*view)(struct hr_topo *t));

#endif
