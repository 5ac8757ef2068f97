/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/random.h"

#include <math.h>

#define WEIGHTS 4611686018427387904.0 /* 2^62 */

void hr_zipf_init(struct hr_zipf *zipf, double s)
{
	double below[HR_ZIPF_BUCKETS + 1] = { 0 };

	for (uint32_t b = 0; b < HR_ZIPF_BUCKETS; b++) {
		const double ranks = ldexp(1, (int)hr_zipf_shift(b));
		const double middle = (double)hr_zipf_first(b) + (ranks + 1) / 2;

		below[b + 1] = below[b] + ranks * pow(middle, -s);
	}
	for (uint32_t b = 0; b <= HR_ZIPF_BUCKETS; b++)
		zipf->below[b] = (uint64_t)(below[b] / below[HR_ZIPF_BUCKETS] * WEIGHTS);
}
