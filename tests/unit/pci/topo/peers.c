/* GPUs, SSDs and network cards against each other, and links other than PCI Express. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pci/topo/capture.h"
#include "pci/topo/fields.h"
#include "pci/topo/peers.h"
#include "pci/topo/source.h"
#include "tests/harness/machine.h"

#define ALL_KINDS 7u
#define SECOND_BAR 0x39000000000ull

static struct hr_model model, other;
static struct hr_topology topology;
static struct hr_topo_peers peers;

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

/*
 * fake_two_ports() with a second GPU and a network card below the switch, and a card at the other
 * root port.
 */
static struct fake_machine *machine(void)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	struct fake_fn *f;
	const uint64_t bar = 0x38000000000ull, end = SECOND_BAR + (16ull << 30) - 1;

	fake_two_ports(m);
	fake_windows(fake_find(m, "00:01.0"), 0xe0000000, 0xe2ffffff, bar, end);
	fake_windows(fake_find(m, "01:00.0"), 0xe0000000, 0xe2ffffff, bar, end);
	fake_put(fake_find(m, "00:01.0"), HR_CFG_SUBORDINATE, 1, 8);
	fake_put(fake_find(m, "01:00.0"), HR_CFG_SUBORDINATE, 1, 8);
	fake_put(fake_find(m, "00:02.0"), HR_CFG_SECONDARY, 2, 0x0909);
	strcpy(fake_find(m, "05:00.0")->address, "09:00.0");
	f = fake_bridge(m, "02:02.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 6, 6);
	fake_windows(f, 0xfff00000, 0, SECOND_BAR, end);
	f = fake_bridge(m, "02:03.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 7, 7);
	fake_windows(f, 0xe1000000, 0xe1ffffff, 0xfff00000, 0);
	fake_gpu(m, "06:00.0", SECOND_BAR, 34);
	f = fake_function(m, "07:00.0", 0x020700, 0x15b3, 0x1021, HR_PORT_ENDPOINT);
	fake_put(f, HR_CFG_BAR0, 4, 0xe1000004);
	f = fake_function(m, "09:00.1", 0x020000, 0x15b3, 0x1017, HR_PORT_ENDPOINT);
	fake_put(f, HR_CFG_BAR0, 4, 0xe4800004);
	return m;
}

static void start(const struct fake_machine *m, enum hr_iommu iommu)
{
	struct hr_options opt = { .iommu = iommu };

	cr_assert_eq(fake_load(m, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	cr_assert_eq(hr_peers_init(&peers, &topology, &model, ALL_KINDS), 0);
}

/* Order of peers: GPU0 03, GPU1 06, NVME0 04, NVME1 09, NIC0 07, NIC1 09:00.1 */
enum { GPU0, GPU1, NVME0, NVME1, NIC0, NIC1 };

static void expect(uint32_t i, uint32_t j, enum hr_verdict verdict, const char *distance)
{
	struct hr_peer_pair p, q;
	char text[16], name[48];

	hr_peers_evaluate(&peers, i, j, &p);
	hr_peers_evaluate(&peers, j, i, &q);
	cr_expect_eq(p.has_verdict, verdict != HR_VERDICTS, "%u and %u", i, j);
	if (p.has_verdict) {
		cr_expect_eq(p.verdict, verdict, "%u and %u: %s", i, j,
			     hr_verdict_text(p.verdict, p.rule, name));
		cr_expect_eq(q.verdict, p.verdict, "%u and %u the other way round", i, j);
	}
	cr_expect_str_eq(hr_peer_distance(&peers, &p, text), distance, "%u and %u: %s", i, j, text);
	cr_expect_str_eq(hr_peer_distance(&peers, &q, text), distance);
}

Test(topo_peers, all_kinds_are_found_and_evaluated_behind_one_switch)
{
	struct fake_machine *m = machine();
	struct hr_peer_pair p;

	start(m, HR_IOMMU_OFF);
	cr_assert_eq(peers.count, 6u);
	cr_expect_eq(peers.by_kind[HR_PEER_NIC], 2u);
	expect(GPU0, GPU1, HR_DIRECT, "PIX");
	expect(GPU0, NIC0, HR_DIRECT, "PIX");
	expect(GPU1, NVME0, HR_DIRECT, "PIX");
	expect(GPU0, NIC1, HR_RC_UNLISTED, "PHB");
	expect(NVME0, NIC0, HR_VERDICTS, "PIX");
	expect(NIC0, NIC1, HR_VERDICTS, "PHB");
	hr_peers_evaluate(&peers, NIC0, GPU1, &p);
	cr_expect_eq(p.a.kind, HR_PEER_GPU);
	cr_expect_eq(p.a.number, 1u);
	cr_expect_eq(p.b.kind, HR_PEER_NIC);
	free(m);
}

Test(topo_peers, a_network_card_that_stands_for_an_ssd_or_a_gpu_has_no_number_as_a_card)
{
	struct fake_machine *m = machine();
	int32_t first, second;

	start(m, HR_IOMMU_OFF);
	first = hr_model_find(&model, 0, 7, 0, 0);
	second = hr_model_find(&model, 0, 9, 0, 1);
	cr_expect_eq(hr_peer_nic(&topology, 0), first);
	cr_expect_eq(hr_peer_nic(&topology, 1), second);
	cr_expect_eq(hr_peer_nic(&topology, 2), HR_NO_FN);
	for (unsigned kind = 0; kind < 2; kind++) { /* the first GPU, and the first SSD */
		int32_t *place = kind ? topology.ssd : topology.gpu;
		const int32_t before = *place;

		*place = first;
		cr_expect_eq(hr_peer_nic(&topology, 0), second);
		*place = before;
	}
	topology.ssd[topology.ssds - 1] = first;
	cr_expect_eq(hr_peer_nic(&topology, 0), second);
	cr_expect_eq(hr_peer_nic(&topology, 1), HR_NO_FN);
	topology.gpu[topology.gpus - 1] = second;
	cr_expect_eq(hr_peer_nic(&topology, 0), HR_NO_FN);
	free(m);
}

/* A bit at the port of one GPU redirects one direction, and the pair gets the worse verdict. */
Test(topo_peers, the_worse_direction_counts)
{
	struct fake_machine *m = machine();
	struct hr_peer_pair p;

	fake_put(fake_find(m, "02:02.0"), FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_RR);
	start(m, HR_IOMMU_OFF);
	expect(GPU0, GPU1, HR_REDIR_UNLISTED, "PIX");
	expect(GPU0, NIC0, HR_DIRECT, "PIX");
	fake_put(fake_find(m, "02:02.0"), FAKE_ACS + HR_ACS_CTL, 2, 0);
	/* Without bus mastering GPU1 reaches no peer, but peers reach GPU1. */
	fake_put(fake_find(m, "06:00.0"), HR_CFG_COMMAND, 2, HR_COMMAND_MSE);
	start(m, HR_IOMMU_OFF);
	expect(GPU0, GPU1, HR_BLOCKED, "PIX");
	hr_peers_evaluate(&peers, GPU0, GPU1, &p);
	cr_expect_eq(p.to_a.verdict, HR_BLOCKED);
	cr_expect_eq(p.to_b.verdict, HR_DIRECT);
	expect(GPU1, NIC0, HR_DIRECT, "PIX");
	free(m);
}

/* Two GPUs use bus addresses, which the IOMMU drops; addresses of a network card are mapped. */
Test(topo_peers, a_translating_iommu_drops_requests_of_gpus_and_maps_requests_of_cards)
{
	struct fake_machine *m = machine();

	start(m, HR_IOMMU_ON);
	expect(GPU0, GPU1, HR_DIRECT, "PIX"); /* the switch routes the flow without the IOMMU */
	fake_put(fake_find(m, "02:00.0"), FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_RR);
	fake_put(fake_find(m, "02:02.0"), FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_RR);
	start(m, HR_IOMMU_ON);
	expect(GPU0, GPU1, HR_SILENT_LOSS, "PIX");
	expect(GPU0, NIC0, HR_REDIR_UNLISTED, "PIX");
	expect(GPU0, NIC1, HR_RC_UNLISTED, "PHB");
	free(m);
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
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	cr_assert_eq(hr_peers_init(&peers, &topology, &model, ALL_KINDS), 0);
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
	cr_expect_eq(hr_peer_kinds("gpu,nvme,nic"), 7u);
	cr_expect_eq(hr_peer_kinds("nic"), 1u << HR_PEER_NIC);
	cr_expect_eq(hr_peer_kinds(""), 0u);
	cr_expect_eq(hr_peer_kinds("gpu,"), 0u);
	cr_expect_eq(hr_peer_kinds("gpu,tpu"), 0u);
}

/* ---- all of each pair */

static const char *listed(unsigned kinds)
{
	static char text[256];
	char bdf[HR_BDF_MAX];
	size_t used = 0;

	cr_assert_eq(hr_peers_init(&peers, &topology, &model, kinds), 0);
	text[0] = '\0';
	for (uint32_t i = 0; i < peers.count; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%u=%s ",
					 hr_peer_word(peers.peer[i].kind), peers.peer[i].number,
					 hr_bdf(&model.fn[peers.peer[i].fn], bdf) + 5);
	snprintf(text + used, sizeof text - used, "%u,%u,%u", peers.by_kind[HR_PEER_GPU],
		 peers.by_kind[HR_PEER_NVME], peers.by_kind[HR_PEER_NIC]);
	return text;
}

Test(topo_peers, each_set_of_kinds_has_its_list)
{
	static const char *const want[] = {
		"0,0,0",
		"GPU0=03:00.0 GPU1=06:00.0 2,0,0",
		"NVME0=04:00.0 NVME1=09:00.0 0,2,0",
		"GPU0=03:00.0 GPU1=06:00.0 NVME0=04:00.0 NVME1=09:00.0 2,2,0",
		"NIC0=07:00.0 NIC1=09:00.1 0,0,2",
		"GPU0=03:00.0 GPU1=06:00.0 NIC0=07:00.0 NIC1=09:00.1 2,0,2",
		"NVME0=04:00.0 NVME1=09:00.0 NIC0=07:00.0 NIC1=09:00.1 0,2,2",
		"GPU0=03:00.0 GPU1=06:00.0 NVME0=04:00.0 NVME1=09:00.0 NIC0=07:00.0 NIC1=09:00.1 "
		"2,2,2",
	};
	static const struct {
		const char *text;
		unsigned kinds;
	} row[] = {
		{ "gpu", 1 },	  { "nvme", 2 },    { "nic", 4 },   { "gpu,nvme,nic", 7 },
		{ "nic,gpu", 5 }, { "gpu,gpu", 1 }, { "", 0 },	    { "gpu,", 0 },
		{ ",gpu", 0 },	  { "gp", 0 },	    { "gpus", 0 },  { "nvm", 0 },
		{ "GPU", 0 },	  { "gpu nic", 0 }, { "gpu,x", 0 },
	};
	struct fake_machine *m = machine();
	size_t used, enough;

	start(m, HR_IOMMU_OFF);
	for (unsigned kinds = 0; kinds < 8; kinds++)
		cr_expect_str_eq(listed(kinds), want[kinds], "%u: %s", kinds, listed(kinds));
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_peer_kinds(row[i].text), row[i].kinds, "%s", row[i].text);
	/* Each allocation that fails. */
	used = model.used;
	listed(7);
	enough = model.used;
	for (model.reserved = used; model.reserved < enough; model.reserved += 8) {
		model.used = used;
		cr_expect_eq(hr_peers_init(&peers, &topology, &model, 7), -ENOMEM);
	}
	model.used = used;
	cr_expect_eq(hr_peers_init(&peers, &topology, &model, 7), 0);
	free(m);
}

static const char *pair_text(uint32_t i, uint32_t j)
{
	static char text[256];
	char verdict[48], distance[16], at[4][HR_BDF_MAX];
	struct hr_peer_pair p;

	memset(&p, 0xff, sizeof p);
	hr_peers_evaluate(&peers, i, j, &p);
	snprintf(text, sizeof text, "%s%u %s%u %s mod=%x %s by=%c links=%u%s %s>%s %s>%s",
		 hr_peer_word(p.a.kind), p.a.number, hr_peer_word(p.b.kind), p.b.number,
		 p.has_verdict ? hr_verdict_text(p.verdict, p.rule, verdict) : "-", p.modifiers,
		 hr_peer_distance(&peers, &p, distance),
		 p.by == peers.topology ? 't'
		 : p.by == peers.gpus	? 'g'
					: 'n',
		 p.links, p.through_switch ? "s" : "", hr_bdf(&model.fn[p.to_a.ssd], at[0]) + 5,
		 hr_bdf(&model.fn[p.to_a.gpu], at[1]) + 5,
		 p.to_b.gpu ? hr_bdf(&model.fn[p.to_b.ssd], at[2]) + 5 : "",
		 p.to_b.gpu ? hr_bdf(&model.fn[p.to_b.gpu], at[3]) + 5 : "");
	return text;
}

/* A bit redirects data to GPU1, the state of the IOMMU is not known, NVLinks connect the GPUs. */
Test(topo_peers, each_pair_has_its_record)
{
	static const char *const want[] = {
		"GPU0 GPU1 REDIRECTED+RC_UNLISTED mod=0 NV3 by=g links=3 06:00.0>03:00.0 "
		"03:00.0>06:00.0",
		"GPU0 NVME0 DIRECT mod=0 PIX by=t links=0 04:00.0>03:00.0 >",
		"GPU0 NVME1 RC_UNLISTED mod=80 PHB by=t links=0 09:00.0>03:00.0 >",
		"GPU0 NIC0 DIRECT mod=0 PIX by=n links=0 07:00.0>03:00.0 >",
		"GPU0 NIC1 RC_UNLISTED mod=0 PHB by=n links=0 09:00.1>03:00.0 >",
		"GPU1 NVME0 REDIRECTED+RC_UNLISTED mod=0 PIX by=t links=0 04:00.0>06:00.0 >",
		"GPU1 NVME1 RC_UNLISTED mod=80 PHB by=t links=0 09:00.0>06:00.0 >",
		"GPU1 NIC0 REDIRECTED+RC_UNLISTED mod=0 PIX by=n links=0 07:00.0>06:00.0 >",
		"GPU1 NIC1 RC_UNLISTED mod=0 PHB by=n links=0 09:00.1>06:00.0 >",
		"NVME0 NVME1 - mod=0 PHB by=t links=0 09:00.0>04:00.0 >",
		"NVME0 NIC0 - mod=0 PIX by=t links=0 07:00.0>04:00.0 >",
		"NVME0 NIC1 - mod=0 PHB by=t links=0 09:00.1>04:00.0 >",
		"NVME1 NIC0 - mod=0 PHB by=t links=0 07:00.0>09:00.0 >",
		"NVME1 NIC1 - mod=0 PIX by=t links=0 09:00.1>09:00.0 >",
		"NIC0 NIC1 - mod=0 PHB by=t links=0 09:00.1>07:00.0 >",
	};
	struct fake_machine *m = machine();
	size_t n = 0;

	fake_put(fake_find(m, "02:02.0"), FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_CR);
	start(m, HR_IOMMU_UNKNOWN);
	cr_assert_eq(hr_model_add_link(&model, &(struct hr_gpu_link){ .from = 0x300,
								      .to = 0x600,
								      .count = 3,
								      .fabric = HR_NVLINK,
								      .source = HR_SRC_XML }),
		     0);
	for (uint32_t i = 0; i < peers.count; i++)
		for (uint32_t j = i + 1; j < peers.count; j++) {
			cr_expect_str_eq(pair_text(i, j), want[n], "%u %u: %s", i, j,
					 pair_text(i, j));
			/* The order of the arguments matters for two of one kind only. */
			if (peers.peer[i].kind != peers.peer[j].kind)
				cr_expect_str_eq(pair_text(j, i), want[n]);
			n++;
		}
	cr_expect_eq(n, sizeof want / sizeof *want);
	free(m);
}
