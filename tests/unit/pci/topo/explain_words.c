/* Each word of the rules' texts, as it reads for pairs that share a switch and that do not. */
#include "pci/topo/explain.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "tests/harness/evaluate.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_words, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

struct word_row {
	const char *word, *want;
};

static const char *filled(const struct hr_pair *p, int32_t fn, const char *template)
{
	static char to[1024];
	const struct hr_finding found = { 0, fn, 0xf };

	memset(to, '#', sizeof to);
	cr_assert_eq(hr_rule_text(&topology, p, &found, template, to, sizeof to), to);
	return to;
}

/* The word alone and in a text; with another last letter it is no word, which reads as nothing. */
static void expect_words(const struct hr_pair *p, int32_t fn, const struct word_row *row,
			 size_t rows)
{
	for (size_t i = 0; i < rows; i++) {
		char template[64], want[512];
		const bool open = strncmp(row[i].word, "blocker", 7) == 0 ||
				  strncmp(row[i].word, "cufile", 6) == 0;

		snprintf(template, sizeof template, "a {%s}, {%s} z", row[i].word, row[i].word);
		snprintf(want, sizeof want, "a %s, %s z", row[i].want, row[i].want);
		cr_expect_str_eq(filled(p, fn, template), want, "%s: %s", row[i].word,
				 filled(p, fn, template));
		if (open)
			continue;
		template[strlen(row[i].word) + 2] = '~';
		snprintf(want, sizeof want, "a , %s z", row[i].want);
		cr_expect_str_eq(filled(p, fn, template), want, "%s: %s", row[i].word,
				 filled(p, fn, template));
	}
}

