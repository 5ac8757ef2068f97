/*
 * Unpacking by a tool: all system calls in their order, and what is undone when one of them fails.
 * This test is the kernel: there is no tool and no file.
 */
#include "pci/topo/unpack.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/calls.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

enum { INPUT = 50, PACKED = 100, OUT = 101, IN = 102, CHILD = 4242 };

static struct hr_model model;

static struct {
	bool on;
	unsigned fail, calls;	  /* the number of the call that fails; 0: none */
	unsigned interrupted;	  /* the number of the call that a signal interrupts; 0: none */
	const char *folder;	  /* of the tool */
	int status;		  /* of the child */
	bool endless;		  /* the tool's output */
	unsigned inputs, outputs; /* reads of each that were answered */
} fake;

static void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	fake.on = false;
	hr_model_fini(&model);
}

TestSuite(topo_unpack_calls, .init = up, .fini = down, .timeout = 60);

static bool fails(int error)
{
	fake.calls++;
	errno = fake.calls == fake.fail ? error : fake.calls == fake.interrupted ? EINTR : 0;
	if (errno)
		calls_note("! ");
	return errno != 0;
}

/* ---- the system calls */

int memfd_create(const char *name, unsigned flags)
{
	if (!fake.on)
		return (int)syscall(SYS_memfd_create, name, flags);
	calls_note("memfd(%s,%u) ", name, flags);
	return fails(EMFILE) ? -1 : PACKED;
}

ssize_t write(int fd, const void *from, size_t size)
{
	if (!fake.on)
		return syscall(SYS_write, fd, from, size);
	calls_note("write(%d,", fd);
	for (size_t i = 0; i < size; i++)
		calls_note("%c",
			   isalpha(((const uint8_t *)from)[i]) ? ((const char *)from)[i] : '.');
	calls_note(") ");
	return fails(ENOSPC) ? -1 : (ssize_t)(size > 1 ? size - 1 : size);
}

ssize_t read(int fd, void *to, size_t size)
{
	const char *text = "";
	unsigned *n = fd == INPUT ? &fake.inputs : &fake.outputs;

	if (!fake.on)
		return syscall(SYS_read, fd, to, size);
	calls_note("read(%d) ", fd);
	if (fails(EIO))
		return -1;
	if (fake.endless && fd == OUT)
		return (ssize_t)size;
	if (*n < 2)
		text = fd == INPUT ? (*n ? "b" : "ccc") : (*n ? "unpacked" : "It is ");
	++*n;
	memcpy(to, text, strlen(text));
	return (ssize_t)strlen(text);
}

off_t lseek(int fd, off_t to, int whence)
{
	if (!fake.on)
		return syscall(SYS_lseek, fd, to, whence);
	calls_note("lseek(%d,%d,%d) ", fd, (int)to, whence);
	return fails(ESPIPE) ? -1 : to;
}

int close(int fd)
{
	if (!fake.on)
		return (int)syscall(SYS_close, fd);
	calls_note("close(%d) ", fd);
	return 0;
}

int access(const char *path, int mode)
{
	const size_t n = strlen(fake.folder);

	if (!fake.on)
		return (int)syscall(SYS_access, path, mode);
	calls_note("access(%s,%d) ", path, mode);
	return strncmp(path, fake.folder, n) == 0 && path[n] == '/' ? 0 : -1;
}

int pipe2(int pipes[2], int flags)
{
	if (!fake.on)
		return (int)syscall(SYS_pipe2, pipes, flags);
	calls_note("pipe(%d) ", flags == O_CLOEXEC);
	pipes[0] = OUT;
	pipes[1] = IN;
	return fails(EMFILE) ? -1 : 0;
}

int posix_spawn_file_actions_init(posix_spawn_file_actions_t *a)
{
	calls_note("actions ");
	return fails(ENOMEM) ? ENOMEM : 0;
}

int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *a)
{
	calls_note("~actions ");
	return 0;
}

int posix_spawnattr_init(posix_spawnattr_t *a)
{
	calls_note("attributes ");
	return 0;
}

int posix_spawnattr_destroy(posix_spawnattr_t *a)
{
	calls_note("~attributes ");
	return 0;
}

int posix_spawnattr_setsigmask(posix_spawnattr_t *restrict a, const sigset_t *restrict set)
{
	calls_note("mask(%d) ", sigismember(set, SIGINT) || sigismember(set, SIGPIPE));
	return 0;
}

int posix_spawnattr_setsigdefault(posix_spawnattr_t *restrict a, const sigset_t *restrict set)
{
	calls_note("default(%d%d) ", sigismember(set, SIGPIPE), sigismember(set, SIGINT));
	return 0;
}

int posix_spawnattr_setflags(posix_spawnattr_t *a, short flags)
{
	calls_note("flags(%d) ", flags == (POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
	return 0;
}

int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *a, int from, int to)
{
	calls_note("dup(%d,%d) ", from, to);
	return fails(EBADF) ? EBADF : 0;
}

int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *restrict a, int fd,
				     const char *restrict path, int flags, mode_t mode)
{
	calls_note("open(%d,%s,%d,%u) ", fd, path, flags == O_WRONLY, mode);
	return fails(ENOMEM) ? ENOMEM : 0;
}

