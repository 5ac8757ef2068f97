#include "boot/cmd/topo/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/html.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/notes.h"
#include "boot/cmd/topo/table.h"
#include "boot/cmd/topo/whatif.h"
#include "config/clock.h"
#include "boot/cmd/report/json.h"
#include "boot/engine/signals.h"
#include "boot/cmd/topo/headline.h"
#include "pci/live.h"
#include "pci/topo/source.h"
#include "pci/uevent.h"

#define QUIET_NS (200 * HR_NS_PER_MS)
#define LONGEST_NS HR_NS_PER_S
#define APART_NS HR_NS_PER_S

/* ---- when */

void hr_watch_message(struct hr_watch_times *w, uint64_t now_ns)
{
	if (!w->told)
		w->first_ns = now_ns;
	w->last_ns = now_ns;
	w->told = true;
}

void hr_watch_read(struct hr_watch_times *w, uint64_t now_ns)
{
	w->read_ns = now_ns;
	w->told = false;
}

uint64_t hr_watch_left(const struct hr_watch_times *w, uint64_t now_ns)
{
	uint64_t due = w->read_ns + w->period_ns;

	if (w->told) {
		uint64_t swarm = w->last_ns + QUIET_NS;

		if (swarm > w->first_ns + LONGEST_NS)
			swarm = w->first_ns + LONGEST_NS;
		if (swarm < w->read_ns + APART_NS)
			swarm = w->read_ns + APART_NS;
		due = swarm < due ? swarm : due;
	}
	return due > now_ns ? due - now_ns : 0;
}

/* ---- what */

/* Headlines as one text each: those that were not there before are what changed. */
struct said {
	char *line[HR_CLASSES_MAX];
	unsigned lines;
};

static void forget(struct said *s)
{
	for (unsigned i = 0; i < s->lines; i++)
		free(s->line[i]);
	s->lines = 0;
}

static bool has(const struct said *s, const char *line)
{
	for (unsigned i = 0; i < s->lines; i++)
		if (strcmp(s->line[i], line) == 0)
			return true;
	return false;
}

static bool say(struct hr_topo *t, struct said *said)
{
	struct hr_survey *s = hr_survey_new(t);
	struct hr_headline *h = s ? hr_headlines_new(t, s, HR_CLASSES_MAX) : NULL;
	char answer[512];

	said->lines = 0;
	if (h && s->sum.pairs)
		said->line[said->lines++] = strdup(hr_headline_answer(s, answer));
	else if (h)
		said->line[said->lines++] = strndup(answer, strlen(hr_topo_no_pair(t, answer)) - 1);
	for (uint32_t i = 0; h && i < s->classes && said->lines < HR_CLASSES_MAX; i++)
		if (asprintf(&said->line[said->lines], "%s: %s%s%s (%s)", h[i].members, h[i].what,
			     h[i].rate[0] ? "; " : "", h[i].rate, h[i].terms) > 0)
			said->lines++;
	free(h);
	hr_survey_free(s);
	return h != NULL;
}

static void put_time(const struct hr_topo *t)
{
	const time_t now = time(NULL);
	struct tm local;
	char text[64];

	localtime_r(&now, &local);
	strftime(text, sizeof text, "%F %T", &local);
	fprintf(t->out, "\n%s\n", text);
}

/* Facts that differ, then the headlines that were not true before. */
static unsigned print_changes(struct hr_topo *t, const struct hr_engine *old,
			      const struct said *before, const struct said *now)
{
	char *facts = NULL;
	size_t size;
	FILE *const out = t->out;
	unsigned changes = 0;

	t->out = open_memstream(&facts, &size);
	if (t->out) {
		changes = hr_topo_compare_facts(t, old->m);
		fclose(t->out);
	}
	t->out = out;
	for (unsigned i = 0; i < now->lines; i++)
		changes += !has(before, now->line[i]);
	if (changes) {
		put_time(t);
		fputs(facts ? facts : "", t->out);
	}
	for (unsigned i = 0; i < now->lines; i++)
		if (!has(before, now->line[i]))
			hr_print_wrapped(t->out, 0, 2, now->line[i]);
	free(facts);
	return changes;
}

static unsigned print_json(struct hr_topo *t, const struct hr_engine *old,
			   const struct said *before, const struct said *now)
{
	struct json_object *list;
	unsigned changes;

	t->json = hr_topo_json_new(t, "watch");
	changes = hr_topo_compare_facts(t, old->m) + hr_topo_compare_verdicts(t, old);
	hr_json_string(t->json, "answer", now->lines ? now->line[0] : "");
	list = hr_json_array(t->json, "headlines_new");
	for (unsigned i = 1; i < now->lines; i++)
		if (!has(before, now->line[i])) {
			json_object_array_add(list, json_object_new_string(now->line[i]));
			changes++;
		}
	if (now->lines && !has(before, now->line[0]))
		changes++;
	hr_json_u64(t->json, "differences", changes);
	if (changes)
		hr_topo_json_print(t, t->json, false, false, (int)hr_topo_exit_all(t));
	else
		json_object_put(t->json);
	t->json = NULL;
	return changes;
}

/* ---- the loop */

