/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU image, as nvcc made it, inside a binary: the bytes of FILE from the symbol NAME to
 * NAME_end. gpu/cuda/cuda.mk defines both: hr_worker_image is the worker image; hr_worker_user_image
 * and hr_worker_access_image are the images that the driver links with user operators, one for each
 * shape; hr_worker_roles_image is the image from which the driver reports the registers of each
 * role.
 */
#define JOIN(a, b) a##b
#define END_OF(name) JOIN(name, _end)

	.section .rodata
	.balign 64
	.globl NAME
	.type NAME, @object
NAME:
	.incbin FILE
	.size NAME, . - NAME
	.globl END_OF(NAME)
END_OF(NAME):
	.section .note.GNU-stack, "", @progbits
