/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/supervisor/reader.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/file/file.h"
#include "config/base/log.h"
#include "config/base/seam.h"

#define LOOK_NS (HR_NS_PER_MS / 5)

struct hr_reader_page {
	struct hr_config config;
	struct hr_error e;
	int result;
	bool returned;
};

/* Ends with _exit(), so that exit handlers of an operator do not run. */
static _Noreturn void be_reader(struct hr_reader_page *page, hr_read_config *read, void *to,
				pid_t supervisor)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor) /* the supervisor died before prctl() */
		_exit(1);
	page->result = read(&page->config, to, &page->e);
	page->returned = true;
	fflush(NULL);
	_exit(0);
}

static void end_it(pid_t pid, int *status)
{
	hr_kill(pid, SIGKILL);
	hr_wait_child(pid, status, 0);
}

/* The process has ended, or its time limit has passed (over). */
static int result_of(const struct hr_config_reader *reader, bool over, int status,
		     struct hr_error *e)
{
	const char *const what =
		"the process that reads the configuration, and loads its user operators,";
	int err = -EOWNERDEAD;

	if (!over && reader->page->returned) {
		*e = reader->page->e;
		return reader->page->result;
	}
	hr_error_clear(e);
	if (over)
		err = hr_fail(e, HR_ERROR_USAGE, -ETIMEDOUT,
			      "the configuration is not read after %llu ms; %s is killed",
			      (unsigned long long)(reader->limit_ns / HR_NS_PER_MS), what);
	else if (WIFSIGNALED(status))
		hr_fail(e, HR_ERROR_USAGE, err, "%s ended by signal %d (%s)", what,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		hr_fail(e, HR_ERROR_USAGE, err, "%s exited with code %d in the middle of its work",
			what, WEXITSTATUS(status));
	hr_error_log(e, HR_LOG_ERROR);
	return err;
}

int hr_config_reader_start(struct hr_config_reader *reader, hr_read_config *read, void *to,
			   uint64_t limit_ns)
{
	const pid_t self = getpid();
	struct hr_reader_page *page =
		mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	if (page == MAP_FAILED)
		return -ENOMEM;
	fflush(NULL); /* else both processes would write the buffered text */
	pid = hr_fork();
	if (pid == 0)
		be_reader(page, read, to, self);
	if (pid < 0) {
		munmap(page, sizeof *page);
		return pid;
	}
	*reader = (struct hr_config_reader){ pid, page, hr_now_ns(), limit_ns };
	return 0;
}

bool hr_config_reader_poll(struct hr_config_reader *reader, struct hr_config *config, int *result,
			   struct hr_error *e)
{
	const bool over = hr_now_ns() - reader->since_ns >= reader->limit_ns;
	int status = 0;
	const pid_t ended = hr_wait_child(reader->pid, &status, WNOHANG);

	if (ended != reader->pid && ended >= 0 && !over)
		return false;
	if (ended != reader->pid)
		end_it(reader->pid, &status);
	*result = result_of(reader, ended == 0, status, e);
	*config = reader->page->config;
	hr_config_operators_forget(config);
	munmap(reader->page, sizeof *reader->page);
	*reader = (struct hr_config_reader){ 0 };
	return true;
}

void hr_config_reader_kill(struct hr_config_reader *reader)
{
	int status;

	if (!reader->pid)
		return;
	end_it(reader->pid, &status);
	munmap(reader->page, sizeof *reader->page);
	*reader = (struct hr_config_reader){ 0 };
}

int hr_config_read_in_child(struct hr_config *config, hr_read_config *read, void *to,
			    uint64_t limit_ns, struct hr_error *e)
{
	struct hr_config_reader reader;
	int err = hr_config_reader_start(&reader, read, to, limit_ns);

	if (err) {
		hr_fail(e, HR_ERROR_FAILED, err,
			"cannot start the process that reads the configuration: %s",
			strerror(-err));
		hr_error_log(e, HR_LOG_ERROR);
		return err;
	}
	while (!hr_config_reader_poll(&reader, config, &err, e))
		hr_wait_ns(LOOK_NS);
	return err;
}