struct loop {
	struct hr_topo *t, before;
	const struct hr_watch *watch;
	struct said said;
	char failure[512]; /* told already */
	int fd;
	struct hr_watch_times times;
};

/* Into a model of its own: the old one stays until the new one is judged. */
static int read_again(struct loop *l)
{
	struct hr_topo *t = l->t;
	int err;

	l->before = *t;
	l->before.engine.m = &l->before.model;
	memset(&t->model, 0, sizeof t->model);
	memset(&t->engine, 0, sizeof t->engine);
	err = hr_model_init(&t->model);
	if (!err)
		err = l->watch->from ? hr_source_open(&t->model, l->watch->from)
				     : hr_source_live(&t->model);
	if (!err)
		err = hr_topo_engine(t, &t->engine, &t->model);
	if (!err) {
		l->failure[0] = '\0';
		return 0;
	}
	if (strcmp(l->failure, t->model.message) != 0 || !l->failure[0])
		fprintf(stderr, "headrace: warning: %s; what was read before stays\n",
			t->model.message[0] ? t->model.message : strerror(-err));
	snprintf(l->failure, sizeof l->failure, "%s", t->model.message[0] ? t->model.message : "?");
	hr_model_fini(&t->model);
	*t = l->before;
	t->engine.m = &t->model;
	return err;
}

static int put_out(struct loop *l, bool first)
{
	int code = 0;

	if (l->watch->html) {
		code = hr_topo_html(l->t, l->watch->html, l->watch->force || !first);
		code = code == HR_TOPO_NO_ACCESS ? code : 0;
	}
	if (fflush(l->t->out) != 0 || ferror(l->t->out))
		return HR_TOPO_NO_ACCESS;
	return code;
}

static int judge_again(struct loop *l)
{
	struct said now;
	unsigned changes;

	if (read_again(l) != 0)
		return 0;
	if (!say(l->t, &now)) {
		fputs("headrace: error: out of memory\n", stderr);
		forget(&now);
		hr_model_fini(&l->before.model);
		return HR_TOPO_NO_ACCESS;
	}
	changes = l->watch->json ? print_json(l->t, &l->before.engine, &l->said, &now)
				 : print_changes(l->t, &l->before.engine, &l->said, &now);
	forget(&l->said);
	l->said = now;
	hr_model_fini(&l->before.model);
	return changes ? put_out(l, false) : 0;
}

/* Until a message, a signal or the time of the next reading. */
static void wait(struct loop *l, const sigset_t *open)
{
	const uint64_t left = hr_watch_left(&l->times, hr_now_ns());
	const struct timespec most = { (time_t)(left / HR_NS_PER_S), (long)(left % HR_NS_PER_S) };
	struct pollfd poll_fd = { .fd = l->fd, .events = POLLIN };
	int found;

	if (ppoll(&poll_fd, 1, &most, open) <= 0)
		return;
	found = hr_uevent_drain(l->fd);
	if (found > 0)
		hr_watch_message(&l->times, hr_now_ns());
	if (found >= 0)
		return;
	fprintf(stderr,
		"headrace: warning: no more messages of the kernel (%s): the bus is read every %u "
		"s\n",
		strerror(-found), l->watch->seconds);
	close(l->fd);
	l->fd = -1;
}

static int run(struct loop *l, const sigset_t *open)
{
	int code = put_out(l, true);

	hr_watch_read(&l->times, hr_now_ns());
	while (!code && !hr_signals_pending()) {
		wait(l, open);
		if (hr_signals_pending() || hr_watch_left(&l->times, hr_now_ns()) > 0)
			continue;
		code = judge_again(l);
		hr_watch_read(&l->times, hr_now_ns());
	}
	return code ? code : (int)hr_topo_exit_all(l->t);
}

static int print_first(struct loop *l)
{
	if (!l->watch->json) {
		hr_topo_table(l->t);
		return 0;
	}
	return hr_topo_json(l->t, (int)hr_topo_exit_all(l->t)) ? HR_TOPO_NO_ACCESS : 0;
}

int hr_topo_watch(struct hr_topo *t, const struct hr_watch *watch)
{
	static struct loop l; /* large; one a process */
	sigset_t held, open;
	int code;

	l = (struct loop){ .t = t, .watch = watch, .fd = -1 };
	l.times.period_ns = watch->seconds * HR_NS_PER_S;
	if (!watch->from)
		l.fd = hr_uevent_open();
	if (!watch->from && l.fd < 0)
		fprintf(stderr,
			"headrace: warning: the kernel's messages cannot be received (%s): the bus "
			"is read every %u s\n",
			strerror(-l.fd), watch->seconds);
	hr_signals_catch();
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	/* Signals are unblocked only in the wait: no reading and no output is cut. */
	sigprocmask(SIG_BLOCK, &held, &open);
	sigdelset(&open, SIGINT);
	sigdelset(&open, SIGTERM);
	sigdelset(&open, SIGHUP);
	code = print_first(&l);
	if (!code && !say(t, &l.said))
		code = HR_TOPO_NO_ACCESS;
	code = code ? code : run(&l, &open);
	forget(&l.said);
	if (l.fd >= 0)
		close(l.fd);
	return code;
}
