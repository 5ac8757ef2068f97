
#include "config/base/seal.h"

static int sealed;

void hr_seal(void)
{
	__atomic_store_n(&sealed, 1, __ATOMIC_RELEASE);
}

void hr_unseal(void)
{
	__atomic_store_n(&sealed, 0, __ATOMIC_RELEASE);
}

bool hr_sealed(void)
{
	return __atomic_load_n(&sealed, __ATOMIC_ACQUIRE) != 0;
}
