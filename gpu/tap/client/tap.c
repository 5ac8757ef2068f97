#include "gpu/tap/client/tap.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "gpu/tap/protocol.h"

#define ROOT_DIRECTORY "/run/headrace"
#define NS_PER_S 1000000000ull
#define WELCOME_NS (60 * NS_PER_S) /* a tap answers within a millisecond while its engine runs */
#define SPIN_NS 20000ull
#define SLEEP_FIRST_NS 50000ull
#define SLEEP_MAX_NS 1000000ull
#define SLOTS_MAX (1u << 20)

struct hr_tap {
	uint32_t *alive; /* 1; a page that the kernel clears in a child of fork() */
	int fd;
	const uint8_t *tiles;
	const struct hr_tap_head *head;
	const struct hr_tap_entry *entry;
	uint32_t *gen; /* [slots] */
	size_t ring_bytes, page_bytes;
	uint64_t next; /* entry */
	uint32_t slots, ring, stride;
	bool ended; /* no further tile comes: code and reason are valid */
	int code;
	char reason[HR_TAP_REASON];
	char dtype[8], pipeline[64];
	struct hr_tap_info info;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

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

/* ---- messages */

/* Wait until the socket can be read, or has hung up. */
static bool wait_for(int fd, uint64_t ns)
{
	const struct timespec limit = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return ppoll(&wanted, 1, &limit, NULL) > 0;
}

static int send_message(int fd, const struct hr_tap_message *m)
{
	const ssize_t n = send(fd, m, sizeof *m, MSG_NOSIGNAL);

	return n == sizeof *m ? 0 : n < 0 ? -errno : -EPROTO;
}

static void begin(struct hr_tap_message *m, enum hr_tap_kind kind)
{
	memset(m, 0, sizeof *m);
	m->magic = HR_TAP_MAGIC;
	m->kind = (uint16_t)kind;
	m->version_least = m->version = HR_TAP_VERSION;
}

static unsigned take_descriptors(struct msghdr *from, int fds[HR_TAP_FDS])
{
	unsigned count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(from); c; c = CMSG_NXTHDR(from, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (count < HR_TAP_FDS)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

/* Receive a message, and the descriptors that came with it (-1: none). 0; -EPIPE: the connection has
 * ended; -EAGAIN; -EPROTO: it is no message of a tap. */
static int receive(int fd, struct hr_tap_message *m, int fds[HR_TAP_FDS])
{
	union {
		char bytes[CMSG_SPACE(HR_TAP_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec vec = { m, sizeof *m };
	struct msghdr message = { .msg_iov = &vec,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof control.bytes };
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	/* a tap that closes a connection before it has read all is reported first, once; the message
	 * that it has sent before comes after that */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		fds[i] = -1;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	take_descriptors(&message, fds);
	if (n == 0)
		return -EPIPE;
	m->name[sizeof m->name - 1] = m->dtype[sizeof m->dtype - 1] = '\0';
	m->text[sizeof m->text - 1] = '\0';
	return n == sizeof *m && m->magic == HR_TAP_MAGIC ? 0 : -EPROTO;
}

static void close_all(int fds[HR_TAP_FDS])
{
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* ---- the socket */

/* No other user may put a socket there: the folder belongs to this user or root. That of root's
 * appliances is made by root only, and may belong to any user. */
static bool is_trusted(const char *directory)
{
	struct stat st;

	return lstat(directory, &st) == 0 && S_ISDIR(st.st_mode) &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (st.st_uid == geteuid() || st.st_uid == 0 || strcmp(directory, ROOT_DIRECTORY) == 0);
}

/* A connected socket, or -errno. */
static int connect_in(const char *directory, const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const int n = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s.tap", directory, name);
	int fd, err;

	if (n < 0 || (size_t)n >= sizeof at.sun_path)
		return -ENAMETOOLONG;
	if (!is_trusted(directory))
		return -ENOENT;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int connect_to(const char *name, const char *directory)
{
	const char *given = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
	char path[128];
	int fd = -ENOENT;

	if (!*name || strchr(name, '/'))
		return -EINVAL;
	if (directory)
		return connect_in(directory, name);
	if (given && *given) {
		snprintf(path, sizeof path, "%.*s", (int)strcspn(given, ":"), given);
		fd = connect_in(path, name);
	}
	if (fd == -ENOENT && user && *user) {
		snprintf(path, sizeof path, "%s/headrace", user);
		fd = connect_in(path, name);
	}
	return fd == -ENOENT ? connect_in(ROOT_DIRECTORY, name) : fd;
}

static int greet(int fd, const struct hr_tap_options *options, struct hr_tap_message *m,
		 int fds[HR_TAP_FDS], char *why, size_t bytes)
{
	int err;

	begin(m, HR_TAP_HELLO);
	m->credits = options->credits;
	snprintf(m->name, sizeof m->name, "%s",
		 options->name ? options->name : program_invocation_short_name);
	err = send_message(fd, m);
	/* a tap that refuses a connection at once has sent why */
	if (err && err != -EPIPE)
		return fail(why, bytes, err, "%s", strerror(-err));
	if (!wait_for(fd, WELCOME_NS))
		return fail(why, bytes, -ETIMEDOUT, "the tap does not answer");
	err = receive(fd, m, fds);
	if (err)
		return fail(why, bytes, err, "the connection ended without an answer");
	if (m->kind == HR_TAP_REFUSED)
		return fail(why, bytes, m->code ? -(int)m->code : -EPROTO, "%s", m->text);
	if (m->kind != HR_TAP_WELCOME || m->version != HR_TAP_VERSION)
		return fail(why, bytes, -EPROTO, "the answer is not one of a tap");
	return 0;
}

/* ---- memory */

static bool is_plausible(const struct hr_tap_message *m)
{
	return m->slots && m->slots <= SLOTS_MAX && m->ring >= m->credits && m->credits &&
	       !(m->ring & (m->ring - 1)) && m->ring <= SLOTS_MAX && m->stride &&
	       m->stride % 4096 == 0 && m->tile_bytes <= m->stride;
}

/* A size that the object does not have would be SIGBUS later. */
static void *map(int fd, size_t bytes, int protection)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size < bytes)
		return MAP_FAILED;
	return mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
}

static void unmap_all(struct hr_tap *tap)
{
	if (tap->info.memory)
		munmap((void *)(uintptr_t)tap->tiles, tap->info.memory_bytes);
	if (tap->head)
		munmap((void *)(uintptr_t)tap->head, tap->ring_bytes);
	if (tap->gen)
		munmap(tap->gen, tap->page_bytes);
	if (tap->alive)
		munmap(tap->alive, sizeof *tap->alive);
}

static int map_all(struct hr_tap *tap, const struct hr_tap_message *m, const int fds[HR_TAP_FDS])
{
	void *tiles, *entries, *page, *alive;

	tap->info.memory_bytes = (size_t)m->slots * m->stride;
	tap->ring_bytes = hr_tap_ring_bytes(m->ring);
	tap->page_bytes = hr_tap_page_bytes(m->slots);
	tiles = map(fds[0], tap->info.memory_bytes, PROT_READ);
	entries = map(fds[1], tap->ring_bytes, PROT_READ);
	page = map(fds[2], tap->page_bytes, PROT_READ | PROT_WRITE);
	alive = mmap(NULL, sizeof *tap->alive, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	tap->tiles = tap->info.memory = tiles == MAP_FAILED ? NULL : tiles;
	tap->head = entries == MAP_FAILED ? NULL : entries;
	tap->gen = page == MAP_FAILED ? NULL : page;
	tap->alive = alive == MAP_FAILED ? NULL : alive;
	if (!tap->tiles || !tap->head || !tap->gen || !tap->alive ||
	    madvise(alive, sizeof *tap->alive, MADV_WIPEONFORK) != 0)
		return -ENOMEM;
	*tap->alive = 1;
	tap->entry = (const struct hr_tap_entry *)(const void *)(tap->head + 1);
	return tap->head->magic == HR_TAP_MAGIC ? 0 : -EPROTO;
}

static void describe(struct hr_tap *tap, const struct hr_tap_message *m)
{
	tap->slots = m->slots;
	tap->ring = m->ring;
	tap->stride = m->stride;
	tap->code = -1;
	memcpy(tap->dtype, m->dtype, sizeof tap->dtype);
	memcpy(tap->pipeline, m->name, sizeof tap->pipeline);
	tap->info.epoch = m->epoch;
	tap->info.tiles = m->tiles;
	tap->info.tile_bytes = m->tile_bytes;
	tap->info.credits = m->credits;
	tap->info.columns = m->columns;
	tap->info.each = m->each;
	tap->info.dtype = tap->dtype;
	tap->info.pipeline = tap->pipeline;
}

/* ---- the interface */

static int attach(struct hr_tap *tap, const struct hr_tap_options *options, char *why, size_t bytes)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS] = { -1, -1, -1 };
	int err = greet(tap->fd, options, &m, fds, why, bytes);

	if (!err && !is_plausible(&m))
		err = fail(why, bytes, -EPROTO, "the tap's memory has sizes that cannot be");
	if (!err) {
		describe(tap, &m);
		err = map_all(tap, &m, fds);
		if (err)
			fail(why, bytes, err, "the tiles cannot be mapped: %s", strerror(-err));
	}
	close_all(fds);
	if (err)
		return err;
	begin(&m, HR_TAP_READY);
	err = send_message(tap->fd, &m);
	return err ? fail(why, bytes, err, "%s", strerror(-err)) : 0;
}

int hr_tap_open(const char *name, const struct hr_tap_options *options, struct hr_tap **opened,
		char *why, size_t why_bytes)
{
	static const struct hr_tap_options defaults;
	struct hr_tap *tap = calloc(1, sizeof *tap);
	char text[HR_TAP_REASON] = "";
	int err;

	if (!tap)
		return fail(why, why_bytes, -ENOMEM, "out of memory");
	options = options ? options : &defaults;
	tap->fd = connect_to(name, options->directory);
	err = tap->fd < 0 ? fail(text, sizeof text, tap->fd, "%s",
				 tap->fd == -ENOENT || tap->fd == -ECONNREFUSED
					 ? "no pipeline with this tap runs"
					 : strerror(-tap->fd))
			  : attach(tap, options, text, sizeof text);
	if (!err) {
		*opened = tap;
		return 0;
	}
	if (tap->fd >= 0)
		close(tap->fd);
	unmap_all(tap);
	free(tap);
	return fail(why, why_bytes, err, "tap '%s': %s", name, text);
}

const struct hr_tap_info *hr_tap_info(const struct hr_tap *tap)
{
	return &tap->info;
}

/* Valid entries; an entry of another slot than the memory has is not one. */
static uint32_t take_entries(struct hr_tap *tap, struct hr_tap_tile *tile, uint32_t max)
{
	uint32_t n = 0;

	for (; n < max; n++, tap->next++) {
		const struct hr_tap_entry *e = &tap->entry[tap->next % tap->ring];

		if (__atomic_load_n(&e->sequence, __ATOMIC_ACQUIRE) != tap->next + 1 ||
		    e->slot >= tap->slots || e->bytes > tap->stride)
			break;
		tile[n] = (struct hr_tap_tile){
			.data = tap->tiles + (size_t)e->slot * tap->stride,
			.tile = e->tile,
			.bytes = e->bytes,
			.redelivered = (e->flags & HR_TAP_REDELIVERED) != 0,
			.lent_ns = e->lent_ns,
			.slot = e->slot,
			.gen = e->gen,
		};
	}
	return n;
}

/* The tap has sent a message, or is gone. */
static void hear_end(struct hr_tap *tap)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	const int err = receive(tap->fd, &m, fds);

	close_all(fds);
	if (err == -EAGAIN)
		return;
	tap->ended = true;
	if (!err && m.kind == HR_TAP_END) {
		tap->code = m.code;
		fail(tap->reason, sizeof tap->reason, 0, "%s",
		     m.code ? m.text : "the run has ended");
	} else if (!err && m.kind == HR_TAP_REVOKED) {
		fail(tap->reason, sizeof tap->reason, 0, "dropped by the tap: %s", m.text);
	} else {
		fail(tap->reason, sizeof tap->reason, 0, "the appliance is gone");
	}
}

static int end_of(const struct hr_tap *tap)
{
	return tap->code == 0 ? 0 : -EPIPE;
}

int hr_tap_next(struct hr_tap *tap, struct hr_tap_tile *tile, uint32_t max, int timeout_ms)
{
	const uint64_t began = now_ns();
	uint64_t sleep = SLEEP_FIRST_NS, waited;
	uint32_t n;

	if (!max)
		return -EINVAL;
	for (;;) {
		const bool last =
			*tap->alive && __atomic_load_n(&tap->head->last, __ATOMIC_ACQUIRE);
		const bool ended = tap->ended || !*tap->alive;

		/* entries that came before the end, or the last one, are valid */
		n = *tap->alive ? take_entries(tap, tile, max) : 0;
		if (n)
			return (int)n;
		if (ended)
			return end_of(tap);
		if (last)
			return 0;
		waited = now_ns() - began;
		if (timeout_ms >= 0 && waited >= (uint64_t)timeout_ms * 1000000) {
			if (wait_for(tap->fd, 0))
				hear_end(tap);
			if (!tap->ended)
				return -ETIMEDOUT;
			continue;
		}
		if (waited < SPIN_NS)
			continue;
		if (wait_for(tap->fd, sleep))
			hear_end(tap);
		sleep = sleep * 2 < SLEEP_MAX_NS ? sleep * 2 : SLEEP_MAX_NS;
	}
}

int hr_tap_done(struct hr_tap *tap, const struct hr_tap_tile *tile)
{
	if (!*tap->alive)
		return -EPIPE;
	if (tile->slot >= tap->slots)
		return -EINVAL;
	__atomic_store_n(&tap->gen[tile->slot], tile->gen, __ATOMIC_RELEASE);
	return 0;
}

const char *hr_tap_reason(const struct hr_tap *tap)
{
	return tap->reason;
}

int hr_tap_code(const struct hr_tap *tap)
{
	return tap->code;
}

void hr_tap_close(struct hr_tap *tap)
{
	struct hr_tap_message m = { 0 };

	if (!tap)
		return;
	begin(&m, HR_TAP_DETACH);
	if (*tap->alive && !tap->ended)
		send_message(tap->fd, &m);
	close(tap->fd);
	unmap_all(tap);
	free(tap);
}
