/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo/survey.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"

#define SHOWN_MAX 128u /* GPUs and network cards whose pairs are shown without an option */

#define TABLE \
	1024u /* entries of the hash table of classes: a power of two, four times the classes */

/*
 * Pairs with the same key are equal. The struct has no padding, because keys are compared as two
 * words.
 */
struct key {
	uint8_t verdict, rule, flow[HR_FLOWS], flow_rule[HR_FLOWS];
	uint8_t kernel, same_switch;
	uint16_t modifiers;
	char distance[2];
};
_Static_assert(sizeof(struct key) == 16, "compared as two words");

/* SSDs of one class for the current GPU, until the end of its row. */
struct open_row {
	struct hr_set ssd;
	uint64_t hash;
};

struct pass {
	const struct hr_topo *t;
	struct hr_survey *s;
	struct key key[HR_CLASSES_MAX];
	uint8_t cell[HR_CLASSES_MAX]; /* first class whose cell in the matrix has the same text */
	uint16_t entry[TABLE];	      /* class + 1 */
	struct open_row open[HR_CLASSES_MAX];
	uint64_t *row_hash, *column_hash;
	uint32_t last; /* class of the previous pair */
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ (value + 1)) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

void hr_set_add(struct hr_set *set, uint32_t at)
{
	const uint32_t last = set->ranges - 1;

	set->count++;
	if (set->ranges && set->ranges <= HR_RANGES_MAX && set->range[last].to + 1 == at) {
		set->range[last].to = at;
		return;
	}
	if (set->ranges < HR_RANGES_MAX)
		set->range[set->ranges].from = set->range[set->ranges].to = at;
	set->ranges++;
}

static struct key key_of(const struct hr_topo *t, const struct hr_pair *p)
{
	const uint8_t used = hr_mode_flows(t->opt.mode);
	const char *distance = hr_distance_word(&t->topology, p);
	struct key k = { .verdict = (uint8_t)p->verdict,
			 .rule = p->rule,
			 .kernel = (uint8_t)p->kernel,
			 .same_switch = p->common != HR_NO_FN,
			 .modifiers = p->modifiers & (HR_MOD_DEGRADED | HR_MOD_BOOT),
			 .distance = { distance[0], distance[1] } };

	for (unsigned i = 0; i < HR_FLOWS; i++)
		if (used >> i & 1) {
			k.flow[i] = (uint8_t)p->flow[i];
			k.flow_rule[i] = p->flow_rule[i];
		}
	return k;
}

