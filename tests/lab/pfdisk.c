/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/lab/pfdisk.c - a disk that loses power: an NBD server with a volatile cache.
 *
 *   pfdisk SOCKET IMAGE SECTOR
 *
 * Serves IMAGE at the Unix socket to one client. Writes are acknowledged from memory; they are
 * durable after a flush, or at once with FUA. A power cut keeps durable data; each other write is
 * kept, lost or torn between sectors of SECTOR bytes, as a seed decides.
 *
 * Commands on standard input, one per line; each is answered by a line on standard output:
 *   cut PATH SEED WRITES    write to PATH the image that a cut would leave after so many more writes,
 *                           at a moment when the last write is not flushed; the disk continues
 * When a client disconnects properly, all writes go to IMAGE. When it vanishes, its power is cut,
 * with seed 1. The protocol is that of NetworkBlockDevice/nbd, doc/proto.md: fixed newstyle, simple
 * replies.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define GREETING 0x4e42444d41474943ull
#define OPTION_MAGIC 0x49484156454f5054ull
#define OPTION_REPLY_MAGIC 0x3e889045565a9ull
#define REQUEST_MAGIC 0x25609513u
#define REPLY_MAGIC 0x67446698u
#define FIXED_NEWSTYLE 1u
#define NO_ZEROES 2u

/* Has flags, flush, FUA, trim, write zeroes. */
#define DISK_FLAGS (1u | 4u | 8u | 32u | 64u)
#define FLAG_FUA 1u

enum option { EXPORT_NAME = 1, ABORT = 2, INFO = 6, GO = 7 };
enum answer { ACK = 1, INFORMATION = 3, UNSUPPORTED = 0x80000001 };
enum command { READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 6 };

#define LARGEST (64u << 20)

struct option_head {
	uint64_t magic;
	uint32_t option, bytes;
} __attribute__((packed));

struct option_reply {
	uint64_t magic;
	uint32_t option, type, bytes;
} __attribute__((packed));

struct export_info {
	uint16_t type; /* 0 */
	uint64_t bytes;
	uint16_t flags;
} __attribute__((packed));

struct request {
	uint32_t magic;
	uint16_t flags, type;
	uint64_t handle, offset;
	uint32_t bytes;
} __attribute__((packed));

struct reply {
	uint32_t magic, error;
	uint64_t handle;
} __attribute__((packed));

/* A write that was acknowledged and not flushed; in order. */
struct pending {
	struct pending *next;
	uint64_t offset;
	uint32_t bytes;
	bool durable; /* durable by FUA */
	uint8_t data[];
};

static struct {
	uint8_t *now;	  /* data that reads return */
	uint8_t *durable; /* data that a cut keeps; the mapped image */
	uint64_t bytes;
	uint32_t sector;
	struct pending *first, **last;
} disk = { .last = &disk.first };

/* The planned cut. */
static struct {
	bool wanted;
	char path[4096];
	uint64_t seed, writes;
} next_cut;

static int client;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* False: the client is gone. */
static bool take(void *to, size_t bytes)
{
	uint8_t *at = to;

	while (bytes > 0) {
		const ssize_t n = recv(client, at, bytes, 0);

		if (n <= 0)
			return false;
		at += n;
		bytes -= (size_t)n;
	}
	return true;
}

