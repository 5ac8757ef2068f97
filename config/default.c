/*
 * The configuration that runs with no hardware and no file, embedded in the binary.
 */
#include "config/config.h"

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
