/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "boot/cmd/bench/objects.h"
#include "boot/cmd/report/output.h"
#include "boot/engine/runner/counters.h"
#include "config/base/error.h"
#include "boot/engine/remote/key.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "config/base/seam.h"
#include "boot/remote/link.h"

#define NAME "headrace.bench"
#define TILE_DEFAULT (1u << 20)
#define DEPTH_DEFAULT 8u
#define SECONDS_DEFAULT 5.0
/* More than any bench sends; the link takes numbers up to 2^63. */
#define TILES_MAX (1ull << 62)
/* A sender waits so long for its receiver, and both sides for the other one after a break. */
#define CALL_NS (60 * HR_NS_PER_S)
#define GONE_NS (10 * HR_NS_PER_S)
/* Waits grow from one to the other one while nothing happens, as those of the engine's streams. */
#define PAUSE_MIN_NS 10000u
#define PAUSE_MAX_NS (HR_NS_PER_MS / 2)
/* Longest wait for the answer of the other side after Ctrl-C. */
#define ANSWER_NS (3 * HR_NS_PER_S)
#define DEPTH_TEXT "depth "

/* What both sides print. */
struct result {
	uint64_t tiles, bytes, duration_ns;
	double mb_per_s, cpu_ms_per_gb;
	uint64_t broken, again, not_ready, refused;
	uint32_t tile_bytes, slots, depth;
};

#define ROW(field, name, unit, kind, digits, what) \
	HR_COUNTER_ROW(struct result, field, name, unit, kind, digits, HR_IN_BENCH, what)

static const struct hr_counter row[] = {
	ROW(tile_bytes, "tile_bytes", "bytes", U32, 0, "bytes of a tile"),
	ROW(slots, "slots", "slots", U32, 0, "slots for tiles in the memory of this side"),
	ROW(depth, "depth", "tiles", U32, 0, "tiles that the sender has in flight at most"),
	ROW(tiles, "tiles", "tiles", U64, 0, "tiles that have arrived"),
	ROW(bytes, "bytes", "bytes", U64, 0, "bytes of these tiles"),
	ROW(duration_ns, "duration_ms", "ms", NS, 3, "time from the first to the last tile"),
	ROW(mb_per_s, "mb_per_s", "MB/s", REAL, 2, "rate in that time, MB of 10^6 bytes"),
	ROW(cpu_ms_per_gb, "cpu_ms_per_gb", "ms", REAL, 3, "CPU time for 10^9 bytes"),
	ROW(broken, "broken", "times", U64, 0, "breaks of the connection"),
	ROW(again, "tiles_again", "tiles", U64, 0, "tiles sent again, or dropped as known"),
	ROW(not_ready, "not_ready", "times", U64, 0, "receiver-not-ready errors"),
	ROW(refused, "connections_refused", "times", U64, 0, "connections refused"),
	{ 0 }
};

struct bench {
	const struct hr_bench_remote *request;
	struct hr_link_setup setup;
	struct hr_link *link;
	struct hr_error e;
	char path[256];	    /* device, port and addresses, of the last connection */
	uint32_t depth;	    /* of the sender */
	uint64_t length_ns; /* of the measurement, without `tiles` */

	/* The sender's slots: free ones in the order of their use, and those with a tile that waits
	 * to be sent, in the order of tiles. */
	uint32_t free_slot[HR_LINK_SLOTS_MAX], free_at, free_count;
	uint32_t waiting[HR_LINK_SLOTS_MAX], waiting_at, waiting_count;
	uint64_t tile[HR_LINK_SLOTS_MAX]; /* tile of a slot that is in use */
	bool used[HR_LINK_SLOTS_MAX];

	uint64_t next;	/* tile to put in a slot, or to offer */
	uint64_t moved; /* tiles of this side that have arrived */
	uint64_t bytes;
	uint64_t first_ns, last_ns, first_bytes; /* arrival of the first and the last tile */
	uint64_t cpu_ns, cpu_used_ns; /* at the first connection; from there to the end */
	uint64_t up_ns, down_ns;      /* the first connection; the last break, 0: connected */
	uint64_t finished_ns;	      /* the other side was told the end */
	bool interrupted;
	bool failed; /* the link: no further try helps */
};

static bool sends(const struct bench *b)
{
	return b->setup.side == HR_LINK_SENDER;
}

/* ---- the end */

static void finish_link(struct bench *b, int code, const char *text)
{
	if (b->finished_ns)
		return;
	b->finished_ns = hr_now_ns();
	hr_link_report_result(b->link, code, text);
}

static int fail_bench(struct bench *b, enum hr_error_kind kind, int code, const char *text)
{
	finish_link(b, (int)kind, text);
	return hr_fail(&b->e, kind, code, "bench: %s", text);
}

