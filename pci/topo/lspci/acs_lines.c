/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/lspci/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ACS_CTL_BITS 0x7fu /* SV TB RR CR UF EC DT */
#define ACS_CTL_OFFSET 6u  /* from the capability */
#define LINES_MAX 65536ul

bool hr_acs_flags_redirect(const char *flags)
{
	return strstr(flags, "ReqRedir+") || strstr(flags, "CmpltRedir+") ||
	       strstr(flags, "EgressCtrl+");
}

/* The address at the start of text; *bytes is its length. HR_NO_ADDRESS: none. */
static uint64_t address_at(const char *text, size_t *bytes)
{
	uint32_t domain, bus, dev, fn;

	*bytes = isxdigit((unsigned char)*text) ? hr_bdf_parse(text, &domain, &bus, &dev, &fn) : 0;
	if (!*bytes || dev > 31 || fn > 7 || isalnum((unsigned char)text[*bytes]))
		return HR_NO_ADDRESS;
	return (uint64_t)domain << 16 | bus << 8 | dev << 3 | fn;
}

static const char *skip(const char *at, const char *bytes)
{
	return at + strspn(at, bytes);
}

/* A word of four digits that ends the line, "001d"; false: something else. */
static bool last_word(const char *at, uint32_t most, uint32_t *value)
{
	char *end;

	if (strncmp(at, "0x", 2) == 0)
		at += 2;
	*value = (uint32_t)strtoul(at, &end, 16);
	return end == at + 4 && isxdigit((unsigned char)*at) && *value <= most &&
	       *skip(end, " \t\r") == '\0';
}

/* The address after "-s" in a command; HR_NO_ADDRESS: none, or a pattern for several functions. */
static uint64_t selected(const char *command)
{
	const char *at = strstr(command, "-s");
	uint64_t address;
	size_t n;

	while (at && at > command && at[-1] != ' ')
		at = strstr(at + 1, "-s");
	if (!at)
		return HR_NO_ADDRESS;
	at = skip(at + 2, " =\"'");
	address = address_at(at, &n);
	return address != HR_NO_ADDRESS && (!at[n] || strchr(" \"'|;", at[n])) ? address
									       : HR_NO_ADDRESS;
}

/* A read of the control by setpci: "ECAP_ACS+6.w" without a value to write. */
static bool reads_control(const char *command)
{
	const char *at = strcasestr(command, "ecap_acs+");
	char *end;

	if (!at)
		return false;
	return strtoul(at + 9, &end, 16) == ACS_CTL_OFFSET && strncasecmp(end, ".w", 2) == 0 &&
	       end[2] != '=';
}

/* A command in the text: lspci or setpci with what it selects. */
static enum hr_acs_kind command(struct hr_acs_reader *r, const char *line)
{
	const bool set = strstr(line, "setpci ") != NULL;
	const uint64_t address = selected(line);

	if (!set && !strstr(line, "lspci"))
		return HR_ACS_NOTHING;
	if (!strstr(line, "ACSCtl") && !(set && strcasestr(line, "ecap_acs")) &&
	    !(address != HR_NO_ADDRESS && strstr(line, "-v")))
		return HR_ACS_NOTHING;
	*r = (struct hr_acs_reader){ .address = address,
				     .named = address != HR_NO_ADDRESS,
				     .awaited = set && reads_control(line),
				     .listed = address == HR_NO_ADDRESS };
	return HR_ACS_END;
}

/* After the address: "(ecap 000d @148) @14e = 001d"; a write ends in "->0000" or " 0000". */
static bool verbose_value(const char *at, struct hr_acs_line *found)
{
	unsigned long cap, reg;
	const char *word;
	char *end;

	if (strncasecmp(at, "(ecap 000d @", 12) != 0)
		return false;
	cap = strtoul(at + 12, &end, 16);
	if (strncmp(end, ") @", 3) != 0)
		return false;
	reg = strtoul(end + 3, &end, 16);
	if (cap > 0xfff || reg != cap + ACS_CTL_OFFSET)
		return false;
	found->offset = (uint32_t)cap;
	word = end + strlen(end);
	while (word > end && (word[-1] == ' ' || word[-1] == '\r'))
		word--;
	while (word > end && isxdigit((unsigned char)word[-1]))
		word--;
	return last_word(word, UINT16_MAX, &found->value);
}

