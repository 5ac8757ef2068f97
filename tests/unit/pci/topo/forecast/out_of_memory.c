/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation from a model fails, one at a time: the reader or the evaluation ends with -ENOMEM
 * and a reason, or goes on without a text that it does not need.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/rules/peers.h"
#include "pci/topo/source/source.h"
#include "tests/harness/archive.h"
#include "tests/harness/machine.h"

static struct hr_model model;
static struct hr_topology topology;
static struct hr_endpoints peers;
static const char *input;
static size_t input_bytes;
static int fd = -1;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_out_of_memory, .init = set_up, .fini = tear_down, .timeout = 60);

static int parse(void)
{
	return hr_source_parse(&model, "x", input, input_bytes);
}

/* The same through a descriptor, whose data the reader copies. */
static int read_file(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return hr_source_open(&model, path);
}

static int evaluate(void)
{
	int err = parse();

	if (!err)
		err = hr_topology_init(&topology, &model, &(struct hr_topo_options){ 0 });
	return err ? err : hr_endpoints_init(&peers, &topology, &model, 7);
}

/* Run with that many bytes for the model. Returns the bytes that it used. */
static size_t run(int (*work)(void), size_t bytes, int *err)
{
	const size_t reserved = model.reserved;

	hr_model_reset(&model);
	model.reserved = bytes;
	*err = work();
	model.reserved = reserved;
	cr_assert_leq(model.used, bytes);
	return model.used;
}

/* The fewest bytes above `bytes` with which the work uses more memory than `used`. */
static size_t next(int (*work)(void), size_t bytes, size_t used, size_t most)
{
	size_t low = bytes, high = most;
	int err;

	while (high - low > 8) {
		const size_t middle = (low + (high - low) / 2) & ~(size_t)7;

		if (run(work, middle, &err) > used)
			high = middle;
		else
			low = middle;
	}
	return high;
}

static void fail_each(int (*work)(void), unsigned at_least)
{
	size_t bytes, used, most;
	unsigned failures = 0;
	int err;

	hr_model_reset(&model);
	bytes = model.used;
	most = (run(work, model.reserved, &err) + 7) & ~(size_t)7;
	cr_assert_eq(err, 0, "%s", model.error.text);
	while (bytes < most) {
		used = run(work, bytes, &err);
		cr_assert(err == 0 || err == -ENOMEM, "%zu of %zu bytes: %d, %s", bytes, most, err,
			  model.error.text);
		failures += err != 0;
		bytes = next(work, bytes, used, most);
	}
	cr_expect_geq(failures, at_least, "%u failures", failures);
}

static void set_input(char *text, size_t bytes)
{
	input = text;
	input_bytes = bytes;
	fd = memfd_create("input", 0);
	cr_assert_eq(write(fd, text, bytes), (ssize_t)bytes);
}

static void forget_input(void)
{
	free((char *)(uintptr_t)input);
	close(fd);
}

Test(topo_out_of_memory, of_a_dump)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	size_t bytes;
	char *text;

	fake_two_ports(m);
	strcat(fake_find(m, "04:00.0")->text, "\tKernel driver in use: nvme\n\tPhysical Slot: 4\n");
	snprintf(m->head, sizeof m->head,
		 "headrace: kernel=6.1\nheadrace: cmdline=quiet\nheadrace: nvidia=570.86.10\n");
	text = fake_render(m, &bytes);
	set_input(text, bytes);
	fail_each(parse, 10);
	fail_each(read_file, 11);
	fail_each(evaluate, 20);
	forget_input();
	free(m);
}

Test(topo_out_of_memory, of_an_archive)
{
	static const char long_name[] = "sys/bus/pci/devices/0000:41:00.0/numa_node";
	const struct fake_member list[] = {
		{ .path = "sys/bus/pci/devices/0000:41:00.0/class", .text = "0x010802\n" },
		{ .path = "x", .type = 'L', .text = long_name },
		{ .path = "short", .text = "1\n" },
		{ .path = "x", .type = 'x', .text = "30 path=sys/class/block/nvme0\n" },
		{ .path = "y", .text = "\n" },
		{ .path = "sys/bus/pci/devices/0000:41:00.0/driver",
		  .link = "../../../bus/pci/drivers/nvme" },
		{ .path = "proc/cmdline", .text = "quiet iommu=pt\n" },
	};
	size_t bytes;
	char *tar = fake_archive(list, sizeof list / sizeof *list, &bytes);

	set_input(tar, bytes);
	fail_each(parse, 6);
	fail_each(read_file, 8);
	forget_input();
}