static bool over(const struct bench *b)
{
	if (b->request->tiles)
		return b->next == b->request->tiles;
	return b->up_ns && hr_now_ns() - b->up_ns >= b->length_ns;
}

static void end_stream(struct bench *b)
{
	char text[32];

	snprintf(text, sizeof text, DEPTH_TEXT "%u", b->depth);
	hr_link_end(b->link, b->next, b->next * b->setup.tile_bytes);
	finish_link(b, 0, text);
}

/* ---- the sender */

static void free_link_slot(struct bench *b, uint32_t slot)
{
	b->used[slot] = false;
	b->free_slot[(b->free_at + b->free_count++) % HR_LINK_SLOTS_MAX] = slot;
}

static void fill_slot(struct bench *b)
{
	const uint32_t slot = b->free_slot[b->free_at];

	b->free_at = (b->free_at + 1) % HR_LINK_SLOTS_MAX;
	b->free_count--;
	b->used[slot] = true;
	b->tile[slot] = b->next++;
	b->waiting[(b->waiting_at + b->waiting_count++) % HR_LINK_SLOTS_MAX] = slot;
}

static void note_tile(struct bench *b, uint32_t bytes)
{
	const uint64_t now_ns = hr_now_ns();

	if (!b->moved++) {
		b->first_ns = now_ns;
		b->first_bytes = bytes;
	}
	b->last_ns = now_ns;
	b->bytes += bytes;
}

/* False: the link takes no more tiles now. */
static bool send_one(struct bench *b)
{
	const uint32_t slot = b->waiting[b->waiting_at];
	const int err = hr_link_send(b->link, slot, b->tile[slot], b->setup.tile_bytes);

	if (err == -EAGAIN || err == -ENOTCONN)
		return false;
	b->waiting_at = (b->waiting_at + 1) % HR_LINK_SLOTS_MAX;
	b->waiting_count--;
	if (err == -EALREADY) {
		note_tile(b, b->setup.tile_bytes);
		free_link_slot(b, slot);
	} else if (err) {
		fail_bench(b, HR_ERROR_FAILED, err, "the link does not take a tile");
	}
	return true;
}

static void pump(struct bench *b)
{
	bool more = true;

	while (more && !b->down_ns && !b->finished_ns) {
		if (!b->waiting_count && b->free_count && !over(b))
			fill_slot(b);
		more = b->waiting_count && send_one(b);
	}
	if (b->up_ns && !b->down_ns && !b->finished_ns && b->free_count == b->setup.memory.slots &&
	    over(b))
		end_stream(b);
}

static int by_tile(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (x[0] > y[0]) - (x[0] < y[0]);
}

/* After a break all tiles that have not arrived wait again. */
static void wait_again(struct bench *b)
{
	uint64_t(*order)[2] = calloc(b->setup.memory.slots, sizeof *order);
	uint32_t count = 0;

	if (!order) {
		fail_bench(b, HR_ERROR_MISSING, -ENOMEM, "out of memory");
		return;
	}
	for (uint32_t s = 0; s < b->setup.memory.slots; s++) {
		if (!b->used[s])
			continue;
		order[count][0] = b->tile[s];
		order[count++][1] = s;
	}
	qsort(order, count, sizeof *order, by_tile);
	for (uint32_t i = 0; i < count; i++)
		b->waiting[i] = (uint32_t)order[i][1];
	b->waiting_at = 0;
	b->waiting_count = count;
	free(order);
}

/* ---- the receiver */

static void offer(struct bench *b, uint32_t slot)
{
	const int err = hr_link_offer(b->link, slot, b->next++);

	if (err)
		fail_bench(b, HR_ERROR_FAILED, err, "the link does not take an offer");
}

/* ---- events */

static void handle_up(struct bench *b, const struct hr_link_event *event)
{
	char *state;

	snprintf(b->path, sizeof b->path, "%s", hr_link_describe(b->link));
	state = strrchr(b->path, ',');
	if (state)
		*state = '\0';
	b->down_ns = 0;
	if (b->up_ns)
		return;
	b->up_ns = hr_now_ns();
	b->cpu_ns = hr_cpu_ns();
	if (sends(b) && event->tile)
		fail_bench(b, HR_ERROR_FAILED, -EBUSY,
			   "the receiver has tiles of another sender; start it again");
}

static void handle_down(struct bench *b, const char *why)
{
	hr_warn("bench: the connection is broken: %s", why);
	b->down_ns = hr_now_ns();
	if (sends(b))
		wait_again(b);
}

