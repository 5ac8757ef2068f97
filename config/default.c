/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/default.c - embeds config/default.conf in the binary. This configuration needs no hardware
 * and no file.
 */
#include "config/default.h"

__asm__(".section .rodata\n"
	".globl hr_config_default\n"
	".globl hr_config_default_bytes\n"
	"hr_config_default:\n"
	".incbin \"config/default.conf\"\n"
	"hr_config_default_end:\n"
	".byte 0\n"
	".balign 4\n"
	"hr_config_default_bytes:\n"
	".long hr_config_default_end - hr_config_default\n"
	".previous\n");
