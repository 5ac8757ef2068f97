/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/verdict.h - the verdict whether a GPU and an SSD can do peer-to-peer DMA, and the rule
 * that decides.
 *
 * Four flows have verdicts of their own, because hardware treats them differently:
 *   F1  GPU writes the SSD's doorbell (posted)       F2  SSD writes GPU memory: data, CQE (posted)
 *   F3  SSD reads GPU memory: SQE, PRP, data          F4  GPU reads SSD registers (non-posted)
 * A pair's verdict is the worst verdict of the flows that the mode uses. Besides this physical
 * verdict there is the kernel's verdict (p2pdma), computed with the kernel's algorithm for a given
 * version.
 *
 * Rules are rows of a table (pci/topo/rules/rules.c): a new quirk is one row. A rule that neither the
 * specification nor kernel sources confirm is marked `recalled`; it only adds a note.
 *
 * The model is read-only; all state is in the topology. Not thread safe per topology.
 */
#ifndef PCI_TOPO_RULES_VERDICT_H
#define PCI_TOPO_RULES_VERDICT_H

#include "pci/topo/rules/groups.h"
#include "pci/topo/model.h"

enum hr_flow { HR_F1, HR_F2, HR_F3, HR_F4, HR_FLOWS };
#define HR_FLOW_ALL 15u

/* Verdicts, best first; hr_verdict_order() orders verdicts that are equally good. */
enum hr_verdict {
	HR_DIRECT,	   /* inside one switch */
	HR_RC_LISTED,	   /* through a root complex that the kernel trusts */
	HR_REDIR_LISTED,   /* one switch, but ACS sends it up: uses the uplink twice */
	HR_RC_UNLISTED,	   /* through a root complex that the kernel does not list: compare data */
	HR_REDIR_UNLISTED, /* the same with an unlisted root complex */
	HR_WRITES_ONLY,	   /* posted writes work, reads have timed out */
	HR_UNKNOWN,	   /* a deciding fact is missing */
	HR_VFIO_CONFLICT,  /* the SSD's IOMMU group cannot be opened */
	HR_BLOCKED,
	HR_SILENT_LOSS, /* the IOMMU drops the data and reports no error */
	HR_VERDICTS
};

/* Results of the kernel's pci_p2pdma_distance(). */
enum hr_kernel_verdict {
	HR_KERNEL_BUS_ADDR,
	HR_KERNEL_THRU_HOST,
	HR_KERNEL_NOT_SUPPORTED,
	HR_KERNEL_UNKNOWN
};

enum hr_modifier {
	HR_MOD_LINK = 1,      /* a link on the path is slower or narrower than it could be */
	HR_MOD_MPS = 2,	      /* payload sizes differ across root ports */
	HR_MOD_NUMA = 4,      /* other socket */
	HR_MOD_PCH = 8,	      /* behind the chipset */
	HR_MOD_WINDOW = 16,   /* only part of the GPU's memory is visible */
	HR_MOD_ERRORS = 32,   /* errors recorded for the path; informative */
	HR_MOD_ORDER = 64,    /* data and completion take different paths; informative */
	HR_MOD_ASSUMED = 128, /* the IOMMU's mode is not in the capture; off or pt is assumed */
	HR_MOD_ACS = 256, /* the firmware's value of an ACS control is not known; 0 is assumed */
	HR_MOD_SOFTWARE = 512,	    /* the path works, but the card's software does not use it */
	HR_MOD_BOOT = 1024,	    /* direct until the next boot sets ACS redirect; informative */
	HR_MOD_DEGRADED = 31 | 512, /* modifiers that make a DIRECT pair count as degraded */
};