/* A sender that has sent all tells its depth, which the receiver reports. */
static void handle_done(struct bench *b, const struct hr_link_event *event)
{
	const bool known = event->code > 0 && event->code <= HR_ERROR_DEVICE;
	const size_t prefix = strlen(DEPTH_TEXT);
	unsigned long depth;

	if (event->code) {
		finish_link(b, event->code, "the other side has ended");
		hr_fail(&b->e, known ? (enum hr_error_kind)event->code : HR_ERROR_FAILED,
			-ECANCELED, "bench: the other side has ended: %s", event->text);
	} else if (!sends(b) && strncmp(event->text, DEPTH_TEXT, prefix) == 0) {
		depth = strtoul(event->text + prefix, NULL, 10);
		b->depth = depth <= HR_LINK_SLOTS_MAX ? (uint32_t)depth : 0;
	}
}

static void handle(struct bench *b, const struct hr_link_event *event)
{
	switch (event->kind) {
	case HR_LINK_UP:
		handle_up(b, event);
		break;
	case HR_LINK_DOWN:
		handle_down(b, event->text);
		break;
	case HR_LINK_SENT:
		note_tile(b, event->bytes);
		free_link_slot(b, event->slot);
		break;
	case HR_LINK_RECEIVED:
		note_tile(b, event->bytes);
		offer(b, event->slot);
		break;
	case HR_LINK_END:
		finish_link(b, 0, "");
		break;
	case HR_LINK_REMOTE_ENDED:
		handle_done(b, event);
		break;
	case HR_LINK_CLIENT_REFUSED:
		hr_warn("bench: %s", event->text);
		break;
	default:
		break;
	}
}

/* ---- the loop */

static void check_signals(struct bench *b)
{
	if (b->interrupted || !hr_signals_pending())
		return;
	b->interrupted = true;
	fail_bench(b, HR_ERROR_FAILED, -EINTR, "interrupted");
}

/* True: there is nothing more to wait for. */
static bool waited_enough(struct bench *b)
{
	const uint64_t now_ns = hr_now_ns();

	if (b->e.kind && (!b->up_ns || b->down_ns || now_ns - b->finished_ns > ANSWER_NS))
		return true;
	if (!b->down_ns || now_ns - b->down_ns < GONE_NS)
		return false;
	hr_fail(&b->e, HR_ERROR_DEVICE, -ETIMEDOUT, "bench: the other side is gone for %llu s",
		(unsigned long long)(GONE_NS / HR_NS_PER_S));
	return true;
}

/* True: something has happened. The link may have failed, with its error. */
static bool step_link(struct bench *b)
{
	struct hr_link_event event;
	bool any = false;

	while (!b->failed && hr_link_step(b->link, hr_now_ns(), &event, &b->e)) {
		b->failed = event.kind == HR_LINK_FAILED;
		handle(b, &event);
		if (sends(b))
			pump(b);
		check_signals(b);
		any = true;
	}
	if (sends(b))
		pump(b);
	check_signals(b);
	return any;
}

static void run_link(struct bench *b)
{
	uint64_t pause_ns = PAUSE_MIN_NS;

	hr_wait_precisely();
	while (!b->failed && !hr_link_both_ended(b->link) && !waited_enough(b)) {
		if (step_link(b)) {
			pause_ns = PAUSE_MIN_NS;
			continue;
		}
		hr_wait_readable(hr_link_fd(b->link), pause_ns);
		pause_ns = pause_ns * 2 < PAUSE_MAX_NS ? pause_ns * 2 : PAUSE_MAX_NS;
	}
}

/* ---- set-up and report */

static int make_memory(struct bench *b)
{
	struct hr_rdma_memory *m = &b->setup.memory;

	m->dmabuf = -1;
	m->stride = (b->setup.tile_bytes + HR_PAGE - 1) / HR_PAGE * HR_PAGE;
	m->bytes = (uint64_t)m->slots * m->stride;
	m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (m->base != MAP_FAILED)
		return 0;
	m->base = NULL;
	return hr_fail(&b->e, HR_ERROR_MISSING, -errno,
		       "bench: no memory for %u slots of %u bytes: %s", m->slots, m->stride,
		       strerror(errno));
}

static void set_up(struct bench *b)
{
	const struct hr_bench_remote *r = b->request;

	b->depth = r->depth ? r->depth : r->receive ? 0 : DEPTH_DEFAULT;
	b->length_ns = (uint64_t)((r->seconds > 0 ? r->seconds : SECONDS_DEFAULT) * 1e9);
	b->setup.side = r->receive ? HR_LINK_RECEIVER : HR_LINK_SENDER;
	b->setup.name = NAME;
	b->setup.address = r->address;
	b->setup.tile_bytes = r->tile_bytes ? r->tile_bytes : TILE_DEFAULT;
	b->setup.tiles = r->tiles ? r->tiles : TILES_MAX;
	b->setup.depth = b->depth;
	b->setup.call_ns = r->receive ? 0 : CALL_NS;
	b->setup.memory.slots = r->slots ? r->slots : 2 * (b->depth ? b->depth : DEPTH_DEFAULT);
	if (b->setup.memory.slots > HR_LINK_SLOTS_MAX)
		b->setup.memory.slots = HR_LINK_SLOTS_MAX;
}

