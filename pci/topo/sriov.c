/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual functions (SR-IOV, PCIe Base 9.3). Identifiers, BARs, memory decoding, payload and link
 * of a virtual function are in the registers of its physical function.
 */
#include "pci/topo/model.h"

#include "pci/topo/fields.h"

/* Limit of the sum of the VFs that all physical functions describe; in a real machine each VF has
 * one physical function. */
#define CLAIMS_MAX (16u << 20)

static uint32_t routing_id(const struct hr_fn *f)
{
	return (uint32_t)hr_address(f) & 0xffff;
}

static int32_t by_routing_id(const struct hr_model *m, uint32_t domain, uint32_t id)
{
	return hr_model_find(m, domain, id >> 8, id >> 3 & 31, id & 7);
}

static bool has_vfs(const struct hr_fn *f)
{
	return !f->vf && hr_get(f, HR_F_SRIOV, 0) && hr_get(f, HR_F_VF_OFFSET, 0) &&
	       (!hr_known(f, HR_F_VF_CTL) || hr_has(f, HR_F_VF_CTL, HR_SRIOV_ENABLE));
}

/*
 * When a text omits the control register, a function at the address of a virtual function that does
 * not decode memory shows that they are on. Linux turns on their memory decoding at the same time.
 */
static bool is_answering(struct hr_fn *pf, const struct hr_fn *f)
{
	if (hr_known(pf, HR_F_VF_CTL))
		return true;
	if (!hr_lacks(f, HR_F_COMMAND, HR_COMMAND_MSE) || hr_get(f, HR_F_SRIOV, 0))
		return false;
	hr_fn_set(pf, HR_F_VF_CTL, HR_SRIOV_ENABLE | HR_SRIOV_MSE, HR_SRC_INFERRED);
	return true;
}

/* Make this function the physical one of all functions that its capability describes. */
static uint32_t claim(struct hr_model *m, uint32_t index)
{
	struct hr_fn *pf = &m->fn[index];
	uint32_t vfs = hr_get(pf, HR_F_VFS, 0), stride = hr_get(pf, HR_F_VF_STRIDE, 0), n = 0;
	uint32_t id = routing_id(pf) + hr_get(pf, HR_F_VF_OFFSET, 0);

	for (; n < vfs && id <= 0xffff && (n == 0 || stride); n++, id += stride) {
		int32_t at = by_routing_id(m, pf->domain, id);

		if (at == HR_NO_FN || hr_is_bridge(&m->fn[at]) || !is_answering(pf, &m->fn[at]))
			continue;
		m->fn[at].vf = true;
		hr_fn_set(&m->fn[at], HR_F_PHYSFN, routing_id(pf), HR_SRC_INFERRED);
	}
	return n + 1;
}

/*
 * Text of a function without BARs and decoding describes a virtual function, unless the first
 * function of its bus, which would be the physical one, has no SR-IOV. lspci -v shows the
 * capability without its registers.
 */
static bool may_be_virtual(const struct hr_model *m, int32_t index)
{
	const struct hr_fn *f = &m->fn[index];
	int32_t first = hr_model_find(m, f->domain, f->bus, 0, 0);

	return f->vf_maybe && first != index &&
	       (first == HR_NO_FN || m->fn[first].denied || !hr_known(&m->fn[first], HR_F_ECAPS) ||
		(hr_get(&m->fn[first], HR_F_SRIOV, 0) && !hr_known(&m->fn[first], HR_F_VF_OFFSET)));
}

void hr_virtual_find(struct hr_model *m)
{
	uint32_t steps = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		m->fn[i].physfn = HR_NO_FN;
		if (!has_vfs(&m->fn[i]))
			continue;
		if (steps < CLAIMS_MAX)
			steps += claim(m, i);
		else
			hr_model_warn(m, "more virtual functions than a machine can have");
	}
	for (uint32_t i = 0; i < m->count; i++) {
		struct hr_fn *f = &m->fn[i];
		int32_t pf = hr_known(f, HR_F_PHYSFN)
				     ? by_routing_id(m, f->domain, hr_get(f, HR_F_PHYSFN, 0))
				     : HR_NO_FN;

		f->vf |= hr_known(f, HR_F_PHYSFN) || may_be_virtual(m, (int32_t)i);
		/* A VF has a higher routing identifier than its physical function. */
		if (pf != HR_NO_FN && pf < (int32_t)i && !m->fn[pf].vf)
			f->physfn = pf;
	}
}

