/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/operator.h - included by the source file of every operator, built-in or user; and the
 * binary interface between headrace and the file that `make op OP=NAME.c` builds from a source.
 *
 * A source is compiled twice, like all worker code: by gcc (worker code for the `host` backend, and
 * the description that the CPU reads for both backends), and by nvcc. gpu/ops/template/histogram.c
 * is an example with explanations. A source has:
 *   - hr_operator_init, hr_operator_tile and hr_operator_finish, in the common subset of C11 and
 *     CUDA C++ that nvme/queue/worker.h describes, and no other symbol with external linkage (use
 *     HR_WORKER);
 *   - inside #ifdef HR_OP_CPU, one HR_OPERATOR(...), the description (config/operator.h).
 *
 * A built-in operator is a file gpu/ops/NAME.c and its name in gpu/ops/operators.h. Its code is
 * part of headrace and of the worker image; HR_OP_NAME, which the build sets, makes its symbols
 * unique.
 *
 * `make op` builds NAME.op, a shared object with the GPU code in a section; without nvcc it has the
 * host part only. The driver's linker joins the GPU code with the worker image at bring-up. The
 * host part runs in this process with all rights of headrace; when it crashes, headrace crashes.
 * GPU code that accesses memory outside of its own ends the run with an error. So does a tile, init
 * or finish that does not return within two minutes.
 */
#ifndef GPU_OPS_OPERATOR_H
#define GPU_OPS_OPERATOR_H

#include "cache/objects/objects.h"
#include "config/operator.h"
#include "nvme/queue/worker.h"

/* Increased by every change of the declarations below or of a struct in config/operator.h. */
#define HR_OP_ABI 9u

/* Defined where the description is compiled too, not only worker code. */
#if !defined(HR_DEVICE_CODE) && !defined(HR_OP_WORKER_CODE)
#define HR_OP_CPU
#endif

/*
 * Worker code, block-collective, with the prefix HR_OP_CODE. args: parsed arguments, read-only.
 * state: state of the calling worker. tile returns the number of bytes written to out, the same
 * value in all threads; it must be exactly the number that follows from the output ratio.
 *	HR_OP_CODE void hr_operator_init(const void *args, void *state);
 *	HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state,
 *					     const struct hr_op_tile *tile);
 *	HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all);
 *
 * An access operator has hr_operator_run in place of init and tile, and HR_ACCESS_OPERATOR(...) in
 * place of HR_OPERATOR(...). All threads of all compute blocks call it once; state is that of the
 * calling worker, and each worker has its own *objects.
 *	HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects);
 */
#ifdef HR_OP_NAME

#ifdef HR_DEVICE_CODE
#define HR_OP_CODE HR_DEVICE
#else
#define HR_OP_CODE HR_WORKER
#endif
#define HR_OP_PASTE(name, part) hr_op_##name##part
#define HR_OP_OF(name, part) HR_OP_PASTE(name, part)
#define hr_operator_init HR_OP_OF(HR_OP_NAME, _init)
#define hr_operator_tile HR_OP_OF(HR_OP_NAME, _tile)
#define hr_operator_run HR_OP_OF(HR_OP_NAME, _run)
#define hr_operator_finish HR_OP_OF(HR_OP_NAME, _finish)

#define HR_OPERATOR(...) \
	HR_OP_DESCRIBE(HR_OP_OF(HR_OP_NAME, ), NULL, NULL, NULL, HR_OP_STREAM, __VA_ARGS__)
#define HR_ACCESS_OPERATOR(...) \
	HR_OP_DESCRIBE(HR_OP_OF(HR_OP_NAME, ), NULL, NULL, NULL, HR_OP_ACCESS, __VA_ARGS__)

#else /* an operator file */

#ifdef HR_DEVICE_CODE
#define HR_OP_CODE extern "C" HR_DEVICE
#else
#define HR_OP_CODE
#endif

HR_OP_CODE void hr_operator_init(const void *args, void *state);
HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile);
HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects);
HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all);

/* The description is exported as `hr_operator`. */
#define HR_OPERATOR(...)                                                                         \
	HR_OP_FILE();                                                                            \
	HR_OP_DESCRIBE(hr_operator, hr_op_gpu, hr_op_gpu_end, &hr_op_block_memory, HR_OP_STREAM, \
		       __VA_ARGS__)
