/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/model.h - the PCI topology of one machine in memory, independent of its source.
 *
 * Every function is a row of facts. A fact has a value and the source it was read from, which is
 * also its rank of trust. A fact that no source states is HR_SRC_NONE; a rule must not treat it as
 * zero. Readers (pci/topo/source/source.h) only add functions and set facts.
 * hr_model_connect() then sorts the functions and builds the tree. Verdicts never change a
 * model; what-if changes it by setting facts.
 *
 * Memory: hr_model_init() makes one reservation, which is filled from the front. Nothing is freed
 * before hr_model_fini(). Pages that are never touched cost nothing.
 */
#ifndef PCI_TOPO_MODEL_H
#define PCI_TOPO_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"

#define HR_FUNCTIONS_MAX 65536u /* one domain of 256 buses; a larger capture is refused */
#define HR_ROOT_BUSES_MAX 4096u
#define HR_BARS_MAX 6u
#define HR_BDF_MAX 16u	       /* "10000:ff:1f.7" and its NUL */
#define HR_WORD_MAX 128u       /* stored length of a driver, slot or release name, with NUL */
#define HR_SWITCH_LINKS_MAX 8u /* links of one virtual switch to others of the same switch */
#define HR_DEPTH_MAX 64u       /* bridges above a function; real machines have fewer than ten */
#define HR_NO_FN (-1)
#define HR_WARNINGS_KEPT 8u

/* Source of a fact, in ascending rank: a fact of a higher source replaces one of a lower source. */
enum hr_src {
	HR_SRC_NONE,	 /* no source states the fact: unknown */
	HR_SRC_INFERRED, /* derived from other facts */
	HR_SRC_XML,	 /* topology file of NCCL or hwloc */
	HR_SRC_LOG,	 /* messages of the kernel */
	HR_SRC_TEXT,	 /* lspci -vv text */
	HR_SRC_SYSFS,
	HR_SRC_CONFIG, /* configuration space */
	HR_SRC_USER,   /* command line: assumption or what-if */
};

