/* What `headrace boot` is made of, as far as it needs no machine of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/engine/names.h"
#include "config/clock.h"
#include "boot/appliance/init.h"
#include "boot/appliance/modules.h"
#include "boot/appliance/notify.h"
#include "boot/appliance/status.h"
#include "nvme/hostmem.h"
#include "tests/fakes/log.h"

static char folder[64];

static void set_up(void)
{
	snprintf(folder, sizeof folder, "/tmp/headrace-boot-XXXXXX");
	cr_assert(mkdtemp(folder));
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(boot, .init = set_up, .fini = tear_down, .timeout = 60);

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "we");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

/* ---- kernel command line */

Test(boot, options_of_the_kernel_command_line)
{
	static const struct {
		const char *cmdline, *value; /* NULL: none */
	} row[] = {
		{ "quiet headrace.config=/a.conf rw\n", "/a.conf" },
		{ "headrace.config=/a.conf headrace.config=/b.conf", "/b.conf" },
		{ "headrace.config=\n", NULL },
		{ "headrace.configs=/a.conf xheadrace.config=/a.conf", NULL },
		{ "headrace.config", NULL },
		{ "", NULL },
		{ "headrace.config=/0123456789abcdef", NULL }, /* does not fit */
	};
	char value[16];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *got =
			hr_init_option(row[i].cmdline, "headrace.config", value, sizeof value);

		if (row[i].value)
			cr_expect(got && strcmp(got, row[i].value) == 0, "row %zu: %s", i,
				  got ? got : "none");
		else
			cr_expect_null(got, "row %zu", i);
	}
}

/* ---- modules */

static int collect(void *to, const char *file)
{
	strcat(to, file);
	strcat(to, ";");
	return 0;
}

static int refuse(void *to, const char *file)
{
	++*(int *)to;
	return -EPERM;
}

static const char modules_dep[] =
	"kernel/drivers/vfio/vfio.ko.xz:\n"
	"kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/a/vfio-pci-core.ko kernel/b/vfio.ko\n"
	"kernel/drivers/nvme/host/nvme.ko: kernel/drivers/nvme/host/nvme-core.ko\n";

Test(boot, what_a_module_needs_comes_first)
{
	char files[256] = "";

	write_file("modules.dep", modules_dep);
	cr_assert_eq(hr_module_files(folder, "vfio_pci", collect, files), 0);
	cr_expect_str_eq(files, "kernel/b/vfio.ko;kernel/a/vfio-pci-core.ko;"
				"kernel/drivers/vfio/pci/vfio-pci.ko.xz;");
	*files = '\0';
	cr_assert_eq(hr_module_files(folder, "vfio", collect, files), 0);
	cr_expect_str_eq(files, "kernel/drivers/vfio/vfio.ko.xz;");
}

Test(boot, a_module_that_depmod_does_not_know_is_not_found)
{
	char files[256] = "";

	write_file("modules.dep", modules_dep);
	cr_expect_eq(hr_module_files(folder, "vfi", collect, files), -ENOENT);
	cr_expect_eq(hr_module_files(folder, "nvme-cor", collect, files), -ENOENT);
	cr_expect_str_eq(files, "");
	cr_expect_eq(hr_module_load(folder, "absent", ""), -ENOENT);
	cr_expect(strstr(fake_log_last(), "module absent: not in"), "%s", fake_log_last());
}

Test(boot, a_module_of_the_kernel_itself_is_there_already)
{
	write_file("modules.dep", modules_dep);
	write_file("modules.builtin", "kernel/fs/ext4/ext4.ko\n");
	cr_expect_eq(hr_module_load(folder, "ext4", ""), 0);
}

Test(boot, a_walk_that_is_refused_ends_there)
{
	int calls = 0;

	write_file("modules.dep", modules_dep);
	cr_expect_eq(hr_module_files(folder, "vfio-pci", refuse, &calls), -EPERM);
	cr_expect_eq(calls, 1);
}

