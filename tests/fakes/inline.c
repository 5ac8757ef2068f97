#include "tests/fakes/inline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/appliance/attempt.h"
#include "boot/appliance/process.h"
#include "config/clock.h"
#include "tests/fakes/attempts.h"

#define PID 4711

static struct {
	struct hr_attempt attempt;
	bool runs;
	uint64_t next_ns; /* time of the next publication */
	int status;
	jmp_buf death;
} fake;

void fake_inline_publish(void)
{
	if (!fake.runs || hr_now_ns() < fake.next_ns)
		return;
	fake.next_ns = hr_now_ns() + HR_NS_PER_S;
	hr_attempt_publish(&fake.attempt);
}

bool fake_inline_runs(void)
{
	return fake.runs;
}

/* Format of wait(2): the signal in the lowest byte, or an exit code in the next one. */
void fake_attempt_dies(int dies)
{
	fake.status = dies < 0 ? -dies << 8 : dies;
	longjmp(fake.death, 1);
}

int hr_process_open(struct hr_process *p)
{
	*p = (struct hr_process){
		.phases = -1, .dispatch = -1, .clients = -1, .page = calloc(1, sizeof *p->page)
	};
	return p->page ? 0 : -ENOMEM;
}

void hr_process_close(struct hr_process *p)
{
	hr_process_hang_up(p);
	free(p->page);
	p->page = NULL;
}

/* The copy stands for the memory of the engine's process: its changes are not visible here. */
int hr_process_start(struct hr_process *p, struct hr_appliance *app, const int *fds, unsigned count)
{
	static struct hr_appliance before;
	int ends[2];

	cr_assert_eq(p->pid, 0);
	cr_assert_eq(p->phases, -1, "the pipe of the former engine is open");
	cr_assert_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	memset(p->page, 0, sizeof *p->page);
	p->pid = PID;
	p->phases = ends[0];
	before = *app;
	memset(&fake.attempt, 0, sizeof fake.attempt);
	fake.attempt.app = app;
	fake.attempt.page = p->page;
	fake.attempt.phases = ends[1];
	fake.attempt.dispatch = -1;
	fake.runs = true;
	fake.next_ns = 0;
	if (setjmp(fake.death) == 0)
		fake.status = hr_error_report(&app->error, hr_attempt_make(&fake.attempt)) << 8;
	else
		hr_attempt_publish(&fake.attempt);
	fake.runs = false;
	*app = before;
	close(fake.attempt.phases);
	return 0;
}

bool hr_process_ended(struct hr_process *p, int *status)
{
	*status = fake.status;
	p->pid = 0;
	return true;
}

int hr_process_receive(struct hr_process *p, enum hr_phase *phase)
{
	unsigned char byte;
	ssize_t n;

	if (p->phases < 0)
		return -EPIPE;
	n = read(p->phases, &byte, 1);
	*phase = (enum hr_phase)byte;
	return n == 1 ? 0 : n < 0 ? -EAGAIN : -EPIPE;
}

void hr_process_signal(const struct hr_process *p, int signal_number)
{
}

int hr_process_dispatch(const struct hr_process *p, const void *dispatch, size_t bytes)
{
	return -EPIPE;
}

int hr_process_pass(const struct hr_process *p, const struct hr_request *request, int fd)
{
	return -ENOTCONN;
}

void hr_process_hang_up(struct hr_process *p)
{
	if (p->phases >= 0)
		close(p->phases);
	p->phases = -1;
}