/* Use of the pair at run time; decides which flows count. */
enum hr_mode {
	HR_MODE_GPU,	   /* queues in GPU memory, raw bus addresses: F1 F2 F3 */
	HR_MODE_HOST,	   /* queues in host memory, data direct, raw bus addresses: F2 F3 */
	HR_MODE_VFIO,	   /* as gpu, but addresses are IOVAs of a VFIO container */
	HR_MODE_KERNEL,	   /* in-kernel p2pdma: F2 F3, mapped by the kernel */
	HR_MODE_VFIO_HOST, /* as vfio, but doorbells are the CPU's: F2 F3 */
};

/* Addresses on the bus are IOVAs of a VFIO container. */
static inline bool hr_mode_is_vfio(enum hr_mode mode)
{
	return mode == HR_MODE_VFIO || mode == HR_MODE_VFIO_HOST;
}

/* Signs of a virtual machine that make pairs UNKNOWN(vm). */
enum hr_vm {
	HR_VM_ALL,    /* the CPU's flag, an Express endpoint on a root bus, emulated functions */
	HR_VM_CPU,    /* the first two only */
	HR_VM_IGNORE, /* none: the emulated topology is evaluated as if it was hardware */
};

struct hr_topo_options {
	enum hr_mode mode;
	uint32_t kernel;     /* version of the p2pdma table: major << 16 | minor; 0: newest */
	enum hr_iommu iommu; /* HR_IOMMU_UNKNOWN: the model's mode */
	enum hr_vm vm;
};

#define HR_RULES_MAX 128u

/*
 * Preconditions of rules on pairs: facts of any function or options of the topology. Machines have
 * many pairs, so a rule whose trait the machine lacks is not tried on its pairs.
 */
enum hr_trait {
	HR_TRAIT_ORPHAN = 1 << 0,	  /* a root bus whose bridge is missing */
	HR_TRAIT_PCH = 1 << 1,		  /* a port of an Intel chipset */
	HR_TRAIT_SWITCH_LINK = 1 << 2,	  /* linked virtual switches */
	HR_TRAIT_WINDOW_BREAK = 1 << 3,	  /* a BAR outside the windows above it */
	HR_TRAIT_WINDOW_UNREAD = 1 << 4,  /* a BAR and windows that cannot be compared */
	HR_TRAIT_HT = 1 << 5,		  /* an AMD CPU, and a BAR in the HyperTransport range */
	HR_TRAIT_REDIRECT = 1 << 6,	  /* ACS control with RR, CR or EC */
	HR_TRAIT_EGRESS = 1 << 7,	  /* ACS control with EC */
	HR_TRAIT_BLOCKING = 1 << 8,	  /* ACS control with TB */
	HR_TRAIT_TRANSLATED = 1 << 9,	  /* ACS control with DT */
	HR_TRAIT_ACS_ASSUMED = 1 << 10,	  /* what-if: an assumed ACS control */
	HR_TRAIT_BOOT_REDIRECT = 1 << 11, /* redirect after a boot with an IOMMU */
	HR_TRAIT_IOMMU_UNREAD = 1 << 12,  /* raw addresses, an IOMMU that may be on */
	HR_TRAIT_IOMMU_ASSUMED = 1 << 13, /* raw addresses, no information about an IOMMU */
	HR_TRAIT_IOMMU_ON = 1 << 14,	  /* raw addresses, a translating IOMMU */
	HR_TRAIT_IOVA = 1 << 15,	  /* addresses on the bus may be IOVAs */
	HR_TRAIT_VFIO = 1 << 16,	  /* the mode uses VFIO */
	HR_TRAIT_GROUP = 1 << 17,	  /* an IOMMU group of the kernel */
	HR_TRAIT_MPS_DIFFER = 1 << 18,	  /* two payload sizes */
	HR_TRAIT_MPS_UNREAD = 1 << 19,	  /* an Express function without a payload size */
	HR_TRAIT_TAGS = 1 << 20,	  /* 10-bit tags are or may be on */
	HR_TRAIT_MODE_HOST = 1 << 21,	  /* the mode has queues in host memory */
	HR_TRAIT_TIMEOUT = 1 << 22,	  /* a recorded completion timeout */
	HR_TRAIT_ROOT_UNREAD = 1 << 23,	  /* a root complex that the source does not identify */
	HR_TRAIT_NODE = 1 << 24,	  /* a NUMA node */
	HR_TRAIT_NODE_UNREAD = 1 << 25,	  /* a function without a NUMA node */
	HR_TRAIT_CUFILE = 1 << 26,	  /* NVIDIA's software is known, nvidia-fs is not loaded */
};

