/* SPDX-License-Identifier: Apache-2.0 */
/* The process that looks for gpus: its answer, and its end when it gives none. */
#include "boot/appliance/gpus.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"

#define S HR_NS_PER_S

static void until_look_ended(const struct hr_gpus *gpus)
{
	siginfo_t ended;

	cr_assert_eq(waitid(P_PID, (id_t)gpus->pid, &ended, WEXITED | WNOWAIT), 0);
}

static void __attribute__((noreturn)) hang(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

Test(gpus, a_look_without_an_answer_is_ended_after_a_minute, .timeout = 60)
{
	static struct hr_config config = { .gpus = 1, .boot.wait_s = 10 };
	struct hr_gpus gpus = { 0 };

	fake_clock_start(100 * S, NULL, NULL);
	strcpy(config.gpu[0].device, "host");
	if (hr_gpus_step(&gpus, &config, 1)) /* else the look has ended already */
		until_look_ended(&gpus);
	cr_expect_not(gpus.killed);
	cr_expect_not(hr_gpus_step(&gpus, &config, 1));
	cr_expect(!gpus.killed && !gpus.absent, "it is there");
	pthread_atfork(NULL, NULL, hang);
	fake_clock_advance(2 * S);
	cr_expect(hr_gpus_step(&gpus, &config, 1));
	fake_clock_advance(60 * S - 1);
	cr_expect(hr_gpus_step(&gpus, &config, 1));
	cr_expect(!gpus.killed && !gpus.absent);
	fake_clock_advance(1);
	cr_expect_not(hr_gpus_step(&gpus, &config, 1));
	cr_assert(gpus.killed && gpus.absent == 1);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "the NVIDIA driver has given no answer"));
	cr_expect_eq(hr_gpus_awaited(&gpus, &config), 1u);
	until_look_ended(&gpus);
	cr_expect_not(hr_gpus_step(&gpus, &config, 1));
	cr_expect_eq(gpus.absent, 1u);
	fake_clock_advance(10 * S);
	cr_expect_eq(hr_gpus_awaited(&gpus, &config), 0u, "for wait_s");
	hr_gpus_close(&gpus);
	fake_clock_stop();
}
