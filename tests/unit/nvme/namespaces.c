/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of a namespace, and whether two are the same: identify descriptors, lists, command
 * sets.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "nvme/identify.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"
#include "tests/fakes/log.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))

static struct fake_ctrl fake;

static void setup(void)
{
	fake_ctrl_init(&fake);
}

static void teardown(void)
{
	fake_ctrl_fini(&fake);
}

TestSuite(namespaces, .init = setup, .fini = teardown, .timeout = 60);

/* Put a descriptor at byte `at` of the list. Returns the position of the next one. */
static size_t put(size_t at, uint8_t type, uint8_t bytes, uint8_t value)
{
	fake.descriptors[at] = type;
	fake.descriptors[at + 1] = bytes;
	memset(fake.descriptors + at + 4, value, bytes);
	return at + 4 + bytes;
}

static void offer_command_sets(void)
{
	fake_ctrl_set_cap(
		&fake, NVME_SET(63ull, CAP_MQES) | NVME_SET(15ull, CAP_TO) |
			       NVME_SET((uint64_t)(NVME_CAP_CSS_NVM | NVME_CAP_CSS_CSI), CAP_CSS));
}

Test(namespaces, identifiers_come_from_descriptors_and_from_the_data_structure)
{
	struct hr_ns ns;
	size_t at;

	cr_assert_eq(fake_ctrl_open(&fake), 0);
	at = put(0, NVME_NIDT_NGUID, 16, 0xa1);
	at = put(at, 9, 5, 0xff); /* a type of a later specification */
	put(at, NVME_NIDT_UUID, 16, 0xb2);
	memset(fake.id_ns.nguid, 0x77, sizeof(fake.id_ns.nguid));
	memset(fake.id_ns.eui64, 0xc3, sizeof(fake.id_ns.eui64));
	fake.id_ns.nmic = 1;
	cr_assert_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns, NULL), 0);
	cr_expect_eq(ns.nguid[0], 0xa1, "the list goes before the data structure");
	cr_expect_eq(ns.uuid[15], 0xb2);
	cr_expect_eq(ns.eui64[7], 0xc3);
	cr_expect(ns.shared);
}

Test(namespaces, a_list_ends_at_its_first_invalid_descriptor)
{
	static const struct {
		uint8_t type, bytes;
		size_t at;
	} row[] = { { NVME_NIDT_UUID, 8, 0 }, { NVME_NIDT_CSI, 2, 0 }, { 9, 255, HR_PAGE - 6 } };

	cr_assert_eq(fake_ctrl_open(&fake), 0);
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_ns ns = { 0 };
		int csi;

		memset(fake.descriptors, 0, HR_PAGE);
		/* Fill the list up to `at` with other descriptors, of 6 bytes with their header. */
		for (size_t at = 0; at < row[i].at;)
			at = put(at, 200, 2, 1);
		fake.descriptors[row[i].at] = row[i].type;
		fake.descriptors[row[i].at + 1] = row[i].bytes;
		hr_identify_descriptors(&ns, &csi, 1, fake.descriptors, "fake");
		cr_expect_eq(csi, -1, "row %zu", i);
		cr_expect_eq(ns.uuid[0], 0, "row %zu", i);
	}
}

Test(namespaces, other_command_sets_are_refused_by_the_descriptor_alone)
{
	static const struct {
		bool sets; /* CAP.CSS */
		int csi;
		uint16_t status; /* of CNS 03h */
		int want;
	} row[] = {
		{ false, -1, 0, 0 },
		{ false, 0, 0, 0 },
		{ false, -1, NVME_SC_INVALID_FIELD, 0 },
		{ false, NVME_CSI_ZNS, 0, -ENOTSUP },
		{ true, 0, 0, 0 },
		{ true, NVME_CSI_ZNS, 0, -ENOTSUP },
		{ true, NVME_CSI_KV, 0, -ENOTSUP },
		{ true, 0x30, 0, -ENOTSUP },
		{ true, -1, 0, -EPROTO },
		{ true, -1, NVME_SC_INVALID_FIELD, NVME_SC_INVALID_FIELD },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_ns ns;

		teardown();
		setup();
		if (row[i].sets)
			offer_command_sets();
		cr_assert_eq(fake_ctrl_open(&fake), 0);
		cr_expect_eq(NVME_CC_CSS(fake_ctrl_get32(&fake, NVME_REG_CC)),
			     row[i].sets ? NVME_CC_CSS_CSI : NVME_CC_CSS_NVM, "row %zu", i);
		if (row[i].csi >= 0)
			put(0, NVME_NIDT_CSI, 1, (uint8_t)row[i].csi);
		fake.opcode = nvme_admin_identify;
		fake.cns = NVME_IDENTIFY_CNS_NS_DESC_LIST;
		fake.status = row[i].status;
		cr_expect_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns, NULL), row[i].want, "row %zu",
			     i);
	}
}