Test(boot, a_file_that_depmod_has_not_written)
{
	char files[64] = "";

	cr_expect_eq(hr_module_files(folder, "vfio", collect, files), -ENOENT);
	write_file("modules.dep", "no colon here\n");
	cr_expect_eq(hr_module_files(folder, "vfio", collect, files), -EINVAL);
	cr_expect_eq(hr_module_load(folder, "vfio", ""), -EINVAL);
	cr_expect(strstr(fake_log_last(), "'FILE: FILES'"), "%s", fake_log_last());
}

Test(boot, a_module_file_that_is_missing_is_named)
{
	write_file("modules.dep", "nowhere/x.ko:\n");
	cr_expect_eq(hr_module_load(folder, "x", ""), -ENOENT);
	cr_expect(strstr(fake_log_last(), "nowhere/x.ko: No such file"), "%s", fake_log_last());
	cr_expect_eq(hr_module_load(folder, "/nowhere/y.ko", ""), -ENOENT);
	cr_expect(strstr(fake_log_last(), "module /nowhere/y.ko"), "%s", fake_log_last());
}

/* A folder is no module: the kernel says so in its way, and modules.dep is not to blame. */
Test(boot, a_module_that_the_kernel_refuses_is_the_kernels_error)
{
	char path[96];

	write_file("modules.dep", "x.ko:\n");
	snprintf(path, sizeof path, "%s/x.ko", folder);
	cr_assert_eq(mkdir(path, 0755), 0);
	cr_expect_lt(hr_module_load(folder, "x", ""), 0);
	cr_expect(strstr(fake_log_last(), "x.ko: "), "%s", fake_log_last());
	rmdir(path);
}

static int not_there(void *to, const char *file)
{
	++*(unsigned *)to;
	return -ENOENT;
}

Test(boot, a_walk_ends_where_it_is_told_to)
{
	unsigned calls = 0;

	write_file("modules.dep", "a/x.ko: a/y.ko\nb/x.ko:\n");
	cr_expect_eq(hr_module_files(folder, "x", not_there, &calls), -ENOENT);
	cr_expect_eq(calls, 1);
}

/* ---- service manager */

static int manager(char *path, size_t bytes)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	snprintf(path, bytes, "%s/notify", folder);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", folder);
	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
	return fd;
}