/* A line that begins with an address. */
static enum hr_acs_kind addressed(struct hr_acs_reader *r, const char *line,
				  struct hr_acs_line *found)
{
	size_t n;
	const char *rest, *flags;

	found->address = address_at(line, &n);
	if (found->address == HR_NO_ADDRESS)
		return HR_ACS_NOTHING;
	rest = skip(line + n, " \t:=->,\r");
	flags = strstr(rest, "ACSCtl:");
	if (verbose_value(rest, found) || last_word(rest, ACS_CTL_BITS, &found->value))
		return HR_ACS_OF;
	if (strncasecmp(rest, "acs", 3) == 0) {
		found->flags = flags && strstr(flags, "Redir") ? flags : NULL;
		rest = skip(rest + 3, "CcTtRrLl \t:=->");
		if (found->flags || last_word(rest, UINT16_MAX, &found->value))
			return HR_ACS_OF;
	}
	/* setpci -v of another register: no title of a function. */
	if (strncmp(rest, "(cap ", 5) == 0 || strncmp(rest, "(ecap ", 6) == 0 || *rest == '@')
		return HR_ACS_END;
	/* An address and a blank begin a function without a title. */
	if (*skip(rest, "=-#* \t") || (line[n] == ' ' && !*skip(line + n, " \t\r")))
		return HR_ACS_NOTHING;
	*r = (struct hr_acs_reader){ .address = found->address, .named = true };
	return HR_ACS_END;
}

/* "  12 ACSCtl: ..", of uniq -c: as many lines. */
static bool counted(const char *line, struct hr_acs_line *found)
{
	char *end;
	unsigned long n;

	if (!isdigit((unsigned char)*line))
		return false;
	n = strtoul(line, &end, 10);
	found->flags = skip(end, " \t");
	if (strncmp(found->flags, "ACSCtl:", 7) == 0 && strstr(found->flags, "Redir") && n &&
	    n <= LINES_MAX) {
		found->lines = (uint32_t)n;
		return true;
	}
	found->flags = NULL;
	return false;
}

/* Data lines of a dump, "100: 86 80 ..", are frequent. */
static bool is_data(const char *line)
{
	size_t n = 0;

	while (n < 4 && isxdigit((unsigned char)line[n]))
		n++;
	return n >= 2 && line[n] == ':' && line[n + 1] == ' ';
}

enum hr_acs_kind hr_acs_line(struct hr_acs_reader *r, const char *line, struct hr_acs_line *found)
{
	enum hr_acs_kind kind;

	*found = (struct hr_acs_line){ .address = HR_NO_ADDRESS, .lines = 1 };
	if (is_data(line))
		return HR_ACS_NOTHING;
	if (r->awaited && last_word(line, UINT16_MAX, &found->value)) {
		found->address = r->address;
		*r = (struct hr_acs_reader){ 0 };
		return found->address == HR_NO_ADDRESS ? HR_ACS_NEAR : HR_ACS_OF;
	}
	r->awaited = false;
	if (counted(line, found)) {
		*r = (struct hr_acs_reader){ .listed = true };
		return HR_ACS_NEAR;
	}
	if (strncmp(line, "ACSCtl:", 7) == 0 && strstr(line, "Redir")) {
		found->flags = line;
		found->address = r->named ? r->address : HR_NO_ADDRESS;
		return r->named ? HR_ACS_OF : HR_ACS_NEAR;
	}
	kind = addressed(r, skip(line, "=-#*[ "), found);
	if (kind == HR_ACS_NOTHING && (strstr(line, "lspci") || strstr(line, "setpci")))
		kind = command(r, line);
	/* grep -i acs shows these lines, too. */
	if (kind == HR_ACS_NOTHING && *line && strncmp(line, "ACSCap:", 7) != 0 &&
	    strncmp(line, "Capabilities:", 13) != 0)
		r->named = false;
	return kind;
}
