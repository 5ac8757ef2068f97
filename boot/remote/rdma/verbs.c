/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/rdma/verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define LIBRARY "libibverbs.so.1"

/* Object and function pointers have the same size (POSIX, dlsym). */
static bool resolve_verbs_symbol(void *library, const char *symbol, const char *version,
				 void *function)
{
	void *const at = dlvsym(library, symbol, version);

	memcpy(function, &at, sizeof(at));
	return at != NULL;
}

static const char *resolve_all(struct hr_verbs *v)
{
	static const char v0[] = "IBVERBS_1.0", v1[] = "IBVERBS_1.1", v11[] = "IBVERBS_1.11";
	const struct {
		const char *symbol, *version;
		void *function;
	} all[] = {
		{ "ibv_get_device_list", v1, &v->get_device_list },
		{ "ibv_free_device_list", v1, &v->free_device_list },
		{ "ibv_get_device_name", v1, &v->get_device_name },
		{ "ibv_open_device", v1, &v->open_device },
		{ "ibv_close_device", v1, &v->close_device },
		{ "ibv_query_port", v1, &v->query_port },
		{ "_ibv_query_gid_table", v11, &v->query_gid_table },
		{ "ibv_alloc_pd", v1, &v->alloc_pd },
		{ "ibv_dealloc_pd", v1, &v->dealloc_pd },
		{ "ibv_reg_mr", v1, &v->reg_mr },
		{ "ibv_dereg_mr", v1, &v->dereg_mr },
		{ "ibv_create_comp_channel", v0, &v->create_comp_channel },
		{ "ibv_destroy_comp_channel", v0, &v->destroy_comp_channel },
		{ "ibv_create_cq", v1, &v->create_cq },
		{ "ibv_destroy_cq", v1, &v->destroy_cq },
		{ "ibv_get_cq_event", v1, &v->get_cq_event },
		{ "ibv_ack_cq_events", v1, &v->ack_cq_events },
		{ "ibv_create_qp", v1, &v->create_qp },
		{ "ibv_modify_qp", v1, &v->modify_qp },
		{ "ibv_destroy_qp", v1, &v->destroy_qp },
		{ "ibv_wc_status_str", v1, &v->wc_status_str },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!resolve_verbs_symbol(v->library, all[i].symbol, all[i].version,
					  all[i].function))
			return all[i].symbol;
	resolve_verbs_symbol(v->library, "ibv_reg_dmabuf_mr", "IBVERBS_1.12", &v->reg_dmabuf_mr);
	return NULL;
}

int hr_verbs_load(struct hr_verbs *verbs, struct hr_error *e)
{
	const char *missing;

	memset(verbs, 0, sizeof(*verbs));
	verbs->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!verbs->library)
		return hr_fail(e, HR_ERROR_MISSING, -ENOENT,
			       "%s: cannot be loaded; RDMA needs the packages libibverbs1 and "
			       "ibverbs-providers",
			       LIBRARY);
	missing = resolve_all(verbs);
	if (!missing)
		return 0;
	hr_verbs_unload(verbs);
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "%s: has no %s; expected rdma-core 33 or later", LIBRARY, missing);
}

void hr_verbs_unload(struct hr_verbs *verbs)
{
	if (verbs->library)
		dlclose(verbs->library);
	memset(verbs, 0, sizeof(*verbs));
}