/* The facts of a function: X(enum suffix, name in captures and JSON, 1: printed as hex). */
#define HR_FACTS(X)                                                                               \
	X(VENDOR, "vendor", 1)                                                                    \
	X(DEVICE, "device", 1)                                                                    \
	X(CLASS, "class", 1) /* 24 bits: class, subclass, programming interface */                \
	X(REVISION, "revision", 1)                                                                \
	X(HEADER, "header", 1) /* header type with the multi-function bit */                      \
	X(COMMAND, "command", 1)                                                                  \
	X(STATUS, "status", 1)                                                                    \
	X(PRIMARY, "primary", 1)                                                                  \
	X(SECONDARY, "secondary", 1)                                                              \
	X(SUBORDINATE, "subordinate", 1)                                                          \
	X(BRIDGE_CTL, "bridge_ctl", 1)                                                            \
	X(CAPS, "caps", 0)	/* capability list: 1 readable, 0 none, 2 damaged */              \
	X(ECAPS, "ecaps", 0)	/* extended list: 1 readable, 0 none, 2 damaged */                \
	X(PORT, "port_type", 0) /* enum hr_port_type */                                           \
	X(EXP, "exp_offset", 1) /* offset of the PCI Express capability, 0: conventional PCI */   \
	X(MPSS, "mps_supported", 0) /* bytes */                                                   \
	X(MPS, "mps", 0)	    /* bytes */                                                   \
	X(MRRS, "mrrs", 0)	    /* bytes */                                                   \
	X(DEVCTL, "devctl", 1)                                                                    \
	X(DEVSTA, "devsta", 1)                                                                    \
	X(PORT_NUMBER, "port_number", 0)                                                          \
	X(SPEED_MAX, "link_speed_max", 0) /* 1..6: 2.5, 5, 8, 16, 32, 64 GT/s */                  \
	X(WIDTH_MAX, "link_width_max", 0)                                                         \
	X(SPEED, "link_speed", 0)                                                                 \
	X(WIDTH, "link_width", 0)                                                                 \
	X(SPEED_TARGET, "link_speed_target", 0)                                                   \
	X(LLACTREP, "dl_active_reporting", 0)                                                     \
	X(DLACTIVE, "dl_active", 0)                                                               \
	X(PRESENT, "card_present", 0) /* presence detect state of a port with a slot */           \
	X(ASPM, "aspm", 0)                                                                        \
	X(DEVCAP2, "devcap2", 1)                                                                  \
	X(DEVCTL2, "devctl2", 1)                                                                  \
	X(ATOMIC_CAP, "atomic_cap", 1) /* AtomicOps bits of devcap2, when a text shows them */    \
	X(ATOMIC_CTL, "atomic_ctl", 1) /* the same of devctl2 */                                  \
	X(PM, "pm_state", 0)	       /* 0 (D0) .. 3 (D3hot), 4 (D3cold) */                      \
	X(ACS, "acs_offset", 1)	       /* 0: the function has no ACS capability */                \
	X(ACS_CAP, "acs_cap", 1)                                                                  \
	X(ACS_CTL, "acs_ctl", 1)                                                                  \
	X(ACS_EGRESS, "acs_egress", 1) /* first 32 bits of the egress vector */                   \
	X(ATS, "ats_offset", 1)                                                                   \
	X(ATS_CTL, "ats_ctl", 1)                                                                  \
	X(UESTA, "aer_uesta", 1)                                                                  \
	X(CESTA, "aer_cesta", 1)                                                                  \
	X(DPC, "dpc_status", 1)                                                                   \
	X(GONE, "gone", 0)	    /* configuration space reads all ones */                      \
	X(REBAR, "rebar_offset", 1) /* known: the function has Resizable BAR */                   \
	X(SRIOV, "sriov_offset", 1) /* 0: no virtual functions */                                 \
	X(VF_CTL, "sriov_ctl", 1)   /* HR_SRIOV_ENABLE, HR_SRIOV_MSE */                           \
	X(VFS, "vf_count", 0)                                                                     \
	X(VF_OFFSET, "vf_offset", 0) /* of the first VF, in routing identifiers */                \
	X(VF_STRIDE, "vf_stride", 0)                                                              \
	X(VF_DEVICE, "vf_device", 1)                                                              \
	X(PHYSFN, "physical_function", 1) /* of a VF: bus, device, function in 16 bits */         \
	X(AER_COR, "aer_correctable", 0)  /* errors that the kernel counted since boot */         \
	X(AER_NONFATAL, "aer_nonfatal", 0)                                                        \
	X(AER_FATAL, "aer_fatal", 0)                                                              \
	X(AER_ROOT_COR, "aer_root_correctable", 0) /* messages to a root port */                  \
	X(AER_ROOT_NONFATAL, "aer_root_nonfatal", 0)                                              \
	X(AER_ROOT_FATAL, "aer_root_fatal", 0)                                                    \
	X(SLOT, "slot", 0)		    /* physical slot number of a port */                  \
	X(SLOT_IMPL, "slot_implemented", 0) /* of a port: 0: the link is wired on the board */    \
	X(TUNNEL, "thunderbolt", 0)	    /* 1: a port of a Thunderbolt controller */           \
	X(NUMA, "numa_node", 0)		    /* 0xffffffff: the firmware does not say */           \
	X(GROUP, "iommu_group", 0)                                                                \
	X(GROUP_TYPE, "iommu_type", 0) /* enum hr_iommu of the group's domain */                  \
	X(MOUNTED, "mounted", 0)       /* a disk of this controller is in use by a file system */ \
	X(STACKED, "stacked", 0)       /* md or dm is between that file system and the disk */    \
	X(GPU, "gpu", 0)	       /* 1: the source calls it a GPU, whatever its class */     \
	X(RDMA, "rdma", 0)	       /* 1: a driver has made RDMA devices of it; 0: none */

