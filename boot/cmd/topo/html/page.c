/* SPDX-License-Identifier: Apache-2.0 */
/* Embeds the style sheet and the script of the page in the binary. */
#include "boot/cmd/topo/html/html.h"

__asm__(".section .rodata\n"
	".globl hr_html_style\n"
	".globl hr_html_script\n"
	"hr_html_style:\n"
	".incbin \"boot/cmd/topo/html/page.css\"\n"
	".byte 0\n"
	"hr_html_script:\n"
	".incbin \"boot/cmd/topo/html/page.js\"\n"
	".byte 0\n"
	".previous\n");
