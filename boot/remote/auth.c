/* The functions of libsodium that are used here have one implementation for all machines, and hold no
 * state, so sodium_init(), which would link all of the library, is not needed. */
#include "boot/remote/tcp.h"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/crypto_verify_32.h>
#include <sodium/utils.h>

HR_STATIC_ASSERT(HR_AUTH_MAC_BYTES == crypto_auth_hmacsha256_BYTES, "code");
HR_STATIC_ASSERT(HR_LINK_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "key");

/* All labels have the same size, and so have all parts that follow. */
#define LABEL_BYTES 16

/* proofs: so many of `said`, the sender's first. */
static void over(uint8_t out[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
		 const char label[LABEL_BYTES], const struct hr_auth_transcript *said,
		 unsigned proofs)
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, key, HR_LINK_KEY_BYTES);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)label, LABEL_BYTES);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)said->hello, sizeof(said->hello));
	crypto_auth_hmacsha256_update(&state, said->proof[0], proofs * HR_AUTH_MAC_BYTES);
	crypto_auth_hmacsha256_final(&state, out);
	sodium_memzero(&state, sizeof(state));
}

void hr_auth_prove(uint8_t proof[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
		   const struct hr_auth_transcript *said, enum hr_link_side side)
{
	if (side == HR_LINK_SENDER)
		over(proof, key, "headrace sender", said, 0);
	else
		over(proof, key, "headrace receiv", said, 1);
}

void hr_auth_session_key(uint8_t session[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
			 const struct hr_auth_transcript *said)
{
	over(session, key, "headrace sessio", said, 2);
}

void hr_auth_mac(uint8_t code[HR_AUTH_MAC_BYTES], const uint8_t session[HR_AUTH_MAC_BYTES],
		 enum hr_link_side from, const void *message, size_t bytes)
{
	const uint8_t side = (uint8_t)from;
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, session, HR_AUTH_MAC_BYTES);
	crypto_auth_hmacsha256_update(&state, &side, sizeof(side));
	crypto_auth_hmacsha256_update(&state, message, bytes);
	crypto_auth_hmacsha256_final(&state, code);
	sodium_memzero(&state, sizeof(state));
}

bool hr_auth_mac_equal(const uint8_t a[HR_AUTH_MAC_BYTES], const uint8_t b[HR_AUTH_MAC_BYTES])
{
	return crypto_verify_32(a, b) == 0;
}

void hr_auth_wipe(void *secret, size_t bytes)
{
	sodium_memzero(secret, bytes);
}
