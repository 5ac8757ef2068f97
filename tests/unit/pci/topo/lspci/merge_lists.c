/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture of a capture equals the first one, for every source; two captures in one file are
 * refused.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/lspci/lspci.h"
#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"
#include "pci/topo/rules/verdict.h"
#include "tests/harness/machine.h"

static struct hr_model model, other;

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

TestSuite(topo_again, .init = set_up, .fini = tear_down, .timeout = 60);

/* The capture of m as text; the caller frees it. */
static char *captured(const struct hr_model *m, size_t *size)
{
	int fd = memfd_create("capture", 0);
	char *text;

	cr_assert_eq(hr_capture_write(m, fd), 0);
	*size = (size_t)lseek(fd, 0, SEEK_END);
	text = malloc(*size + 1);
	cr_assert_eq(pread(fd, text, *size, 0), (ssize_t)*size);
	text[*size] = '\0';
	close(fd);
	return text;
}

static void same_facts(const struct hr_fn *a, const struct hr_fn *b)
{
	char bdf[HR_BDF_MAX];

	hr_bdf(a, bdf);
	for (unsigned id = 0; id < HR_FACTS_COUNT; id++) {
		const struct hr_fact *was = &a->fact[id], *is = &b->fact[id];

		cr_expect_eq(was->source, is->source, "%s %s: from %s, was %s", bdf,
			     hr_fact_name((enum hr_fact_id)id), hr_src_name(is->source),
			     hr_src_name(was->source));
		cr_expect(!was->source || was->value == is->value, "%s %s: %x, was %x", bdf,
			  hr_fact_name((enum hr_fact_id)id), is->value, was->value);
	}
}

static void same_bars(const struct hr_fn *a, const struct hr_fn *b)
{
	char bdf[HR_BDF_MAX];

	hr_bdf(a, bdf);
	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		const struct hr_bar *was = &a->bar[i], *is = &b->bar[i];

		cr_expect_eq(was->flags, is->flags, "%s bar%u: %x, was %x", bdf, i, is->flags,
			     was->flags);
		cr_expect_eq(was->base, is->base, "%s bar%u", bdf, i);
		cr_expect_eq(was->size, is->size, "%s bar%u", bdf, i);
		cr_expect_eq(was->size_source, is->size_source, "%s bar%u: size from %s, was %s",
			     bdf, i, hr_src_name(is->size_source), hr_src_name(was->size_source));
		cr_expect(!was->flags || was->source == is->source, "%s bar%u: from %s, was %s",
			  bdf, i, hr_src_name(is->source), hr_src_name(was->source));
	}
}

static void same_window(const struct hr_window *a, const struct hr_window *b)
{
	cr_expect_eq(a->source, b->source);
	cr_expect_eq(a->base, b->base);
	cr_expect_eq(a->limit, b->limit);
}

static void same_text(const char *a, const char *b)
{
	cr_expect_eq(a == NULL, b == NULL, "'%s' and '%s'", a ? a : "", b ? b : "");
	if (a && b)
		cr_expect_str_eq(a, b);
}

static void same_system(void)
{
	const struct hr_system *a = &model.sys, *b = &other.sys;

	cr_expect_str_eq(a->kernel, b->kernel);
	cr_expect_str_eq(a->lockdown, b->lockdown);
	cr_expect_eq(memcmp(&a->amd, &b->amd, sizeof a->amd), 0);
	cr_expect_eq(memcmp(&a->family, &b->family, sizeof a->family), 0);
	cr_expect_eq(memcmp(&a->hypervisor, &b->hypervisor, sizeof a->hypervisor), 0);
	cr_expect_eq(memcmp(&a->iommu, &b->iommu, sizeof a->iommu), 0);
}

