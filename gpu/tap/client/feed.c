#include "gpu/tap/client/feed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/tap/client/connection.h"
#include "gpu/tap/client/tap_cuda.h"
#include "gpu/tap/protocol.h"

#define NS_PER_MS 1000000ull
#define WELCOME_NS \
	(60000 * NS_PER_MS) /* a feed answers within a millisecond while its engine runs */
#define SPIN_NS 20000ull
#define SLEEP_FIRST_NS 50000ull
#define SLEEP_MAX_NS NS_PER_MS
#define SLOTS_MAX (1u << 20)

struct hr_feed {
	uint32_t *alive; /* 1; a page that the kernel clears in a child of fork() */
	int fd;
	uint8_t *tiles;		  /* an address on the GPU, when `cuda` is not NULL */
	struct hr_tap_cuda *cuda; /* NULL: host memory */
	const struct hr_feed_head *head;
	const struct hr_tap_entry *entry;
	struct hr_feed_commits *page;
	size_t tiles_bytes, ring_bytes, page_bytes;
	uint32_t *held;	  /* [slots]: generation of the tile that the caller has; 0: none */
	uint64_t next;	  /* entry */
	uint64_t durable; /* at the end of the run */
	uint32_t slots, ring, stride;
	bool ended; /* the run has ended, or the connection: code and reason are valid */
	int code;
	char reason[HR_FEED_REASON];
	char dtype[8], pipeline[64];
	struct hr_feed_info info;
};

/* Write the reason, and return the error. */
__attribute__((format(printf, 4, 5))) static int fail(char *why, size_t bytes, int err,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (why && bytes)
		vsnprintf(why, bytes, format, args);
	va_end(args);
	return err;
}

static void begin(struct hr_tap_message *m, unsigned kind)
{
	memset(m, 0, sizeof *m);
	m->magic = HR_TAP_MAGIC;
	m->kind = (uint16_t)kind;
	m->version_least = m->version = HR_FEED_VERSION;
}

static int greet(int fd, const struct hr_feed_options *options, struct hr_tap_message *m,
		 int fds[HR_TAP_FDS], char *why, size_t bytes)
{
	int err;

	begin(m, HR_FEED_HELLO);
	m->credits = options->credits;
	snprintf(m->name, sizeof m->name, "%s",
		 options->name ? options->name : program_invocation_short_name);
	err = hr_tap_send(fd, m);
	/* a feed that refuses a connection at once has sent why */
	if (err && err != -EPIPE)
		return fail(why, bytes, err, "%s", strerror(-err));
	if (!hr_tap_wait_ns(fd, WELCOME_NS))
		return fail(why, bytes, -ETIMEDOUT, "the feed does not answer");
	err = hr_tap_receive(fd, m, fds);
	if (err)
		return fail(why, bytes, err, "the connection ended without an answer");
	if (m->kind == HR_TAP_REFUSED)
		return fail(why, bytes, m->code ? -(int)m->code : -EPROTO, "%s", m->text);
	if (m->kind != HR_FEED_WELCOME || m->version != HR_FEED_VERSION)
		return fail(why, bytes, -EPROTO, "the answer is not one of a feed");
	return 0;
}

/* ---- memory */

static bool is_plausible(const struct hr_tap_message *m)
{
	return m->slots && m->slots <= SLOTS_MAX && m->ring >= m->credits && m->credits &&
	       !(m->ring & (m->ring - 1)) && m->ring <= SLOTS_MAX && m->stride &&
	       m->stride % 4096 == 0 && m->tile_bytes && m->tile_bytes <= m->stride &&
	       m->memory <= HR_TAP_MEMORY_CUDA &&
	       (m->memory == HR_TAP_MEMORY_HOST || m->gpu.bytes >= (uint64_t)m->slots * m->stride);
}

