/*
 * config/limits.h - every compile-time bound, each with its reason.
 *
 * The configuration may ask for less, never for more: nothing is allocated after boot, so each
 * of these is the size of an array somewhere.
 */
#ifndef CONFIG_LIMITS_H
#define CONFIG_LIMITS_H

#define HR_NAME_MAX 64u	     /* name of anything in a configuration or object map, with its NUL */
#define HR_DEVICE_MAX 256u   /* device string (soft:PATH,... | pci:BDF | host:N), with its NUL */
#define HR_SERIAL_MAX 64u    /* serial number of a disk; NVMe has 20 characters, the kernel more */
#define HR_SSDS_MAX 16u	     /* one host drives that many x4 SSDs before it runs out of lanes */
#define HR_GPUS_MAX 8u	     /* one NVSwitch domain of the common servers */
#define HR_PIPELINES_MAX 16u /* each holds its blocks for as long as it runs */
#define HR_MODULES_MAX 32u   /* kernel modules named by a configuration; their needs come on top */
#define HR_OPERATORS_BUILT_IN_MAX 32u
#define HR_OPERATORS_MAX 16u   /* user operators: one for each pipeline */
#define HR_FILE_MAX 1024u      /* path of an operator file, with its NUL */
#define HR_SOURCES_MAX 8u      /* columns read in step by one pipeline */
#define HR_PREPARED_MAX 8u     /* objects that bring-up makes on a memory-backed ssd */
#define HR_SLOTS_MAX 1024u     /* fits the 12 bits that a command token gives to a slot */
#define HR_BLOCKS_MAX 256u     /* worker blocks of one role; above the SM count of any GPU */
#define HR_THREADS_MAX 1024u   /* of a worker block: the most any GPU has */
#define HR_BLOCK_MEMORY 32768u /* shared memory of a block for its operator: tables of a CRC fit */
#define HR_CHECKSUM_MEMORY 20544u /* more of it, where a pipeline's tiles have checksums: tables */
#define HR_PARTS_MAX 512u	  /* lines of the partition map */
#define HR_TILE_MAX (64u << 20)	  /* one tile; larger ones gain nothing and starve the ring */
#define HR_OP_ARGS_MAX 8200u	  /* parsed operator arguments (a query vector of 2048 floats) */
#define HR_OP_RESULT_MAX 4096u	  /* result record of an operator */
#define HR_CONFIG_BYTES_MAX (1u << 20) /* a configuration file */

#define HR_PAGE 4096u		   /* memory page of the controllers we drive: CC.MPS = 0 */
#define HR_CHUNK_MAX (2u << 20)	   /* largest transfer of one command: its PRP list is one page */
#define HR_QUEUE_ENTRIES_MIN 2u	   /* NVMe Base: the smallest queue */
#define HR_QUEUE_ENTRIES_MAX 4096u /* 12 bits of CID index leave a generation of 4 bits */
#define HR_ADMIN_ENTRIES 32u	   /* synchronous commands: one at a time, plus async events */
#define HR_ADMIN_TIMEOUT_NS (10ull * 1000 * 1000 * 1000) /* admin command deadline */

#endif
