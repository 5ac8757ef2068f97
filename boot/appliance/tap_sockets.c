#include "boot/appliance/tap_sockets.h"

#include <string.h>
#include <unistd.h>

#include "boot/appliance/socket.h"
#include "config/uses.h"

void hr_tap_users(const struct hr_config_tap *tap, struct hr_config_control *users)
{
	memset(users, 0, sizeof *users);
	users->group = tap->group;
	users->mode = tap->group == HR_CONTROL_NO_GROUP ? 0600 : 0660;
}

static int open_one(struct hr_tap_sockets *s, uint32_t i, const struct hr_config_pipeline *p,
		    struct hr_error *e)
{
	struct hr_config_control users;

	hr_tap_users(&p->tap, &users);
	s->fd[i] = hr_socket_listen_tap(&s->at[i], p->tap.name, &users, e);
	if (s->fd[i] >= 0)
		return 0;
	hr_error_context(e, "pipeline '%s': tap '%s'", p->name, p->tap.name);
	return s->fd[i];
}

int hr_tap_sockets_open(struct hr_tap_sockets *s, const struct hr_config *config, const bool *only,
			struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++)
		s->fd[i] = -1;
	for (uint32_t i = 0; !err && i < config->pipelines; i++)
		if (hr_config_has_tap(&config->pipeline[i]) &&
		    !hr_config_sends(&config->pipeline[i]) && (!only || only[i]))
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
