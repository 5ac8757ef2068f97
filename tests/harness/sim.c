#include "tests/harness/sim.h"

#include <errno.h>
#include <link.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "config/seam.h"
#include "config/tick.h"
#include "tests/harness/random.h"

#define THREADS 64u
#define STACK_BYTES (1u << 20)
#define SWITCH_NS 100u /* time of a switch between threads */
#define LOOK_NS 20u    /* time of a reading of the clock */
#define LOOKS 16u      /* one of so many readings of the clock switches threads */

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

enum wait { READY, ASLEEP, AT_COND, JOINING, ENDED };

struct routine {
	ucontext_t context;
	enum wait wait;
	uint64_t wake_ns;    /* ASLEEP */
	uint64_t broadcasts; /* AT_COND: value at the start of the wait */
	unsigned joined;     /* JOINING: number of the thread to join */
	void *(*main)(void *argument);
	void *argument;
	uint8_t *stack; /* NULL: routine 0, on the caller's stack */
	uint8_t *tls;	/* thread-local variables while another routine runs */
	const void *bottom;
	size_t stack_bytes;
	void *fake_stack; /* the address sanitizer's handle */
	int error_number;
};

static struct {
	struct routine routine[THREADS];
	unsigned count, current;
	bool running;
	uint64_t now_ns, broadcasts, switches, schedule;
	struct fake_random order, numbers; /* numbers for the scheduler; for hr_random() */
} sim = { .now_ns = SIM_START_NS };

/* ---- thread-local variables: coroutines share those of one thread, so a switch exchanges them */

static struct {
	uint8_t *at;
	const void *first; /* initial values */
	size_t bytes, first_bytes;
} tls;

static int find_tls(struct dl_phdr_info *info, size_t size, void *data)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const size_t end = (p->p_memsz + p->p_align - 1) & ~(p->p_align - 1);

		if (p->p_type != PT_TLS)
			continue;
		tls.at = (uint8_t *)__builtin_thread_pointer() - end; /* x86-64 ABI: variant II */
		tls.first = (const void *)(info->dlpi_addr + p->p_vaddr);
		tls.bytes = p->p_memsz;
		tls.first_bytes = p->p_filesz;
	}
	return 1; /* the program is the first object; the libraries have no such variables */
}

/* ---- switching */

static struct routine *self(void)
{
	return &sim.routine[sim.current];
}

static bool is_ready(const struct routine *r)
{
	switch (r->wait) {
	case READY:
		return true;
	case ASLEEP:
		return r->wake_ns <= sim.now_ns;
	case AT_COND:
		return r->broadcasts != sim.broadcasts;
	case JOINING:
		return sim.routine[r->joined].wait == ENDED;
	default:
		return false;
	}
}

static void __attribute__((noreturn)) dead_end(void)
{
	static const char *const what[] = { "ready", "asleep", "waits for a condition", "joins",
					    "ended" };

	for (unsigned i = 0; i < sim.count; i++)
		fprintf(stderr, "sim: thread %u: %s\n", i, what[sim.routine[i].wait]);
	fprintf(stderr, "sim: no thread can go on\n");
	abort();
}

/* All threads wait: move the clock to the earliest end of a sleep. */
static void jump(void)
{
	uint64_t next_ns = UINT64_MAX;

	for (unsigned i = 0; i < sim.count; i++)
		if (sim.routine[i].wait == ASLEEP && sim.routine[i].wake_ns < next_ns)
			next_ns = sim.routine[i].wake_ns;
	if (next_ns == UINT64_MAX)
		dead_end();
	sim.now_ns = next_ns;
}

static unsigned choose(void)
{
	unsigned ready[THREADS], n = 0;

	for (;;) {
		for (unsigned i = 0; i < sim.count; i++)
			if (is_ready(&sim.routine[i]))
				ready[n++] = i;
		if (n)
			return ready[fake_random_below(&sim.order, n)];
		jump();
	}
}

