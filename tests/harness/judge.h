/*
 * tests/harness/judge.h - a synthetic machine, read and judged: what tests of single rules share.
 *
 * Change `machine`, judge the way from its GPU to an SSD, look.
 */
#ifndef TESTS_HARNESS_JUDGE_H
#define TESTS_HARNESS_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "pci/topo/fields.h"
#include "pci/topo/verdict.h"
#include "tests/harness/machine.h"

/* Of fake_two_ports(). */
#define GPU "03:00.0"
#define NEAR "04:00.0" /* SSD behind the GPU's switch */
#define FAR "05:00.0"  /* SSD behind another root port */
#define ACS (FAKE_ACS + HR_ACS_CTL)

extern struct fake_machine machine;
extern struct hr_model model;	/* of the machine when it was judged last */
extern struct hr_engine engine; /* over that model */

/* Before and after each test: fake_two_ports(), and a model. */
void fake_judge_up(void);
void fake_judge_down(void);

/* Function of the model, or -1. Addresses name it, as one that reads all ones has no class. */
int32_t fake_at(const char *address);

/* Read the machine, which must succeed, and judge the pair of its GPU and that SSD. */
void fake_judge(const char *ssd, const struct hr_options *opt, struct hr_pair *p);

/* Was the rule found on the pair judged last, for any of its flows? */
bool fake_found(const struct hr_pair *p, const char *rule);

#endif
