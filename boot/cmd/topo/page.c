/* Style sheet and script of the page, embedded in the binary. */
#include "boot/cmd/topo/html.h"

__asm__(".section .rodata\n"
	".globl hr_page_style\n"
	".globl hr_page_script\n"
	"hr_page_style:\n"
	".incbin \"boot/cmd/topo/page.css\"\n"
	".byte 0\n"
	"hr_page_script:\n"
	".incbin \"boot/cmd/topo/page.js\"\n"
	".byte 0\n"
	".previous\n");