static int open_link(struct bench *b)
{
	int err = hr_remote_key_read(b->request->key, b->setup.key, &b->e);

	if (!err)
		err = make_memory(b);
	if (!err)
		err = hr_link_open(&b->link, &b->setup, &b->e);
	explicit_bzero(b->setup.key, sizeof b->setup.key);
	if (err)
		return err;
	for (uint32_t s = 0; s < b->setup.memory.slots; s++) {
		if (sends(b))
			free_link_slot(b, s);
		else
			offer(b, s);
	}
	return 0;
}

static struct result result_of(const struct bench *b)
{
	const struct hr_link_counters c =
		b->link ? hr_link_read_counters(b->link) : (struct hr_link_counters){ 0 };
	struct result r = {
		.tiles = b->moved,
		.bytes = b->bytes,
		.duration_ns = b->last_ns - b->first_ns,
		.broken = c.broken,
		.again = c.repeated,
		.not_ready = c.not_ready,
		.refused = c.refused,
		.tile_bytes = b->setup.tile_bytes,
		.slots = b->setup.memory.slots,
		.depth = b->depth,
	};

	if (r.duration_ns)
		r.mb_per_s = (double)(r.bytes - b->first_bytes) * 1e3 / (double)r.duration_ns;
	if (r.bytes)
		r.cpu_ms_per_gb = (double)b->cpu_used_ns * 1e3 / (double)r.bytes;
	return r;
}

static void report_link(const struct bench *b, struct hr_json *out)
{
	const struct result r = result_of(b);

	if (out) {
		hr_json_string(out, "side", sends(b) ? "sender" : "receiver");
		hr_json_string(out, "address", b->request->address);
		hr_json_string(out, "path", b->path);
		hr_counters_json(out, row, &r, HR_IN_BENCH);
		return;
	}
	if (!b->up_ns)
		return;
	printf("%s, %s\n", sends(b) ? "sender" : "receiver", b->path);
	hr_bench_report_rows(row, &r, HR_IN_BENCH);
}

static int check_options(const struct hr_bench_remote *r)
{
	const uint32_t depth = r->depth ? r->depth : DEPTH_DEFAULT;

	if (!r->key)
		return hr_usage_error("bench", "--remote needs --key FILE, the key of both sides");
	if (depth > HR_LINK_SLOTS_MAX)
		return hr_usage_error("bench", "--depth: '%u' is out of range, 1 to %u", depth,
				      HR_LINK_SLOTS_MAX);
	if (r->receive && (r->depth || r->tiles || r->seconds > 0))
		return hr_usage_error("bench", "--receive takes no --%s; the sender sets it",
				      r->depth	 ? "depth"
				      : r->tiles ? "tiles"
						 : "seconds");
	if (r->tiles && r->seconds > 0)
		return hr_usage_error("bench", "--seconds and --tiles exclude each other");
	if (!r->receive && r->slots && r->slots < depth)
		return hr_usage_error("bench", "--slots %u is less than the depth, %u", r->slots,
				      depth);
	return 0;
}

/* Print what was measured, and the error. Returns the exit code. */
static int conclude_link(struct bench *b)
{
	struct hr_json out;
	int code;

	if (!b->request->json) {
		report_link(b, NULL);
		return hr_error_report(&b->e, b->e.kind ? -EIO : 0);
	}
	hr_report_begin(&out, "bench.remote");
	report_link(b, &out);
	code = hr_error_report(&b->e, b->e.kind ? -EIO : 0);
	hr_json_i64(&out, "exit_code", code);
	return hr_report_end(&out, code, code ? code : HR_EXIT_FAILED);
}

int hr_bench_remote(const struct hr_bench_remote *request)
{
	struct bench *b;
	int code = check_options(request);

	if (code)
		return code;
	b = calloc(1, sizeof *b);
	if (!b) {
		hr_error("bench: out of memory");
		return HR_EXIT_MISSING;
	}
	b->request = request;
	set_up(b);
	hr_signals_catch();
	hr_signals_announce();
	if (open_link(b) == 0)
		run_link(b);
	if (b->cpu_ns)
		b->cpu_used_ns = hr_cpu_ns() - b->cpu_ns;
	code = conclude_link(b);
	hr_link_close(b->link);
	if (b->setup.memory.base)
		munmap(b->setup.memory.base, b->setup.memory.bytes);
	free(b);
	return code;
}