/* A size that the object does not have would be SIGBUS later. */
static void *map(int fd, size_t bytes, int protection)
{
	struct stat st;
	void *at;

	if (fd < 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size < bytes)
		return NULL;
	at = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

static void *map_alive(void)
{
	void *at = mmap(NULL, sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED)
		return NULL;
	if (madvise(at, sizeof(uint32_t), MADV_WIPEONFORK) == 0)
		return at;
	munmap(at, sizeof(uint32_t));
	return NULL;
}

static void unmap_all(struct hr_feed *feed)
{
	if (feed->cuda && feed->alive && !*feed->alive)
		hr_tap_cuda_forget(feed->cuda);
	else if (feed->cuda)
		hr_tap_cuda_close(feed->cuda);
	else if (feed->tiles)
		munmap(feed->tiles, feed->tiles_bytes);
	if (feed->head)
		munmap((void *)(uintptr_t)feed->head, feed->ring_bytes);
	if (feed->page)
		munmap(feed->page, feed->page_bytes);
	if (feed->alive)
		munmap(feed->alive, sizeof *feed->alive);
	free(feed->held);
}

/* After the page. */
static int map_tiles(struct hr_feed *feed, const struct hr_tap_message *m, int fd, int gpu,
		     char *why, size_t why_bytes)
{
	const struct hr_tap_cuda_memory memory = { .fd = fd,
						   .bytes = m->gpu.bytes,
						   .uuid = m->gpu.uuid,
						   .page = feed->page,
						   .page_bytes = feed->page_bytes,
						   .writes = true,
						   .user = gpu };
	const void *at = NULL;
	int err;

	if (m->memory == HR_TAP_MEMORY_HOST) {
		feed->tiles = map(fd, feed->tiles_bytes, PROT_READ | PROT_WRITE);
		return feed->tiles ? 0 : -ENOMEM;
	}
	err = hr_tap_cuda_open(&feed->cuda, &memory, &at, &feed->info.gpu, why, why_bytes);
	feed->tiles = (uint8_t *)(uintptr_t)at;
	return err;
}

static int map_all(struct hr_feed *feed, const struct hr_tap_message *m, const int fds[HR_TAP_FDS],
		   int gpu, char *why, size_t why_bytes)
{
	fail(why, why_bytes, 0, "the tiles cannot be mapped");
	feed->tiles_bytes = (size_t)m->slots * m->stride;
	feed->ring_bytes = hr_tap_ring_bytes(m->ring);
	feed->page_bytes = hr_feed_page_bytes(m->slots);
	feed->head = map(fds[1], feed->ring_bytes, PROT_READ);
	feed->page = map(fds[2], feed->page_bytes, PROT_READ | PROT_WRITE);
	feed->alive = map_alive();
	feed->held = calloc(m->slots, sizeof *feed->held);
	if (!feed->head || !feed->page || !feed->alive || !feed->held)
		return -ENOMEM;
	*feed->alive = 1;
	feed->entry = (const struct hr_tap_entry *)(const void *)(feed->head + 1);
	if (feed->head->magic != HR_TAP_MAGIC)
		return -EPROTO;
	return map_tiles(feed, m, fds[0], gpu, why, why_bytes);
}

static void describe(struct hr_feed *feed, const struct hr_tap_message *m)
{
	feed->slots = m->slots;
	feed->ring = m->ring;
	feed->stride = m->stride;
	feed->code = -1;
	memcpy(feed->dtype, m->dtype, sizeof feed->dtype);
	memcpy(feed->pipeline, m->name, sizeof feed->pipeline);
	feed->info = (struct hr_feed_info){
		.epoch = m->epoch,
		.tiles = m->tiles,
		.first = m->first,
		.tile_bytes = m->tile_bytes,
		.credits = m->credits,
		.columns = m->columns,
		.dtype = feed->dtype,
		.pipeline = feed->pipeline,
		.gpu = -1,
	};
}

/* ---- the end */

/* The feed has sent a message, or is gone. */
static void hear(struct hr_feed *feed)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	const int err = hr_tap_receive(feed->fd, &m, fds);

	hr_tap_close_all(fds);
	if (err == -EAGAIN || (!err && m.kind == HR_TAP_TILES))
		return;
	feed->ended = true;
	feed->durable = __atomic_load_n(&feed->head->durable, __ATOMIC_ACQUIRE);
	if (!err && m.kind == HR_TAP_END) {
		feed->code = m.code;
		fail(feed->reason, sizeof feed->reason, 0, "%s",
		     m.code ? m.text : "the run has ended");
	} else if (!err && m.kind == HR_TAP_REVOKED) {
		fail(feed->reason, sizeof feed->reason, 0, "dropped by the feed: %s", m.text);
	} else {
		fail(feed->reason, sizeof feed->reason, 0, "the appliance is gone");
	}
}

