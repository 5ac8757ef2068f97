/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/lspci/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Words that a line of a command's messages begins with. */
static bool is_message(const char *line)
{
	static const char *const begins[] = { "pcilib:",	"Script ",
					      "Connection to ", "Warning: Permanently",
					      "bash: ",		"sudo: " };

	for (unsigned i = 0; i < sizeof begins / sizeof *begins; i++)
		if (strncmp(line, begins[i], strlen(begins[i])) == 0)
			return true;
	/* the command, its path, its name in a heading */
	return strstr(line, "lspci") != NULL;
}

/* "$ uname -a", "root@box:~# cat x", "[root@box ~]# cat x", "PS C:\> x", "box$ " */
static bool is_prompt(const char *line)
{
	const size_t n = strcspn(line, "$#%");

	if (line[n] == '\0' || (line[n + 1] != ' ' && line[n + 1] != '\0'))
		return false;
	return n == 0 || strcspn(line, "@:~]") < n || strcspn(line, " ") >= n;
}

/* Headings, tags and members: "## Hardware", "<details>", "[code]", "Output:", "\"rc\": 0" */
static bool is_heading(const char *line)
{
	const size_t n = strlen(line);
	const char last = line[n - 1];

	return strchr("#<=*_`~\"", line[0]) != NULL || (line[0] == '{' && last == '}') ||
	       (line[0] == '[' && last == ']') || (last == ':' && n <= 80);
}

/* No letter or digit: rules, brackets, "..." */
static bool is_rule(const char *line)
{
	for (; *line; line++)
		if (isalnum((unsigned char)*line))
			return false;
	return true;
}

bool hr_skipped_matters(const char *line)
{
	line += strspn(line, " \t");
	return !is_rule(line) && !is_heading(line) && !is_prompt(line) && !is_message(line);
}

void hr_skipped_add(struct hr_model *m, unsigned number, const char *line)
{
	if (!hr_skipped_matters(line))
		return;
	if (m->skipped++ == 0) {
		m->skipped_line = number;
		m->skipped_first = hr_model_word(m, line, strnlen(line, 80));
	}
}

bool hr_skipped_text(const struct hr_model *m, char *text, size_t size)
{
	if (!m->skipped)
		return false;
	snprintf(text, size, "%u line%s skipped, the first is line %u: %s", m->skipped,
		 m->skipped == 1 ? "" : "s", m->skipped_line, m->skipped_first);
	return true;
}
