/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/evaluate.h - common parts of tests of single rules: a synthetic machine that is read
 * and evaluated.
 *
 * A test changes `machine`, evaluates the path from its GPU to an SSD, and checks the result.
 */
#ifndef TESTS_HARNESS_EVALUATE_H
#define TESTS_HARNESS_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "pci/topo/fields.h"
#include "pci/topo/rules/verdict.h"
#include "tests/harness/machine.h"

/* Addresses of fake_two_ports(). */
#define GPU "03:00.0"
#define SIBLING "04:00.0" /* SSD behind the GPU's switch */
#define OTHER "05:00.0"	  /* SSD behind another root port */
#define ACS (FAKE_ACS + HR_ACS_CTL)

extern struct fake_machine machine;
extern struct hr_model model;	    /* of the machine at the last evaluation */
extern struct hr_topology topology; /* over that model */

/* Before and after each test: fake_two_ports(), and a model. */
void fake_evaluate_up(void);
void fake_evaluate_down(void);

/*
 * Index of a function of the model, or -1. An address identifies it, because a function that reads
 * all ones has no class.
 */
int32_t fake_at(const char *address);

/* Read the machine, which must succeed, and evaluate the pair of its GPU and that SSD. */
void fake_evaluate(const char *ssd, const struct hr_topo_options *opt, struct hr_pair *p);

/* True when the last evaluated pair has the rule for any of its flows. */
bool fake_found(const struct hr_pair *p, const char *rule);

#endif
