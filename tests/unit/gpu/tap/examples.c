/* The two examples in C, with a feed and a tap of the test: what they take, give back and say. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "gpu/tap/client/feed.h"
#include "gpu/tap/client/tap.h"

static char log_[1024];

__attribute__((format(printf, 1, 2))) static int note(const char *format, ...)
{
	const size_t used = strlen(log_);
	va_list args;

	va_start(args, format);
	vsnprintf(log_ + used, sizeof log_ - used, format, args);
	va_end(args);
	return 0;
}

static unsigned pauses;

static int pause_(const struct timespec *time, struct timespec *left)
{
	cr_expect(time->tv_sec == 0 && time->tv_nsec == 10000000 && !left);
	pauses++;
	return 0;
}

int feed_main(int argc, char **argv);
int tap_main(int argc, char **argv);

#define fprintf(to, ...) note(__VA_ARGS__)
#define printf note
#define nanosleep pause_
#define main feed_main
#define attach feed_attach
#include "gpu/tap/examples/feed_c.c"
#undef main
#undef attach
#undef WAIT_S
#define main tap_main
#define attach tap_attach
#include "gpu/tap/examples/tap_c.c"
#undef main
#undef attach

#define TILE 8u
#define EXPECT_LOG(want)                                       \
	do {                                                   \
		cr_expect_str_eq(log_, want, "log: %s", log_); \
		log_[0] = '\0';                                \
	} while (0)

static struct {
	unsigned refusals; /* of the open call, with `refusal` */
	int refusal, commit, end, next;
	uint64_t first, given, most; /* tiles of the feed */
} will;
static uint8_t data[TILE], file_data[64];
static char path[] = "/tmp/examples.XXXXXX";

/* ---- the feed */

static struct hr_feed_info feed_info;

int hr_feed_open(const char *name, const struct hr_feed_options *options, struct hr_feed **feed,
		 char *why, size_t bytes)
{
	cr_expect(strcmp(name, "f") == 0 && !options);
	*feed = (struct hr_feed *)(void *)data;
	snprintf(why, bytes, "no such feed");
	if (!will.refusals)
		return 0;
	will.refusals--;
	return will.refusal;
}

const struct hr_feed_info *hr_feed_info(const struct hr_feed *feed)
{
	return &feed_info;
}

int hr_feed_next(struct hr_feed *feed, struct hr_feed_tile *tile, uint32_t max, int timeout_ms)
{
	cr_expect(max == 1 && timeout_ms == -1);
	if (will.given == will.most)
		return will.next;
	*tile = (struct hr_feed_tile){ .data = data,
				       .tile = will.first + will.given++,
				       .room = TILE };
	memset(data, 0xee, sizeof data);
	return 1;
}

int hr_feed_commit(struct hr_feed *feed, const struct hr_feed_tile *tile, uint32_t bytes)
{
	note("commit %llu %u;", (unsigned long long)tile->tile, bytes);
	cr_expect_eq(memcmp(data, file_data + tile->tile * TILE, bytes), 0);
	return will.commit;
}

int hr_feed_end(struct hr_feed *feed, int timeout_ms)
{
	cr_expect_eq(timeout_ms, -1);
	note("end;");
	return will.end;
}

uint64_t hr_feed_durable(const struct hr_feed *feed)
{
	return 5;
}

const char *hr_feed_reason(const struct hr_feed *feed)
{
	return "the reason";
}

void hr_feed_close(struct hr_feed *feed)
{
	note("close;");
}

/* ---- the tap */

static struct hr_tap_info tap_info;
static struct hr_tap_tile lent[8];
static unsigned lents;
static int tap_next;

int hr_tap_open(const char *name, const struct hr_tap_options *options, struct hr_tap **tap,
		char *why, size_t bytes)
{
	cr_expect(strcmp(name, "t") == 0 && !options);
	*tap = (struct hr_tap *)(void *)data;
	snprintf(why, bytes, "no such tap");
	if (!will.refusals)
		return 0;
	will.refusals--;
	return will.refusal;
}

