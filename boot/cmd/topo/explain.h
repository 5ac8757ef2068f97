/*
 * boot/cmd/topo/explain.h - one pair, hop by hop, with the rule that decided and what was ruled out.
 */
#ifndef BOOT_CMD_TOPO_EXPLAIN_H
#define BOOT_CMD_TOPO_EXPLAIN_H

#include "boot/cmd/topo/topo.h"

/* The explanation of one pair on t->out. */
void hr_topo_explain(const struct hr_topo *t, int32_t gpu, int32_t ssd);

/* The rule table as text; {words} are filled in when a rule hits. */
void hr_topo_rules(FILE *out);

#endif