enum hr_fact_id {
#define HR_FACT_ENUM(id, name, hex) HR_F_##id,
	HR_FACTS(HR_FACT_ENUM)
#undef HR_FACT_ENUM
		HR_FACTS_COUNT
};

struct hr_fact {
	uint32_t value;
	uint8_t source; /* enum hr_src; HR_SRC_NONE: value is undefined */
};

/* An address range that a bridge decodes, from base to limit inclusive. */
struct hr_window {
	uint64_t base, limit;
	uint8_t source; /* HR_SRC_NONE: unknown; base > limit: closed */
};

enum hr_bar_flags {
	HR_BAR_MEM = 1,
	HR_BAR_64 = 2,
	HR_BAR_PREF = 4,
	HR_BAR_UNASSIGNED = 8, /* the register is zero, or lspci says virtual or unassigned */
	HR_BAR_UPPER = 16,     /* the upper half of the 64-bit BAR before it */
};

#define HR_BAR_SIZES 0xfffffffffffull /* 1 MiB to 8 EiB */

/*
 * A base address register. From configuration space the base is the bus address, which TLPs carry;
 * from text and sysfs it is the CPU's address (pci/topo/rules/offset.h).
 */
struct hr_bar {
	uint64_t base, size; /* size 0: unknown */
	uint8_t flags;	     /* enum hr_bar_flags; 0: no such BAR */
	uint8_t source;	     /* of base and flags */
	uint8_t size_source;
	uint8_t sizes_source; /* HR_SRC_NONE: unknown, or the BAR cannot be resized */
	/* Sizes that Resizable BAR offers: bit n is 1 MiB << n, as in sysfs resourceN_resize. */
	uint64_t sizes;
};

struct hr_disk;

struct hr_fn {
	uint32_t domain;
	uint8_t bus, dev, fn;
	bool denied; /* reading was denied: the reader must be root */
	/* Virtual function (SR-IOV): its own BARs, identifiers and MSE read as zero. */
	bool vf;
	bool vf_maybe;	       /* the text looks like that of a virtual function */
	bool placed;	       /* `under` is the parent, bus numbers do not matter */
	bool readdressed;      /* what-if: the firmware would assign other addresses */
	bool acs_assumed;      /* what-if: ACS control is the firmware's value, assumed to be 0 */
	uint64_t under;	       /* hr_address() of the parent of a placed function */
	unsigned line;	       /* first line in the capture; 0: live machine */
	uint32_t config_bytes; /* valid bytes of config */
	uint8_t *config;       /* NULL: not read */
	const char *name;      /* "" when unknown */
	const char *driver;    /* NULL: unknown, "": none bound */
	const char *pci_slot;  /* physical slot label or number; NULL: unknown */
	const char *cpus;      /* CPUs of its NUMA node as a list, "0-15,32-47"; NULL: unknown */
	const char *fs;	       /* file system types on its disks, "ext4"; NULL: none or unknown */
	const char *devices;   /* the system's names of it: "nvme0n1", "mlx5_0 ens1f0"; or NULL */
	struct hr_disk *disk;  /* of an NVMe controller, pci/topo/disk.h; NULL: unknown */
	struct hr_fact fact[HR_FACTS_COUNT];
	struct hr_window mem, pref; /* of a bridge */
	struct hr_bar bar[HR_BARS_MAX];
	struct hr_bar vf_bar[HR_BARS_MAX]; /* BARs of its first VF; size: of one VF */
	/* Upstream ports that the driver of the switch reports as linked with this one. */
	uint64_t linked[HR_SWITCH_LINKS_MAX];
	unsigned links;

	/* Set by hr_model_connect(). */
	int32_t parent;	  /* bridge above, HR_NO_FN on a root bus */
	int32_t root_bus; /* index of the root bus */
	int32_t physfn;	  /* of a VF: its physical function; HR_NO_FN: not in the model */
	uint32_t depth;	  /* number of bridges above */
	int32_t child;	  /* first function below, in bus order */
	int32_t sibling;  /* next one with the same parent */
	bool disputed;	  /* bridges contradict each other about the path to it */
	bool orphan;	  /* the bridge above its bus is missing from the capture */
};