const struct hr_tap_info *hr_tap_info(const struct hr_tap *tap)
{
	return &tap_info;
}

/* Three tiles at a time. */
int hr_tap_next(struct hr_tap *tap, struct hr_tap_tile *tile, uint32_t max, int timeout_ms)
{
	int n = 0;

	cr_expect(max == 4 && timeout_ms == -1);
	for (; n < 3 && will.given < lents; n++)
		tile[n] = lent[will.given++];
	return n ? n : tap_next;
}

int hr_tap_done(struct hr_tap *tap, const struct hr_tap_tile *tile)
{
	note("done %llu;", (unsigned long long)tile->tile);
	return 0;
}

const char *hr_tap_reason(const struct hr_tap *tap)
{
	return "the reason";
}

void hr_tap_close(struct hr_tap *tap)
{
	note("close;");
}

static void make_file(size_t bytes)
{
	const int fd = open(path, O_WRONLY | O_TRUNC);

	cr_assert_eq(write(fd, file_data, bytes), (ssize_t)bytes);
	close(fd);
}

/* The next tile that the tap lends is tile t of the file. */
static void lend(unsigned t, uint32_t bytes)
{
	lent[lents++] = (struct hr_tap_tile){ .data = file_data + (size_t)t * TILE,
					      .tile = t,
					      .bytes = bytes };
}

static void begin(void)
{
	int fd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
	for (size_t i = 0; i < sizeof file_data; i++)
		file_data[i] = (uint8_t)(i + 1);
	memset(&will, 0, sizeof will);
	will.most = 100;
	feed_info = (struct hr_feed_info){ .tile_bytes = TILE };
	tap_info = (struct hr_tap_info){ .tile_bytes = TILE, .tiles = 3 };
	lents = pauses = 0;
	tap_next = 0;
	log_[0] = '\0';
}

static void end(void)
{
	unlink(path);
}

TestSuite(tap_examples, .init = begin, .fini = end, .timeout = 60);

static int run(int (*main_)(int, char **), const char *name)
{
	char program[] = "x", called[16];
	char *argv[] = { program, called, path, NULL };

	snprintf(called, sizeof called, "%s", name);
	return main_(3, argv);
}