static bool give(const void *from, size_t bytes)
{
	const uint8_t *at = from;

	while (bytes > 0) {
		const ssize_t n = send(client, at, bytes, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		bytes -= (size_t)n;
	}
	return true;
}

/* ---- the volatile cache */

static void settle(void)
{
	struct pending *next;

	for (struct pending *p = disk.first; p; p = next) {
		next = p->next;
		memcpy(disk.durable + p->offset, p->data, p->bytes);
		free(p);
	}
	disk.first = NULL;
	disk.last = &disk.first;
}

static struct pending *remember(uint64_t offset, uint32_t bytes, bool durable)
{
	struct pending *p = calloc(1, sizeof(*p) + bytes);

	if (!p)
		die("pfdisk");
	p->offset = offset;
	p->bytes = bytes;
	p->durable = durable;
	return p;
}

static uint64_t next_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	uint64_t z = *state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Numbers of pending writes by their fate. */
struct fate {
	unsigned kept, lost, torn;
};

/* Apply the pending writes that survive a cut. The seed also decides how many survive. */
static struct fate cut(uint8_t *image, uint64_t seed)
{
	struct fate fate = { 0, 0, 0 };
	const uint64_t keep = next_random(&seed) % 5; /* quarters */

	for (const struct pending *p = disk.first; p; p = p->next) {
		const uint64_t roll = next_random(&seed) % 8;

		if (p->durable || (roll > 0 && next_random(&seed) % 4 < keep)) {
			memcpy(image + p->offset, p->data, p->bytes);
			fate.kept++;
		} else if (roll == 0 && p->bytes > disk.sector) {
			for (uint32_t at = 0; at < p->bytes; at += disk.sector)
				if (next_random(&seed) & 1)
					memcpy(image + p->offset + at, p->data + at, disk.sector);
			fate.torn++;
		} else {
			fate.lost++;
		}
	}
	return fate;
}

static void write_sparse(const char *path, const uint8_t *image)
{
	static const uint8_t zeroes[4096];
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || ftruncate(fd, (off_t)disk.bytes) != 0)
		die(path);
	for (uint64_t at = 0; at < disk.bytes; at += sizeof(zeroes))
		if (memcmp(image + at, zeroes, sizeof(zeroes)) != 0 &&
		    pwrite(fd, image + at, sizeof(zeroes), (off_t)at) != sizeof(zeroes))
			die(path);
	close(fd);
}

static void cut_to(const char *path, uint64_t seed)
{
	uint8_t *image = malloc(disk.bytes);
	struct fate fate;

	if (!image)
		die("pfdisk");
	memcpy(image, disk.durable, disk.bytes);
	fate = cut(image, seed);
	write_sparse(path, image);
	free(image);
	printf("kept %u lost %u torn %u\n", fate.kept, fate.lost, fate.torn);
	fflush(stdout);
}

/*
 * Called before a write is acknowledged; a write during which the client vanished did not happen.
 */
static void accept_write(struct pending *p)
{
	memcpy(disk.now + p->offset, p->data, p->bytes);
	*disk.last = p;
	disk.last = &p->next;
	if (next_cut.wanted && next_cut.writes-- == 0) {
		next_cut.wanted = false;
		cut_to(next_cut.path, next_cut.seed);
	}
}

/* ---- NBD */

static bool answer_option(uint32_t option, uint32_t type, const void *data, uint32_t bytes)
{
	const struct option_reply reply = { htobe64(OPTION_REPLY_MAGIC), option, htobe32(type),
					    htobe32(bytes) };

	return give(&reply, sizeof(reply)) && (bytes == 0 || give(data, bytes));
}

static bool describe(uint32_t option)
{
	const struct export_info info = { 0, htobe64(disk.bytes), htobe16(DISK_FLAGS) };

	return answer_option(option, INFORMATION, &info, sizeof(info)) &&
	       answer_option(option, ACK, NULL, 0);
}

static bool old_export(bool no_zeroes)
{
	const struct export_info info = { 0, htobe64(disk.bytes), htobe16(DISK_FLAGS) };
	static const uint8_t padding[124];

	return give((const uint8_t *)&info + 2, sizeof(info) - 2) &&
	       (no_zeroes || give(padding, sizeof(padding)));
}

/* True: transmission starts. */
static bool negotiate(void)
{
	const uint64_t hello[2] = { htobe64(GREETING), htobe64(OPTION_MAGIC) };
	const uint16_t flags = htobe16(FIXED_NEWSTYLE | NO_ZEROES);
	struct option_head head;
	uint8_t data[8192];
	uint32_t theirs;

	if (!give(hello, sizeof(hello)) || !give(&flags, 2) || !take(&theirs, 4))
		return false;
	while (take(&head, sizeof(head))) {
		const uint32_t bytes = be32toh(head.bytes), option = be32toh(head.option);

		if (bytes > sizeof(data) || !take(data, bytes))
			return false;
		if (option == EXPORT_NAME)
			return old_export(be32toh(theirs) & NO_ZEROES);
		if (option == GO || option == INFO) {
			if (!describe(head.option))
				return false;
			if (option == GO)
				return true;
		} else if (option == ABORT) {
			answer_option(head.option, ACK, NULL, 0);
			return false;
		} else if (!answer_option(head.option, UNSUPPORTED, NULL, 0)) {
			return false;
		}
	}
	return false;
}