Test(topo_words, a_pair_behind_a_switch_that_redirects)
{
	static const struct word_row row[] = {
		{ "gpu", "0000:03:00.0" },
		{ "ssd", "0000:04:00.0" },
		{ "child", "0000:02:01.0" },
		{ "group", "9" },
		{ "slots",
		  "; free slots of the GPU's switch: 0000:02:02.0; free slots of the SSD's "
		  "switch: 0000:02:02.0" },
		{ "move", "move a card so that both are below one switch" },
		{ "blocker", "" },
		{ "gpu_driver", "nvidia" },
		{ "acs_list", "0000:02:00.0;0000:02:01.0;0000:01:00.0" },
		{ "acs_boot", "0000:02:00.0;0000:02:01.0;0000:01:00.0" },
		{ "acs_assumed", "" },
		{ "with_acs",
		  " and pci=disable_acs_redir=0000:02:00.0;0000:02:01.0;0000:01:00.0, as "
		  "Linux sets ACS redirect at boot wherever an IOMMU is on" },
		{ "bar_size", "16 GiB" },
		{ "vmd", "" },
		{ "raid", "" },
	};
	static const struct word_row of_function[] = {
		{ "bdf", "0000:02:00.0" }, { "vendor", "0x10b5" }, { "mps", "256" },
		{ "ssd", "0000:04:00.0" }, { "ue_names", "" },	   { "pf", "" },
	};
	static const struct hr_options opt = { 0 };
	struct hr_pair p;

	fake_slot(fake_bridge(&machine, "02:02.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 6, 6));
	for (unsigned i = 0; i < 2; i++)
		fake_put(fake_find(&machine, i ? "02:00.0" : "02:01.0"), ACS, 2, HR_ACS_ISOLATION);
	fake_put(fake_find(&machine, "01:00.0"), ACS, 2, HR_ACS_CR);
	strcat(fake_find(&machine, GPU)->text, "\tKernel driver in use: nvidia\n");
	strcat(fake_find(&machine, SIBLING)->text, "\tIOMMU group: 9\n");
	snprintf(machine.head, sizeof machine.head, "headrace: iommu=3\n");
	fake_evaluate(SIBLING, &opt, &p);
	expect_words(&p, HR_NO_FN, row, ROWS(row));
	expect_words(&p, fake_at("02:00.0"), of_function, ROWS(of_function));
	/* Words that are none, and braces that do not close. */
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{nothing}{}{bdf}{vendor}|"), "|");
	cr_expect_str_eq(filled(&p, fake_at(GPU), "{bdf}{gpu"), "0000:03:00.0{gpu");
	cr_expect_str_eq(filled(&p, fake_at(GPU), "}{pf}{ue_names}"), "}");
	cr_expect_str_eq(filled(&p, fake_at(GPU), ""), "");
}

Test(topo_words, a_pair_of_two_root_ports)
{
	static const struct word_row row[] = {
		{ "gpu", "0000:03:00.0" },
		{ "ssd", "0000:05:00.0" },
		{ "child", "0000:00:02.0" },
		{ "group", "" },
		{ "slots",
		  "; free slots of the GPU's switch: 0000:02:02.0 0000:02:03.0 0000:02:04.0 "
		  "0000:02:05.0 and 1 more" },
		{ "gpu_driver", "unknown" },
		{ "acs_list", "0000:00:02.0" },
		{ "acs_boot", "0000:02:00.0;0000:01:00.0;0000:00:01.0;0000:00:02.0" },
		{ "with_acs", "" },
	};
	static const struct hr_options opt = { 0 };
	struct hr_pair p;

	for (unsigned i = 2; i <= 6; i++) {
		char address[16];

		snprintf(address, sizeof address, "02:%02x.0", i);
		fake_slot(fake_bridge(&machine, address, 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 4 + i,
				      4 + i));
	}
	fake_put(fake_find(&machine, "00:02.0"), ACS, 2, HR_ACS_RR);
	fake_evaluate(OTHER, &opt, &p);
	expect_words(&p, HR_NO_FN, row, ROWS(row));
}

/* Payload sizes, for a GPU and an SSD that send too much for the other side. */
Test(topo_words, payload_sizes_of_the_direction_that_does_not_fit)
{
	static const struct {
		unsigned gpu, ssd; /* codes of the sizes: 128 << code */
		const char *want;
	} row[] = {
		{ 2, 1, "0000:03:00.0 512 256 0020" },	{ 1, 2, "0000:04:00.0 512 256 0020" },
		{ 3, 0, "0000:03:00.0 1024 128 0000" }, { 0, 5, "0000:04:00.0 4096 128 0000" },
		{ 1, 1, "0000:03:00.0 256 256 0020" },
	};
	static const struct hr_options opt = { 0 };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_pair p;

		fake_put(fake_find(&machine, GPU), FAKE_EXP + HR_EXP_DEVCTL, 2, row[i].gpu << 5);
		fake_put(fake_find(&machine, SIBLING), FAKE_EXP + HR_EXP_DEVCTL, 2,
			 row[i].ssd << 5);
		fake_evaluate(SIBLING, &opt, &p);
		cr_expect_str_eq(
			filled(&p, HR_NO_FN, "{initiator} {mps_from} {mps_path} {mps_code}"),
			row[i].want, "row %zu: %s", i,
			filled(&p, HR_NO_FN, "{initiator} {mps_from} {mps_path} {mps_code}"));
	}
}

Test(topo_words, errors_of_a_function_have_names)
{
	static const struct {
		uint32_t status;
		const char *want;
	} row[] = {
		{ 0, "" },
		{ HR_UE_MALFORMED, "malformed TLP: payload size" },
		{ HR_UE_CMPLT_ABORT, "completer abort" },
		{ HR_UE_UNSUPPORTED | HR_UE_ACS_VIOLATION,
		  "unsupported request: window or decode; ACS violation: TB, SV or EC" },
		{ ~0u,
		  "completion timeout: the root complex may drop peer reads; unsupported request: "
		  "window or decode; ACS violation: TB, SV or EC; malformed TLP: payload size; "
		  "completer abort" },
	};
	static const struct hr_options opt = { 0 };
	struct hr_pair p;

	fake_evaluate(SIBLING, &opt, &p);
	for (size_t i = 0; i < ROWS(row); i++) {
		hr_fn_set(&model.fn[fake_at(SIBLING)], HR_F_UESTA, row[i].status, HR_SRC_USER);
		cr_expect_str_eq(filled(&p, fake_at(SIBLING), "{ue_names}"), row[i].want, "row %zu",
				 i);
	}
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{ue_names}"), "");
}

/* Sizes of a BAR in their largest whole unit; drivers and groups. */
Test(topo_words, sizes_drivers_and_groups)
{
	static const struct {
		uint64_t size;
		const char *want;
	} row[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1 KiB" },
		{ 1025, "1025 B" },
		{ 3 << 20, "3 MiB" },
		{ (1ull << 30) + 1024, "1048577 KiB" },
		{ 1ull << 40, "1 TiB" },
		{ 1ull << 50, "1024 TiB" },
	};
	struct hr_options opt = { .mode = HR_MODE_VFIO };
	struct hr_pair p;

	strcat(fake_find(&machine, GPU)->text, "\tKernel driver in use: nvidia\n");
	fake_put(fake_find(&machine, "00:01.0"), FAKE_AER + 2, 2, 1); /* no ACS: one group */
	fake_evaluate(SIBLING, &opt, &p);
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{blocker} {blocker_driver} {gpu_driver}"),
			 "0000:03:00.0 nvidia nvidia");
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{group}"), "1 (predicted)");
	hr_fn_set(&model.fn[fake_at(SIBLING)], HR_F_GROUP, 12, HR_SRC_SYSFS);
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{group}"), "12");
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fn *gpu = &model.fn[fake_at(GPU)];

		gpu->bar[hr_peer_bar(gpu)].size = row[i].size;
		cr_expect_str_eq(filled(&p, HR_NO_FN, "{bar_size}"), row[i].want, "row %zu: %s", i,
				 filled(&p, HR_NO_FN, "{bar_size}"));
	}
}

