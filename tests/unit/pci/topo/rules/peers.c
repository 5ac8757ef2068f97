/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs, SSDs and network cards against each other, and links other than PCI Express. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pci/topo/lspci/lspci.h"
#include "pci/topo/fields.h"
#include "pci/topo/rules/peers.h"
#include "pci/topo/source/source.h"
#include "tests/harness/machine.h"

#define ALL_KINDS 7u

static struct hr_model model, other;
static struct hr_topology topology;
static struct hr_endpoints peers;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	cr_assert_eq(hr_model_init(&other), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
	hr_model_fini(&other);
}

TestSuite(topo_peers, .init = set_up, .fini = tear_down, .timeout = 60);

/* Order of peers: GPU0 03, GPU1 06, NVME0 04, NVME1 09, NIC0 07, NIC1 09:00.1 */
enum { GPU0, GPU1, NVME0, NVME1, NIC0, NIC1 };

static void expect(uint32_t i, uint32_t j, enum hr_verdict verdict, const char *distance)
{
	struct hr_endpoint_pair p, q;
	char text[16], name[48];

	hr_endpoints_evaluate(&peers, i, j, &p);
	hr_endpoints_evaluate(&peers, j, i, &q);
	cr_expect_eq(p.has_verdict, verdict != HR_VERDICTS, "%u and %u", i, j);
	if (p.has_verdict) {
		cr_expect_eq(p.verdict, verdict, "%u and %u: %s", i, j,
			     hr_verdict_text(p.verdict, p.rule, name));
		cr_expect_eq(q.verdict, p.verdict, "%u and %u the other way round", i, j);
	}
	cr_expect_str_eq(hr_endpoint_distance(&peers, &p, text), distance, "%u and %u: %s", i, j,
			 text);
	cr_expect_str_eq(hr_endpoint_distance(&peers, &q, text), distance);
}

/* ---- links */

static void load(const char *text)
{
	hr_model_reset(&model);
	cr_assert_eq(hr_source_parse(&model, "x", text, strlen(text)), 0, "%s", model.error.text);
}

static unsigned links(uint64_t a, uint64_t b, bool *through)
{
	enum hr_fabric fabric;

	return hr_gpu_links(&model, a, b, &fabric, through);
}

Test(topo_peers, links_are_counted_directly_or_through_switches)
{
	static const char text[] =
		"01:00.0 3D controller [0302]: A [10de:2330]\n"
		"\theadrace: nvlink=0000:02:00.0,4\n\theadrace: nvlink=switch,12\n\n"
		"02:00.0 3D controller [0302]: B [10de:2330]\n"
		"\theadrace: nvlink=0000:c7:00.0,2,switch\n"
		"\theadrace: nvlink=0000:c8:00.0,4,switch\n\n"
		"03:00.0 3D controller [0302]: C [10de:2330]\n\theadrace: nvlink=switch,18\n\n"
		"04:00.0 3D controller [0302]: D [10de:2330]\n";
	bool through;

	load(text);
	cr_expect_eq(links(0x100, 0x200, &through), 4u);
	cr_expect(!through);
	cr_expect_eq(links(0x200, 0x100, &through), 4u);
	cr_expect_eq(links(0x100, 0x300, &through), 12u);
	cr_expect(through);
	cr_expect_eq(links(0x300, 0x200, &through), 6u);
	cr_expect_eq(links(0x300, 0x400, &through), 0u);
	cr_expect(!through);
}

Test(topo_peers, a_malformed_link_is_refused)
{
	static const char *const bad[] = { "0000:02:00.0",	    "0000:02:00.0,0", "nowhere,4",
					   "0000:02:00.0,4,bridge", "switch,99999",   ",4" };
	char text[160];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(text, sizeof text, "01:00.0 x\n\theadrace: nvlink=%s\n", bad[i]);
		hr_model_reset(&model);
		cr_expect_eq(hr_source_parse(&model, "x", text, strlen(text)), -EINVAL, "%s",
			     bad[i]);
	}
}