static bool inside(const struct request *r, uint64_t offset, uint32_t bytes)
{
	return be32toh(r->magic) == REQUEST_MAGIC && bytes <= LARGEST && offset <= disk.bytes &&
	       bytes <= disk.bytes - offset;
}

static bool write_some(uint64_t offset, uint32_t bytes, bool durable, bool zeroes)
{
	struct pending *p = remember(offset, bytes, durable);

	if (!zeroes && !take(p->data, bytes)) {
		free(p);
		return false;
	}
	accept_write(p);
	return true;
}

/* Serve one request. False: the client left; *properly tells how. */
static bool serve(bool *properly)
{
	struct request r;
	struct reply reply = { htobe32(REPLY_MAGIC), 0, 0 };
	uint64_t offset;
	uint32_t bytes;

	if (!take(&r, sizeof(r)))
		return false;
	offset = be64toh(r.offset);
	bytes = be32toh(r.bytes);
	reply.handle = r.handle;
	if (!inside(&r, offset, bytes)) {
		fprintf(stderr, "pfdisk: request outside of the disk\n");
		return false;
	}
	switch (be16toh(r.type)) {
	case READ:
		return give(&reply, sizeof(reply)) && give(disk.now + offset, bytes);
	case WRITE:
	case WRITE_ZEROES:
		if (!write_some(offset, bytes, be16toh(r.flags) & FLAG_FUA,
				be16toh(r.type) == WRITE_ZEROES))
			return false;
		break;
	case FLUSH:
		settle();
		break;
	case TRIM:
		break;
	case DISCONNECT:
		*properly = true;
		return false;
	default:
		reply.error = htobe32(EINVAL);
	}
	return give(&reply, sizeof(reply));
}

/* ---- */

static void load(const char *path)
{
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		die(path);
	disk.bytes = (uint64_t)st.st_size;
	disk.durable = mmap(NULL, disk.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	disk.now = malloc(disk.bytes);
	if (disk.durable == MAP_FAILED || !disk.now)
		die(path);
	memcpy(disk.now, disk.durable, disk.bytes);
	close(fd);
}

static int listen_at(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(at.sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	memcpy(at.sun_path, path, strlen(path) + 1);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0)
		die(path);
	return fd;
}

/* Execute a line of standard input. False: it is closed. */
static bool execute_line(void)
{
	unsigned long long seed, writes;
	char line[4200];

	if (!fgets(line, sizeof(line), stdin))
		return false;
	if (sscanf(line, "cut %4095s %llu %llu", next_cut.path, &seed, &writes) == 3) {
		next_cut.seed = seed;
		next_cut.writes = writes;
		next_cut.wanted = true;
	} else {
		puts("what?");
		fflush(stdout);
	}
	return true;
}

/* Cuts may be planned before a client connects. False: standard input was closed before. */
static bool accept_client(int listening)
{
	for (;;) {
		struct pollfd wait[] = { { listening, POLLIN, 0 }, { STDIN_FILENO, POLLIN, 0 } };

		if (poll(wait, 2, -1) < 0)
			die("poll");
		if (wait[1].revents && !execute_line())
			return false;
		if (wait[0].revents) {
			client = accept(listening, NULL, NULL);
			return true;
		}
	}
}

int main(int argc, char **argv)
{
	bool properly = false;
	int listening;

	if (argc != 4 || atoi(argv[3]) <= 0) {
		fputs("usage: pfdisk SOCKET IMAGE SECTOR\n", stderr);
		return 2;
	}
	disk.sector = (uint32_t)atoi(argv[3]);
	load(argv[2]);
	listening = listen_at(argv[1]);
	puts("ready");
	fflush(stdout);
	if (!accept_client(listening))
		return 0;
	if (client < 0 || !negotiate())
		die("pfdisk: negotiation");
	for (;;) {
		struct pollfd wait[] = { { client, POLLIN, 0 }, { STDIN_FILENO, POLLIN, 0 } };

		if (poll(wait, 2, -1) < 0)
			die("poll");
		if (wait[1].revents && !execute_line())
			break;
		if (wait[0].revents && !serve(&properly))
			break;
	}
	if (properly)
		settle();
	else
		cut(disk.durable, 1);
	return 0;
}