/* QEMU refuses the descriptor list of such a namespace; other controllers return an empty list. */
Test(namespaces, an_inactive_namespace_is_no_protocol_error)
{
	struct hr_ns ns;

	offer_command_sets();
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	fake.id_ns.nsze = 0;
	cr_expect_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns, NULL), -ENOENT);
	fake.opcode = nvme_admin_identify;
	fake.cns = NVME_IDENTIFY_CNS_NS_DESC_LIST;
	fake.status = NVME_SC_INVALID_FIELD;
	cr_expect_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns, NULL), -ENOENT);
}

Test(namespaces, active_namespaces_are_listed_for_a_message)
{
	char text[96], few[40];

	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_expect_str_eq(hr_ctrl_list_ns(&fake.ctrl, text, sizeof(text)), "none");
	fake.active[0] = 5;
	cr_expect_str_eq(hr_ctrl_list_ns(&fake.ctrl, text, sizeof(text)), "5");
	for (uint32_t i = 0; i < HR_PAGE / 4; i++)
		fake.active[i] = i + 1;
	cr_expect_str_eq(hr_ctrl_list_ns(&fake.ctrl, few, sizeof(few)),
			 "1, 2, 3, 4, 5, 6, 7 and more");
	fake.opcode = nvme_admin_identify;
	fake.status = NVME_SC_INVALID_FIELD;
	cr_expect_str_eq(hr_ctrl_list_ns(&fake.ctrl, text, sizeof(text)), "1 to 1");
}

Test(namespaces, an_identifier_reported_by_both_controllers_decides)
{
	struct hr_ns a = { 0 }, b = { 0 };
	const char *what;

	cr_expect_eq(hr_ns_compare(&a, &b, &what), HR_NS_UNKNOWN);
	cr_expect_str_eq(what, "");
	a.shared = b.shared_subsystem = true;
	a.eui64[0] = b.eui64[0] = 1;
	cr_expect_eq(hr_ns_compare(&a, &b, &what), HR_NS_SAME);
	cr_expect_str_eq(what, "EUI64");
	b.eui64[7] = 1;
	cr_expect_eq(hr_ns_compare(&a, &b, &what), HR_NS_DIFFERENT);
	a.uuid[3] = 4; /* in one list only */
	cr_expect_eq(hr_ns_compare(&a, &b, &what), HR_NS_DIFFERENT);
	b.uuid[3] = 4;
	cr_expect_eq(hr_ns_compare(&a, &b, &what), HR_NS_SAME);
	cr_expect_str_eq(what, "UUID");
	a.nguid[0] = 1;
	b.nguid[0] = 2;
	cr_expect_eq(hr_ns_compare(&a, &b, &what), HR_NS_DIFFERENT);
}