/* `other` is read from a capture of `model`: both must be equal, and so must their captures. */
static void check_again(void)
{
	size_t size, size2;
	char *first = captured(&model, &size), *second;

	cr_assert_eq(hr_source_parse(&other, "capture", first, size), 0, "%s", other.error.text);
	cr_assert_eq(other.count, model.count);
	same_system();
	for (uint32_t i = 0; i < model.count; i++) {
		const struct hr_fn *a = &model.fn[i], *b = &other.fn[i];

		same_facts(a, b);
		same_bars(a, b);
		same_window(&a->mem, &b->mem);
		same_window(&a->pref, &b->pref);
		same_text(a->driver, b->driver);
		same_text(a->pci_slot, b->pci_slot);
		cr_expect_eq(a->denied, b->denied);
		cr_expect_eq(a->parent, b->parent);
		cr_expect_eq(a->orphan, b->orphan);
	}
	second = captured(&other, &size2);
	cr_expect_eq(size, size2);
	cr_expect_str_eq(first, second);
	free(first);
	free(second);
}

/*
 * GPU and SSD behind one switch, as lspci -vv prints them; without registers no capability is known
 * to be absent.
 */
static const char text_switch[] =
	"00:00.0 Host bridge [0600]: Host [8086:1234]\n\n"
	"00:01.0 PCI bridge [0604]: Port [8086:1901]\n\tControl: I/O+ Mem+ BusMaster+\n"
	"\tStatus: Cap+\n\tBus: primary=00, secondary=01, subordinate=04, sec-latency=0\n"
	"\tMemory behind bridge: e0000000-e0ffffff\n"
	"\tPrefetchable memory behind bridge: 38000000000-383ffffffff\n"
	"\tCapabilities: [68] Express (v1) Root Port (Slot+), MSI 00\n"
	"\t\tDevCap:\tMaxPayload 512 bytes\n"
	"\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n"
	"\tCapabilities: [100 v1] Advanced Error Reporting\n\n"
	"01:00.0 PCI bridge [0604]: Switch [10b5:8796]\n\tControl: I/O+ Mem+ BusMaster+\n"
	"\tStatus: Cap+\n\tBus: primary=01, secondary=02, subordinate=04, sec-latency=0\n"
	"\tMemory behind bridge: None\n"
	"\tPrefetchable memory behind bridge: [disabled]\n"
	"\tCapabilities: [68] Express (v2) Upstream Port, MSI 00\n"
	"\tCapabilities: [100 v1] Access Control Services\n"
	"\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd-\n\n"
	"03:00.0 3D controller [0302]: NVIDIA Corporation Card\n\tControl: I/O+ Mem+ BusMaster+\n"
	"\tStatus: Cap+\n\tPhysical Slot: 7\n\tNUMA node: 1\n"
	"\tRegion 1: Memory at 38000000000 (64-bit, prefetchable) [size=16G]\n"
	"\tRegion 3: Memory at <unassigned> (64-bit, prefetchable) [size=32M]\n"
	"\tCapabilities: [68] Express (v2) Endpoint, MSI 00\n"
	"\tCapabilities: [100 v1] Advanced Error Reporting\n\tKernel driver in use: nvidia\n\n"
	"04:00.0 Non-Volatile memory controller [0108]: Disk\n\tCapabilities: <access denied>\n";

static int parse(struct hr_model *m, const char *text)
{
	hr_model_reset(m);
	return hr_source_parse(m, "x", text, strlen(text));
}

Test(topo_again, a_capture_of_text_keeps_conclusions_and_their_sources)
{
	cr_assert_eq(parse(&model, text_switch), 0, "%s", model.error.text);
	cr_assert_eq(model.fn[3].fact[HR_F_ACS].source, HR_SRC_INFERRED);
	check_again();
}

