#include "config/file/health.h"

static const char *const actions[] = { "log", "pause", "stop", NULL };

#define WARNING(key, number)                                                                \
	{                                                                                   \
		key, HR_FIELD_CHOICE, .choices = actions,                                   \
				      .offset = offsetof(struct hr_config_health, action) + \
						(number) * sizeof(enum hr_warning_action)   \
	}

/* In the order of the bits of the critical warning. */
static const struct hr_field health_fields[HR_WARNINGS] = {
	WARNING("spare", 0),	 WARNING("temperature", 1), WARNING("reliability", 2),
	WARNING("read_only", 3), WARNING("backup", 4),
};

void hr_config_health_read(struct hr_config_health *health, const struct hr_group *group)
{
	hr_group_read(group, health_fields, HR_WARNINGS, health);
}
