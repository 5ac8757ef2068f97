/*
 * tests/harness/io_rig_text.h - what a step of an I/O worker has changed, as a text; for io_rig.h.
 */
#ifndef TESTS_HARNESS_IO_RIG_TEXT_H
#define TESTS_HARNESS_IO_RIG_TEXT_H

#include <stdint.h>

/* Remember the state; compare the changes since then with a text. */
void io_rig_keep(void);
void io_rig_expect(int64_t result, const char *text, const char *file, int line);

#define STEP(call, text)                                              \
	do {                                                          \
		int64_t step_result;                                  \
                                                                      \
		io_rig_keep();                                        \
		step_result = (int64_t)(call);                        \
		io_rig_expect(step_result, text, __FILE__, __LINE__); \
	} while (0)

#endif