static const char *heard(int fd)
{
	static char text[256];
	ssize_t n = recv(fd, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

Test(boot, a_service_manager_is_told)
{
	char path[128], pid[16];
	int fd = manager(path, sizeof path);
	struct hr_notify notify;

	snprintf(pid, sizeof pid, "%d", getpid());
	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	hr_notify_open(&notify);
	cr_expect_null(getenv("NOTIFY_SOCKET"));
	cr_expect_eq(notify.keepalive_ns, HR_NS_PER_S);
	hr_notify_send(&notify, "READY=1\nSTATUS=%s", "running");
	cr_expect_str_eq(heard(fd), "READY=1\nSTATUS=running");
	hr_notify_alive(&notify, 5 * HR_NS_PER_S);
	cr_expect_str_eq(heard(fd), "WATCHDOG=1");
	hr_notify_alive(&notify, 5 * HR_NS_PER_S + 1);
	cr_expect_str_eq(heard(fd), "", "it is not due yet");
	hr_notify_alive(&notify, 6 * HR_NS_PER_S);
	cr_expect_str_eq(heard(fd), "WATCHDOG=1");
	hr_notify_close(&notify);
	close(fd);
}

Test(boot, the_watchdog_of_another_process_is_not_ours)
{
	char path[128];
	int fd = manager(path, sizeof path);
	struct hr_notify notify;

	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	hr_notify_open(&notify);
	cr_expect_eq(notify.keepalive_ns, 0u);
	hr_notify_close(&notify);
	close(fd);
}

/* What a manager may put into WATCHDOG_USEC, for any process. */
Test(boot, a_keepalive_is_half_of_the_watchdog_or_none)
{
	static const struct {
		const char *usec; /* NULL: unset */
		uint64_t want;
	} row[] = { { NULL, 0 },
		    { "", 0 },
		    { "0", 0 },
		    { "2", 1000 },
		    { "3", 1500 },
		    { "2s", 0 },
		    { "18446744073709551", 18446744073709551000ull / 2 },
		    { "18446744073709552", 0 } };
	char path[128];
	int fd = manager(path, sizeof path);

	unsetenv("WATCHDOG_PID");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_notify notify;

		setenv("NOTIFY_SOCKET", path, 1);
		unsetenv("WATCHDOG_USEC");
		if (row[i].usec)
			setenv("WATCHDOG_USEC", row[i].usec, 1);
		hr_notify_open(&notify);
		cr_expect_eq(notify.keepalive_ns, row[i].want, "row %zu", i);
		hr_notify_close(&notify);
	}
	close(fd);
}

Test(boot, without_a_manager_nothing_is_sent)
{
	struct hr_notify notify;

	unsetenv("NOTIFY_SOCKET");
	hr_notify_open(&notify);
	cr_expect_eq(notify.fd, -1);
	hr_notify_send(&notify, "READY=1");
	setenv("NOTIFY_SOCKET", "relative/path", 1);
	hr_notify_open(&notify);
	cr_expect_eq(notify.fd, -1);
	cr_expect(strstr(fake_log_last(), "no socket address"), "%s", fake_log_last());
}

/* ---- status */

static struct hr_appliance app;
static struct hr_status status;

static void prepare_app(void)
{
	cr_assert_eq(hr_config_parse(&app.config, &hr_names, "test.conf", hr_config_default,
				     hr_config_default_bytes, NULL, NULL),
		     0);
	cr_assert_eq(hr_appliance_init(&app, NULL), 0);
	snprintf(app.config.name, sizeof app.config.name, "box");
	status.app = &app;
	status.fd = -1;
	status.phase = HR_PHASE_RUNNING;
}

Test(boot, the_status_is_one_json_document)
{
	struct json_object *document, *pipelines;
	static char text[HR_STATUS_MAX];
	size_t length;

	prepare_app();
	snprintf(app.config.name, sizeof app.config.name, "a \"quoted\" \\ name");
	app.run[0].outcome = HR_RUN_DONE;
	app.run[0].tiles = app.run[0].through_tiles = 7;
	app.run[0].started_ns = 1;
	app.run[0].ended_ns = 1 + HR_NS_PER_S / 2;
	app.run[0].read_bytes = 1000;
	app.run[1].outcome = HR_RUN_FAILED;
	app.run[1].selected = false;
	app.run[1].error = 0x281;
	hr_record_take(&status.record, &app);
	length = hr_status_format(&status, hr_now_ns(), text, sizeof text);
	cr_assert_eq(length, strlen(text));
	document = json_tokener_parse(text);
	cr_assert(document, "%s", text);
	cr_expect_str_eq(json_object_get_string(json_object_object_get(document, "appliance")),
			 "a \"quoted\" \\ name");
	pipelines = json_object_object_get(document, "pipelines");
	cr_assert_eq(json_object_array_length(pipelines), 2u);
	cr_expect_eq(json_object_get_uint64(json_object_object_get(
			     json_object_array_get_idx(pipelines, 0), "tiles_done")),
		     7u);
	cr_expect_eq(json_object_get_uint64(json_object_object_get(
			     json_object_array_get_idx(pipelines, 0), "read_bytes_per_s")),
		     2000u);
	/* Also of one that does not run any more. */
	cr_expect_str_eq(json_object_get_string(json_object_object_get(
				 json_object_array_get_idx(pipelines, 1), "error")),
			 "Unrecovered Read Error");
	json_object_put(document);
}

Test(boot, a_document_that_does_not_fit_is_cut_within_its_buffer)
{
	char text[64];
	size_t length;

	prepare_app();
	memset(text, 0x7f, sizeof text);
	hr_record_take(&status.record, &app);
	length = hr_status_format(&status, hr_now_ns(), text, sizeof text);
	cr_expect_lt(length, sizeof text);
	cr_expect_eq(text[length], '\0');
}

static const char *read_status(void)
{
	static char text[HR_STATUS_MAX + 1];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ssize_t n;
	size_t got = 0;

	cr_assert_eq(connect(fd, (const struct sockaddr *)&status.at, sizeof status.at), 0);
	hr_status_tick(&status, hr_now_ns());
	while ((n = read(fd, text + got, sizeof text - 1 - got)) > 0)
		got += (size_t)n;
	text[got] = '\0';
	close(fd);
	return text;
}

Test(boot, whoever_connects_is_told_and_a_second_of_that_name_is_not_heard)
{
	static struct hr_status second;

	setenv("RUNTIME_DIRECTORY", folder, 1);
	prepare_app();
	cr_assert_eq(hr_status_open(&status, &app), 0);
	cr_expect(strstr(read_status(), "\"appliance\": \"box\""));
	cr_expect_eq(hr_status_open(&second, &app), -EADDRINUSE);
	cr_expect(strstr(fake_log_last(), "runs already"), "%s", fake_log_last());
	hr_status_close(&status);
	cr_expect_eq(hr_status_open(&second, &app), 0);
	hr_status_close(&second);
}

Test(boot, the_socket_of_a_dead_process_is_taken_over)
{
	setenv("RUNTIME_DIRECTORY", folder, 1);
	prepare_app();
	cr_assert_eq(hr_status_open(&status, &app), 0);
	close(status.fd); /* as if killed: the file stays */
	cr_assert_eq(hr_status_open(&status, &app), 0);
	cr_expect(strstr(read_status(), "schema"));
	hr_status_close(&status);
}

Test(boot, a_directory_that_others_may_write_to_is_not_used)
{
	char want[256], reason[256];

	setenv("RUNTIME_DIRECTORY", folder, 1);
	cr_assert_eq(chmod(folder, 0777), 0);
	prepare_app();
	cr_expect_eq(hr_status_open(&status, &app), -EPERM);
	cr_expect_eq(status.fd, -1);
	snprintf(want, sizeof want,
		 "RUNTIME_DIRECTORY %s: others may write to it: mode 0777, expected 0755", folder);
	cr_expect_str_eq(hr_status_reason(-EPERM, reason, sizeof reason), want, "%s", reason);
	strcat(want, "; 'headrace status' cannot ask appliance 'box'");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), want, "%s", fake_log_last());
	hr_status_tick(&status, 0);
	hr_status_close(&status);
}

