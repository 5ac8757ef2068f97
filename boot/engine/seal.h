/*
 * boot/engine/seal.h - the time without allocations.
 */
#ifndef BOOT_ENGINE_SEAL_H
#define BOOT_ENGINE_SEAL_H

#include <stdbool.h>

/*
 * From hr_seal() to hr_unseal() nothing of this process allocates memory. hr_sealed() is for the
 * test that traps malloc.
 */
void hr_seal(void);
void hr_unseal(void);
bool hr_sealed(void);

#endif
