/*
 * boot/remote/proof.h - proofs that a side knows the key, and codes of messages (HMAC-SHA256).
 *
 * Both sides prove the key over both HELLOs, which have a nonce of each side, so no proof is of use
 * in another connection; the two proofs have different labels, so none can be reflected. The key of
 * the session follows from the key, the HELLOs and the proofs.
 */
#ifndef BOOT_REMOTE_PROOF_H
#define BOOT_REMOTE_PROOF_H

#include <stdbool.h>

#include "boot/remote/wire.h"

struct hr_link_transcript {
	struct hr_link_hello hello[2];	      /* by enum hr_link_side */
	uint8_t proof[2][HR_LINK_CODE_BYTES]; /* the sender's is in that of the receiver */
};

/* The proof of one side; the receiver's needs proof[HR_LINK_SENDER]. */
void hr_link_prove(uint8_t proof[HR_LINK_CODE_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
		   const struct hr_link_transcript *said, enum hr_link_side side);

/* The key of the session, from both proofs. */
void hr_link_session_key(uint8_t session[HR_LINK_CODE_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
			 const struct hr_link_transcript *said);

/* The code of a message from that side: head, with its count, and body. */
void hr_link_code(uint8_t code[HR_LINK_CODE_BYTES], const uint8_t session[HR_LINK_CODE_BYTES],
		  enum hr_link_side from, const void *message, size_t bytes);

/* Takes the same time for all values. */
bool hr_link_code_equal(const uint8_t a[HR_LINK_CODE_BYTES], const uint8_t b[HR_LINK_CODE_BYTES]);

/* Overwrite a secret in memory. */
void hr_link_forget(void *secret, size_t bytes);

#endif
