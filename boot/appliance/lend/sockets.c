/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/sockets.h"

#include <string.h>
#include <unistd.h>

#include "boot/appliance/protocol/socket.h"
#include "config/derived.h"

void hr_lend_users(uint32_t group, struct hr_config_control *users)
{
	memset(users, 0, sizeof *users);
	users->group = group;
	users->mode = group == HR_CONTROL_NO_GROUP ? 0600 : 0660;
}

static int open_one(struct hr_tap_sockets *s, uint32_t i, const struct hr_config_pipeline *p,
		    struct hr_error *e)
{
	struct hr_config_control users;

	hr_lend_users(p->tap.group, &users);
	s->group[i] = p->tap.group;
	memcpy(s->name[i], p->tap.name, sizeof s->name[i]);
	s->fd[i] = hr_socket_listen_tap(&s->at[i], p->tap.name, &users, e);
	if (s->fd[i] >= 0)
		return 0;
	hr_error_context(e, "pipeline '%s': tap '%s'", p->name, p->tap.name);
	return s->fd[i];
}

static bool has_socket(const struct hr_config_pipeline *p)
{
	return hr_config_has_tap(p) && !hr_config_sends(p);
}

int hr_tap_sockets_open(struct hr_tap_sockets *s, const struct hr_config *config, const bool *only,
			struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++)
		s->fd[i] = -1;
	for (uint32_t i = 0; !err && i < config->pipelines; i++)
		if (has_socket(&config->pipeline[i]) && (!only || only[i]))
			err = open_one(s, i, &config->pipeline[i], e);
	if (err)
		hr_tap_sockets_close(s);
	return err;
}

void hr_tap_socket_close(struct hr_tap_sockets *s, uint32_t i)
{
	if (s->fd[i] < 0)
		return;
	close(s->fd[i]);
	unlink(s->at[i].sun_path);
	s->fd[i] = -1;
}

void hr_tap_sockets_close(struct hr_tap_sockets *s)
{
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++)
		hr_tap_socket_close(s, i);
}

/* Take the socket of the same tap, for the same users. */
static void keep(struct hr_tap_sockets *to, struct hr_tap_sockets *from,
		 const struct hr_config_pipeline *p, uint32_t i)
{
	for (uint32_t j = 0; has_socket(p) && j < HR_PIPELINES_MAX; j++) {
		if (from->fd[j] < 0 || from->group[j] != p->tap.group ||
		    strcmp(from->name[j], p->tap.name) != 0)
			continue;
		to->fd[i] = from->fd[j];
		to->at[i] = from->at[j];
		to->group[i] = from->group[j];
		memcpy(to->name[i], from->name[j], sizeof to->name[i]);
		from->fd[j] = -1;
		return;
	}
}

int hr_tap_sockets_change(struct hr_tap_sockets *s, const struct hr_config *config,
			  struct hr_error *e)
{
	struct hr_tap_sockets before = *s;
	int err = 0;

	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++)
		s->fd[i] = -1;
	for (uint32_t i = 0; i < config->pipelines; i++)
		keep(s, &before, &config->pipeline[i], i);
	hr_tap_sockets_close(&before);
	for (uint32_t i = 0; i < config->pipelines; i++) {
		const struct hr_config_pipeline *p = &config->pipeline[i];
		const int failed = s->fd[i] < 0 && has_socket(p) ? open_one(s, i, p, e) : 0;

		err = err ? err : failed;
	}
	return err;
}
