/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/limits.h - every compile-time limit, each with its reason.
 *
 * The configuration may ask for less, never for more. Each limit is the size of an array, because
 * nothing is allocated while pipelines run. Sizes are in bytes.
 */
#ifndef CONFIG_BASE_LIMITS_H
#define CONFIG_BASE_LIMITS_H

#ifdef __cplusplus
#define HR_STATIC_ASSERT static_assert
#else
#define HR_STATIC_ASSERT _Static_assert
#endif

#define HR_NAME_MAX 64u	     /* any name in a configuration or object map, with its NUL */
#define HR_DEVICE_MAX 256u   /* device string (soft:PATH,... | pci:BDF | host:N), with its NUL */
#define HR_SERIAL_MAX 64u    /* serial number of a disk; NVMe has 20 characters, the kernel more */
#define HR_SSDS_MAX 16u	     /* a host has PCIe lanes for about that many x4 SSDs */
#define HR_GPUS_MAX 8u	     /* GPUs of one NVSwitch domain in common servers */
#define HR_PIPELINES_MAX 16u /* their starts share one page, which is one durable write */
#define HR_MODULES_MAX 32u   /* modules named by a configuration; their dependencies come on top */
#define HR_OPERATORS_BUILT_IN_MAX 32u
#define HR_OPERATORS_MAX 16u /* user operators: one for each pipeline */
#define HR_FILE_MAX 1024u    /* path of an operator file, with its NUL */
#define HR_SOURCES_MAX 8u    /* columns that one pipeline reads in step */
#define HR_OBJECTS_MAX 16u   /* objects of an access operator; they fill a fixed array of workers */
#define HR_VERSIONS_MAX 100u /* versions of a sink; the older ones have one or two digits more */
#define HR_TAP_CONSUMERS_MAX 16u /* of one tap at the same time; each has two pages or more */
#define HR_TAP_SETS_MAX 48u /* clients of one run on a GPU: all seats, and some dozens after them */
#define HR_TAP_TRIES_MAX 1000u	  /* more would keep a pipeline from its end for long */
#define HR_TAP_TRIES_DEFAULT 3u	  /* a fault of one consumer, and of another one */
#define HR_REMOTE_ALLOWED_MAX 16u /* addresses that may connect to remote sources */
#define HR_PREPARED_MAX 8u	  /* objects that bring-up makes on a memory-backed ssd */
#define HR_SLOTS_MAX 1024u	  /* fits the 12 bits that a command token gives to a slot */
#define HR_BLOCKS_MAX 256u	  /* worker blocks of one role; above the SM count of any GPU */
#define HR_GPU_BLOCKS_MAX 12288u  /* of one gpu: all roles of all pipelines */
#define HR_THREADS_MAX 1024u	  /* threads of a worker block: the limit of all GPUs */
#define HR_BLOCK_SHARED 32768u /* shared memory of a block: some GPUs have 64 KiB for all blocks */
#define HR_BLOCK_XOR_MEMORY 256u /* part of it for hr_block_xor_u32() of worker code and operator */
#define HR_BLOCK_MEMORY (HR_BLOCK_SHARED - HR_BLOCK_XOR_MEMORY) /* the rest, for the operator */
#define HR_CHECKSUM_MEMORY 20544u /* added to it for pipelines with checksums of tiles: tables */
#define HR_PARTS_MAX 512u	  /* lines of the partition map */
#define HR_TILE_MAX (64u << 20)	  /* one tile; larger tiles gain nothing and leave few slots */
#define HR_OP_ARGS_MAX 8200u	  /* parsed operator arguments (a query vector of 2048 floats) */
#define HR_OP_RESULT_MAX 4096u	  /* an operator's result record */
#define HR_CONFIG_BYTES_MAX (1u << 20) /* bytes of a configuration file */

#define HR_PAGE 4096u		   /* memory page of the controllers: CC.MPS = 0 */
#define HR_CHUNK_MAX (2u << 20)	   /* bytes of one command at most: its PRP list fits one page */
#define HR_QUEUE_ENTRIES_MIN 2u	   /* NVMe Base: the smallest queue */
#define HR_QUEUE_ENTRIES_MAX 4096u /* 12 bits of a CID are the index, 4 bits are the generation */
#define HR_ADMIN_ENTRIES 64u	   /* fill a page: some controllers refuse other sizes */
/* Default deadline of an admin command: some controllers need 10 to 30 s for one after power-up. */
#define HR_ADMIN_TIMEOUT_NS (60ull * 1000 * 1000 * 1000)

#define HR_COUNT(array) (sizeof(array) / sizeof *(array))

#endif
