/*
 * gpu/ops/operator.h - what the source file of an operator includes, built in or of the user, and the
 * binary interface between headrace and the file that `make op OP=NAME.c` makes of a source.
 *
 * A source is compiled twice, like all worker code: by gcc (worker code for the `host` backend, and
 * the description that the CPU reads for both backends), and by nvcc. gpu/ops/template/histogram.c is
 * such a source, and explains itself. It has:
 *   - hr_operator_init, hr_operator_tile and hr_operator_finish, in the common subset of C11 and CUDA
 *     C++ that nvme/worker.h describes, and nothing else with external linkage (use HR_WORKER);
 *   - inside #ifdef HR_OP_CPU, one HR_OPERATOR(...), the description (config/operator.h).
 *
 * A built-in operator is gpu/ops/NAME.c and its name in gpu/ops/operators.h. Its code is a part of
 * headrace and of the worker image; HR_OP_NAME, which the build sets, keeps names apart.
 *
 * `make op` makes NAME.op, a shared object with the GPU code in a section; without nvcc it holds the
 * host part only. The driver's linker joins the GPU code with the worker image at bring-up. The host
 * part is code of this process: it can do all that headrace can, and when it crashes, headrace
 * crashes. GPU code that touches memory that is not its own ends the run with an error, and so does a
 * tile, init or finish that does not come back within two minutes.
 */
#ifndef GPU_OPS_OPERATOR_H
#define GPU_OPS_OPERATOR_H

#include "config/operator.h"
#include "nvme/worker.h"

/* Raised by every change of what is below or of a struct in config/operator.h. */
#define HR_OP_ABI 2u

/* Defined where the description is compiled, not only worker code. */
#if !defined(__CUDACC__) && !defined(HR_OP_WORKER_CODE)
#define HR_OP_CPU
#endif

/*
 * Worker code, block-collective, with the prefix HR_OP_CODE. args: parsed arguments, read only. state:
 * of the calling worker. tile returns the bytes written to out, the same value in all threads: exactly
 * the bytes that the output ratio promises.
 *	HR_OP_CODE void hr_operator_init(const void *args, void *state);
 *	HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state,
 *					     const struct hr_op_tile *tile);
 *	HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all);
 */
#ifdef HR_OP_NAME

#ifdef __CUDACC__
#define HR_OP_CODE HR_DEVICE
#else
#define HR_OP_CODE HR_WORKER
#endif
#define HR_OP_PASTE(name, part) hr_op_##name##part
#define HR_OP_OF(name, part) HR_OP_PASTE(name, part)
#define hr_operator_init HR_OP_OF(HR_OP_NAME, _init)
#define hr_operator_tile HR_OP_OF(HR_OP_NAME, _tile)
#define hr_operator_finish HR_OP_OF(HR_OP_NAME, _finish)

#define HR_OPERATOR(...) HR_OP_DESCRIBE(HR_OP_OF(HR_OP_NAME, ), NULL, NULL, __VA_ARGS__)

#else /* a file */

#ifdef __CUDACC__
#define HR_OP_CODE extern "C" __device__
#else
#define HR_OP_CODE
#endif

HR_OP_CODE void hr_operator_init(const void *args, void *state);
HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile);
HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all);

/* The description is exported as `hr_operator`. */
#define HR_OPERATOR(...) \
	HR_OP_FILE();    \
	HR_OP_DESCRIBE(hr_operator, hr_op_gpu, hr_op_gpu_end, __VA_ARGS__)

#endif

/* The description, as initializers: .name = "...", .help = "...", ... */
#define HR_OP_DESCRIBE(symbol, code, code_end, ...)                                    \
	extern const struct hr_operator symbol __attribute__((visibility("default"))); \
	const struct hr_operator symbol = { .abi = HR_OP_ABI,                          \
					    .bytes = sizeof(struct hr_operator),       \
					    .init = hr_operator_init,                  \
					    .tile = hr_operator_tile,                  \
					    .finish = hr_operator_finish,              \
					    .gpu = code,                               \
					    .gpu_end = code_end,                       \
					    __VA_ARGS__ }

/*
 * The ELF note ".note.headrace" (System V ABI, "Note Section"), by which a file is known to be an
 * operator, of which interface, before any of it is loaded.
 */
#define HR_OP_NOTE_NAME "headrace"
#define HR_OP_NOTE_TYPE 1u
#define HR_OP_NOTE_SIZES 7u
struct hr_op_note {
	uint32_t name_bytes, desc_bytes, type;
	char name[12]; /* with NUL, padded to 4 bytes */
	uint32_t abi;
	uint32_t size[HR_OP_NOTE_SIZES]; /* HR_OP_SIZES */
};

/* What both sides must agree on beyond the number of the interface. */
#define HR_OP_SIZES                                                                              \
	{                                                                                        \
		(uint32_t)sizeof(struct hr_operator), (uint32_t)sizeof(struct hr_op_arg),        \
			(uint32_t)sizeof(struct hr_op_tile), (uint32_t)sizeof(struct hr_op_all), \
			(uint32_t)sizeof(struct hr_op_report), HR_OP_ARGS_MAX, HR_OP_RESULT_MAX  \
	}

#ifdef HR_OP_GPU_IMAGE /* set by `make op`: the fatbin */
#define HR_OP_GPU_BYTES ".incbin \"" HR_OP_GPU_IMAGE "\"\n"
#else
#define HR_OP_GPU_BYTES ""
#endif

/* The GPU code and the note of an operator file. */
#define HR_OP_FILE()                                                                \
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
