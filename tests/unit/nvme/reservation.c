/* Reservations as text; the rest needs an ssd: tests/unit/boot/engine/reservation.c. */
#include "nvme/reservation.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(reservation_text, .timeout = 60);

Test(reservation_text, each_type_has_its_name)
{
	static const char *const want[] = {
		"no",
		"Write Exclusive",
		"Exclusive Access",
		"Write Exclusive - Registrants Only",
		"Exclusive Access - Registrants Only",
		"Write Exclusive - All Registrants",
		"Exclusive Access - All Registrants",
		"unknown",
	};

	for (uint8_t i = 0; i < sizeof want / sizeof *want; i++)
		cr_expect_str_eq(hr_resv_type_name(i), want[i], "%u", i);
	cr_expect_str_eq(hr_resv_type_name(255), "unknown");
}

Test(reservation_text, a_host_is_written_with_all_its_bytes_and_no_more)
{
	struct hr_resv_holder holder = { .type = 1, .key = 0x1234 };
	char text[HR_RESV_TEXT];

	for (unsigned i = 0; i < sizeof holder.id; i++)
		holder.id[i] = (uint8_t)(0xa0 + i);
	holder.id_bytes = 8;
	cr_expect_str_eq(hr_resv_text(&holder, text),
			 "Write Exclusive reservation of key 0x0000000000001234, host "
			 "a0a1a2a3a4a5a6a7");
	holder.id_bytes = 16;
	holder.type = 4; /* the longest name */
	holder.key = UINT64_MAX;
	cr_expect_eq(hr_resv_text(&holder, text), text);
	cr_expect_str_eq(text, "Exclusive Access - Registrants Only reservation of key "
			       "0xffffffffffffffff, host a0a1a2a3a4a5a6a7a8a9aaabacadaeaf");
	holder.id_bytes = 0;
	hr_resv_text(&holder, text);
	cr_expect_str_eq(text + strlen(text) - 7, ", host ");
}
