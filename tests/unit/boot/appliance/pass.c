/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of the control socket that the supervisor passes on to its engine. */
#include "boot/appliance/supervise.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/error.h"

#define NO_PROCESS 0x7fffffff /* a number that no process has */

TestSuite(pass, .timeout = 60);

static struct hr_supervisor *s;

static void expect_refusal(const struct hr_request *request, int fd, int want, const char *text)
{
	struct hr_error e = { 0 };

	cr_expect_eq(s->control.pass(s->control.pass_to, request, fd, &e), want);
	cr_expect_eq(e.kind, HR_ERROR_FAILED);
	cr_expect_str_eq(e.text, text, "%s", e.text);
}

Test(pass, a_client_is_passed_on_or_refused)
{
	const struct hr_request request = { .kind = HR_REQUEST_STORE_MAP };
	struct hr_error e = { 0 };
	struct hr_engine *engine;
	int pair[2], count = 0, err;

	s = calloc(1, sizeof *s);
	engine = calloc(1, sizeof *engine);
	cr_assert(s && engine);
	cr_assert_eq(hr_supervise_open(s, engine, false, "none"), 0);
	s->status.phase = HR_PHASE_POST;
	expect_refusal(&request, 0, -ENOTCONN, "busy: no engine drives the ssds now (post)");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	s->child.process.clients = pair[0];
	s->child.process.pid = NO_PROCESS;
	do
		err = s->control.pass(s->control.pass_to, &request, pair[1], &e);
	while (!err && count++ < 100000);
	cr_expect_gt(count, 0);
	expect_refusal(&request, pair[1], -EAGAIN,
		       "busy: the engine has not taken the earlier requests yet (post)");
	expect_refusal(&request, -1, -EBADF, "the engine cannot be reached: Bad file descriptor");
	close(pair[0]);
	close(pair[1]);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	s->child.process.clients = pair[0];
	close(pair[1]);
	expect_refusal(&request, pair[0], -EPIPE, "busy: no engine drives the ssds now (post)");
	close(pair[0]);
	s->child.process.clients = -1;
	s->child.process.pid = 0;
	hr_supervise_close(s);
	free(engine);
	free(s);
}