Test(topo_again, a_capture_of_a_dump_with_text_is_the_same)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	struct fake_fn *f;

	fake_two_ports(m);
	f = fake_find(m, "04:00.0");
	strcat(f->text, "\tPhysical Slot: 3\n\tNUMA node: 1\n\tIOMMU group: 3\n"
			"\tKernel driver in use: nvme\n");
	/* A slot number in the registers as well as a name in the text; a port with 64 bytes. */
	f = fake_find(m, "02:01.0");
	fake_put(f, FAKE_EXP + HR_EXP_FLAGS, 2,
		 HR_EXP_SLOT_IMPLEMENTED | 2 | HR_PORT_DOWNSTREAM << 4);
	fake_put(f, FAKE_EXP + HR_EXP_SLTCAP, 4, 9u << 19);
	strcat(f->text, "\tPhysical Slot: upper\n");
	fake_find(m, "00:02.0")->bytes = 64;
	strcat(fake_find(m, "05:00.0")->text,
	       "\tRegion 2: Memory at <unassigned> (64-bit, prefetchable) [size=1G]\n");
	fake_find(m, "01:00.0")->bytes = 256;
	cr_assert_eq(fake_load(m, &model), 0, "%s", model.error.text);
	check_again();
	free(m);
}

Test(topo_again, a_capture_of_an_nccl_file_keeps_the_shape)
{
	static const char xml[] =
		"<system version=\"1\">\n <cpu numaid=\"1\" vendor=\"AuthenticAMD\" "
		"familyid=\"143\">\n"
		"  <pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
		"link_width=\"16\">\n"
		"   <pci busid=\"0000:12:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
		"link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\n"
		"   <pci busid=\"0000:15:00.0\" class=\"0x010802\" link_width=\"4\"/>\n"
		"  </pci>\n </cpu>\n</system>\n";

	cr_assert_eq(parse(&model, xml), 0, "%s", model.error.text);
	check_again();
	cr_expect_eq(other.fn[1].parent, 0);
}

Test(topo_again, a_long_word_of_the_command_line_is_kept_whole)
{
	char text[700] = "00:00.0 x\n", *at = model.sys.cmdline;

	cr_assert_eq(parse(&model, text), 0);
	at += sprintf(at, "quiet pci=disable_acs_redir=");
	for (unsigned i = 0; i < 40; i++)
		at += sprintf(at, "%s0000:%02x:00.0", i ? ";" : "", i);
	sprintf(at, " dyndbg=\"file x +p\" hostname=\"not for you\" iommu=pt");
	strcpy(text, model.sys.cmdline);
	{
		size_t size;
		char *capture = captured(&model, &size);

		cr_assert_eq(parse(&other, capture), 0, "%s", other.error.text);
		free(capture);
	}
	*strstr(text, "hostname") = '\0';
	cr_expect_eq(strncmp(other.sys.cmdline, text, strlen(text)), 0, "%s", other.sys.cmdline);
	cr_expect(strstr(other.sys.cmdline, "iommu=pt") != NULL);
	cr_expect_null(strstr(other.sys.cmdline, "for you"));
}

/* ---- two captures in one file */

static char *joined(const struct fake_machine *a, const struct fake_machine *b)
{
	size_t size;
	char *one = fake_render(a, &size), *two = fake_render(b, &size), *both = NULL;

	cr_assert_neq(asprintf(&both, "%s%s", one, two), -1);
	free(one);
	free(two);
	return both;
}

static unsigned lines_of(const struct fake_machine *m)
{
	size_t size;
	char *text = fake_render(m, &size);
	unsigned lines = 0;

	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	free(text);
	return lines;
}

static void expect_refused(const struct fake_machine *a, const struct fake_machine *b,
			   const char *what)
{
	char *both = joined(a, b), line[64];

	snprintf(line, sizeof line, "line %u: ", lines_of(a) + 1);
	cr_expect_eq(parse(&model, both), -EINVAL, "%s", what);
	cr_expect(strstr(model.error.text, line) != NULL, "%s: '%s', not '%s'", what,
		  model.error.text, line);
	cr_expect(strstr(model.error.text, what) != NULL, "'%s'", model.error.text);
	free(both);
}