/* Waits between two looks at the shared words. */
struct wait {
	uint64_t began_ns, limit_ns, sleep_ns;
};

static void wait_begin(struct wait *w, int timeout_ms)
{
	w->began_ns = hr_tap_now_ns();
	w->limit_ns = timeout_ms < 0 ? UINT64_MAX : (unsigned)timeout_ms * NS_PER_MS;
	w->sleep_ns = SLEEP_FIRST_NS;
}

/* False: the time is up. */
static bool wait_more(struct wait *w, struct hr_feed *feed)
{
	const uint64_t waited = hr_tap_now_ns() - w->began_ns;
	const bool last = waited >= w->limit_ns;

	if (waited < SPIN_NS && !last)
		return true;
	if (hr_tap_wait_ns(feed->fd, last ? 0 : w->sleep_ns))
		hear(feed);
	w->sleep_ns = w->sleep_ns * 2 < SLEEP_MAX_NS ? w->sleep_ns * 2 : SLEEP_MAX_NS;
	return !last || feed->ended;
}

/* ---- the interface */

static int attach(struct hr_feed *feed, const struct hr_feed_options *options, char *why,
		  size_t bytes)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS] = { -1, -1, -1 };
	int err = greet(feed->fd, options, &m, fds, why, bytes);

	if (!err && !is_plausible(&m))
		err = fail(why, bytes, -EPROTO, "the feed's memory has sizes that cannot be");
	if (!err) {
		describe(feed, &m);
		err = map_all(feed, &m, fds, options->gpu, why, bytes);
	}
	hr_tap_close_all(fds);
	if (err)
		return err;
	feed->info.memory = feed->tiles;
	feed->info.memory_bytes = feed->tiles_bytes;
	feed->info.durable = __atomic_load_n(&feed->head->durable, __ATOMIC_ACQUIRE);
	begin(&m, HR_TAP_READY);
	err = hr_tap_send(feed->fd, &m);
	return err ? fail(why, bytes, err, "%s", strerror(-err)) : 0;
}

int hr_feed_open(const char *name, const struct hr_feed_options *options, struct hr_feed **opened,
		 char *why, size_t why_bytes)
{
	static const struct hr_feed_options defaults;
	struct hr_feed *feed = calloc(1, sizeof *feed);
	char directory[HR_TAP_DIRECTORY] = "", text[HR_FEED_REASON] = "";
	int err;

	if (!feed)
		return fail(why, why_bytes, -ENOMEM, "out of memory");
	options = options ? options : &defaults;
	if (options->directory)
		snprintf(directory, sizeof directory, "%s", options->directory);
	feed->fd = hr_tap_connect(directory, name, "feed");
	err = feed->fd < 0 ? fail(text, sizeof text, feed->fd, "%s",
				  feed->fd == -ENOENT || feed->fd == -ECONNREFUSED
					  ? "no pipeline with this feed runs"
					  : strerror(-feed->fd))
			   : attach(feed, options, text, sizeof text);
	if (!err) {
		*opened = feed;
		return 0;
	}
	if (feed->fd >= 0)
		close(feed->fd);
	unmap_all(feed);
	free(feed);
	return fail(why, why_bytes, err, "feed '%s': %s", name, text);
}

const struct hr_feed_info *hr_feed_info(const struct hr_feed *feed)
{
	return &feed->info;
}

/* Valid entries; an entry of another slot than the memory has is not one. */
static uint32_t take_entries(struct hr_feed *feed, struct hr_feed_tile *tile, uint32_t max)
{
	uint32_t n = 0;

	for (; n < max; n++, feed->next++) {
		const struct hr_tap_entry *e = &feed->entry[feed->next % feed->ring];

		if (__atomic_load_n(&e->sequence, __ATOMIC_ACQUIRE) != feed->next + 1 ||
		    e->slot >= feed->slots || e->bytes > feed->stride)
			break;
		tile[n] = (struct hr_feed_tile){
			.data = feed->tiles + (size_t)e->slot * feed->stride,
			.tile = e->tile,
			.room = e->bytes,
			.slot = e->slot,
			.gen = e->gen,
		};
		feed->held[e->slot] = e->gen;
	}
	return n;
}

