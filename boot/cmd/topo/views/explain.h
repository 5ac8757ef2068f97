/*
 * boot/cmd/topo/views/explain.h - one pair, hop by hop, with the deciding rule and the rules that were
 * excluded.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_EXPLAIN_H
#define BOOT_CMD_TOPO_VIEWS_EXPLAIN_H

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/topo.h"

/* Explain one pair on t->out. */
void hr_topo_explain(const struct hr_topo *t, int32_t gpu, int32_t ssd);

/* Print the rule table; {words} are filled in when a rule matches. */
void hr_topo_rules(FILE *out);

#endif