/* About forty models are known whose disks report one identifier. */
Test(namespaces, an_equal_identifier_needs_controllers_that_share_or_one_subsystem)
{
	static const struct {
		bool a_shares, b_shares, not_unique;
		const char *a, *b, *a_nqn, *b_nqn; /* serial numbers and SUBNQN */
		enum hr_ns_match want;
	} row[] = {
		{ true, true, false, "1", "2", "n", "m", HR_NS_SAME },
		{ true, false, false, "1", "2", "n", "n", HR_NS_DOUBTFUL },
		{ false, true, false, "1", "2", "n", "n", HR_NS_DOUBTFUL },
		{ false, false, false, "1", "2", "", "", HR_NS_DOUBTFUL },
		{ false, false, false, "1", "1", "n", "m", HR_NS_DOUBTFUL },
		{ false, false, false, "", "", "n", "n", HR_NS_DOUBTFUL },
		{ false, false, false, "1", "1", "n", "n", HR_NS_SAME },
		{ false, false, false, "1", "1", "", "", HR_NS_SAME },
		{ true, true, true, "1", "2", "n", "n", HR_NS_UNKNOWN },
		{ true, true, true, "1", "1", "n", "n", HR_NS_SAME }, /* by the subsystem */
	};

	for (size_t i = 0; i < 2 * ROWS(row); i++) {
		struct hr_ns a = { .nsid = 1, .eui64 = { 1 } }, b = a;
		const char *what;

		a.shared = a.shared_subsystem = row[i / 2].a_shares;
		b.shared = b.shared_subsystem = row[i / 2].b_shares;
		b.not_unique = row[i / 2].not_unique;
		snprintf(a.serial, sizeof(a.serial), "%s", row[i / 2].a);
		snprintf(b.serial, sizeof(b.serial), "%s", row[i / 2].b);
		snprintf(a.subnqn, sizeof(a.subnqn), "%s", row[i / 2].a_nqn);
		snprintf(b.subnqn, sizeof(b.subnqn), "%s", row[i / 2].b_nqn);
		if (i % 2) { /* a worse identifier that both report still decides */
			a.nguid[0] = b.nguid[0] = 7;
			b.eui64[0] = 2;
		}
		cr_expect_eq(hr_ns_compare(&a, &b, &what),
			     i % 2 && row[i / 2].want == HR_NS_DOUBTFUL ? HR_NS_DIFFERENT
									: row[i / 2].want,
			     "row %zu: %s", i / 2, what);
	}
}

/* The namespace of the fake controller, as a controller of that subsystem reports it. */
static struct hr_ns seen_by(const char *nqn, const char *serial, uint8_t cmic, uint8_t nmic)
{
	struct hr_ns ns;

	memset(fake.id_ctrl.subnqn, 0, sizeof(fake.id_ctrl.subnqn));
	memcpy(fake.id_ctrl.subnqn, nqn, strlen(nqn));
	memset(fake.id_ctrl.sn, ' ', sizeof(fake.id_ctrl.sn));
	memcpy(fake.id_ctrl.sn, serial, strlen(serial));
	fake.id_ctrl.cmic = cmic;
	fake.id_ns.nmic = nmic;
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_assert_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns, NULL), 0);
	return ns;
}

/*
 * Controllers without NGUID, EUI64 and UUID: SUBNQN and NSID identify it when CMIC and NMIC say
 * "shared".
 */
Test(namespaces, a_shared_namespace_is_identified_by_its_subsystem)
{
	static const struct {
		const char *nqn, *serial;
		uint8_t cmic, nmic;
		uint32_t nsid;
		enum hr_ns_match want;
	} row[] = {
		{ "nqn.2014-08.org:a", "s1", 2, 1, 1, HR_NS_SAME },
		{ "nqn.2014-08.org:a", "s1", 3, 1, 1, HR_NS_SAME },
		{ "nqn.2014-08.org:a", "s1", 2, 1, 2, HR_NS_DIFFERENT },
		{ "nqn.2014-08.org:b", "s1", 2, 1, 1, HR_NS_UNKNOWN },
		/* A vendor's NQN, the same for all devices. */
		{ "nqn.2014-08.org:a", "s2", 2, 1, 1, HR_NS_UNKNOWN },
		{ "nqn.2014-08.org:a", "s1", 0, 1, 1, HR_NS_UNKNOWN },
		{ "nqn.2014-08.org:a", "s1", 2, 0, 1, HR_NS_UNKNOWN },
		{ "", "s1", 2, 1, 1, HR_NS_UNKNOWN },
	};
	const struct hr_ns first = seen_by("nqn.2014-08.org:a", "s1", 2, 1);

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_ns ns = seen_by(row[i].nqn, row[i].serial, row[i].cmic, row[i].nmic);
		const char *what;

		ns.nsid = row[i].nsid;
		cr_expect_eq(hr_ns_compare(&first, &ns, &what), row[i].want, "row %zu", i);
		cr_expect_str_eq(what, row[i].want == HR_NS_UNKNOWN ? "" : "SUBNQN and NSID");
		ns.uuid[0] = 1;
		cr_expect_eq(hr_ns_compare(&first, &ns, &what), row[i].want, "one of them only");
	}
}
