/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live reader and the register writes of a fix, through libpciaccess, on a machine made of
 * files: in a mount namespace, /sys/bus/pci/devices is a folder written by this test.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pci/machine.h"
#include "pci/path.h"
#include "pci/topo/forecast/change.h"
#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"
#include "tests/fakes/pci_names.h"
#include "tests/harness/machine.h"

#define SKIPPED 77

TestSuite(topo_live, .timeout = 60);

static struct fake_machine machine;
static struct hr_model model;
static struct hr_topology topology;

static void write_file(const char *folder, const char *name, const void *bytes, size_t size)
{
	char path[512];
	int fd;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		_exit(2);
	close(fd);
}

static void write_number(const char *folder, const char *name, uint32_t value)
{
	char text[32];

	write_file(folder, name, text, (size_t)snprintf(text, sizeof text, "0x%04x\n", value));
}

static void write_device(const char *root, const struct fake_fn *f)
{
	static const char *const more[] = { "subsystem_vendor", "subsystem_device", "irq",
					    "enable" };
	static const char none[] = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
	char folder[256], resource[sizeof none * 7] = "";

	snprintf(folder, sizeof folder, "%s/0000:%s", root, f->address);
	if (mkdir(folder, 0755))
		_exit(2);
	write_file(folder, "config", f->config, sizeof f->config);
	write_number(folder, "vendor", fake_get(f, HR_CFG_VENDOR, 2));
	write_number(folder, "device", fake_get(f, HR_CFG_DEVICE, 2));
	write_number(folder, "class", fake_get(f, HR_CFG_CLASS, 3));
	write_number(folder, "revision", 0);
	for (unsigned i = 0; i < 4; i++)
		write_number(folder, more[i], 0);
	for (unsigned i = 0; i < 7; i++)
		strcat(resource, none);
	write_file(folder, "resource", resource, strlen(resource));
}

/* In the child: enter a mount namespace whose PCI devices are those of the fake machine. */
static void enter(const char *root)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		_exit(SKIPPED);
	for (unsigned i = 0; i < machine.count; i++)
		write_device(root, &machine.fn[i]);
	if (mount(root, "/sys/bus/pci/devices", NULL, MS_BIND, NULL))
		_exit(SKIPPED);
}

static int read_live(void)
{
	struct hr_topo_options opt = { 0 };

	hr_model_reset(&model);
	if (hr_source_live(&model))
		return -1;
	/* The machine of the test may be virtual; the fake machine is not. */
	model.sys.hypervisor.source = HR_SRC_NONE;
	model.sys.amd.source = HR_SRC_NONE;
	return hr_topology_init(&topology, &model, &opt);
}

/* Returns 0, or the number of the failed step. */
static int fix_and_read_back(void)
{
	int32_t gpu, ssd;
	unsigned failed;
	struct hr_fix fix;
	struct hr_pair p;

	if (hr_model_init(&model) || read_live() || model.count != machine.count)
		return 10;
	gpu = hr_model_find(&model, 0, 3, 0, 0);
	ssd = hr_model_find(&model, 0, 4, 0, 0);
	hr_pair_evaluate(&topology, gpu, ssd, &p);
	if (p.verdict != HR_REDIR_UNLISTED)
		return 11;
	if (hr_fix_plan(&topology, NULL, NULL, &fix) || fix.count != 2)
		return 12;
	if (hr_fix_write_all(&model, &fix, &failed))
		return 13;
	if (fix.write[0].before != 0x1d || fix.write[0].after != (HR_ACS_SV | HR_ACS_UF))
		return 14;
	if (read_live())
		return 15;
	hr_pair_evaluate(&topology, gpu, ssd, &p);
	return p.verdict == HR_DIRECT ? 0 : 16;
}

/*
 * The choice of the path at bring-up reads the machine again, and evaluates the pair like `headrace
 * topo`.
 */
static int choose(void)
{
	struct hr_path_choice choice = { 0 }, same = { 0 };
	struct hr_topo_options opt = { 0 };

	if (hr_model_init(&model) || hr_source_live(&model) ||
	    hr_topology_init(&topology, &model, &opt))
		return 10;
	for (uint32_t ssd = 4; ssd <= 5; ssd++) {
		char address[16];

		snprintf(address, sizeof address, "%02x:00.0", ssd);
		hr_path_evaluate(&topology, hr_model_find(&model, 0, 3, 0, 0),
				 hr_model_find(&model, 0, ssd, 0, 0), &same);
		if (hr_path_choose("0000:03:00.0", address, opt.mode, &choice))
			return 11;
		if (choice.direct != same.direct || choice.verdict != same.verdict ||
		    strcmp(choice.rule, same.rule) || strcmp(choice.why, same.why))
			return 12;
	}
	if (hr_path_choose("0000:03:00.1", "04:00.0", HR_MODE_GPU, &choice) != -ENOENT)
		return 13;
	if (hr_path_choose("0000:03:00.0", "04:01.0", HR_MODE_GPU, &choice) != -ENOENT)
		return 14;
	if (hr_path_choose("0000:03:00.0", "nonsense", HR_MODE_GPU, &choice) != -EINVAL)
		return 15;
	return hr_path_choose("0000:03:00.0x", "04:00.0", HR_MODE_GPU, &choice) == -EINVAL ? 0 : 16;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

/* Run `inside` in a child whose PCI devices are those of the fake machine. */
static void run_inside(int (*inside)(void))
{
	char path[] = "/tmp/topo_live.XXXXXX";
	int status;
	pid_t pid;

	cr_assert_not_null(mkdtemp(path));
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		enter(path);
		_exit(inside());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		cr_skip_test("no right to make a mount namespace and to mount in it");
	cr_expect_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
}

Test(topo_live, a_fix_through_libpciaccess_turns_a_redirected_pair_direct)
{
	fake_two_ports(&machine);
	fake_put(fake_find(&machine, "02:00.0"), FAKE_ACS + HR_ACS_CTL, 2, 0x1d);
	fake_put(fake_find(&machine, "02:01.0"), FAKE_ACS + HR_ACS_CTL, 2, 0x1d);
	run_inside(fix_and_read_back);
}

Test(topo_live, bring_up_chooses_by_the_verdict_of_this_machine)
{
	fake_two_ports(&machine);
	run_inside(choose);
}

Test(topo_live, this_machine_can_be_read)
{
	int err;

	cr_assert_eq(hr_model_init(&model), 0);
	err = hr_source_live(&model);
	cr_expect(err == 0 || err == -ENODEV || err == -ENODATA, "%d: %s", err, model.error.text);
	if (err == 0)
		cr_expect_gt(model.count, 0);
	hr_model_fini(&model);
}