static bool same_key(const struct key *a, const struct key *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

char *hr_survey_cell(const struct hr_topo *t, const struct hr_pair *p, char *text)
{
	char verdict[48];

	snprintf(text, 64, "%-4s %s%s", hr_distance_word(&t->topology, p),
		 hr_verdict_text(p->verdict, p->rule, verdict),
		 p->modifiers & HR_MOD_DEGRADED ? "*" : "");
	return text;
}

static uint8_t same_cell(const struct hr_topo *t, const struct hr_survey *s, uint32_t class)
{
	char text[64], other[64];

	hr_survey_cell(t, &s->class[class].pair, text);
	for (uint32_t i = 0; i < class; i++)
		if (strcmp(hr_survey_cell(t, &s->class[i].pair, other), text) == 0)
			return (uint8_t)i;
	return (uint8_t) class;
}

static uint32_t new_class(struct pass *w, const struct key *k, const struct hr_pair *p)
{
	struct hr_survey *s = w->s;
	const uint32_t class = s->classes;
	struct hr_class *c = &s->class[class];

	if (class == HR_CLASSES_MAX)
		return HR_CLASSES_MAX;
	c->rectangle = calloc(HR_RECTANGLES_MAX, sizeof *c->rectangle);
	if (!c->rectangle)
		return HR_CLASSES_MAX;
	c->pair = *p;
	c->same_switch = k->same_switch;
	w->key[class] = *k;
	w->cell[class] = same_cell(w->t, s, class);
	s->classes++;
	return class;
}

static uint32_t class_of(struct pass *w, const struct hr_pair *p)
{
	const struct key k = key_of(w->t, p);
	uint64_t word[2];
	uint32_t at;

	if (w->last < w->s->classes && same_key(&w->key[w->last], &k))
		return w->last;
	memcpy(word, &k, sizeof word);
	at = (uint32_t)mix(mix(0, word[0]), word[1]) & (TABLE - 1);
	while (w->entry[at] && !same_key(&w->key[w->entry[at] - 1], &k))
		at = (at + 1) & (TABLE - 1);
	if (!w->entry[at]) {
		uint32_t class = new_class(w, &k, p);

		if (class == HR_CLASSES_MAX)
			return class;
		w->entry[at] = (uint16_t)(class + 1);
	}
	w->last = w->entry[at] - 1u;
	return w->last;
}

static void add_pair(struct pass *w, uint32_t gpu, uint32_t ssd, const struct hr_pair *p)
{
	const uint32_t class = class_of(w, p);
	/* Classes beyond the limit make every row and column different. */
	const uint64_t cell = class < HR_CLASSES_MAX ? w->cell[class]
						     : HR_CLASSES_MAX + gpu + ((uint64_t)ssd << 32);

	w->row_hash[ssd] = mix(w->row_hash[ssd], cell);
	w->column_hash[gpu] = mix(w->column_hash[gpu], cell);
	if (class == HR_CLASSES_MAX) {
		w->s->unlisted++;
		return;
	}
	w->s->class[class].pairs++;
	w->open[class].hash = mix(w->open[class].hash, ssd);
	hr_set_add(&w->open[class].ssd, ssd);
}

/* Add the GPU to the rectangle with the same SSDs, or begin a rectangle. */
static void close_row(struct pass *w, uint32_t gpu)
{
	for (uint32_t i = 0; i < w->s->classes; i++) {
		struct hr_class *c = &w->s->class[i];
		struct open_row *o = &w->open[i];
		uint32_t at = 0;

		if (!o->ssd.count)
			continue;
		while (at < c->rectangles && c->rectangle[at].hash != o->hash)
			at++;
		if (at == c->rectangles && at < HR_RECTANGLES_MAX) {
			c->rectangles++;
			c->rectangle[at].ssd = o->ssd;
			c->rectangle[at].hash = o->hash;
		}
		if (at < HR_RECTANGLES_MAX)
			hr_set_add(&c->rectangle[at].gpu, gpu);
		else
			c->cut = true;
		memset(o, 0, sizeof *o);
	}
}

static void count_pair(const struct hr_topo *t, struct hr_survey *s, const struct hr_pair *p)
{
	uint64_t *by = t->topology.guest       ? s->guest
		       : p->cut		       ? s->cut
		       : p->common != HR_NO_FN ? s->with_switch
					       : s->without_switch;

	by[p->verdict]++;
	hr_topo_sum_add(&s->sum, p);
}

static void evaluate_all(struct pass *w)
{
	const struct hr_topology *e = &w->t->topology;
	struct hr_pair p;

	for (uint32_t i = 0; i < e->gpus; i++) {
		for (uint32_t j = 0; j < e->ssds; j++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (!hr_topo_wants(w->t, &p)) {
				w->row_hash[j] = mix(w->row_hash[j], UINT32_MAX);
				w->column_hash[i] = mix(w->column_hash[i], UINT32_MAX);
				continue;
			}
			count_pair(w->t, w->s, &p);
			add_pair(w, i, j, &p);
		}
		close_row(w, i);
	}
	if (w->s->sum.pairs == 0)
		w->s->sum.exit = HR_TOPO_NONE;
}

/*
 * Give equal hashes equal numbers: id[n], first index of each id in first[]; returns the number of
 * ids.
 */
static uint32_t number_hashes(const uint64_t *hash, uint32_t n, uint32_t *id, uint32_t *first,
			      uint32_t *table, uint32_t entries)
{
	uint32_t ids = 0;

	memset(table, 0, entries * sizeof *table);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = (uint32_t)(hash[i] >> 7) & (entries - 1);

		while (table[at] && hash[first[table[at] - 1]] != hash[i])
			at = (at + 1) & (entries - 1);
		if (!table[at]) {
			first[ids++] = i;
			table[at] = ids;
		}
		id[i] = table[at] - 1;
	}
	return ids;
}

static bool number_all(struct pass *w)
{
	const struct hr_topology *e = &w->t->topology;
	const uint32_t most = e->gpus > e->ssds ? e->gpus : e->ssds;
	struct hr_survey *s = w->s;
	uint32_t entries = 2, *table;

	while (entries < 2 * most)
		entries *= 2;
	table = calloc(entries, sizeof *table);
	if (!table)
		return false;
	s->columns = number_hashes(w->column_hash, e->gpus, s->column, s->gpu_of, table, entries);
	s->rows = number_hashes(w->row_hash, e->ssds, s->row, s->ssd_of, table, entries);
	free(table);
	return true;
}