static void arrive(void)
{
	struct routine *r = self();

#if defined(__SANITIZE_ADDRESS__)
	__sanitizer_finish_switch_fiber(r->fake_stack, NULL, NULL);
#endif
	errno = r->error_number;
	r->wait = READY;
}

static void leave_for(struct routine *from, struct routine *to)
{
	from->error_number = errno;
	memcpy(from->tls, tls.at, tls.bytes);
	memcpy(tls.at, to->tls, tls.bytes);
#if defined(__SANITIZE_ADDRESS__)
	__sanitizer_start_switch_fiber(from->wait == ENDED ? NULL : &from->fake_stack, to->bottom,
				       to->stack_bytes);
#endif
	swapcontext(&from->context, &to->context);
	arrive();
}

/* Suspend the calling thread as its member `wait` says, and continue a ready thread. */
static void switch_threads(void)
{
	struct routine *from = self();
	unsigned next;

	sim.now_ns += SWITCH_NS;
	next = choose();
	sim.switches++;
	sim.schedule = (sim.schedule ^ next) * 0x100000001b3ull;
	if (next == sim.current) {
		from->wait = READY;
		return;
	}
	sim.current = next;
	leave_for(from, &sim.routine[next]);
}

static void wait_as(enum wait wait)
{
	if (!sim.running)
		return;
	self()->wait = wait;
	switch_threads();
}

/* ---- threads */

static void routine_main(void)
{
	struct routine *r;

	arrive();
	r = self();
	r->main(r->argument);
	wait_as(ENDED); /* does not return */
}

static void *take_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static struct routine *add_routine(void)
{
	struct routine *r = &sim.routine[sim.count];

	if (sim.count == THREADS)
		return NULL;
	*r = (struct routine){ .tls = take_memory(tls.bytes + 1) };
	memcpy(r->tls, tls.first, tls.first_bytes);
	sim.count++;
	return r;
}

/* The scheduler chooses threads at random; it has no priorities. */
void hr_threads_nice(int nice)
{
}

int hr_thread_start(struct hr_thread *thread, const cpu_set_t *cpus, void *(*main)(void *argument),
		    void *argument)
{
	struct routine *r = add_routine();

	if (!r)
		return -EAGAIN;
	thread->number = sim.count - 1;
	r->main = main;
	r->argument = argument;
	r->stack = take_memory(STACK_BYTES);
	r->bottom = r->stack;
	r->stack_bytes = STACK_BYTES;
	getcontext(&r->context);
	r->context.uc_stack.ss_sp = r->stack;
	r->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&r->context, routine_main, 0);
	switch_threads();
	return 0;
}

static void free_routine(struct routine *r)
{
	munmap(r->tls, tls.bytes + 1);
	if (r->stack)
		munmap(r->stack, STACK_BYTES);
}

void hr_thread_join(struct hr_thread *thread)
{
	self()->joined = thread->number;
	wait_as(JOINING);
}

int hr_thread_cpus(cpu_set_t *cpus)
{
	CPU_ZERO(cpus);
	for (size_t cpu = 0; cpu < 4; cpu++)
		CPU_SET(cpu, cpus);
	return 0;
}

void hr_yield(void)
{
	wait_as(READY);
}

/* While another thread holds the lock, try again after each switch; switches move the clock. */
void hr_mutex_lock(pthread_mutex_t *mutex)
{
	do
		hr_yield();
	while (pthread_mutex_trylock(mutex) != 0);
}

void hr_read_lock(pthread_rwlock_t *lock)
{
	do
		hr_yield();
	while (pthread_rwlock_tryrdlock(lock) != 0);
}

void hr_write_lock(pthread_rwlock_t *lock)
{
	do
		hr_yield();
	while (pthread_rwlock_trywrlock(lock) != 0);
}

void hr_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	self()->broadcasts = sim.broadcasts;
	pthread_mutex_unlock(mutex);
	wait_as(AT_COND);
	hr_mutex_lock(mutex);
}