/* A root bus, which sysfs calls pciDDDD:BB. */
struct hr_root_bus {
	uint32_t domain;
	uint8_t bus;
	int32_t first; /* first function on it, in devfn order */
	uint32_t numa; /* node of its functions; 0xffffffff: unknown */
};

enum hr_fabric { HR_NVLINK, HR_XGMI };

/* Links of a GPU other than PCI Express, to another GPU or to a switch of such links. */
struct hr_gpu_link {
	uint64_t from, to; /* hr_address(); HR_NO_ADDRESS: a switch whose address is unknown */
	uint16_t count;
	uint8_t fabric; /* enum hr_fabric */
	bool to_switch;
	uint8_t source;
};
#define HR_NO_ADDRESS UINT64_MAX
#define HR_GPU_LINKS_MAX 8192u

/* ACS controls in a text that does not state their functions' addresses. */
struct hr_acs_lines {
	uint32_t lines, redirecting; /* of them: with RR, CR or EC */
};

enum hr_iommu { HR_IOMMU_UNKNOWN, HR_IOMMU_OFF, HR_IOMMU_PT, HR_IOMMU_ON };

#define HR_NOT_LOADED "not loaded"

/* Facts of the machine. Strings are "" when unknown. */
struct hr_system {
	char kernel[HR_WORD_MAX];   /* release, "6.1.0-37-amd64" */
	char cmdline[4096];	    /* kernel command line */
	char lockdown[HR_WORD_MAX]; /* "none", "integrity", "confidentiality" */
	struct hr_fact amd;	    /* 1: the CPU's vendor is AMD (0 for Hygon) */
	struct hr_fact family;	    /* CPU family */
	struct hr_fact cpus;	    /* logical CPUs */
	struct hr_fact hypervisor;  /* 1: the CPU reports a hypervisor */
	struct hr_fact iommu;	    /* enum hr_iommu */
	/* enum hr_iommu: the mode that the kernel gives an IOMMU, if one is on */
	struct hr_fact iommu_type;
	char iommu_reason[192];	    /* what states or implies that mode, or why it is unknown */
	struct hr_fact p2pdma;	    /* 1: the kernel has CONFIG_PCI_P2PDMA */
	char nvidia[64];	    /* version of NVIDIA's driver */
	struct hr_fact nvidia_open; /* 1: the open kernel modules */
	char nvidia_keys[512];	    /* NVreg_RegistryDwords; "-": none set */
	char nvidia_fs[64];	    /* version, or HR_NOT_LOADED */
	struct hr_fact multipath;   /* 1: nvme_core combines several paths to a disk */
	bool live;
};

struct hr_log_iommu; /* pci/topo/log/kernel_log.h */

struct hr_model {
	struct hr_fn *fn; /* sorted by address after hr_model_connect() */
	uint32_t count;
	struct hr_root_bus *root_bus;
	uint32_t root_buses;
	struct hr_gpu_link *gpu_link;
	uint32_t gpu_links;
	struct hr_p2p *p2p; /* answers of NVIDIA's driver, pci/topo/gpu_peers.h */
	uint32_t p2ps;
	struct hr_smi *
		smi; /* matrix of nvidia-smi, rocm-smi or amd-smi, pci/topo/lspci/text.h; or NULL */
	struct hr_acs_lines acs_lines;
	/* A change was assumed, so HR_F_GROUP is outdated: the kernel would form other groups. */
	bool regrouped;
	bool booted; /* what-if: another boot was assumed */
	struct hr_system sys;
	const struct hr_log_iommu
		*iommu_log;	 /* of the kernel's log, for hr_iommu_decide(); or NULL */
	char input[HR_WORD_MAX]; /* "lspci dump", "sysfs tree", ... */
	struct hr_error error;	 /* reason of a failed read, with the line */
	uint32_t warnings;	 /* contradictions that were resolved; see warning[] */
	char warning[HR_WARNINGS_KEPT][256]; /* the first warnings */
	/* Lines of a text that state nothing (pci/topo/lspci/text.h), and the first of them. */
	uint32_t skipped;
	unsigned skipped_line;
	const char *skipped_first; /* NULL: none */