/*
 * Take a fact from the physical function when the VF's register does not hold it. A fact from the
 * user stays.
 */
static void borrow(struct hr_fn *f, const struct hr_fn *pf, enum hr_fact_id id)
{
	if (f->fact[id].source == HR_SRC_USER && (!pf || pf->fact[id].source != HR_SRC_USER))
		return;
	f->fact[id] = pf ? pf->fact[id] : (struct hr_fact){ 0 };
}

static void set_bits(struct hr_fn *f, enum hr_fact_id id, uint32_t bits, bool on)
{
	if (hr_known(f, id))
		f->fact[id].value = on ? f->fact[id].value | bits : f->fact[id].value & ~bits;
}

/* A VF exists only while the capability is on; Linux turns on decoding at the same time. */
bool hr_virtual_decodes(const struct hr_model *m, const struct hr_fn *f)
{
	const struct hr_fn *pf = f->physfn == HR_NO_FN ? NULL : &m->fn[f->physfn];

	return !pf || !hr_known(pf, HR_F_VF_CTL) ||
	       hr_has(pf, HR_F_VF_CTL, HR_SRIOV_ENABLE | HR_SRIOV_MSE);
}

/* The n-th VF, counted from 0, has the n-th part of each BAR of the capability. */
static uint32_t number_of(const struct hr_fn *f, const struct hr_fn *pf)
{
	uint32_t first = routing_id(pf) + hr_get(pf, HR_F_VF_OFFSET, 1);
	uint32_t stride = hr_get(pf, HR_F_VF_STRIDE, 1), id = routing_id(f);

	return id < first || stride == 0 ? 0 : (id - first) / stride;
}

static void place_bars(struct hr_fn *f, const struct hr_fn *pf)
{
	uint32_t n = number_of(f, pf);

	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		const struct hr_bar *all = &pf->vf_bar[i];
		struct hr_bar *own = &f->bar[i];
		bool stated = own->size_source > HR_SRC_INFERRED;
		uint64_t size = stated ? own->size : all->size, base = all->base;

		if (all->source == HR_SRC_NONE)
			continue;
		if (n && !size && own->base)
			base = own->base;
		*own = (struct hr_bar){
			.base = all->flags & HR_BAR_UNASSIGNED ? 0 : base + n * size,
			.size = size,
			.flags = all->flags,
			.source = all->source,
			.size_source = stated ? own->size_source : all->size_source
		};
	}
}

static void complete_vf(struct hr_model *m, struct hr_fn *f)
{
	static const enum hr_fact_id of_pf[] = { HR_F_MPS,	 HR_F_MRRS,  HR_F_DEVCTL,
						 HR_F_SPEED_MAX, HR_F_SPEED, HR_F_SPEED_TARGET,
						 HR_F_WIDTH_MAX, HR_F_WIDTH, HR_F_ASPM };
	const struct hr_fn *pf = f->physfn == HR_NO_FN ? NULL : &m->fn[f->physfn];

	for (unsigned i = 0; i < sizeof of_pf / sizeof *of_pf; i++)
		borrow(f, pf, of_pf[i]);
	set_bits(f, HR_F_COMMAND, HR_COMMAND_MSE, hr_virtual_decodes(m, f));
	/* The kernel's address of a VF's BAR is right, although the VF has no such register. */
	for (unsigned i = 0; i < HR_BARS_MAX; i++)
		if (f->bar[i].flags & HR_BAR_MEM && f->bar[i].base)
			f->bar[i].flags &= (uint8_t)~HR_BAR_UNASSIGNED;
	if (!pf)
		return;
	set_bits(f, HR_F_DEVCTL2, HR_DEVCTL2_TAG10_ENABLE, hr_has(pf, HR_F_VF_CTL, HR_SRIOV_TAG10));
	if (!hr_known(f, HR_F_VENDOR))
		borrow(f, pf, HR_F_VENDOR);
	if (!hr_known(f, HR_F_DEVICE) && hr_known(pf, HR_F_VF_DEVICE))
		f->fact[HR_F_DEVICE] = pf->fact[HR_F_VF_DEVICE];
	place_bars(f, pf);
	f->readdressed |= pf->readdressed;
}

void hr_virtual_complete(struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (m->fn[i].vf)
			complete_vf(m, &m->fn[i]);
}