#define HR_ACCESS_OPERATOR(...)                                                                  \
	HR_OP_FILE();                                                                            \
	HR_OP_DESCRIBE(hr_operator, hr_op_gpu, hr_op_gpu_end, &hr_op_block_memory, HR_OP_ACCESS, \
		       __VA_ARGS__)

#endif

/* The worker code of both shapes. */
#define HR_OP_STREAM .init = hr_operator_init, .tile = hr_operator_tile
#define HR_OP_ACCESS .run = hr_operator_run

/* The description, as initializers: .name = "...", .help = "...", ... */
#define HR_OP_DESCRIBE(symbol, code, code_end, memory, ...)                            \
	extern const struct hr_operator symbol __attribute__((visibility("default"))); \
	const struct hr_operator symbol = { .abi = HR_OP_ABI,                          \
					    .bytes = sizeof(struct hr_operator),       \
					    .finish = hr_operator_finish,              \
					    .gpu = code,                               \
					    .gpu_end = code_end,                       \
					    .block_memory = memory,                    \
					    __VA_ARGS__ }

/*
 * The ELF note ".note.headrace" (System V ABI, "Note Section"). It identifies a file as an
 * operator, and the version of its interface, before the file is loaded.
 */
#define HR_OP_NOTE_NAME "headrace"
#define HR_OP_NOTE_TYPE 1u
#define HR_OP_NOTE_SIZES 9u
struct hr_op_note {
	uint32_t name_bytes, desc_bytes, type;
	char name[12]; /* with NUL, padded to 4 bytes */
	uint32_t abi;
	uint32_t size[HR_OP_NOTE_SIZES]; /* HR_OP_SIZES */
};

/* Sizes of structs that both sides must agree on, besides the version of the interface. */
#define HR_OP_SIZES                                                                              \
	{                                                                                        \
		(uint32_t)sizeof(struct hr_operator), (uint32_t)sizeof(struct hr_op_arg),        \
			(uint32_t)sizeof(struct hr_op_tile), (uint32_t)sizeof(struct hr_op_all), \
			(uint32_t)sizeof(struct hr_op_report), HR_OP_ARGS_MAX, HR_OP_RESULT_MAX, \
			(uint32_t)sizeof(struct hr_page_cache),                                  \
			(uint32_t)sizeof(struct hr_objects)                                      \
	}

#ifdef HR_OP_GPU_IMAGE /* set by `make op`: the fatbin */
#define HR_OP_GPU_BYTES ".incbin \"" HR_OP_GPU_IMAGE "\"\n"
#else
#define HR_OP_GPU_BYTES ""
#endif

/* Of an operator file: the GPU code, the note, and the address that nvme/queue/worker_host.h
 * explains. */
#define HR_OP_FILE()                                                                \
	extern void *(*hr_op_block_memory)(void);                                   \
	void *(*hr_op_block_memory)(void);                                          \
	extern const uint8_t hr_op_gpu[] __attribute__((visibility("hidden")));     \
	extern const uint8_t hr_op_gpu_end[] __attribute__((visibility("hidden"))); \
	__asm__(".pushsection .rodata.hr_op_gpu, \"a\"\n"                           \
		".balign 16\n"                                                      \
		".hidden hr_op_gpu, hr_op_gpu_end\n"                                \
		".globl hr_op_gpu, hr_op_gpu_end\n"                                 \
		"hr_op_gpu:\n" HR_OP_GPU_BYTES "hr_op_gpu_end:\n"                   \
		".byte 0\n"                                                         \
		".popsection\n");                                                   \
	static const struct hr_op_note hr_op_note                                   \
		__attribute__((section(".note.headrace"), used, aligned(4))) = {    \
			sizeof HR_OP_NOTE_NAME,                                     \
			4 * (1 + HR_OP_NOTE_SIZES),                                 \
			HR_OP_NOTE_TYPE,                                            \
			HR_OP_NOTE_NAME,                                            \
			HR_OP_ABI,                                                  \
			HR_OP_SIZES,                                                \
		}

#endif
