/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/command.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "tests/sim/schedule.h"

/* main() of boot/main.c */
int headrace_main(int argc, char **argv);

#define PATIENCE_NS (3600 * HR_NS_PER_S)

struct sim_result *sim_result;

void sim_fault(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(sim_result->fault, sizeof sim_result->fault, format, args);
	va_end(args);
	_exit(1);
}

static void redirect(const char *file, int fd)
{
	const int to = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);

	if (to < 0 || dup2(to, fd) != fd)
		_exit(126);
	close(to);
}

static void __attribute__((noreturn)) be_command(const char *out, char *words)
{
	char *argv[SIM_ARGUMENTS + 2] = { strdup("headrace") };
	int argc = 1;

	redirect(out ? out : "out", STDOUT_FILENO);
	redirect("err", STDERR_FILENO);
	dprintf(STDERR_FILENO, "%llu.%06llu $ %s\n",
		(unsigned long long)(sim_world->now_ns / HR_NS_PER_S),
		(unsigned long long)(sim_world->now_ns % HR_NS_PER_S / 1000), words);
	for (char *word = strtok(words, " "); word && argc <= (int)SIM_ARGUMENTS;
	     word = strtok(NULL, " "))
		argv[argc++] = word;
	exit(headrace_main(argc, argv));
}

static pid_t start(const char *out, const char *format, va_list args)
{
	static char words[1024];
	pid_t pid;

	vsnprintf(words, sizeof words, format, args);
	fflush(NULL);
	pid = hr_fork();
	if (pid == 0)
		be_command(out, words);
	if (pid < 0)
		sim_fault("cannot start headrace %s: %s", words, strerror(-pid));
	return pid;
}

pid_t sim_start(const char *out, const char *format, ...)
{
	va_list args;
	pid_t pid;

	va_start(args, format);
	pid = start(out, format, args);
	va_end(args);
	return pid;
}

int sim_end(pid_t pid)
{
	const uint64_t end_ns = sim_world->now_ns + PATIENCE_NS;
	pid_t ended;
	int status = 0;

	while ((ended = hr_wait_child(pid, &status, WNOHANG)) == 0) {
		if (sim_world->now_ns > end_ns)
			sim_fault("a command has not ended within an hour; err has its words");
		hr_wait_ns(HR_NS_PER_MS);
	}
	if (ended != pid)
		sim_fault("process %d cannot be collected", (int)pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int sim_command(const char *out, const char *format, ...)
{
	va_list args;
	pid_t pid;

	va_start(args, format);
	pid = start(out, format, args);
	va_end(args);
	return sim_end(pid);
}