/* Hidden disks, a physical function, requirements of cuFile, ports that are assumed. */
Test(topo_words, words_of_single_rules)
{
	static const struct hr_options opt = { 0 };
	struct hr_pair p;
	struct hr_fn *ssd;

	fake_function(&machine, "00:0e.0", 0x010400, 0x8086, 0x467f, HR_PORT_RC_ENDPOINT);
	fake_function(&machine, "00:17.0", 0x010400, 0x8086, 0x2822, HR_PORT_RC_ENDPOINT);
	fake_evaluate(SIBLING, &opt, &p);
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{vmd}|{raid}"), "0000:00:0e.0|");
	for (unsigned i = 0; i < 2; i++) /* no disk is shown, so the RAID may hide some */
		hr_fn_set(&model.fn[fake_at(i ? SIBLING : OTHER)], HR_F_CLASS, 0x010400,
			  HR_SRC_USER);
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{vmd}|{raid}"), "0000:00:0e.0|0000:00:17.0");
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{acs_assumed}"), "");
	topology.derived[fake_at("02:01.0")].acs_assumed = true;
	topology.derived[fake_at("01:00.0")].acs_assumed = true;
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{acs_assumed}"), "0000:02:01.0;0000:01:00.0");
	ssd = &model.fn[fake_at(SIBLING)];
	ssd->physfn = fake_at(OTHER);
	cr_expect_str_eq(filled(&p, fake_at(SIBLING), "{pf}"), "0000:05:00.0");
	cr_expect_str_eq(filled(&p, fake_at(SIBLING), "{pe}{qf}"), "");
	snprintf(model.sys.nvidia, sizeof model.sys.nvidia, "535.1");
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{cufile}"),
			 "driver (NVIDIA 535.1, flavour not known)");
	cr_expect_str_eq(filled(&p, HR_NO_FN, "{cufile_fix}"),
			 "the open kernel modules of NVIDIA 565 or later");
}

/* All findings of a pair in the order of the path, and what of them is stored. */
Test(topo_words, findings_are_in_the_order_of_the_path)
{
	static const struct hr_options opt = { 0 };
	struct hr_finding all[16], few[16];
	struct hr_pair p;
	unsigned n;
	char text[512] = "";

	snprintf(machine.head, sizeof machine.head, "headrace: lockdown=integrity\n");
	fake_put(fake_find(&machine, GPU), FAKE_PM + HR_PM_CTL, 2, 3);
	fake_put(fake_find(&machine, "02:00.0"), HR_CFG_VENDOR, 4, 0x240412d8);
	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_RR);
	fake_put(fake_find(&machine, "02:01.0"), ACS, 2, HR_ACS_SV | HR_ACS_UF | HR_ACS_CR);
	fake_put(fake_find(&machine, "01:00.0"), ACS, 2, HR_ACS_CR);
	fake_put(fake_find(&machine, SIBLING), HR_CFG_COMMAND, 2, HR_COMMAND_MSE);
	fake_evaluate(SIBLING, &opt, &p);
	n = hr_findings(&topology, &p, all, 16);
	cr_assert_leq(n, 16u);
	for (unsigned i = 0; i < n; i++) {
		char bdf[HR_BDF_MAX];

		snprintf(text + strlen(text), sizeof text - strlen(text), "%s@%s/%x ",
			 hr_rules[all[i].rule].id,
			 all[i].fn == HR_NO_FN ? "-" : hr_bdf(&model.fn[all[i].fn], bdf) + 5,
			 all[i].flows);
	}
	cr_expect_str_eq(
		text,
		"A1@-/9 R1@-/6 I1@-/9 A2@-/f A15@-/f R6@03:00.0/f A1-port@02:00.0/f A10@02:00.0/f "
		"A1-port@01:00.0/f R5-bme@04:00.0/6 A1-port@02:01.0/f A16@-/f ");
	/* When few are stored, the last one is that of the rule that decided. */
	for (unsigned max = 0; max <= n; max++) {
		bool decided = false;

		memset(few, 0xff, sizeof few);
		cr_expect_eq(hr_findings(&topology, &p, few, max), n);
		for (unsigned i = 0; i < max; i++) {
			decided |= few[i].rule == p.rule;
			cr_expect(i == max - 1 ||
					  (few[i].rule == all[i].rule && few[i].fn == all[i].fn &&
					   few[i].flows == all[i].flows),
				  "max %u, %u", max, i);
		}
		cr_expect_eq(decided, max > 0, "max %u", max);
		cr_expect_eq(few[max].rule, 0xff, "max %u", max);
	}
}