struct hr_offset; /* pci/topo/rules/offset.h */

struct hr_hits {
	uint64_t word[HR_RULES_MAX / 64];
};

struct hr_topology;
struct hr_pair;

/* Functions on which a row is tried. */
enum hr_scope {
	HR_ON_MACHINE = 1,
	HR_ON_GPU = 2,
	HR_ON_SSD = 4,
	HR_ON_PORT = 8, /* any bridge on the path, the common one excluded */
	HR_ON_COMMON = 16,
	HR_ON_PAIR = 32,
	HR_ON_ABOVE = 64,  /* the common bridge and those above it, for all flows */
	HR_ON_CLIMB = 128, /* the same, only for flows that go up there */
	HR_ON_ENDS = HR_ON_GPU | HR_ON_SSD,
	HR_ON_ALL = HR_ON_ENDS | HR_ON_PORT | HR_ON_CLIMB,
};

enum hr_where { HR_ANYWHERE, HR_SAME_SWITCH, HR_ACROSS };

struct hr_rule {
	const char *id;
	enum hr_scope scope;
	uint8_t gpu_flows, ssd_flows; /* flows stopped by a hit on that side of the path */
	enum hr_verdict verdict;      /* HR_VERDICTS: no verdict, a modifier or a note */
	uint16_t modifier;	      /* enum hr_modifier */
	enum hr_where where;	      /* HR_ANYWHERE: always counts */
	bool recalled;		      /* not confirmed: a note, whatever verdict the row has */
	/* Rule on the machine that is reported only when there is no pair. */
	bool loose;
	uint32_t needs; /* rule on pairs: enum hr_trait; 0: none */
	/*
	 * For a row without a verdict: 2: data may not arrive; 1: the same, but the finding is
	 * common on working machines.
	 */
	uint8_t doubt;
	const char *reason; /* word in parentheses: BLOCKED(window) */
	bool (*on_fn)(const struct hr_topology *e, const struct hr_fn *f);
	uint8_t (*on_pair)(const struct hr_topology *e, const struct hr_pair *p); /* flows hit */
	const char *why, *fix; /* templates: {bdf} and {fact name}, {gpu}, {ssd}; fix may be NULL */
	const char *source;
};

extern const struct hr_rule hr_rules[];
extern const unsigned hr_rules_count;

enum hr_walk_flag {
	HR_WALK_REDIRECT = 1,
	HR_WALK_KERNEL_REDIRECT = 2,
	HR_WALK_UNREAD = 4,
	HR_WALK_BOOT_REDIRECT = 8,
	HR_WALK_ASSUMED = 16,
	HR_WALK_UNREAD_PORT = 32,
};

/* The smallest range that contains several ranges, both ends included; base > last: empty. */
struct hr_span {
	uint64_t base, last;
};

