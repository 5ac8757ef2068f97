/* SPDX-License-Identifier: Apache-2.0 */
/* cache/page_policy.h against a model that keeps the same facts in lists. */
#include "cache/page_policy.h"

#include <criterion/criterion.h>

#include "tests/harness/random.h"

TestSuite(page_policy, .timeout = 60);

/* The ways in an order, newest first; a mark and a number of uses per way; the hand of the clock. */
struct model {
	uint32_t order[HR_WAYS];
	bool marked[HR_WAYS];
	uint32_t uses[HR_WAYS];
	uint32_t hand;
};

static struct model model_init(void)
{
	struct model m = { .hand = 0 };

	for (uint32_t i = 0; i < HR_WAYS; i++)
		m.order[i] = i;
	return m;
}

static void model_to_front(struct model *m, uint32_t way)
{
	uint32_t at = 0;

	while (m->order[at] != way)
		at++;
	for (; at; at--)
		m->order[at] = m->order[at - 1];
	m->order[0] = way;
}

static void model_use(struct model *m, enum hr_page_policy policy, uint32_t way, bool enters)
{
	m->marked[way] = policy != HR_POLICY_STREAM || !enters;
	if (enters)
		m->uses[way] = 0;
	else if (m->uses[way] < HR_POLICY_USES)
		m->uses[way]++;
	if (policy == HR_POLICY_LRU || enters)
		model_to_front(m, way);
}

static uint32_t model_oldest(const struct model *m, uint32_t candidates, bool marked)
{
	for (uint32_t i = HR_WAYS; i-- > 0;)
		if ((candidates >> m->order[i] & 1) && (!marked || m->marked[m->order[i]]))
			return m->order[i];
	return HR_WAYS;
}

static uint32_t model_clock(struct model *m, uint32_t candidates)
{
	for (;;) {
		const uint32_t way = m->hand;

		m->hand = (m->hand + 1) % HR_WAYS;
		if (!(candidates >> way & 1))
			continue;
		if (!m->marked[way])
			return way;
		m->marked[way] = false;
	}
}

static uint32_t model_count(struct model *m, uint32_t candidates)
{
	for (;;) {
		const uint32_t way = m->hand;

		m->hand = (m->hand + 1) % HR_WAYS;
		if (!(candidates >> way & 1))
			continue;
		if (m->uses[way] == 1)
			return way;
		m->uses[way] = m->uses[way] ? m->uses[way] - 1 : 1;
	}
}

static uint32_t model_victim(struct model *m, enum hr_page_policy policy, uint32_t candidates)
{
	uint32_t way;

	if (policy == HR_POLICY_CLOCK)
		return model_clock(m, candidates);
	if (policy == HR_POLICY_COUNT)
		return model_count(m, candidates);
	if (policy == HR_POLICY_LRU)
		return model_oldest(m, candidates, false);
	way = model_oldest(m, candidates, true);
	return way < HR_WAYS ? way : model_oldest(m, candidates, false);
}

static uint32_t model_spare(const struct model *m, enum hr_page_policy policy, uint32_t candidates)
{
	for (uint32_t way = 0; policy == HR_POLICY_STREAM && way < HR_WAYS; way++)
		candidates &= ~(m->marked[way] ? 0 : 1u << way);
	return candidates;
}

static void compare(enum hr_page_policy policy, struct fake_random *random)
{
	struct model m = model_init();
	uint32_t word = hr_policy_init(policy);

	for (unsigned i = 0; i < 20000; i++) {
		const uint32_t way = fake_random_below(random, HR_WAYS);
		const uint32_t candidates = 1 + fake_random_below(random, 127);
		const uint32_t what = fake_random_below(random, 3);

		if (what == 0)
			word = hr_policy_touch(policy, word, way);
		else if (what == 1)
			word = hr_policy_enter(policy, word, way);
		if (what < 2)
			model_use(&m, policy, way, what == 1);
		else
			cr_assert_eq(hr_policy_victim(policy, &word, candidates),
				     model_victim(&m, policy, candidates),
				     "policy %d, step %u, candidates %x", policy, i, candidates);
		cr_assert_eq(hr_policy_spare(policy, word, candidates),
			     model_spare(&m, policy, candidates), "policy %d, step %u", policy, i);
	}
}

Test(page_policy, every_policy_chooses_as_its_model)
{
	struct fake_random random = { fake_random_seed("page_policy") };

	for (unsigned policy = 0; policy < HR_POLICIES; policy++)
		for (unsigned i = 0; i < 10; i++)
			compare((enum hr_page_policy)policy, &random);
}

/* So hits on a page that is used often write nothing. */
Test(page_policy, further_touches_leave_the_word_unchanged)
{
	struct fake_random random = { fake_random_seed("page_policy") };

	for (unsigned policy = 0; policy < HR_POLICIES; policy++) {
		uint32_t word = hr_policy_init((enum hr_page_policy)policy);

		for (unsigned i = 0; i < 1000; i++) {
			const uint32_t way = fake_random_below(&random, HR_WAYS);

			for (unsigned use = 0;
			     use < (policy == HR_POLICY_COUNT ? HR_POLICY_USES : 1); use++)
				word = hr_policy_touch((enum hr_page_policy)policy, word, way);
			cr_assert_eq(hr_policy_touch((enum hr_page_policy)policy, word, way), word);
		}
	}
}

/* A hand, or a count, that no update makes also leads to a candidate. */
Test(page_policy, the_clocks_take_a_candidate_from_any_word)
{
	struct fake_random random = { fake_random_seed("page_policy") };

	for (unsigned i = 0; i < 100000; i++) {
		const uint32_t candidates = 1 + fake_random_below(&random, 127);
		uint32_t word = (uint32_t)fake_random_u64(&random);

		cr_assert(candidates >> hr_policy_victim(HR_POLICY_CLOCK, &word, candidates) & 1);
		word = (uint32_t)fake_random_u64(&random);
		cr_assert(candidates >> hr_policy_victim(HR_POLICY_COUNT, &word, candidates) & 1);
	}
}
