/*
 * The worker image, as nvcc made it, inside the binary: hr_worker_image. HR_WORKER_IMAGE names the
 * file.
 */
	.section .rodata
	.balign 64
	.globl hr_worker_image
	.type hr_worker_image, @object
hr_worker_image:
	.incbin HR_WORKER_IMAGE
	.size hr_worker_image, . - hr_worker_image
	.section .note.GNU-stack, "", @progbits
