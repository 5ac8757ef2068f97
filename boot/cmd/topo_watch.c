/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/html/html.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/views/views.h"
#include "boot/cmd/topo/headline.h"
#include "config/base/clock.h"
#include "config/base/process.h"
#include "pci/machine.h"
#include "pci/topo/source/source.h"
#include "config/base/log.h"

#define QUIET_NS (200 * HR_NS_PER_MS)
#define LONGEST_NS HR_NS_PER_S
#define APART_NS HR_NS_PER_S

/* ---- times of readings */

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

/* ---- changes to print */

/* The headlines as texts. A text that is new against the previous ones is a change. */
struct said {
	char *line[HR_CLASSES_MAX];
	unsigned lines;
};

static void free_lines(struct said *s)
{
	for (unsigned i = 0; i < s->lines; i++)
		free(s->line[i]);
	s->lines = 0;
}

static bool has_line(const struct said *s, const char *line)
{
	for (unsigned i = 0; i < s->lines; i++)
		if (strcmp(s->line[i], line) == 0)
			return true;
	return false;
}

static bool collect_lines(struct hr_topo *t, struct said *said)
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

/* Print the facts that differ, then the headlines that are new. */
static unsigned print_changes(struct hr_topo *t, const struct hr_topology *old,
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
		changes += !has_line(before, now->line[i]);
	if (changes) {
		put_time(t);
		fputs(facts ? facts : "", t->out);
	}
	for (unsigned i = 0; i < now->lines; i++)
		if (!has_line(before, now->line[i]))
			hr_print_wrapped(t->out, 0, 2, now->line[i]);
	free(facts);
	return changes;
}

static unsigned put_json(struct hr_topo *t, const struct hr_topology *old,
			 const struct said *before, const struct said *now)
{
	struct hr_json *const out = t->json;
	unsigned changes = hr_topo_compare_facts(t, old->m);

	changes += hr_topo_compare_verdicts(t, old);
	hr_json_string(out, "answer", now->lines ? now->line[0] : "");
	hr_json_array(out, "headlines_new");
	for (unsigned i = 1; i < now->lines; i++)
		if (!has_line(before, now->line[i])) {
			hr_json_string(out, NULL, now->line[i]);
			changes++;
		}
	hr_json_close(out);
	if (now->lines && !has_line(before, now->line[0]))
		changes++;
	hr_json_u64(out, "differences", changes);
	return changes;
}

/* Kept in memory until there is a change, because nothing is printed without a change. */
static unsigned print_json(struct hr_topo *t, const struct hr_topology *old,
			   const struct said *before, const struct said *now)
{
	const struct hr_topo_machine machine = hr_topo_machine(t);
	struct hr_json out;
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);
	unsigned changes = 0;

	if (memory) {
		hr_topo_json_begin(&out, memory, t, "watch", &machine);
		t->json = &out;
		changes = put_json(t, old, before, now);
		t->json = NULL;
		hr_topo_json_end(&out, (int)hr_topo_exit_all(t));
		fclose(memory);
	}
	if (!text)
		hr_error("out of memory");
	else if (changes)
		fputs(text, t->out);
	free(text);
	return changes;
}

/* ---- the loop */

struct loop {
	struct hr_topo *t, before;
	const struct hr_topo_watch *watch;
	struct said said;
	char failure[HR_ERROR_BYTES]; /* the last failure, already reported */
	int fd;
	struct hr_watch_times times;
};

/* Read into a second model; the old model stays until the new one is evaluated. */
static int read_again(struct loop *l)
{
	struct hr_topo *t = l->t;
	int err;

	l->before = *t;
	l->before.topology.m = &l->before.model;
	memset(&t->model, 0, sizeof t->model);
	memset(&t->topology, 0, sizeof t->topology);
	err = hr_model_init(&t->model);
	if (!err)
		err = l->watch->from ? hr_source_open(&t->model, l->watch->from)
				     : hr_source_live(&t->model);
	if (!err)
		err = hr_topo_evaluate(t, &t->topology, &t->model);
	if (!err) {
		l->failure[0] = '\0';
		return 0;
	}
	hr_fail(&t->model.error, HR_ERROR_FAILED, err, "%s", strerror(-err));
	if (strcmp(l->failure, t->model.error.text) != 0)
		hr_warn("%s; the last reading stays valid", t->model.error.text);
	snprintf(l->failure, sizeof l->failure, "%s", t->model.error.text);
	hr_model_fini(&t->model);
	*t = l->before;
	t->topology.m = &t->model;
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

static int evaluate_again(struct loop *l)
{
	struct said now;
	unsigned changes;

	if (read_again(l) != 0)
		return 0;
	if (!collect_lines(l->t, &now)) {
		hr_error("out of memory");
		free_lines(&now);
		hr_model_fini(&l->before.model);
		return HR_TOPO_NO_ACCESS;
	}
	changes = l->watch->json ? print_json(l->t, &l->before.topology, &l->said, &now)
				 : print_changes(l->t, &l->before.topology, &l->said, &now);
	free_lines(&l->said);
	l->said = now;
	hr_model_fini(&l->before.model);
	return changes ? put_out(l, false) : 0;
}

/* Wait for a message, a signal or the time of the next reading. */
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
	hr_warn("the kernel's messages have ended (%s): the bus is read every %u "
		"s",
		strerror(-found), l->watch->seconds);
	close(l->fd);
	l->fd = -1;
}

static int run_watch_loop(struct loop *l, const sigset_t *open)
{
	int code = put_out(l, true);

	hr_watch_read(&l->times, hr_now_ns());
	while (!code && !hr_signals_pending()) {
		wait(l, open);
		if (hr_signals_pending() || hr_watch_left(&l->times, hr_now_ns()) > 0)
			continue;
		code = evaluate_again(l);
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
	return hr_topo_json(l->t, (int)hr_topo_exit_all(l->t)) == HR_TOPO_NO_ACCESS
		       ? HR_TOPO_NO_ACCESS
		       : 0;
}

int hr_topo_watch(struct hr_topo *t, const struct hr_topo_watch *watch)
{
	static struct loop l; /* large; one per process */
	sigset_t held, open;
	int code;

	l = (struct loop){ .t = t, .watch = watch, .fd = -1 };
	l.times.period_ns = watch->seconds * HR_NS_PER_S;
	if (!watch->from)
		l.fd = hr_uevent_open();
	if (!watch->from && l.fd < 0)
		hr_warn("the kernel's messages cannot be received (%s): the bus "
			"is read every %u s",
			strerror(-l.fd), watch->seconds);
	hr_signals_catch();
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	/*
	 * Signals are unblocked only during the wait, so that no reading and no output is
	 * interrupted.
	 */
	sigprocmask(SIG_BLOCK, &held, &open);
	sigdelset(&open, SIGINT);
	sigdelset(&open, SIGTERM);
	sigdelset(&open, SIGHUP);
	code = print_first(&l);
	if (!code && !collect_lines(t, &l.said))
		code = HR_TOPO_NO_ACCESS;
	code = code ? code : run_watch_loop(&l, &open);
	free_lines(&l.said);
	if (l.fd >= 0)
		close(l.fd);
	return code;
}
