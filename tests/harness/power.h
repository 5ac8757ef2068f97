/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/power.h - a power cut of a software controller at the moment of the call. A fault
 * script (`powercut`) cuts the power at a command.
 */
#ifndef TESTS_HARNESS_POWER_H
#define TESTS_HARNESS_POWER_H

#include <stdint.h>

#include "nvme/soft/internal.h"
#include "nvme/transport/transport.h"

/*
 * Processing stops between two blocks, the volatile cache is handled as `policy` states (with
 * `seed`), and registers read all ones until the transport is closed. Does nothing the second time.
 */
void power_cut(struct hr_transport *t, enum hr_soft_cut policy, uint64_t seed);

#endif