/* Each is a warning with the reason, and `headrace status` says the same. */
Test(boot, a_directory_that_cannot_be_used_is_a_warning)
{
	const unsigned warnings = fake_log_count_of(HR_LOG_WARN);
	char file[128], reason[256];

	prepare_app();
	setenv("RUNTIME_DIRECTORY", "/nowhere/at/all", 1);
	cr_expect_eq(hr_status_open(&status, &app), -ENOENT);
	cr_expect(strstr(fake_log_last(),
			 "RUNTIME_DIRECTORY /nowhere/at/all: No such file or directory; 'headrace "
			 "status' cannot ask"),
		  "%s", fake_log_last());
	write_file("file", "");
	snprintf(file, sizeof file, "%s/file", folder);
	setenv("RUNTIME_DIRECTORY", file, 1);
	cr_expect_eq(hr_status_open(&status, &app), -ENOTDIR);
	cr_expect(strstr(fake_log_last(), "file: Not a directory"), "%s", fake_log_last());
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings + 2);
	cr_expect(strstr(hr_status_reason(-ENAMETOOLONG, reason, sizeof reason),
			 "too long for a socket"),
		  "%s", reason);
	cr_expect(strstr(hr_status_reason(-ENOKEY, reason, sizeof reason),
			 "neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set"),
		  "%s", reason);
}

