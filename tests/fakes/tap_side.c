#include "tests/fakes/tap_side.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS 16u
#define HIDDEN __attribute__((visibility("hidden")))

struct fake_side fake_side;

static struct {
	int connects[EVENTS];
	unsigned connect_count, connected;
	struct {
		uint64_t at_ns;
		struct hr_tap_message message;
		bool memory;
		int error;
	} event[EVENTS];
	unsigned event_count, received;
	int memory[HR_TAP_FDS];
	size_t bytes[HR_TAP_FDS];
	int socket, timer;
	size_t mapped;
} self = { .memory = { -1, -1, -1 }, .socket = -1, .timer = -1 };

/* Words of the log have a space between them. */
#define note(...) (calls_text()[0] ? calls_note(" ") : (void)0, calls_note(__VA_ARGS__))

const char *fake_side_log(void)
{
	return calls_take();
}

static bool fails(unsigned *left)
{
	return *left && --*left == 0;
}

/* ---- calls of libc; those of libraries, such as a sanitizer's, stay */

HIDDEN void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (fails(&fake_side.fail_mmap)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	self.mapped += (bytes + 4095) & ~(size_t)4095;
	return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

HIDDEN int munmap(void *at, size_t bytes)
{
	self.mapped -= (bytes + 4095) & ~(size_t)4095;
	return (int)syscall(SYS_munmap, at, bytes);
}

HIDDEN int madvise(void *at, size_t bytes, int advice)
{
	if (fails(&fake_side.fail_madvise)) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

HIDDEN int epoll_create1(int flags)
{
	cr_expect_eq(flags, EPOLL_CLOEXEC);
	note("poll");
	if (!fails(&fake_side.fail_epoll))
		return eventfd(0, EFD_CLOEXEC);
	errno = EMFILE;
	return -1;
}

HIDDEN int epoll_ctl(int poll, int op, int fd, struct epoll_event *event)
{
	cr_expect(poll >= 0 && op == EPOLL_CTL_ADD && event->events == EPOLLIN);
	note(fd == self.socket ? "+socket" : fd == self.timer ? "+timer" : "+%d", fd);
	return 0;
}

HIDDEN int timerfd_create(int clock, int flags)
{
	cr_expect(clock == CLOCK_MONOTONIC && flags == (TFD_CLOEXEC | TFD_NONBLOCK));
	note("timer");
	if (!fails(&fake_side.fail_timer))
		return self.timer = eventfd(0, EFD_CLOEXEC);
	errno = ENOMEM;
	return -1;
}

HIDDEN int timerfd_settime(int timer, int flags, const struct itimerspec *at,
			   struct itimerspec *old)
{
	cr_expect(timer == self.timer && flags == TFD_TIMER_ABSTIME && !old);
	cr_expect_eq(at->it_interval.tv_sec + at->it_interval.tv_nsec, 0);
	cr_expect(at->it_value.tv_nsec < 1000000000);
	note("@%lld", (long long)at->it_value.tv_sec * 1000000000 + at->it_value.tv_nsec);
	return 0;
}

/* ---- gpu/tap/client/connection.c */

uint64_t hr_tap_now_ns(void)
{
	return fake_side.now_ns += fake_side.step_ns;
}

bool hr_tap_wait_ns(int fd, uint64_t ns)
{
	const uint64_t until = fake_side.now_ns + ns;
	const bool comes = fd >= 0 && self.received < self.event_count &&
			   self.event[self.received].at_ns <= until;

	if (fake_side.waits)
		fake_side.waits();
	cr_assert(fd == -1 || fd == self.socket);
	cr_assert(comes || ns < 1ull << 62, "a wait without end: %s", calls_text());
	note("%sw%llu%s", fd < 0 ? "-" : "", (unsigned long long)ns, comes ? "!" : "");
	if (!comes)
		fake_side.now_ns = until;
	else if (self.event[self.received].at_ns > fake_side.now_ns)
		fake_side.now_ns = self.event[self.received].at_ns;
	return comes;
}

int hr_tap_connect(char directory[HR_TAP_DIRECTORY], const char *name, const char *ending)
{
	int result;

	note("%s/%s.%s", directory, name, ending);
	cr_assert_lt(self.connected, self.connect_count, "%s", calls_text());
	result = self.connects[self.connected++];
	if (result)
		return result;
	return self.socket = eventfd(0, EFD_CLOEXEC);
}

void hr_tap_begin(struct hr_tap_message *m, enum hr_tap_kind kind)
{
	memset(m, 0, sizeof *m);
	m->magic = HR_TAP_MAGIC;
	m->kind = (uint16_t)kind;
	m->version_least = m->version = HR_TAP_VERSION;
}

int hr_tap_send(int fd, const struct hr_tap_message *m)
{
	cr_expect_eq(fd, self.socket);
	note(">%u", m->kind);
	fake_side.sent[fake_side.sent_count++ % FAKE_SIDE_SENT] = *m;
	if (!fails(&fake_side.fail_send))
		return 0;
	return fake_side.send_error ? fake_side.send_error : -EPIPE;
}

int hr_tap_receive(int fd, struct hr_tap_message *m, int fds[HR_TAP_FDS])
{
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		fds[i] = -1;
	cr_expect_eq(fd, self.socket);
	if (self.received == self.event_count ||
	    self.event[self.received].at_ns > fake_side.now_ns) {
		note("<-");
		return -EAGAIN;
	}
	note("<%u", self.event[self.received].message.kind);
	*m = self.event[self.received].message;
	if (self.event[self.received].memory)
		fake_side_memory_fds(fds);
	return self.event[self.received++].error;
}

void hr_tap_close_all(int fds[HR_TAP_FDS])
{
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* ---- gpu/tap/client/tap_cuda.c */

struct hr_tap_cuda {
	bool open;
};

static struct hr_tap_cuda the_gpu;

int hr_tap_cuda_open(struct hr_tap_cuda **cuda, const struct hr_tap_cuda_memory *memory,
		     const void **at, int *ordinal, char *why, size_t why_bytes)
{
	note("cuda(open)");
	fake_side.cuda = *memory;
	memcpy(fake_side.uuid, memory->uuid, sizeof fake_side.uuid);
	if (fake_side.cuda_error) {
		snprintf(why, why_bytes, "the driver says no");
		return fake_side.cuda_error;
	}
	cr_expect(!the_gpu.open);
	the_gpu.open = true;
	*cuda = &the_gpu;
	*at = fake_side.tiles;
	*ordinal = fake_side.cuda_ordinal;
	return 0;
}

static int write_word(struct hr_tap_cuda *cuda, void *stream, const void *word, uint64_t value)
{
	cr_expect(cuda == &the_gpu && the_gpu.open);
	note("cuda(%p+%zu=0x%llx)", stream,
	     (size_t)((const uint8_t *)word - (const uint8_t *)fake_side.cuda.page),
	     (unsigned long long)value);
	return fake_side.cuda_error;
}

int hr_tap_cuda_write32(struct hr_tap_cuda *cuda, void *stream, uint32_t *word, uint32_t value)
{
	return write_word(cuda, stream, word, value);
}

int hr_tap_cuda_write64(struct hr_tap_cuda *cuda, void *stream, uint64_t *word, uint64_t value)
{
	return write_word(cuda, stream, word, value);
}

int hr_tap_cuda_wait(struct hr_tap_cuda *cuda)
{
	cr_expect(cuda == &the_gpu && the_gpu.open);
	note("cuda(wait)");
	return fake_side.cuda_error;
}

void hr_tap_cuda_close(struct hr_tap_cuda *cuda)
{
	note("cuda(close)");
	if (cuda)
		cuda->open = false;
}

void hr_tap_cuda_forget(struct hr_tap_cuda *cuda)
{
	note("cuda(forget)");
	cuda->open = false;
}

/* ---- the script */

static void free_memory(void)
{
	uint8_t *const at[HR_TAP_FDS] = { fake_side.tiles, fake_side.ring, fake_side.page };

	for (unsigned i = 0; i < HR_TAP_FDS; i++) {
		if (self.memory[i] < 0)
			continue;
		if (self.bytes[i])
			munmap(at[i], self.bytes[i]);
		close(self.memory[i]);
		self.memory[i] = -1;
	}
}

void fake_side_reset(void)
{
	free_memory();
	fake_side = (struct fake_side){ .now_ns = FAKE_SIDE_START, .step_ns = 1000 };
	self.connect_count = self.connected = self.event_count = self.received = 0;
	self.socket = self.timer = -1;
	calls_take();
	the_gpu.open = false;
}

void fake_side_connects(int result)
{
	cr_assert_lt(self.connect_count, EVENTS);
	self.connects[self.connect_count++] = result;
}

void fake_side_says(uint64_t after_ns, const struct hr_tap_message *message, bool memory, int error)
{
	cr_assert_lt(self.event_count, EVENTS);
	self.event[self.event_count].at_ns = FAKE_SIDE_START + after_ns;
	self.event[self.event_count].message = message ? *message : (struct hr_tap_message){ 0 };
	self.event[self.event_count].memory = memory;
	self.event[self.event_count++].error = error;
}

void fake_side_memory(size_t tiles, size_t ring, size_t page)
{
	uint8_t **const at[HR_TAP_FDS] = { &fake_side.tiles, &fake_side.ring, &fake_side.page };

	free_memory();
	self.bytes[0] = tiles;
	self.bytes[1] = ring;
	self.bytes[2] = page;
	for (unsigned i = 0; i < HR_TAP_FDS; i++) {
		self.memory[i] = memfd_create("side", MFD_CLOEXEC);
		cr_assert_eq(ftruncate(self.memory[i], (off_t)self.bytes[i]), 0);
		*at[i] = self.bytes[i] ? mmap(NULL, self.bytes[i], PROT_READ | PROT_WRITE,
					      MAP_SHARED, self.memory[i], 0)
				       : NULL;
		cr_assert_neq((void *)*at[i], MAP_FAILED);
	}
}

struct hr_tap_message fake_side_message(uint16_t version, uint16_t kind, uint16_t code,
					const char *text)
{
	struct hr_tap_message m = { .magic = HR_TAP_MAGIC,
				    .kind = kind,
				    .version_least = version,
				    .version = version,
				    .code = code };

	snprintf(m.text, sizeof m.text, "%s", text);
	return m;
}

void fake_side_memory_fds(int fds[HR_TAP_FDS])
{
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		fds[i] = fcntl(self.memory[i], F_DUPFD_CLOEXEC, 0);
}

unsigned fake_side_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 64; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

size_t fake_side_mapped(void)
{
	return self.mapped;
}
