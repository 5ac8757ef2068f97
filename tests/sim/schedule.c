/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES (1u << 20)

struct routine {
	ucontext_t context;
	void *(*main)(void *argument);
	void *argument;
	uint8_t *stack;	 /* NULL: that of the process */
	uint8_t *tls;	 /* thread-local variables while another routine runs */
	size_t tls_used; /* behind them all are 0 */
	const void *bottom;
	size_t stack_bytes;
	void *fake_stack; /* the address sanitizer's handle */
	int error_number;
};

static struct {
	struct routine routine[SIM_THREADS];
	unsigned current, process;
	bool on;
	int announce; /* the referee reads the numbers of new processes from it */
} local;

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

/* ---- switches within a process */

static void arrive(void)
{
	struct routine *r = &local.routine[local.current];

#if defined(__SANITIZE_ADDRESS__)
	__sanitizer_finish_switch_fiber(r->fake_stack, NULL, NULL);
#endif
	errno = r->error_number;
}

/* The block of a worker has most of these variables. Other threads do not use it, and a worker uses
 * a part of it, so most of the bytes are 0 in both. */
static void exchange_tls(struct routine *from, const struct routine *to)
{
	const uint64_t *word = (const uint64_t *)(void *)tls.at;
	size_t used = tls.bytes / sizeof *word;

	while (used > 0 && word[used - 1] == 0)
		used--;
	used = used == tls.bytes / sizeof *word ? tls.bytes : used * sizeof *word;
	memcpy(from->tls, tls.at, used);
	memcpy(tls.at, to->tls, to->tls_used);
	if (used > to->tls_used)
		memset(tls.at + to->tls_used, 0, used - to->tls_used);
	from->tls_used = used;
}

static void continue_as(unsigned next, bool ends)
{
	struct routine *from = &local.routine[local.current], *to = &local.routine[next];

	if (next == local.current)
		return;
	from->error_number = errno;
	exchange_tls(from, to);
	local.current = next;
#if defined(__SANITIZE_ADDRESS__)
	__sanitizer_start_switch_fiber(ends ? NULL : &from->fake_stack, to->bottom,
				       to->stack_bytes);
#endif
	swapcontext(&from->context, &to->context);
	arrive();
}

static void __attribute__((noreturn)) stop_here(void)
{
	for (;;)
		pause(); /* the referee kills the world */
}

void sim_wait(enum sim_wait wait)
{
	struct sim_thread *self = &sim_world->thread[local.current];
	const int error_number = errno;
	unsigned next;

	if (!local.on)
		return;
	self->wait = (uint8_t)wait;
	self->yields = wait == SIM_READY ? self->yields + 1 : 0;
	next = sim_choose(local.process);
	if (next == SIM_NONE) {
		const uint16_t none = UINT16_MAX;

		if (write(local.announce, &none, sizeof none) == sizeof none)
			stop_here();
		abort();
	}
	sim_count_turn(next);
	if (sim_world->thread[next].process != local.process) {
		sim_give_turn(next);
		sim_await_turn(local.process);
		next = sim_world->current;
	}
	continue_as(next, wait == SIM_ENDED);
	self = &sim_world->thread[local.current];
	self->wait = SIM_READY;
	errno = error_number;
}

void sim_stir(void)
{
	if (local.on)
		sim_world->activity++;
}

unsigned sim_self(void)
{
	return local.current;
}

unsigned sim_process_self(void)
{
	return local.process;
}

bool sim_is_on(void)
{
	return local.on;
}

/* ---- threads */

static void *take_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static unsigned add_thread(unsigned process)
{
	unsigned i = 0;

	while (i < SIM_THREADS && sim_world->thread[i].wait != SIM_FREE)
		i++;
	if (i == SIM_THREADS)
		return SIM_NONE;
	sim_world->thread[i] =
		(struct sim_thread){ .wait = SIM_READY, .process = (uint16_t)process };
	if (i >= sim_world->threads)
		sim_world->threads = i + 1;
	return i;
}

