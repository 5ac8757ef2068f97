/*
 * gpu/ops/op_user.h - user operators: what the source file of one includes, and the binary interface
 * between headrace and the file that `make op OP=NAME.c` makes of it.
 *
 * The source is compiled twice, like all worker code: by gcc into a shared object (worker code for
 * the `host` backend, and the description that the CPU reads for both backends), and by nvcc into
 * relocatable GPU code, which is put into a section of the same file. So one file, NAME.op, runs on
 * both; without nvcc it holds the host part only. The driver's linker joins the GPU code with the
 * worker image at bring-up.
 *
 * gpu/ops/template/histogram.c is such a source, and explains itself. It has:
 *   - hr_op_user_init, hr_op_user_tile and hr_op_user_finish, in the common subset of C11 and CUDA
 *     C++ that nvme/worker.h describes, and nothing else with external linkage (use static);
 *   - inside #ifndef __CUDACC__, one HR_OPERATOR(...), the description.
 *
 * The host part is code of this process: it can do all that headrace can, and when it crashes,
 * headrace crashes. GPU code that touches what is not its own ends the run with an error, and so does
 * a tile, init or finish that does not come back within two minutes.
 */
#ifndef GPU_OPS_OP_USER_H
#define GPU_OPS_OP_USER_H

#include "gpu/worker/op.h"
#include "nvme/worker.h"

/* Raised by every change of what is below or of struct hr_op_{arg,tile,all,report}. */
#define HR_OP_ABI 1u

#define HR_OP_RECORD_MAX 65536u /* record of one tile */
#define HR_OP_RATIO_MAX 4096u	/* out_num, out_den */
#define HR_OP_HELP_MAX 4096u	/* help text, with its NUL */

#ifdef __CUDACC__
#define HR_OP_CODE extern "C" __device__
#else
#define HR_OP_CODE
#endif

/* Worker code, block-collective; the contract is that of a built-in operator (gpu/worker/op.h). tile
 * returns the same value in all threads: exactly the bytes that the output ratio promises. */
HR_OP_CODE void hr_op_user_init(const void *args, void *state);
HR_OP_CODE uint32_t hr_op_user_tile(const void *args, void *state, const struct hr_op_tile *tile);
HR_OP_CODE void hr_op_user_finish(const struct hr_op_all *all);

#ifndef __CUDACC__

/* Where report() sends the values of a result: lines for people, members of an object with --json.
 * Names are words without blanks. Everything is copied. */
struct hr_op_report {
	void (*u64)(const struct hr_op_report *to, const char *name, uint64_t value);
	void (*i64)(const struct hr_op_report *to, const char *name, int64_t value);
	void (*real)(const struct hr_op_report *to, const char *name, double value);
	void (*text)(const struct hr_op_report *to, const char *name, const char *value);
	void (*u64s)(const struct hr_op_report *to, const char *name, const uint64_t *value,
		     uint32_t count);
	void (*reals)(const struct hr_op_report *to, const char *name, const double *value,
		      uint32_t count);
};

/* The description, exported as `hr_operator`. Made by HR_OPERATOR(), which fills the first group. */
struct hr_op_user {
	uint32_t abi;	/* HR_OP_ABI */
	uint32_t bytes; /* sizeof(struct hr_op_user) */
	void (*init)(const void *args, void *state);
	uint32_t (*tile)(const void *args, void *state, const struct hr_op_tile *tile);
	void (*finish)(const struct hr_op_all *all);
	const uint8_t *gpu, *gpu_end; /* relocatable fatbin; equal: host part only */

	const char *name; /* [a-z][a-z0-9_]*, shorter than HR_NAME_MAX; not that of a built-in */
	const char *help; /* one paragraph: sources, arguments, result; under HR_OP_HELP_MAX */
	uint32_t sources_min, sources_max; /* 1..HR_SOURCES_MAX; 0, 0: one */
	enum hr_op_output output;
	uint32_t out_num, out_den;  /* with HR_OUT_DATA: each 1..HR_OP_RATIO_MAX */
	uint32_t tile_record_bytes; /* up to HR_OP_RECORD_MAX */
	bool reads_once;	    /* as in struct hr_op_desc */
	/* As in struct hr_op_desc, but each may be NULL: */
	int (*parse)(const struct hr_op_arg *arg, uint32_t count, void *args,
		     void (*complain)(void *to, unsigned line, const char *text),
		     void *to);					  /* no arguments */
	uint32_t (*row_bytes)(const void *args, uint32_t source); /* 1; up to HR_TILE_MAX */
	uint32_t (*state_bytes)(const void *args);		  /* 0; up to HR_OP_STATE_MAX */
	/* The result, value by value, after finish(), from its arguments, result and records (states
	 * may be NULL). Is one given, an interrupted run that is called again starts over instead of
	 * going on after what is durable of the sink. */
	void (*report)(const struct hr_op_all *all, const struct hr_op_report *to);
};

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
		(uint32_t)sizeof(struct hr_op_user), (uint32_t)sizeof(struct hr_op_arg),         \
			(uint32_t)sizeof(struct hr_op_tile), (uint32_t)sizeof(struct hr_op_all), \
			(uint32_t)sizeof(struct hr_op_report), HR_OP_ARGS_MAX, HR_OP_RESULT_MAX  \
	}

#ifdef HR_OP_GPU_IMAGE /* set by `make op`: the fatbin */
#define HR_OP_GPU_BYTES ".incbin \"" HR_OP_GPU_IMAGE "\"\n"
#else
#define HR_OP_GPU_BYTES ""
#endif

/* The description, as initializers: .name = "...", .help = "...", ... */
#define HR_OPERATOR(...)                                                                   \
	extern const uint8_t hr_op_gpu[] __attribute__((visibility("hidden")));            \
	extern const uint8_t hr_op_gpu_end[] __attribute__((visibility("hidden")));        \
	__asm__(".pushsection .rodata.hr_op_gpu, \"a\"\n"                                  \
		".balign 16\n"                                                             \
		".hidden hr_op_gpu, hr_op_gpu_end\n"                                       \
		".globl hr_op_gpu, hr_op_gpu_end\n"                                        \
		"hr_op_gpu:\n" HR_OP_GPU_BYTES "hr_op_gpu_end:\n"                          \
		".byte 0\n"                                                                \
		".popsection\n");                                                          \
	static const struct hr_op_note hr_op_note                                          \
		__attribute__((section(".note.headrace"), used, aligned(4))) = {           \
			sizeof HR_OP_NOTE_NAME,                                            \
			4 * (1 + HR_OP_NOTE_SIZES),                                        \
			HR_OP_NOTE_TYPE,                                                   \
			HR_OP_NOTE_NAME,                                                   \
			HR_OP_ABI,                                                         \
			HR_OP_SIZES,                                                       \
		};                                                                         \
	extern const struct hr_op_user hr_operator __attribute__((visibility("default"))); \
	const struct hr_op_user hr_operator = { .abi = HR_OP_ABI,                          \
						.bytes = sizeof(struct hr_op_user),        \
						.init = hr_op_user_init,                   \
						.tile = hr_op_user_tile,                   \
						.finish = hr_op_user_finish,               \
						.gpu = hr_op_gpu,                          \
						.gpu_end = hr_op_gpu_end,                  \
						__VA_ARGS__ }

#endif
#endif
