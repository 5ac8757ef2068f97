/* SPDX-License-Identifier: Apache-2.0 */
/* The expected values are those of Python's hmac module. */
#include "boot/remote/tcp.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct hr_auth_transcript said;
static uint8_t key[HR_LINK_KEY_BYTES];

static void init(void)
{
	memset(key, 7, sizeof(key));
	memset(&said.hello[HR_LINK_SENDER], 1, sizeof(said.hello[0]));
	memset(&said.hello[HR_LINK_RECEIVER], 2, sizeof(said.hello[0]));
}

TestSuite(proof, .init = init);

static void expect(const uint8_t code[HR_AUTH_MAC_BYTES], const char *hex)
{
	char text[2 * HR_AUTH_MAC_BYTES + 1];

	for (unsigned i = 0; i < HR_AUTH_MAC_BYTES; i++)
		snprintf(text + 2 * (size_t)i, 3, "%02x", code[i]);
	cr_expect_str_eq(text, hex);
}

Test(proof, proofs_and_session_key_are_hmac_sha256_over_all_that_was_said)
{
	uint8_t session[HR_AUTH_MAC_BYTES];

	hr_auth_prove(said.proof[HR_LINK_SENDER], key, &said, HR_LINK_SENDER);
	expect(said.proof[HR_LINK_SENDER],
	       "6412dbf6671ecad464a9aae2c4720acda3a41a5e4bd8844cd1fe58121b40b22e");
	hr_auth_prove(said.proof[HR_LINK_RECEIVER], key, &said, HR_LINK_RECEIVER);
	expect(said.proof[HR_LINK_RECEIVER],
	       "026dd88f89008be362776f50529da33c5557e8a1176403c7b7d9763546ca029f");
	hr_auth_session_key(session, key, &said);
	expect(session, "6e729e2d3181d0f705a031be234d410e46292d20b03b674ba21f19ec97ed44e5");
}

Test(proof, a_code_has_the_side_in_it)
{
	uint8_t sender[HR_AUTH_MAC_BYTES], receiver[HR_AUTH_MAC_BYTES];

	hr_auth_mac(receiver, key, HR_LINK_RECEIVER, "abc", 3);
	expect(receiver, "de72b1fbddfbaef2bfd9ad52f3a95ca5b3ee6d9cf248c1c50d9bc8af9f0474aa");
	hr_auth_mac(sender, key, HR_LINK_SENDER, "abc", 3);
	cr_expect_not(hr_auth_mac_equal(sender, receiver));
	cr_expect(hr_auth_mac_equal(sender, sender));
}

Test(proof, a_secret_is_forgotten)
{
	hr_auth_wipe(key, sizeof(key));
	for (unsigned i = 0; i < sizeof(key); i++)
		cr_expect_eq(key[i], 0);
}
