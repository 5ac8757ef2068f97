/*
 * config/base/seal.h - the phase without allocations.
 */
#ifndef CONFIG_BASE_SEAL_H
#define CONFIG_BASE_SEAL_H

#include <stdbool.h>

/*
 * Between hr_seal() and hr_unseal() this process allocates no memory. hr_sealed() is for the test
 * that traps malloc.
 */
void hr_seal(void);
void hr_unseal(void);
bool hr_sealed(void);

#endif