Test(topo_words, each_fact_of_a_function_is_a_word)
{
	char template[96], want[96];
	struct hr_pair p;

	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++) {
		const enum hr_fact_id id = (enum hr_fact_id)i;
		const char *const name = hr_fact_name(id);

		hr_fn_set(&model.fn[fake_at(OTHER)], id, 0x1a200 + i, HR_SRC_USER);
		/* The word itself, and two that begin or end in another way. */
		snprintf(template, sizeof template, "{%s} {%.*s~} {~%s}", name,
			 (int)strlen(name) - 1, name, name + 1);
		snprintf(want, sizeof want, hr_fact_is_hex(id) ? "0x%04x  " : "%u  ", 0x1a200 + i);
		cr_expect_str_eq(filled(&p, fake_at(OTHER), template), want, "%s: %s", name,
				 filled(&p, fake_at(OTHER), template));
	}
}

/* Speeds of links are codes in the facts and GT/s in sentences. */
Test(topo_words, speeds_of_links_are_gts)
{
	static const char *const gts[] = { "?", "2.5", "5", "8", "16", "32", "64", "?", "?" };
	struct hr_pair p;

	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	for (uint32_t code = 0; code < sizeof gts / sizeof *gts; code++) {
		char want[32];

		hr_fn_set(&model.fn[fake_at(OTHER)], HR_F_SPEED, code, HR_SRC_USER);
		hr_fn_set(&model.fn[fake_at(OTHER)], HR_F_SPEED_MAX, 5, HR_SRC_USER);
		snprintf(want, sizeof want, "%s of 32", gts[code]);
		cr_expect_str_eq(filled(&p, fake_at(OTHER), "{speed} of {speed_most}"), want);
	}
}

/* A size in a sentence has the largest unit in which it is a whole number. */
Test(topo_words, sizes_have_their_largest_whole_unit)
{
	static const struct {
		uint64_t bytes;
		const char *say;
	} row[] = { { 256u << 20, "only 256 MiB of" },	 { 1u << 30, "only 1 GiB of" },
		    { 1536u << 20, "only 1536 MiB of" }, { 4096, "only 4 KiB of" },
		    { 1023, "only 1023 B of" },		 { 1025, "only 1025 B of" },
		    { 1ull << 40, "only 1 TiB of" },	 { 3ull << 50, "only 3072 TiB of" } };
	unsigned rule = 0;
	char why[256];
	struct hr_pair p;

	while (strcmp(hr_rules[rule].id, "R8") != 0)
		rule++;
	fake_two_ports(&machine);
	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fn *gpu = &model.fn[fake_at("03:00.0")];
		const struct hr_finding found = { (uint8_t)rule, fake_at("03:00.0"), 0 };

		for (unsigned bar = 0; bar < HR_BARS_MAX; bar++)
			if (gpu->bar[bar].flags)
				gpu->bar[bar].size = row[i].bytes;
		hr_rule_text(&topology, &p, &found, hr_rules[rule].why, why, sizeof why);
		cr_expect(strstr(why, row[i].say), "row %zu: %s", i, why);
	}
}

/* The remedies of links, and what keeps atomics of an AMD GPU from the CPU. */
Test(topo_words, remedies_name_the_port_that_matters)
{
	static const struct word_row plain[] = {
		{ "width_fix", "reseat; check bifurcation and riser" },
		{ "speed_fix", "retrain: setpci -s 0000:02:00.0 CAP_EXP+10.w=20:20; then check the "
			       "signal path" },
		{ "atomics", "0000:02:00.0 does not route them (AtomicOpsCap Routing-)" },
		{ "atomics_fix", "a slot whose ports all route AtomicOps; 0000:02:00.0 does not" },
	};
	static const struct word_row wired[] = {
		{ "width_fix", "the link is wired on the board; only the firmware setup may change "
			       "its width (bifurcation)" },
		{ "speed_fix", "the link is wired on the board; only the firmware setup may change "
			       "its speed" },
	};
	static const struct hr_options opt = { 0 };
	struct hr_pair p;

	for (unsigned slot = 0; slot < 2; slot++) {
		const struct word_row *row = slot ? plain : wired;

		fake_two_ports(&machine);
		if (slot)
			fake_slot(fake_find(&machine, "02:00.0"));
		fake_evaluate(SIBLING, &opt, &p);
		for (size_t i = 0; i < (slot ? ROWS(plain) : ROWS(wired)); i++) {
			char template[32];

			snprintf(template, sizeof template, "{%s}", row[i].word);
			cr_expect_str_eq(filled(&p, fake_at(GPU), template), row[i].want, "%s",
					 filled(&p, fake_at(GPU), template));
		}
		cr_expect_str_eq(filled(&p, fake_at("02:00.0"), "{seat}"),
				 slot ? "reseat the card, or " : "");
	}
}