static void put(const char *root, const char *path, const char *text)
{
	char full[512];
	FILE *out;

	snprintf(full, sizeof full, "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	out = fopen(full, "w");
	cr_assert_not_null(out, "%s", full);
	fputs(text, out);
	fclose(out);
}

#define DEVICES "sys/bus/pci/devices/0000:"
#define NODES "sys/devices/virtual/kfd/kfd/topology/nodes/"

Test(topo_peers, sysfs_gives_names_cpus_and_amd_links)
{
	char root[] = "/tmp/topo_peers.XXXXXX", remove[64];
	int fd;

	cr_assert_not_null(mkdtemp(root));
	put(root, DEVICES "03:00.0/class", "0x120000\n");
	put(root, DEVICES "03:00.0/vendor", "0x1002\n");
	put(root, DEVICES "03:00.0/local_cpulist", "0-63,128-191\n");
	put(root, DEVICES "26:00.0/class", "0x120000\n");
	put(root, DEVICES "26:00.0/vendor", "0x1002\n");
	put(root, DEVICES "41:00.0/class", "0x010802\n");
	put(root, DEVICES "41:00.0/nvme/nvme3/nvme3n1/size", "1\n");
	put(root, DEVICES "41:00.0/nvme/nvme3/nvme5c3n2/size", "1\n");
	put(root, DEVICES "41:00.0/nvme/nvme3/hwmon3/name", "nvme\n");
	put(root, DEVICES "42:00.0/class", "0x010802\n");
	put(root, DEVICES "42:00.0/nvme/nvme4/model", "x\n");
	put(root, DEVICES "43:00.0/class", "0x020000\n");
	put(root, DEVICES "43:00.0/infiniband/mlx5_0/node_guid", "0\n");
	put(root, DEVICES "43:00.0/net/ens1/mtu", "9000\n");
	put(root, NODES "0/properties", "cpu_cores_count 64\nlocation_id 0\ndomain 0\n");
	put(root, NODES "1/properties", "simd_count 1216\nlocation_id 768\ndomain 0\n");
	put(root, NODES "1/io_links/0/properties", "type 2\nnode_from 1\nnode_to 0\n");
	put(root, NODES "1/io_links/1/properties", "type 11\nnode_from 1\nnode_to 2\n");
	put(root, NODES "2/properties", "simd_count 1216\nlocation_id 9728\ndomain 0\n");
	put(root, NODES "2/io_links/0/properties", "type 11\nnode_from 2\nnode_to 77\n");
	cr_assert_eq(hr_source_open(&model, root), 0, "%s", model.error.text);
	snprintf(remove, sizeof remove, "rm -rf %s", root);
	cr_expect_eq(system(remove), 0);
	cr_assert_eq(model.count, 5u);
	cr_expect_str_eq(model.fn[0].cpus, "0-63,128-191");
	cr_expect(strcmp(model.fn[2].devices, "nvme3n1 nvme5n2") == 0 ||
			  strcmp(model.fn[2].devices, "nvme5n2 nvme3n1") == 0,
		  "%s", model.fn[2].devices);
	cr_expect_str_eq(model.fn[3].devices, "nvme4");
	cr_expect_str_eq(model.fn[4].devices, "mlx5_0 ens1");
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_topo_options){ 0 }), 0);
	cr_assert_eq(hr_endpoints_init(&peers, &topology, &model, ALL_KINDS), 0);
	expect(0, 1, HR_UNKNOWN, "XGMI1");
	/* A capture contains all links. */
	fd = memfd_create("capture", 0);
	cr_assert_eq(hr_capture_write(&model, fd), 0);
	snprintf(remove, sizeof remove, "/proc/self/fd/%d", fd);
	lseek(fd, 0, SEEK_SET);
	cr_assert_eq(hr_source_open(&other, remove), 0, "%s", other.error.text);
	cr_expect_str_eq(other.fn[0].cpus, model.fn[0].cpus);
	cr_expect_str_eq(other.fn[2].devices, model.fn[2].devices);
	cr_expect_eq(other.gpu_links, 1u);
	close(fd);
}

Test(topo_peers, a_list_of_kinds_is_read_or_refused)
{
	cr_expect_eq(hr_endpoint_kinds("gpu,nvme,nic"), 7u);
	cr_expect_eq(hr_endpoint_kinds("nic"), 1u << HR_ENDPOINT_NIC);
	cr_expect_eq(hr_endpoint_kinds(""), 0u);
	cr_expect_eq(hr_endpoint_kinds("gpu,"), 0u);
	cr_expect_eq(hr_endpoint_kinds("gpu,tpu"), 0u);
}

/* ---- all of each pair */
