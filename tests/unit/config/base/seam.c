/* SPDX-License-Identifier: Apache-2.0 */
/* The seam as the product links it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/seam.h"

TestSuite(seam, .timeout = 60);

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	pthread_rwlock_t lock;
	unsigned turns, arrived;
	int cpus; /* of the last thread */
} shared = {
	PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER, 0, 0, 0
};

static void *wait_for_turn(void *argument)
{
	const unsigned turn = *(unsigned *)argument;
	cpu_set_t cpus;

	hr_mutex_lock(&shared.mutex);
	while (shared.turns != turn)
		hr_cond_wait(&shared.cond, &shared.mutex);
	shared.cpus = hr_thread_cpus(&cpus) == 0 ? CPU_COUNT(&cpus) : -1;
	shared.turns++;
	hr_cond_broadcast(&shared.cond);
	pthread_mutex_unlock(&shared.mutex);
	hr_read_lock(&shared.lock);
	pthread_rwlock_unlock(&shared.lock);
	hr_write_lock(&shared.lock);
	shared.arrived++;
	pthread_rwlock_unlock(&shared.lock);
	return NULL;
}

Test(seam, threads_start_wait_and_end)
{
	struct hr_cpu_thread thread[4];
	unsigned number[4];
	cpu_set_t all, one;

	cr_assert_eq(hr_thread_cpus(&all), 0);
	CPU_ZERO(&one);
	for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	for (unsigned i = 4; i-- > 0;) {
		number[i] = i;
		cr_assert_eq(hr_thread_start(&thread[i], i == 3 ? &one : NULL, wait_for_turn,
					     &number[i]),
			     0);
	}
	for (unsigned i = 0; i < 4; i++)
		hr_thread_join(&thread[i]);
	cr_expect_eq(shared.turns, 4u);
	cr_expect_eq(shared.arrived, 4u);
	cr_expect_eq(shared.cpus, 1, "the last one was bound to one CPU");
	CPU_ZERO(&one);
	CPU_SET(CPU_SETSIZE - 1, &one);
	if (!CPU_ISSET(CPU_SETSIZE - 1, &all))
		cr_expect_eq(hr_thread_start(&thread[0], &one, wait_for_turn, number), -EINVAL);
}

Test(seam, files_return_the_results_of_linux)
{
	char path[] = "/tmp/seam.XXXXXX", back[8] = "";
	const int fd = mkstemp(path);
	const struct iovec out = { (char[]){ "12345678" }, 8 }, in = { back, 8 };

	cr_assert_geq(fd, 0);
	unlink(path);
	cr_expect_eq(hr_file_write(fd, &out, 1, 4096, 0), 8);
	cr_expect_eq(hr_file_write(fd, &out, 1, 4104, RWF_DSYNC), 8);
	cr_expect_eq(hr_file_sync(fd), 0);
	cr_expect_eq(hr_file_read(fd, &in, 1, 4100), 8);
	cr_expect_arr_eq(back, "56781234", 8);
	cr_expect_eq(hr_file_read(fd, &in, 1, 1 << 20), 0);
	close(fd);
	cr_expect_eq(hr_file_read(-1, &in, 1, 0), -EBADF);
	cr_expect_eq(hr_file_write(-1, &out, 1, 0, 0), -EBADF);
	cr_expect_eq(hr_file_sync(-1), -EBADF);
}

static void ignore(int signal_number)
{
}

Test(seam, a_child_is_waited_for_through_signals)
{
	struct sigaction action = { .sa_handler = ignore };
	const pid_t self = getpid();
	int status = 0;
	pid_t pid;

	sigaction(SIGUSR1, &action, NULL);
	pid = hr_fork();
	if (pid == 0) {
		for (unsigned i = 0; i < 50; i++) {
			kill(self, SIGUSR1);
			hr_wait_ns(HR_NS_PER_MS / 10);
		}
		_exit(7);
	}
	cr_assert_gt(pid, 0);
	cr_expect_eq(hr_wait_child(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	cr_expect_eq(hr_wait_child(pid, &status, 0), -ECHILD);
	cr_expect_eq(hr_kill(pid, 0), -ESRCH);
	cr_expect_eq(hr_kill(self, 0), -ESRCH, "it is no child");
}

Test(seam, there_are_eight_children_at_most)
{
	pid_t pid[8];

	for (unsigned i = 0; i < 8; i++) {
		pid[i] = hr_fork();
		if (pid[i] == 0) /* the parent's children are not its own */
			_exit(hr_kill(pid[0], 0) == -ESRCH ? 0 : 1);
		cr_assert_gt(pid[i], 0);
	}
	cr_expect_eq(hr_fork(), -EAGAIN);
	for (unsigned i = 0; i < 8; i++) {
		int status = 0;

		cr_expect_eq(hr_wait_child(pid[i], &status, 0), pid[i]);
		cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

Test(seam, clocks_give_plausible_times_and_random_numbers_differ)
{
	uint64_t a = 0, b = 0;

	cr_expect_gt(hr_wall_ns(), 1500000000 * HR_NS_PER_S);
	cr_expect_gt(hr_cpu_ns(), 0u);
	cr_expect_eq(hr_random(&a, sizeof a), 0);
	cr_expect_eq(hr_random(&b, sizeof b), 0);
	cr_expect_neq(a, b);
	hr_yield();
}