/* Pairs that share a switch come first, then the worst verdicts. */
static int by_importance(const void *a, const void *b)
{
	const struct hr_class *x = a, *y = b;
	const unsigned rank_x = hr_verdict_order(x->pair.verdict),
		       rank_y = hr_verdict_order(y->pair.verdict);

	if (x->same_switch != y->same_switch)
		return x->same_switch ? -1 : 1;
	if (rank_x != rank_y)
		return rank_x > rank_y ? -1 : 1;
	if (x->pair.gpu != y->pair.gpu)
		return x->pair.gpu < y->pair.gpu ? -1 : 1;
	return x->pair.ssd < y->pair.ssd ? -1 : x->pair.ssd > y->pair.ssd;
}

static bool allocate(struct pass *w)
{
	const struct hr_topology *e = &w->t->topology;
	struct hr_survey *s = w->s;

	s->column = calloc(e->gpus + 1, sizeof *s->column);
	s->gpu_of = calloc(e->gpus + 1, sizeof *s->gpu_of);
	s->row = calloc(e->ssds + 1, sizeof *s->row);
	s->ssd_of = calloc(e->ssds + 1, sizeof *s->ssd_of);
	w->column_hash = calloc(e->gpus + 1, sizeof *w->column_hash);
	w->row_hash = calloc(e->ssds + 1, sizeof *w->row_hash);
	return s->column && s->gpu_of && s->row && s->ssd_of && w->column_hash && w->row_hash;
}

struct hr_survey *hr_survey_new(const struct hr_topo *t)
{
	struct hr_survey *s = calloc(1, sizeof *s);
	struct pass *w = calloc(1, sizeof *w);
	bool done = false;

	if (s && w) {
		w->t = t;
		w->s = s;
		done = allocate(w);
	}
	if (done) {
		evaluate_all(w);
		done = number_all(w);
		qsort(s->class, s->classes, sizeof *s->class, by_importance);
	}
	if (w) {
		free(w->column_hash);
		free(w->row_hash);
	}
	free(w);
	if (done)
		return s;
	hr_survey_free(s);
	return NULL;
}

void hr_survey_free(struct hr_survey *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->classes; i++)
		free(s->class[i].rectangle);
	free(s->column);
	free(s->row);
	free(s->gpu_of);
	free(s->ssd_of);
	free(s);
}

uint32_t hr_survey_class(const struct hr_survey *s, const struct hr_topo *t,
			 const struct hr_pair *p)
{
	const struct key k = key_of(t, p);

	for (uint32_t i = 0; i < s->classes; i++) {
		const struct key other = key_of(t, &s->class[i].pair);

		if (same_key(&other, &k))
			return i;
	}
	return HR_CLASSES_MAX;
}

char *hr_set_text(const char *prefix, const struct hr_set *set, char *text, size_t capacity)
{
	size_t used = (size_t)snprintf(text, capacity, "%s", prefix);
	uint32_t told = 0;

	for (uint32_t i = 0; i < set->ranges && i < HR_RANGES_MAX; i++) {
		const uint32_t from = set->range[i].from, to = set->range[i].to;
		char range[32];
		int n = from == to
				? snprintf(range, sizeof range, "%s%u", i ? "," : "", from)
				: snprintf(range, sizeof range, "%s%u-%u", i ? "," : "", from, to);

		/* Keep room for ",+65536". */
		if (used + (size_t)n + 8 >= capacity)
			break;
		memcpy(text + used, range, (size_t)n + 1);
		used += (size_t)n;
		told += to - from + 1;
	}
	if (told < set->count)
		snprintf(text + used, capacity - used, "%s+%u", told ? "," : "", set->count - told);
	return text;
}

bool hr_topo_lists(const int32_t *list, uint32_t count, int32_t index)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == index)
			return true;
	return false;
}

uint32_t hr_topo_cards(const struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->model.count && e->gpus + n <= SHOWN_MAX; i++)
		n += hr_is_nic(&t->model.fn[i]) && !hr_topo_lists(e->gpu, e->gpus, (int32_t)i);
	return e->gpus + n;
}

bool hr_topo_has_other_pairs(const struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;
	const uint32_t n = e->ssds == 0 && e->gpus ? hr_topo_cards(t) : 0;

	return n > 1 && n <= SHOWN_MAX;
}
