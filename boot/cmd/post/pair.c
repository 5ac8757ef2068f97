/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/post/step.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/exchange/exchange.h"
#include "boot/engine/shape/paths.h"

/* The reason why no tile of the pair lies in GPU memory; NULL: the data are compared. */
static const char *no_path(const struct hr_engine *engine, uint32_t g, uint32_t d)
{
	const struct hr_path *path = &engine->path[g][d];

	if (engine->ssd[d].transport.keeps_no_data)
		return "the ssd keeps no data";
	if (engine->config.path == HR_PATH_BOUNCE)
		return "memory.path is \"bounce\": no ssd accesses GPU memory";
	return path->pair && !path->direct ? path->why : NULL;
}

static void format_way(const struct hr_exchange_result *r, enum hr_exchange_way way, char *text,
		       size_t bytes)
{
	const struct hr_exchange_row *worst = &r->worst[way];

	if (worst->outcome == HR_EXCHANGE_EQUAL)
		snprintf(text, bytes, "%s: equal, 4 to %llu KiB (%s)", hr_exchange_way_text(way),
			 (unsigned long long)r->most[way] >> 10, worst->by);
	else if (worst->bytes)
		snprintf(text, bytes, "%s: %llu KiB: %s", hr_exchange_way_text(way),
			 (unsigned long long)worst->bytes >> 10, worst->text);
	else
		snprintf(text, bytes, "%s: %s", hr_exchange_way_text(way), worst->text);
}

/* The outcome of the step: the worse of both ways. */
static int conclude_pair(const struct hr_exchange_result *r, char *detail, struct hr_error *e)
{
	const enum hr_exchange_outcome a = r->worst[0].outcome, b = r->worst[1].outcome;
	const enum hr_exchange_outcome worse = a > b ? a : b;
	char to[HR_POST_DETAIL], from[HR_POST_DETAIL];

	format_way(r, HR_EXCHANGE_TO_GPU, to, sizeof to);
	format_way(r, HR_EXCHANGE_FROM_GPU, from, sizeof from);
	if (worse >= HR_EXCHANGE_FAILED)
		return hr_fail(e, HR_ERROR_DEVICE, -EIO,
			       "%s; %s; memory.path = \"bounce\" does "
			       "without this path",
			       to, from);
	snprintf(detail, HR_POST_DETAIL, "%.*s; %.*s", (int)HR_POST_DETAIL / 2 - 2, to,
		 (int)HR_POST_DETAIL / 2 - 2, from);
	return worse == HR_EXCHANGE_EQUAL ? 0 : HR_POST_SKIP;
}

/* Without a direct path, memory that the ssd cannot reach is no fault. */
static int leave_out(const struct hr_engine *engine, uint32_t g, uint32_t d, int err, char *detail,
		     struct hr_error *e)
{
	if (err == -EINTR || engine->path[g][d].direct || hr_health_failed(&engine->ssd[d].health))
		return err;
	snprintf(detail, HR_POST_DETAIL, "%.*s", (int)HR_POST_DETAIL - 1,
		 e->kind ? e->text : "the ssd cannot access memory of this gpu");
	hr_error_clear(e);
	return HR_POST_SKIP;
}

int hr_post_pair(struct hr_engine *engine, uint32_t g, uint32_t d, uint64_t budget_ns, char *detail,
		 struct hr_error *e)
{
	const struct hr_exchange x = { .ssd = &engine->ssd[d],
				       .backend = &engine->backend[g],
				       .budget_ns = budget_ns };
	struct hr_exchange_result r;
	int err = hr_path_ask(engine, g, d);

	if (err) {
		snprintf(detail, HR_POST_DETAIL, "%.*s", (int)HR_POST_DETAIL - 1,
			 engine->error.text);
		hr_error_clear(&engine->error);
		return HR_POST_SKIP;
	}
	if (no_path(engine, g, d)) {
		snprintf(detail, HR_POST_DETAIL, "%.*s", (int)HR_POST_DETAIL - 1,
			 no_path(engine, g, d));
		return HR_POST_SKIP;
	}
	err = hr_exchange_run(&x, &r, e);
	return err ? leave_out(engine, g, d, err, detail, e) : conclude_pair(&r, detail, e);
}