int hr_feed_next(struct hr_feed *feed, struct hr_feed_tile *tile, uint32_t max, int timeout_ms)
{
	struct wait wait;

	if (!max)
		return -EINVAL;
	if (!*feed->alive)
		return -EPIPE;
	wait_begin(&wait, timeout_ms);
	for (;;) {
		const bool last = __atomic_load_n(&feed->head->last, __ATOMIC_ACQUIRE);
		/* entries that came before the last one are valid */
		const uint32_t n = feed->ended ? 0 : take_entries(feed, tile, max);

		if (n)
			return (int)n;
		if (feed->ended)
			return feed->code == 0 ? 0 : -EPIPE;
		if (last)
			return 0;
		if (!wait_more(&wait, feed))
			break;
	}
	/* a message comes also when the entry is valid already */
	__atomic_store_n(&feed->page->wake, feed->next + 1, __ATOMIC_RELEASE);
	return -ETIMEDOUT;
}

int hr_feed_fd(struct hr_feed *feed)
{
	return *feed->alive ? feed->fd : -EPIPE;
}

static bool is_held(const struct hr_feed *feed, const struct hr_feed_tile *tile, uint32_t bytes)
{
	return tile->slot < feed->slots && tile->gen && feed->held[tile->slot] == tile->gen &&
	       bytes && bytes <= tile->room;
}

int hr_feed_commit_stream(struct hr_feed *feed, const struct hr_feed_tile *tile, uint32_t bytes,
			  void *stream)
{
	int err;

	if (!*feed->alive)
		return -EPIPE;
	if (!feed->cuda || !is_held(feed, tile, bytes))
		return -EINVAL;
	err = hr_tap_cuda_write64(feed->cuda, stream, &feed->page->commit[tile->slot],
				  HR_FEED_COMMIT(tile->gen, bytes));
	if (!err)
		feed->held[tile->slot] = 0;
	return err;
}

int hr_feed_commit(struct hr_feed *feed, const struct hr_feed_tile *tile, uint32_t bytes)
{
	if (!*feed->alive)
		return -EPIPE;
	if (!is_held(feed, tile, bytes))
		return -EINVAL;
	feed->held[tile->slot] = 0;
	__atomic_store_n(&feed->page->commit[tile->slot], HR_FEED_COMMIT(tile->gen, bytes),
			 __ATOMIC_RELEASE);
	return 0;
}

int hr_feed_end(struct hr_feed *feed, int timeout_ms)
{
	struct wait wait;
	int err;

	if (!*feed->alive)
		return -EPIPE;
	/* what streams commit comes before the end */
	err = feed->cuda && !feed->ended ? hr_tap_cuda_wait(feed->cuda) : 0;
	if (err)
		return err;
	__atomic_store_n(&feed->page->end, feed->info.epoch, __ATOMIC_RELEASE);
	wait_begin(&wait, timeout_ms);
	while (!feed->ended)
		if (!wait_more(&wait, feed))
			return -ETIMEDOUT;
	return feed->code == 0 ? 0 : -EPIPE;
}

uint64_t hr_feed_durable(const struct hr_feed *feed)
{
	if (feed->ended || !*feed->alive)
		return feed->durable;
	return __atomic_load_n(&feed->head->durable, __ATOMIC_ACQUIRE);
}

const char *hr_feed_reason(const struct hr_feed *feed)
{
	return feed->reason;
}

int hr_feed_code(const struct hr_feed *feed)
{
	return feed->code;
}

void hr_feed_close(struct hr_feed *feed)
{
	struct hr_tap_message m = { 0 };

	if (!feed)
		return;
	begin(&m, HR_TAP_DETACH);
	if (*feed->alive && !feed->ended) {
		/* what streams commit is kept */
		if (feed->cuda)
			hr_tap_cuda_wait(feed->cuda);
		hr_tap_send(feed->fd, &m);
	}
	close(feed->fd);
	unmap_all(feed);
	free(feed);
}
