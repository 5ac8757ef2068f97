/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/attempt/admission.h"

/* The waiting pipeline that was requested first, of those in `set`. */
static uint32_t oldest(const struct hr_admission *a, hr_pipeline_set set)
{
	uint32_t first = HR_PIPELINES_MAX;

	for (uint32_t i = 0; i < a->config->pipelines; i++)
		if (set >> i & 1 &&
		    (first == HR_PIPELINES_MAX || a->request[i] < a->request[first]))
			first = i;
	return first;
}

static bool depends_on(const struct hr_admission *a, uint32_t i, hr_pipeline_set set)
{
	for (uint32_t j = 0; j < a->config->pipelines; j++)
		if (set >> j & 1 && j != i &&
		    hr_pipelines_conflict(&a->config->pipeline[j], &a->config->pipeline[i]))
			return true;
	return false;
}

static bool is_later(const struct hr_admission *a, uint32_t i, uint32_t than)
{
	const uint64_t mine = a->request[i], other = a->request[than];

	return mine == other ? i > than : mine > other;
}

/* It replaces the memory of all, or runs alone. */
static bool is_alone(const struct hr_admission *a, uint32_t i)
{
	return (a->suspects >> i & 1) || !(a->planned >> i & 1);
}

/* A pipeline runs that was requested before the waiting pipeline i. */
static bool waits_for_earlier(const struct hr_admission *a, uint32_t i)
{
	for (uint32_t j = 0; j < a->config->pipelines; j++)
		if (a->running >> j & 1 && is_later(a, i, j))
			return true;
	return false;
}

uint32_t hr_admission_next(const struct hr_admission *a)
{
	hr_pipeline_set left = a->waiting, before = a->running;
	uint32_t i;

	if ((uint32_t)__builtin_popcount(a->running) >= a->config->parallel ||
	    a->running & a->suspects)
		return HR_PIPELINES_MAX;
	for (; (i = oldest(a, left)) < HR_PIPELINES_MAX; left &= ~(1u << i)) {
		const bool must_wait = a->running && is_alone(a, i);
		const bool held = a->held >> i & 1;

		if (!held && !must_wait && !depends_on(a, i, before))
			return i;
		if (!held && must_wait && !waits_for_earlier(a, i))
			return HR_PIPELINES_MAX;
		before |= 1u << i;
	}
	return HR_PIPELINES_MAX;
}

/* One pass in the order of the requests is enough: a reader waits behind the pipeline that it
 * reads from. */
hr_pipeline_set hr_admission_readers(const struct hr_admission *a, uint32_t i)
{
	hr_pipeline_set left = a->waiting & ~(1u << i), gone = 0;
	uint32_t j;

	for (; (j = oldest(a, left)) < HR_PIPELINES_MAX; left &= ~(1u << j))
		for (uint32_t k = 0; k < a->config->pipelines; k++)
			if ((k == i || gone >> k & 1) && is_later(a, j, k) &&
			    hr_pipeline_reads_from(&a->config->pipeline[j],
						   &a->config->pipeline[k]))
				gone |= 1u << j;
	return gone;
}