/* Facts of a function that do not depend on a pair. */
struct hr_derived {
	struct hr_hits hits; /* rules of function scope */
	int32_t parent;	     /* copies of the model's values: a walk stays in this array */
	uint32_t depth;
	int32_t root_bus;
	uint32_t node; /* NUMA node of the function, or of its root bus; UINT32_MAX: not known */
	bool orphan;
	/* Bus addresses of the BAR that peers address; base > last: none. */
	uint64_t bar_base, bar_last;
	/* The same with any admissible constant (pci/topo/rules/offset.h). */
	struct hr_span bar_reach;
	int64_t bar_offset;    /* constant in bar_base; 0: none */
	bool pch;	       /* port of an Intel chipset */
	uint8_t uplink;	       /* enum hr_uplink */
	bool chipset;	       /* a chipset's port, or below one */
	bool card_port;	       /* upstream port of a switch on a GPU's card */
	uint32_t mps;	       /* 0: unknown or conventional PCI */
	uint32_t mps_missing;  /* Express functions from here to the root without a known payload */
	struct hr_hits above;  /* its own hits and those of the bridges above it */
	uint32_t above_mps;    /* smallest payload of the same functions; 0: none known */
	bool redirect;	       /* ACS control has RR, CR or EC */
	bool kernel_redirect;  /* the same, as the kernel reads it: another register for rule A7 */
	bool boot_redirect;    /* the same, after topology.boot */
	bool acs_assumed;      /* copy of the model's value */
	bool acs_unknown;      /* ACS control was not read and may redirect */
	int32_t window_break;  /* lowest bridge above whose windows miss the peer BAR */
	int32_t window_unread; /* lowest bridge above whose windows are not known */
	int32_t window_kinds; /* lowest bridge above whose windows are of another kind of address */
	bool overlaps;	      /* a bridge whose windows overlap those of a sibling */
	struct hr_span mem_above, pref_above; /* union of all windows of the bridges above it */
};

/* Facts of a function that a walk to the root needs; small, because each pair walks. */
struct hr_step {
	int32_t parent;
	uint16_t depth;
	uint8_t flags; /* enum hr_walk_flag: a walk over the function collects them */
};

struct hr_topology {
	const struct hr_model *m;
	struct hr_topo_options opt;
	enum hr_iommu iommu;	/* mode in force */
	bool iommu_active;	/* groups exist, in any mode */
	bool bars;		/* a function has a BAR */
	bool switch_links;	/* a switch reports its virtual switches as linked */
	bool iommu_wanted;	/* the command line turns it on without passthrough */
	bool zen, zen_inferred; /* CPU is AMD family 17h or later */
	bool maybe_zen;		/* CPU is AMD of a family that the capture does not state */
	bool *root_unread;	/* per root bus: the capture does not identify it */
	uint8_t *listed;    /* per root bus: 0 not listed, 1 within itself, 2 with others, too */
	int32_t *gpu, *ssd; /* indices of functions */
	uint32_t gpus, ssds;
	struct hr_derived *derived; /* one per function */
	struct hr_offset *offset;   /* per root bus and class of windows */
	bool x86;		    /* known to be x86: CPU and bus addresses are equal */
	/* The emulated function that shows a virtual machine, or HR_NO_FN. */
	int32_t emulated;
	bool guest;	      /* a virtual machine: rules on bridges and paths do not apply */
	struct hr_step *step; /* one per function */
	int32_t *free_first;  /* [functions]: first free slot of that switch, or HR_NO_FN */
	int32_t *free_next;   /* [functions]: the free slot after that one */
	int32_t free_root;    /* first free slot of a CPU, or HR_NO_FN */
	/* The next boot with the present command line and an IOMMU on. */
	struct hr_next_boot boot;
	struct hr_groups groups; /* groups formed then, in VFIO modes; of == NULL: not needed */
	/* [functions]: prevents VFIO from opening its group, or HR_NO_FN. */
	int32_t *blocker;
	struct hr_hits machine;
	uint32_t fn_rules, pair_rules, machine_rules; /* pair_rules: those that can match */
	uint8_t fn_rule[HR_RULES_MAX], pair_rule[HR_RULES_MAX], machine_rule[HR_RULES_MAX];
};