int posix_spawn(pid_t *restrict child, const char *restrict path,
		const posix_spawn_file_actions_t *a, const posix_spawnattr_t *restrict b,
		char *const *restrict arguments, char *const *restrict environment)
{
	calls_note("spawn(%s:", path);
	for (; *arguments; arguments++)
		calls_note(" %s", *arguments);
	for (; *environment; environment++)
		calls_note(" %s", *environment);
	calls_note(") ");
	if (fails(ENOEXEC))
		return ENOEXEC;
	*child = CHILD;
	return 0;
}

int kill(pid_t child, int number)
{
	if (!fake.on)
		return (int)syscall(SYS_kill, child, number);
	calls_note("kill(%d,%d) ", child, number == SIGKILL);
	return 0;
}

pid_t waitpid(pid_t child, int *status, int options)
{
	if (!fake.on)
		return (pid_t)syscall(SYS_wait4, child, status, options, NULL);
	calls_note("wait(%d,%d) ", child, options);
	if (fails(ECHILD))
		return -1;
	*status = fake.status;
	return child;
}

/* ---- the tests */

#define ENDED(code) ((code) << 8)

/* Calls that follow one another in most rows. */
#define HEAD "memfd(packed,1) write(100,BZh) write(100,h) "
#define REST "read(50) write(100,ccc) write(100,c) read(50) write(100,b) read(50) "
#define TOOL "access(/usr/bin/bzip2,1) pipe(1) "
#define FILES \
	"actions attributes mask(0) default(10) flags(1) dup(100,0) dup(102,1) open(2,/dev/null,1,0) "
#define SPAWN "spawn(/usr/bin/bzip2: bzip2 -dc PATH=/usr/bin:/bin LC_ALL=C) "
#define FREE "~attributes ~actions close(102) "
#define OUTPUT "read(101) read(101) read(101) close(101) "

static char told[1200]; /* result, error and calls */

static void unpack(const char *head, int fd)
{
	size_t size = 77;
	char *out = NULL;
	int err;

	hr_model_reset(&model);
	hr_error_clear(&model.error);
	calls_take();
	fake.calls = fake.inputs = fake.outputs = 0;
	fake.on = true;
	err = hr_unpack(&model, hr_packed_by(head, strlen(head)), head, strlen(head), fd, &out,
			&size);
	fake.on = false;
	if (err)
		snprintf(told, sizeof told, "%d %.200s | %.900s", err, model.error.text,
			 calls_take());
	else
		snprintf(told, sizeof told, "%.*s | %s", (int)size, out, calls_take());
	cr_assert(size <= 14 || size == 77, "%zu", size);
}

Test(topo_unpack_calls, a_tool_is_started_and_its_output_collected)
{
	static const struct {
		const char *head;
		int fd;
		const char *folder;
		int status;
		bool endless;
		const char *want;
	} row[] = {
		{ "BZh", INPUT, "/usr/bin", 0, false,
		  "It is unpacked | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN FREE OUTPUT
		  "wait(4242,0) close(100) " },
		{ "\x1f\x8b", -1, "/bin", 0, false,
		  "It is unpacked | memfd(packed,1) write(100,..) write(100,.) "
		  "lseek(100,0,0) access(/usr/bin/gzip,1) access(/bin/gzip,1) pipe(1) " FILES
		  "spawn(/bin/gzip: gzip -dc PATH=/usr/bin:/bin LC_ALL=C) " FREE OUTPUT
		  "wait(4242,0) close(100) " },
		{ "\xfd\x37zXZ", -1, "/usr/local/bin", 0, false,
		  "It is unpacked | memfd(packed,1) write(100,..zXZ) write(100,Z) "
		  "lseek(100,0,0) access(/usr/bin/xz,1) access(/bin/xz,1) "
		  "access(/usr/local/bin/xz,1) pipe(1) " FILES "spawn(/usr/local/bin/xz: xz "
		  "-dc --memlimit-decompress=256MiB PATH=/usr/bin:/bin LC_ALL=C) " FREE OUTPUT
		  "wait(4242,0) close(100) " },
		{ "\x28\xb5\x2f\xfd", -1, "/usr/bin", 0, false,
		  "It is unpacked | memfd(packed,1) write(100,....) write(100,.) "
		  "lseek(100,0,0) access(/usr/bin/zstd,1) pipe(1) " FILES
		  "spawn(/usr/bin/zstd: zstd -dc --memory=256MiB PATH=/usr/bin:/bin "
		  "LC_ALL=C) " FREE OUTPUT "wait(4242,0) close(100) " },
		{ "BZh", -1, "/opt", 0, false,
		  "-22 compressed with bzip2, which is not installed here: unpack it first "
		  "| " HEAD "lseek(100,0,0) access(/usr/bin/bzip2,1) access(/bin/bzip2,1) "
		  "access(/usr/local/bin/bzip2,1) close(100) " },
		{ "BZh", -1, "/usr/bin", ENDED(1), false,
		  "-22 bzip2 cannot unpack it: damaged or cut off | " HEAD
		  "lseek(100,0,0) " TOOL FILES SPAWN FREE OUTPUT "wait(4242,0) close(100) " },
		{ "BZh", -1, "/usr/bin", SIGSEGV, false,
		  "-22 bzip2 cannot unpack it: damaged or cut off | " HEAD
		  "lseek(100,0,0) " TOOL FILES SPAWN FREE OUTPUT "wait(4242,0) close(100) " },
		{ "BZh", -1, "/usr/bin", SIGKILL, true,
		  "-22 unpacked by bzip2 it is larger than 256 MiB | " HEAD
		  "lseek(100,0,0) " TOOL FILES SPAWN FREE "read(101) close(101) kill(4242,1) "
		  "wait(4242,0) close(100) " },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		fake.folder = row[i].folder;
		fake.status = row[i].status;
		fake.endless = row[i].endless;
		unpack(row[i].head, row[i].fd);
		cr_expect_str_eq(told, row[i].want, "row %zu: %s", i, told);
		cr_expect_eq(model.error.kind, told[0] == '-' ? HR_ERROR_USAGE : HR_ERROR_NONE);
	}
}