static void give_memory(struct routine *r, bool stack)
{
	*r = (struct routine){ .tls = take_memory(tls.bytes + 1), .tls_used = tls.first_bytes };
	memcpy(r->tls, tls.first, tls.first_bytes);
	if (!stack)
		return;
	r->stack = take_memory(STACK_BYTES);
	r->bottom = r->stack;
	r->stack_bytes = STACK_BYTES;
}

static void routine_main(void)
{
	struct routine *r;

	arrive();
	r = &local.routine[local.current];
	sim_world->thread[local.current].wait = SIM_READY;
	r->main(r->argument);
	sim_wait(SIM_ENDED);
	abort();
}

unsigned sim_thread_start(void *(*main)(void *argument), void *argument)
{
	const unsigned i = add_thread(local.process);
	struct routine *r;

	if (i == SIM_NONE)
		return SIM_NONE;
	r = &local.routine[i];
	give_memory(r, true);
	r->main = main;
	r->argument = argument;
	getcontext(&r->context);
	r->context.uc_stack.ss_sp = r->stack;
	r->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&r->context, routine_main, 0);
	sim_wait(SIM_READY);
	return i;
}

static void free_memory(struct routine *r)
{
	if (r->tls)
		munmap(r->tls, tls.bytes + 1);
	if (r->stack)
		munmap(r->stack, STACK_BYTES);
	r->tls = r->stack = NULL;
}

void sim_thread_free(unsigned thread)
{
	free_memory(&local.routine[thread]);
	sim_world->thread[thread].wait = SIM_FREE;
}

/* ---- processes */

unsigned sim_process_of(pid_t pid)
{
	for (unsigned p = 0; p < sim_world->processes; p++)
		if (sim_world->process[p].pid == pid)
			return p;
	return SIM_NONE;
}

/* The stack of the calling coroutine is the only one of the new process. */
static void be_child(unsigned process, unsigned thread)
{
	const unsigned old = local.current;

	for (unsigned i = 0; i < SIM_THREADS; i++)
		if (i != old)
			free_memory(&local.routine[i]);
	local.routine[thread] = local.routine[old];
	if (thread != old)
		local.routine[old] = (struct routine){ 0 };
	local.current = thread;
	local.process = process;
	sim_await_turn(local.process);
	sim_world->thread[thread].wait = SIM_READY;
}

static void announce(unsigned process)
{
	uint32_t *watched = &sim_world->process[process].watched;
	const uint16_t number = (uint16_t)process;

	if (write(local.announce, &number, sizeof number) != sizeof number)
		abort();
	while (!__atomic_load_n(watched, __ATOMIC_ACQUIRE))
		sim_sleep_at(watched, 0);
}

int sim_fork(void)
{
	const unsigned process = sim_world->processes;
	const unsigned thread = process < SIM_PROCESSES - 1 ? add_thread(process) : SIM_NONE;
	pid_t pid;

	if (thread == SIM_NONE)
		return -EAGAIN;
	sim_world->processes++;
	sim_world->process[process] =
		(struct sim_process){ .parent = local.process, .alive = true };
	pid = fork();
	if (pid == 0) {
		be_child(process, thread);
		return 0;
	}
	if (pid < 0)
		abort();
	sim_world->process[process].pid = pid;
	announce(process);
	sim_wait(SIM_READY);
	return (int)process;
}

int sim_kill(unsigned process, int signal_number)
{
	struct sim_process *p =
		process < sim_world->processes ? &sim_world->process[process] : NULL;
	bool fatal;
	int fd;

	if (!p || !p->alive)
		return -ESRCH;
	fatal = sim_is_fatal(p->pid, signal_number);
	fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	kill(p->pid, signal_number);
	sim_world->activity++;
	if (fatal && sim_has_died(fd, 10000))
		sim_bury(process);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* ---- the director */

static void note_own_stack(struct routine *r)
{
	pthread_attr_t attributes;
	void *bottom;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &bottom, &r->stack_bytes);
	pthread_attr_destroy(&attributes);
	r->bottom = bottom;
}

void sim_be_director(int announced, int (*director)(void *argument), void *argument)
{
	dl_iterate_phdr(find_tls, NULL);
	local.announce = announced;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	give_memory(&local.routine[0], false);
	note_own_stack(&local.routine[0]);
	local.on = true;
	sim_await_turn(local.process);
	exit(director(argument));
}