	/* Private. */
	uint8_t *memory;
	size_t reserved, used;
	uint32_t *bucket; /* hash of addresses to index + 1 */
};

/* Reserve memory. 0 or -ENOMEM. */
int hr_model_init(struct hr_model *m);
void hr_model_fini(struct hr_model *m);

/* Forget all facts that were read; used when a reader turns out to be the wrong one. */
void hr_model_reset(struct hr_model *m);

/*
 * Allocate zeroed, 8-byte aligned memory, valid until hr_model_fini(); NULL: the reservation is
 * full.
 */
void *hr_model_alloc(struct hr_model *m, size_t bytes);
/* Free and zero the memory that was allocated after m->used had the value `used`. */
void hr_model_release(struct hr_model *m, size_t used);
/*
 * Replace every byte that is not part of a printable UTF-8 character with '?', so that output
 * cannot control a terminal and JSON stays valid.
 */
void hr_text_clean(char *text, size_t bytes);
/*
 * Copy at most HR_WORD_MAX - 1 bytes as UTF-8; control characters and invalid bytes become '?'. ""
 * when memory is full.
 */
const char *hr_model_word(struct hr_model *m, const char *text, size_t bytes);

/* The same for up to 1023 bytes; NULL when memory is full. */
const char *hr_model_text(struct hr_model *m, const char *text, size_t bytes);
/*
 * Add links of a GPU. For a second statement about the same ends, the better source wins. 0,
 * -ENOMEM or -E2BIG.
 */
int hr_model_add_link(struct hr_model *m, const struct hr_gpu_link *link);
/*
 * Number of links between two functions: direct links, or through switches the smaller of both
 * numbers of links. *fabric and *through (a switch) are set when the number is not 0.
 */
unsigned hr_gpu_links(const struct hr_model *m, uint64_t a, uint64_t b, enum hr_fabric *fabric,
		      bool *through);

/*
 * Find the function with that address, or add it. NULL: more than HR_FUNCTIONS_MAX functions, or
 * dev > 31 or fn > 7. Pointers to functions are valid until hr_model_connect().
 */
struct hr_fn *hr_model_add(struct hr_model *m, uint32_t domain, uint32_t bus, uint32_t dev,
			   uint32_t fn);
/* Index of the function with that address, or HR_NO_FN. */
int32_t hr_model_find(const struct hr_model *m, uint32_t domain, uint32_t bus, uint32_t dev,
		      uint32_t fn);

/* The same, for the address as hr_address() gives it. */
int32_t hr_model_find_address(const struct hr_model *m, uint64_t key);

/* Domain, bus, device and function as one number with the same order. */
uint64_t hr_address(const struct hr_fn *f);
/* The number of "[DDDD:]BB:DD.F"; HR_NO_ADDRESS: the text is something else. */
uint64_t hr_address_parse(const char *text);
/* Write such a number as "0000:41:00.0" to text[HR_BDF_MAX]; returns text. */
char *hr_address_text(uint64_t address, char *text);

/* Sort functions by their addresses. Indices from before are void. */
void hr_model_sort(struct hr_model *m);

/* Sort functions, find parents and root buses, derive further facts. 0 or -ENOMEM. */
int hr_model_connect(struct hr_model *m);