struct hr_pair {
	int32_t gpu, ssd;	      /* functions */
	int32_t common;		      /* lowest common bridge or HR_NO_FN */
	int32_t gpu_child, ssd_child; /* functions just below `common`; root ports without one */
	uint16_t distance;	      /* number of steps, as the kernel counts */
	uint8_t climbs;		      /* flows whose requests go up to the root complex */
	uint8_t redirected;	      /* flows that ACS sends up, including completions */
	uint8_t up;		      /* flows that may pass the bridges above the common one */
	bool any_redirect;	      /* any port of the path redirects, as in rule A1 */
	bool kernel_redirect;	      /* the same, as the kernel reads it */
	bool unread_redirect;	      /* or ACS was not read */
	bool boot_redirect;	      /* any_redirect after topology.boot */
	bool acs_assumed;	      /* any_redirect depends on the firmware's assumed value */
	bool unread_port;	      /* like unread_redirect, for bridges only */
	bool cut;		      /* bridges above one of them are not in the capture */
	bool same_root;
	bool listed;	  /* root complex allowed by the kernel's rules */
	bool root_unread; /* the capture does not identify the root complex */
	enum hr_kernel_verdict kernel;
	struct hr_hits gpu_side, ssd_side; /* rules that match on the path */
	struct hr_hits pair_hits;
	/*
	 * Smallest payload: of the ports below the common bridge on either side; of that bridge and
	 * those above it when a flow goes there; of all of them. 0: none known.
	 */
	uint32_t gpu_mps, ssd_mps, up_mps, min_mps;

	enum hr_verdict flow[HR_FLOWS];
	uint8_t flow_rule[HR_FLOWS]; /* row that decided */
	enum hr_verdict verdict;
	uint8_t rule; /* row that decided the pair */
	uint16_t modifiers;
};

/*
 * Prepare the evaluation of a topology: find endpoints, try all rules on functions. Memory comes
 * from the model. 0 or -ENOMEM. Call it again after facts changed (what-if).
 */
int hr_topology_init(struct hr_topology *e, struct hr_model *m, const struct hr_topo_options *opt);

/* Evaluate one pair; both are indices of functions. Any two functions are allowed. */
void hr_pair_evaluate(const struct hr_topology *e, int32_t gpu, int32_t ssd, struct hr_pair *p);

/* The same for a given set of flows: bits 1 << enum hr_flow. */
void hr_pair_evaluate_flows(const struct hr_topology *e, int32_t gpu, int32_t ssd, uint8_t flows,
			    struct hr_pair *p);

/* Flows that a mode uses. */
uint8_t hr_mode_flows(enum hr_mode mode);

unsigned hr_verdict_order(enum hr_verdict verdict);
/* "REDIRECTED+RC_LISTED", or with the rule's reason: "BLOCKED(window)". text[48]; returns text. */
char *hr_verdict_text(enum hr_verdict verdict, unsigned rule, char *text);
/* The verdict with that name; HR_VERDICTS: none. */
enum hr_verdict hr_verdict_by_name(const char *name, size_t bytes);
const char *hr_kernel_text(enum hr_kernel_verdict verdict);

/* PIX PXB PHB NODE SYS, as nvidia-smi topo -m prints them. */
const char *hr_distance_word(const struct hr_topology *e, const struct hr_pair *p);

/* True when the row's `where` holds for the pair. */
bool hr_rule_counts(const struct hr_rule *r, const struct hr_pair *p);

/* Flows that a rule stops when it matches at the common bridge (common) or above it. */
uint8_t hr_flows_above(const struct hr_pair *p, const struct hr_rule *r, bool common);

/* Functions from the endpoint up to, but without, the common bridge. Returns their number. */
unsigned hr_functions_below(const struct hr_model *m, int32_t from, int32_t common, int32_t *out,
			    unsigned max);

static inline bool hr_hit(const struct hr_hits *h, unsigned rule)
{
	return h->word[rule >> 6] >> (rule & 63) & 1;
}

static inline void hr_hit_set(struct hr_hits *h, unsigned rule)
{
	h->word[rule >> 6] |= 1ull << (rule & 63);
}

/* NUMA node of a function, or of its root bus; ~0: unknown. */
static inline uint32_t hr_node(const struct hr_topology *e, int32_t fn)
{
	return e->derived[fn].node;
}

#endif