Test(tap_examples, a_file_goes_into_tiles)
{
	static const struct {
		size_t bytes;
		uint64_t first, most;
		int code;
		const char *log;
	} row[] = {
		{ 20, 0, 99, 0,
		  "commit 0 8;commit 1 8;commit 2 4;end;20 bytes from tile 0 on, 5 tiles are durable\n"
		  "close;" },
		{ 16, 0, 99, 0,
		  "commit 0 8;commit 1 8;end;16 bytes from tile 0 on, 5 tiles are durable\nclose;" },
		{ 0, 0, 99, 0, "end;0 bytes from tile 0 on, 5 tiles are durable\nclose;" },
		{ 20, 1, 99, 0,
		  "commit 1 8;commit 2 4;end;12 bytes from tile 1 on, 5 tiles are durable\nclose;" },
		{ 40, 0, 2, 0,
		  "commit 0 8;commit 1 8;end;16 bytes from tile 0 on, 5 tiles are durable\nclose;" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		make_file(row[i].bytes);
		will.given = 0;
		will.most = row[i].most;
		feed_info.first = will.first = row[i].first;
		cr_expect_eq(run(feed_main, "f"), row[i].code, "row %zu", i);
		EXPECT_LOG(row[i].log);
	}
}

Test(tap_examples, a_producer_says_why_it_has_failed)
{
	make_file(8);
	will.commit = -EPIPE;
	cr_expect_eq(run(feed_main, "f"), 1);
	EXPECT_LOG("commit 0 8;the reason\nclose;");
	will.commit = 0;
	will.given = 0;
	will.end = -EPIPE;
	cr_expect_eq(run(feed_main, "f"), 1);
	EXPECT_LOG("commit 0 8;end;the reason\nclose;");
	will.most = will.given = 0;
	will.next = -EPIPE;
	cr_expect_eq(run(feed_main, "f"), 1);
	EXPECT_LOG("the reason\nclose;");
	will.most = 1;
	end();
	cr_expect_eq(run(feed_main, "f"), 3);
	cr_expect(strstr(log_, ": No such file or directory\n"), "%s", log_);
	log_[0] = '\0';
	strcpy(path, "/proc/self");
	cr_expect_eq(run(feed_main, "f"), 1);
	EXPECT_LOG("the file cannot be read: Is a directory\nthe reason\nclose;");
	strcpy(path, "/tmp/examples.XXXXXX");
	cr_expect_eq(feed_main(2, NULL), 2);
	EXPECT_LOG("Usage: feed_c FEED FILE\n");
}

Test(tap_examples, a_feed_or_tap_that_is_not_open_yet_is_waited_for)
{
	static const struct {
		int refusal;
		unsigned refusals, pauses;
		int code;
	} row[] = { { -ENOENT, 3, 3, 0 },
		    { -ECONNREFUSED, 1, 1, 0 },
		    { -EACCES, 1, 0, 3 },
		    { -ENOENT, 12000, 12000, 0 },
		    { -ENOENT, 12001, 12000, 3 } };

	make_file(8);
	tap_info.tiles = 1;
	lend(0, 8);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (int tap = 0; tap < 2; tap++) {
			pauses = 0;
			will.given = 0;
			will.refusal = row[i].refusal;
			will.refusals = row[i].refusals;
			cr_expect_eq(tap ? run(tap_main, "t") : run(feed_main, "f"), row[i].code,
				     "row %zu", i);
			cr_expect_eq(pauses, row[i].pauses, "row %zu", i);
			if (row[i].code)
				EXPECT_LOG(tap ? "no such tap\n" : "no such feed\n");
			log_[0] = '\0';
		}
}

Test(tap_examples, tiles_of_a_tap_are_compared_with_the_file)
{
	make_file(20);
	lend(1, 8);
	lend(0, 8);
	lend(2, 4);
	cr_expect_eq(run(tap_main, "t"), 0);
	EXPECT_LOG("done 1;done 0;done 2;3 tiles, 20 bytes: all equal the file\nclose;");
	/* one is missing */
	will.given = 1;
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("done 0;done 2;12 bytes came and are right, expected 20\nclose;");
}

#define NONE "0 bytes came and are right, expected 20\nclose;"

Test(tap_examples, a_wrong_tile_is_named)
{
	static uint8_t other[TILE];

	make_file(20);
	lend(0, 8);
	memcpy(other, file_data, TILE);
	other[6] = other[7] = 0;
	lent[0].data = other;
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("tile 0 differs from the file at byte 6\n" NONE);
	lents = 0;
	will.given = 0;
	lend(1, 8);
	lent[0].data = file_data;
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("tile 1 differs from the file at byte 8\n" NONE);
	lents = 0;
	will.given = 0;
	lend(2, 5);
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("tile 2 ends behind the end of the file\n" NONE);
	lents = 0;
	will.given = 0;
	tap_info.tiles = 5;
	lend(4, 1);
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("tile 4 ends behind the end of the file\n" NONE);
	lents = 0;
	will.given = 0;
	lend(5, 1);
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("tile 5 came twice, or does not exist\n" NONE);
	lents = 0;
	will.given = 0;
	lend(0, 8);
	lend(0, 8);
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("done 0;tile 0 came twice, or does not exist\n" NONE);
	lents = 0;
	will.given = 0;
	tap_next = -ECONNRESET;
	cr_expect_eq(run(tap_main, "t"), 1);
	EXPECT_LOG("the reason\n" NONE);
	cr_expect_eq(tap_main(2, NULL), 2);
	EXPECT_LOG("Usage: tap_c TAP FILE\n");
	end();
	cr_expect_eq(run(tap_main, "t"), 3);
	cr_expect(strstr(log_, ": No such file or directory\n"), "%s", log_);
}