void hr_cond_broadcast(pthread_cond_t *cond)
{
	sim.broadcasts++;
}

/* ---- clocks, random numbers */

uint64_t hr_now_ns(void)
{
	sim.now_ns += LOOK_NS;
	if (sim.running && fake_random_below(&sim.order, LOOKS) == 0)
		hr_yield();
	return sim.now_ns;
}

static void sleep_ns(uint64_t ns)
{
	self()->wake_ns = sim.now_ns + ns;
	wait_as(ASLEEP);
	if (!sim.running)
		sim.now_ns += ns;
}

void hr_wait_ns(uint64_t ns)
{
	while (hr_tick_is_set() && ns > HR_TICK_NS) {
		sleep_ns(HR_TICK_NS);
		ns -= HR_TICK_NS;
		hr_tick();
	}
	sleep_ns(ns);
	hr_tick();
}

/* A descriptor is not simulated: what it tells comes from outside. */
bool hr_wait_readable(int fd, uint64_t ns)
{
	struct pollfd look = { .fd = fd, .events = POLLIN };

	if (ns && poll(&look, 1, 0) == 0)
		sleep_ns(ns);
	return poll(&look, 1, 0) > 0;
}

void hr_wait_precisely(void)
{
}

uint64_t hr_wall_ns(void)
{
	return 1700000000 * HR_NS_PER_S + sim.now_ns;
}

uint64_t hr_cpu_ns(void)
{
	return sim.now_ns - SIM_START_NS;
}

int hr_random(void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)data)[i] = (uint8_t)(fake_random_u64(&sim.numbers) >> 32);
	return 0;
}

/* ---- host I/O: of the machine, and a switch before it */

ssize_t hr_file_read(int fd, const struct iovec *vec, int count, uint64_t offset)
{
	ssize_t n;

	hr_yield();
	n = preadv(fd, vec, count, (off_t)offset);
	return n < 0 ? -errno : n;
}

ssize_t hr_file_write(int fd, const struct iovec *vec, int count, uint64_t offset, int flags)
{
	ssize_t n;

	hr_yield();
	n = pwritev(fd, vec, count, (off_t)offset);
	return n < 0 ? -errno : n;
}

int hr_file_sync(int fd)
{
	hr_yield();
	return 0;
}

void hr_signal_stack(void)
{
}

/* ---- processes: none */

pid_t hr_fork(void)
{
	return -ENOSYS;
}

bool hr_is_child(pid_t pid)
{
	return false;
}

pid_t hr_wait_child(pid_t pid, int *status, int flags)
{
	return -ECHILD;
}

int hr_kill(pid_t pid, int signal_number)
{
	return -ESRCH;
}

/* ---- a simulation */

/* The caller's stack, for the sanitizer. */
static void note_own_stack(struct routine *r)
{
	pthread_attr_t attributes;
	void *bottom;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &bottom, &r->stack_bytes);
	pthread_attr_destroy(&attributes);
	r->bottom = bottom;
}

int sim_run(uint64_t seed, int (*main)(void *argument), void *argument)
{
	int result;

	dl_iterate_phdr(find_tls, NULL);
	memset(&sim, 0, sizeof sim);
	sim.now_ns = SIM_START_NS;
	sim.order.state = seed;
	sim.numbers.state =
		0x9e3779b97f4a7c15u; /* stored random data do not depend on the schedule */
	note_own_stack(add_routine());
	sim.running = true;
	result = main(argument);
	sim.running = false;
	for (unsigned i = 1; i < sim.count; i++)
		if (sim.routine[i].wait != ENDED) {
			fprintf(stderr, "sim: thread %u was not joined\n", i);
			abort();
		}
	for (unsigned i = 0; i < sim.count; i++)
		free_routine(&sim.routine[i]);
	return result;
}

uint64_t sim_switches(void)
{
	return sim.switches;
}

uint64_t sim_schedule(void)
{
	return sim.schedule;
}