/* Record a contradiction that was resolved (printf-like). */
void hr_model_warn(struct hr_model *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* State a fact. A better source wins; for equal sources the later statement wins. */
void hr_fact_set(struct hr_fact *fact, uint32_t value, enum hr_src source);
static inline void hr_fn_set(struct hr_fn *f, enum hr_fact_id id, uint32_t value, enum hr_src src)
{
	hr_fact_set(&f->fact[id], value, src);
}

static inline bool hr_known(const struct hr_fn *f, enum hr_fact_id id)
{
	return f->fact[id].source != HR_SRC_NONE;
}

/* Value of a fact, or `unknown` when no source states it. */
static inline uint32_t hr_get(const struct hr_fn *f, enum hr_fact_id id, uint32_t unknown)
{
	return f->fact[id].source != HR_SRC_NONE ? f->fact[id].value : unknown;
}

/* Record that the driver of a switch reports upstream ports f and `address` as linked. */
void hr_fn_add_switch_link(struct hr_fn *f, uint64_t address);

/* True when the fact is known and has all these bits. */
static inline bool hr_has(const struct hr_fn *f, enum hr_fact_id id, uint32_t bits)
{
	return f->fact[id].source != HR_SRC_NONE && (f->fact[id].value & bits) == bits;
}

/* True when the fact is known and has none of these bits. */
static inline bool hr_lacks(const struct hr_fn *f, enum hr_fact_id id, uint32_t bits)
{
	return f->fact[id].source != HR_SRC_NONE && (f->fact[id].value & bits) == 0;
}

/* True when the function has ACS. A text may show the control alone, without the offset. */
static inline bool hr_has_acs(const struct hr_fn *f)
{
	return hr_known(f, HR_F_ACS) ? f->fact[HR_F_ACS].value != 0 : hr_known(f, HR_F_ACS_CTL);
}

const char *hr_fact_name(enum hr_fact_id id);
bool hr_fact_is_hex(enum hr_fact_id id);
/* The fact with that name, or HR_FACTS_COUNT. */
enum hr_fact_id hr_fact_by_name(const char *name, size_t bytes);
const char *hr_src_name(enum hr_src source);

/* Write "0000:41:00.0" to text[HR_BDF_MAX]; returns text. */
char *hr_bdf(const struct hr_fn *f, char *text);
/*
 * True for a model of functions without classes, names and identifiers: lspci -t shows only their
 * places. Nothing tells which are GPUs or SSDs.
 */
bool hr_model_is_bare(const struct hr_model *m);

/* Parse "[DDDD:]BB:DD.F"; returns the number of bytes used, 0: not an address. */
size_t hr_bdf_parse(const char *text, uint32_t *domain, uint32_t *bus, uint32_t *dev, uint32_t *fn);

bool hr_is_bridge(const struct hr_fn *f);
bool hr_is_nvme(const struct hr_fn *f);
/* A GPU that can be a peer: neither an on-board management display nor an integrated Intel GPU. */
bool hr_is_gpu(const struct hr_fn *f);
/* An Ethernet, InfiniBand or Omni-Path controller. */
bool hr_is_nic(const struct hr_fn *f);
/* True for a network card that has RDMA: InfiniBand, or Ethernet with an RDMA device of its driver. */
static inline bool hr_is_rdma(const struct hr_fn *f)
{
	return hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0207 ||
	       (hr_is_nic(f) && hr_get(f, HR_F_RDMA, 0) != 0);
}
/* A GPU that is part of a CPU or chipset: its memory is the host's memory. */
bool hr_is_integrated(const struct hr_fn *f);
/* Index of the BAR through which peers reach the function's memory, or -1. */
int hr_peer_bar(const struct hr_fn *f);

/* ---- virtual functions of SR-IOV (PCIe Base 9.3). Private to the model.
 *
 * The registers of a virtual function show identifiers of ffff, BARs of 0 and memory decoding off,
 * in every state. The true values are in the SR-IOV capability of its physical function.
 */

/*
 * Set vf, physfn and HR_F_PHYSFN of all functions, from the readers' facts and from the SR-IOV
 * capabilities. The model is sorted.
 */
void hr_virtual_find(struct hr_model *m);

/*
 * Copy to virtual functions the facts that their physical functions hold: payload, link, BARs,
 * memory decoding, identifiers. Without the physical function these facts stay unknown.
 */
void hr_virtual_complete(struct hr_model *m);

/* True when memory decoding of a virtual function is on, as far as is known. */
bool hr_virtual_decodes(const struct hr_model *m, const struct hr_fn *f);

#endif
