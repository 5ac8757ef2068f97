/*
 * A GPU image, as nvcc made it, inside a binary: the bytes of FILE at the symbol NAME. The Makefile
 * defines both: hr_worker_image is the worker image,
 * hr_worker_user_image the one for user operators.
 */
	.section .rodata
	.balign 64
	.globl NAME
	.type NAME, @object
NAME:
	.incbin FILE
	.size NAME, . - NAME
	.section .note.GNU-stack, "", @progbits