Test(boot, where_the_status_is_and_what_cannot_hold_it)
{
	char path[128], file[128], longest[200];

	setenv("RUNTIME_DIRECTORY", folder, 1);
	cr_expect_eq(hr_status_directory(path, sizeof path, false), 0);
	cr_expect_str_eq(path, folder);
	setenv("RUNTIME_DIRECTORY", "/nowhere/at/all", 1);
	cr_expect_eq(hr_status_directory(path, sizeof path, false), -ENOENT);
	cr_expect_eq(hr_status_directory(path, sizeof path, true), -ENOENT);
	write_file("file", "");
	snprintf(file, sizeof file, "%s/file", folder);
	setenv("RUNTIME_DIRECTORY", file, 1);
	cr_expect_eq(hr_status_directory(path, sizeof path, true), -ENOTDIR);
	memset(longest, '/', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	setenv("RUNTIME_DIRECTORY", longest, 1);
	cr_expect_eq(hr_status_directory(path, sizeof path, false), -ENAMETOOLONG);
	/* Of several the first; a folder of ours is made in it. */
	snprintf(file, sizeof file, "%s/made:/nowhere", folder);
	setenv("RUNTIME_DIRECTORY", file, 1);
	cr_expect_eq(hr_status_directory(path, sizeof path, true), 0);
	cr_expect_eq(hr_status_directory(path, sizeof path, true), 0);
}

static int directory_of_others(void)
{
	char path[128];

	if (setuid(65534))
		return 1;
	setenv("RUNTIME_DIRECTORY", folder, 1);
	if (hr_status_directory(path, sizeof path, false) != -EPERM)
		return 2;
	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("XDG_RUNTIME_DIR");
	if (hr_status_directory(path, sizeof path, false) != -ENOKEY)
		return 3;
	setenv("XDG_RUNTIME_DIR", folder, 1);
	return hr_status_directory(path, sizeof path, false) == -ENOENT && strstr(path, "/headrace")
		       ? 0
		       : 4;
}

Test(boot, a_status_directory_of_somebody_else_is_not_used)
{
	int result;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("not root: everything is of somebody else");
	cr_assert_eq(chmod(folder, 0755), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0)
		_exit(directory_of_others());
	cr_assert_eq(waitpid(pid, &result, 0), pid);
	cr_expect_eq(result, 0);
}

Test(boot, a_socket_path_that_is_too_long_is_none)
{
	char directory[128];

	snprintf(directory, sizeof directory, "%s/a-folder-with-a-long-name", folder);
	setenv("RUNTIME_DIRECTORY", directory, 1);
	prepare_app();
	memset(app.config.name, 'n', sizeof app.config.name - 1);
	cr_expect_eq(hr_status_open(&status, &app), -ENAMETOOLONG);
	cr_expect_eq(status.fd, -1);
}

Test(boot, an_appliance_has_the_pipelines_that_its_configuration_has)
{
	struct hr_region memory;

	prepare_app();
	cr_expect_eq(hr_appliance_init(&app, "no-such"), -ENOENT);
	cr_expect(strstr(fake_log_last(), "there is no pipeline 'no-such'"), "%s", fake_log_last());
	cr_expect_eq(hr_appliance_init(&app, app.config.pipeline[1].name), 0);
	cr_expect(app.run[1].selected && !app.run[0].selected);
	/* What is in use has the other kind of addresses. */
	cr_assert_eq(hr_hostmem_alloc(&memory, "m", HR_PAGE), 0);
	strcpy(app.config.ssd[0].device, "pci:0000:01:00.0");
	cr_expect_eq(hr_appliance_init(&app, NULL), -EBUSY);
	hr_hostmem_free(&memory);
	cr_expect_eq(hr_appliance_init(&app, NULL), 0);
}