Test(topo_again, two_captures_that_contradict_each_other_are_refused_at_the_second)
{
	struct fake_machine *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);

	fake_two_ports(a);
	fake_two_ports(b);
	fake_put(fake_find(b, "02:00.0"), FAKE_ACS + HR_ACS_CTL, 2, 0x1d);
	expect_refused(a, b, "0000:02:00.0 acs_ctl");
	fake_two_ports(b);
	fake_windows(fake_find(b, "02:01.0"), 0xe1000000, 0xe1ffffff, 0xfff00000, 0);
	expect_refused(a, b, "0000:02:01.0 memory window");
	fake_two_ports(b);
	fake_put(fake_find(b, "04:00.0"), HR_CFG_BAR0, 4, 0xe0800004);
	expect_refused(a, b, "0000:04:00.0 BAR 0");
	fake_two_ports(b);
	fake_put(fake_find(b, "05:00.0"), HR_CFG_DEVICE, 2, 0xa80c);
	expect_refused(a, b, "0000:05:00.0 device");
	fake_two_ports(b);
	strcat(fake_find(a, "04:00.0")->text, "\tKernel driver in use: nvme\n");
	strcat(fake_find(b, "04:00.0")->text, "\tKernel driver in use: vfio-pci\n");
	expect_refused(a, b, "0000:04:00.0 driver");
	free(a);
	free(b);
}

Test(topo_again, captures_of_two_machines_are_refused_at_the_second)
{
	struct fake_machine *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);

	/* The same board with other cards in it. */
	fake_two_ports(a);
	fake_two_ports(b);
	strcpy(fake_find(b, "05:00.0")->address, "05:01.0");
	expect_refused(a, b, "two machines");
	free(a);
	free(b);
}

Test(topo_again, a_listing_beside_its_dump_is_one_capture)
{
	struct fake_machine *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
	char *both;

	fake_two_ports(a);
	fake_two_ports(b);
	for (unsigned i = 0; i < a->count; i++)
		a->fn[i].bytes = 0;
	/* Different values of facts that always change are no contradiction. */
	fake_put(fake_find(b, "04:00.0"), FAKE_EXP + HR_EXP_LNKSTA, 2, 4 << 4 | 1);
	strcat(fake_find(a, "04:00.0")->text, "\tCapabilities: [40] Express (v2) Endpoint\n"
					      "\t\tLnkSta:\tSpeed 16GT/s, Width x4\n");
	both = joined(a, b);
	cr_expect_eq(parse(&model, both), 0, "%s", model.error.text);
	cr_expect_eq(model.fn[7].config_bytes, 4096u);
	free(both);
	/* The other order, and a partial repetition. */
	both = joined(b, a);
	cr_expect_eq(parse(&model, both), 0, "%s", model.error.text);
	cr_expect_eq(model.fn[7].config_bytes, 4096u);
	free(both);
	b->fn[0] = b->fn[4];
	b->count = 1;
	fake_two_ports(a);
	both = joined(a, b);
	cr_expect_eq(parse(&model, both), 0, "%s", model.error.text);
	free(both);
	free(a);
	free(b);
}

Test(topo_again, two_captures_of_our_own_are_refused_even_if_they_agree)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	char *text, *both, line[32];
	unsigned lines = 1;
	size_t size;

	fake_two_ports(m);
	cr_assert_eq(fake_load(m, &model), 0);
	text = captured(&model, &size);
	cr_assert_neq(asprintf(&both, "%s%s", text, text), -1);
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	snprintf(line, sizeof line, "line %u: ", lines);
	cr_expect_eq(parse(&other, both), -EINVAL);
	cr_expect(strstr(other.error.text, line) != NULL, "%s", other.error.text);
	cr_expect(strstr(other.error.text, "second capture") != NULL, "%s", other.error.text);
	free(text);
	free(both);
	free(m);
}
