/*
 * tests/harness/lspci_rig.h - a function of the text of lspci -v, which a test reads line by line.
 */
#ifndef TESTS_HARNESS_LSPCI_RIG_H
#define TESTS_HARNESS_LSPCI_RIG_H

#include <criterion/criterion.h>
#include <string.h>

#include "pci/topo/lspci_text.h"

static struct hr_model model;
static struct hr_fn fn;
static struct hr_text_state state;

static inline void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static inline void down(void)
{
	hr_model_fini(&model);
}

/* A new function, of which nothing is known. */
static inline void begin(void)
{
	memset(&fn, 0, sizeof fn);
	memset(&state, 0, sizeof state);
}

/* The next line of its text. */
static inline void line(const char *text)
{
	hr_text_line(&model, &fn, &state, text, strlen(text));
}

#endif