static void expect(size_t i, const char *want)
{
	cr_expect_str_eq(told, want, "call %zu: %s", i + 1, told);
}

Test(topo_unpack_calls, after_a_call_that_fails_nothing_is_left)
{
	static const char *const want[] = {
		"-24  | memfd(packed,1) ! ",
		"-28  | memfd(packed,1) write(100,BZh) ! close(100) ",
		"-28  | " HEAD "! close(100) ",
		"-5  | " HEAD "read(50) ! close(100) ",
		"-28  | " HEAD "read(50) write(100,ccc) ! close(100) ",
		"-28  | " HEAD "read(50) write(100,ccc) write(100,c) ! close(100) ",
		"-5  | " HEAD "read(50) write(100,ccc) write(100,c) read(50) ! close(100) ",
		"-28  | " HEAD "read(50) write(100,ccc) write(100,c) read(50) write(100,b) "
		"! close(100) ",
		"-5  | " HEAD REST "! close(100) ",
		"-29  | " HEAD REST "lseek(100,0,0) ! close(100) ",
		"-24  | " HEAD REST "lseek(100,0,0) " TOOL "! close(100) ",
		"-12  | " HEAD REST "lseek(100,0,0) " TOOL "actions ! close(102) close(101) "
		"close(100) ",
		"-9  | " HEAD REST "lseek(100,0,0) " TOOL "actions attributes mask(0) "
		"default(10) flags(1) dup(100,0) ! " FREE "close(101) close(100) ",
		"-9  | " HEAD REST "lseek(100,0,0) " TOOL "actions attributes mask(0) "
		"default(10) flags(1) dup(100,0) dup(102,1) ! " FREE "close(101) "
		"close(100) ",
		"-12  | " HEAD REST "lseek(100,0,0) " TOOL FILES "! " FREE "close(101) "
		"close(100) ",
		"-8  | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN "! " FREE "close(101) "
		"close(100) ",
		"-5  | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN FREE "read(101) ! "
		"close(101) kill(4242,1) wait(4242,0) close(100) ",
		"-5  | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN FREE "read(101) "
		"read(101) ! close(101) kill(4242,1) wait(4242,0) close(100) ",
		"-5  | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN FREE "read(101) "
		"read(101) read(101) ! close(101) kill(4242,1) wait(4242,0) close(100) ",
		"-10  | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN FREE OUTPUT
		"wait(4242,0) ! close(100) ",
	};

	fake.folder = "/usr/bin";
	for (unsigned i = 0; i < ROWS(want); i++) {
		fake.fail = i + 1;
		unpack("BZh", INPUT);
		expect(i, want[i]);
	}
}

/* Only calls that a signal may interrupt: writes, reads and the wait. */
Test(topo_unpack_calls, an_interrupted_call_is_made_again)
{
	static const struct {
		unsigned call;
		const char *want;
	} row[] = {
		{ 2, "It is unpacked | memfd(packed,1) write(100,BZh) ! write(100,BZh) "
		     "write(100,h) " REST "lseek(100,0,0) " TOOL FILES SPAWN FREE OUTPUT
		     "wait(4242,0) close(100) " },
		{ 4, "It is unpacked | " HEAD "read(50) ! " REST
		     "lseek(100,0,0) " TOOL FILES SPAWN FREE OUTPUT "wait(4242,0) close(100) " },
		{ 17, "It is unpacked | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN FREE
		      "read(101) ! " OUTPUT "wait(4242,0) close(100) " },
		{ 20, "It is unpacked | " HEAD REST "lseek(100,0,0) " TOOL FILES SPAWN FREE OUTPUT
		      "wait(4242,0) ! wait(4242,0) "
		      "close(100) " },
	};

	fake.folder = "/usr/bin";
	for (size_t i = 0; i < ROWS(row); i++) {
		fake.interrupted = row[i].call;
		unpack("BZh", INPUT);
		expect(row[i].call - 1, row[i].want);
	}
}
