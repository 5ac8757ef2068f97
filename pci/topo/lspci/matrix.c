/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/lspci/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/text.h"

enum table { NO_TABLE, TOPO, WEIGHT, HOPS, TYPE, ACCESS, OTHER };

struct words {
	unsigned n;
	const char *at[HR_SMI_TOKENS];
	size_t bytes[HR_SMI_TOKENS];
};

/* Length of an escape sequence like ESC[4m; the ESC is lost when a terminal's text is copied. */
static size_t escape(const char *at)
{
	const char *end = at + (*at == '\033');

	if (*end != '[')
		return end != at;
	for (end++; isdigit((unsigned char)*end) || *end == ';'; end++)
		;
	return *end == 'm' ? (size_t)(end + 1 - at) : *at == '\033';
}

/* Words are separated by blanks, and in a table of Markdown by bars. */
static bool separates(char c)
{
	return c == ' ' || c == '\t' || c == '|' || c == '\r' || c == '*';
}

/* A name starts here, within a word that began with one: a terminal has lost the tabs. */
static bool glued(const char *begin, const char *at)
{
	static const char *const name[] = { "GPU", "NIC", "mlx5_", "CPU" };
	bool first = false, here = false;

	for (unsigned i = 0; at > begin && i < sizeof name / sizeof *name; i++) {
		const size_t n = strlen(name[i]);

		first |= strncmp(begin, name[i], n) == 0 && isdigit((unsigned char)begin[n]);
		here |= strncmp(at, name[i], n) == 0;
	}
	return first && here;
}

static void split(const char *line, struct words *w)
{
	w->n = 0;
	while (*line == '>' || *line == ' ')
		line++;
	while (*line && w->n < HR_SMI_TOKENS) {
		size_t skip = escape(line);

		if (skip || separates(*line)) {
			line += skip ? skip : 1;
			continue;
		}
		w->at[w->n] = line;
		while (*line && !separates(*line) && !escape(line) && !glued(w->at[w->n], line))
			line++;
		w->bytes[w->n] = (size_t)(line - w->at[w->n]);
		w->n++;
	}
}

static bool is_word(const struct words *w, unsigned i, const char *word)
{
	return i < w->n && strlen(word) == w->bytes[i] &&
	       strncasecmp(w->at[i], word, w->bytes[i]) == 0;
}

/* True for a word like GPU0 or NIC12. */
static bool is_numbered(const char *at, size_t bytes, const char *prefix)
{
	size_t n = strlen(prefix);

	if (bytes <= n || strncasecmp(at, prefix, n) != 0)
		return false;
	while (n < bytes && isdigit((unsigned char)at[n]))
		n++;
	return n == bytes;
}

static bool is_address(const char *at, size_t bytes)
{
	uint32_t domain, bus, dev, fn;

	return bytes >= 7 && isxdigit((unsigned char)*at) &&
	       hr_bdf_parse(at, &domain, &bus, &dev, &fn) == bytes;
}

static bool is_gpu(const char *at, size_t bytes)
{
	return is_numbered(at, bytes, "GPU") || is_address(at, bytes);
}

static enum hr_smi_distance distance_of(const char *at, size_t bytes)
{
	/* Releases before 390 print SOC for SYS; PSB is one switch on the board of two GPUs. */
	static const struct {
		const char *word;
		enum hr_smi_distance distance;
	} row[] = { { "PIX", HR_SMI_PIX }, { "PSB", HR_SMI_PIX },   { "PXB", HR_SMI_PXB },
		    { "PHB", HR_SMI_PHB }, { "NODE", HR_SMI_NODE }, { "SYS", HR_SMI_SYS },
		    { "SOC", HR_SMI_SYS } };

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++)
		if (strlen(row[i].word) == bytes && memcmp(row[i].word, at, bytes) == 0)
			return row[i].distance;
	return HR_SMI_NONE;
}

const char *hr_smi_distance_word(enum hr_smi_distance distance)
{
	static const char *const word[] = { "", "PIX", "PXB", "PHB", "NODE", "SYS" };

	return word[distance];
}

static bool is_self(const char *at, size_t bytes)
{
	return (bytes == 1 && (*at == 'X' || *at == 'x')) ||
	       (bytes == 4 && memcmp(at, "SELF", 4) == 0);
}

/* True for a word that can be a cell of the table. */
static bool is_cell(enum table table, const char *at, size_t bytes)
{
	static const char *const words[] = { "XGMI", "PCIE",	"SELF",	    "N/A",
					     "True", "ENABLED", "DISABLED", "False" };
	size_t digits = 0;

	if (table == TOPO)
		return is_self(at, bytes) || distance_of(at, bytes) ||
		       is_numbered(at, bytes, "NV") || hr_p2p_status_of(at, bytes);
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (strlen(words[i]) == bytes && memcmp(words[i], at, bytes) == 0)
			return true;
	while (digits < bytes && isdigit((unsigned char)at[digits]))
		digits++;
	return table == OTHER || (bytes && digits == bytes);
}

static unsigned find_device(const struct hr_smi *s, const char *at, size_t bytes)
{
	unsigned i = 0;

	while (i < s->devices && (strlen(s->device[i].name) != bytes ||
				  strncasecmp(s->device[i].name, at, bytes) != 0))
		i++;
	return i < s->devices ? i : HR_SMI_MAX;
}

static unsigned add_device(struct hr_smi *s, const char *at, size_t bytes)
{
	unsigned i = find_device(s, at, bytes);
	struct hr_smi_device *d = &s->device[s->devices];

	if (i < HR_SMI_MAX)
		return i;
	if (s->devices == HR_SMI_MAX || bytes >= HR_SMI_NAME) {
		s->left_out++;
		return HR_SMI_MAX;
	}
	memcpy(d->name, at, bytes);
	hr_text_clean(d->name, bytes);
	d->gpu = is_gpu(at, bytes);
	/* Older releases write the system's name of a network card. */
	if (!d->gpu && !is_numbered(at, bytes, "NIC"))
		memcpy(d->device, d->name, sizeof d->device);
	return s->devices++;
}

/*
 * The line above the columns: names of devices, then "CPU Affinity" and the like. Its first word is
 * a GPU, and no word is a cell.
 */
static bool header(struct hr_smi_reader *r, struct hr_model *m, const struct words *w)
{
	static const char *const ends[] = { "CPU", "NUMA", "GPU" };
	unsigned names = 0;

	if (!w->n || !is_gpu(w->at[0], w->bytes[0]) ||
	    (is_address(w->at[0], w->bytes[0]) && !r->amd))
		return false;
	for (; names < w->n; names++) {
		bool end = false;

		for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++)
			end |= is_word(w, names, ends[i]);
		if (end)
			break;
		if (is_cell(TOPO, w->at[names], w->bytes[names]) || w->at[names][0] == ':' ||
		    w->at[names][0] == '=' || w->at[names][w->bytes[names] - 1] == ':' ||
		    (r->amd && !is_address(w->at[names], w->bytes[names])))
			return false;
	}
	/* One GPU alone in a line is a header only with the columns that follow, or after a title. */
	if (names == 1 && w->n == 1 && r->table == NO_TABLE)
		return false;
	if (!is_gpu(w->at[names > 1 ? 1 : 0], w->bytes[names > 1 ? 1 : 0]) && names > 1 &&
	    w->n == names)
		return false;
	if (!m->smi)
		m->smi = hr_model_alloc(m, sizeof *m->smi);
	if (!m->smi)
		return false;
	if (!m->smi->tool)
		m->smi->tool = r->amd		 ? "amd-smi topology"
			       : r->table > TOPO ? "rocm-smi --showtopo"
						 : "nvidia-smi topo";
	if (r->table == NO_TABLE)
		r->table = TOPO;
	r->columns = names;
	for (unsigned i = 0; i < names; i++)
		r->column[i] = (uint8_t)add_device(m->smi, w->at[i], w->bytes[i]);
	return true;
}

static void parse_topo_cell(const struct hr_smi_reader *r, struct hr_smi_cell *c, const char *at,
			    size_t bytes)
{
	enum hr_p2p_status status = hr_p2p_status_of(at, bytes);

	if (distance_of(at, bytes))
		c->distance = (uint8_t)distance_of(at, bytes);
	else if (is_numbered(at, bytes, "NV"))
		c->nvlinks = (uint16_t)(atoi(at + 2) & 0x3ff);
	else if (status && !r->accesses)
		c->p2p[HR_P2P_ACCESSES] = (uint8_t)status;
	for (unsigned i = 0; status && i < HR_P2P_ACCESSES; i++)
		if (r->accesses >> i & 1)
			c->p2p[i] = (uint8_t)status;
}

static void parse_matrix_cell(const struct hr_smi_reader *r, struct hr_smi_cell *c, const char *at,
			      size_t bytes)
{
	uint64_t number;
	const char *end;

	if (r->table == TOPO)
		parse_topo_cell(r, c, at, bytes);
	else if (r->table == TYPE && bytes == 4 && memcmp(at, "XGMI", 4) == 0)
		c->type = HR_SMI_XGMI;
	else if (r->table == TYPE && bytes == 4 && memcmp(at, "PCIE", 4) == 0)
		c->type = HR_SMI_PCIE;
	else if (r->table == ACCESS)
		c->refused = *at == 'F' || *at == 'D';
	else if ((r->table == WEIGHT || r->table == HOPS) &&
		 hr_number_parse(at, 10, UINT16_MAX, &end, &number) && end == at + bytes)
		*(r->table == WEIGHT ? &c->weight : &c->hops) = (uint16_t)number;
}

/* After the cells: CPU affinity, then the NUMA node. A network card has none. */
static void parse_affinity(struct hr_smi_device *d, const struct words *w, unsigned from)
{
	if (from < w->n && isdigit((unsigned char)*w->at[from]) && w->bytes[from] < HR_WORD_MAX) {
		snprintf(d->cpus, sizeof d->cpus, "%.*s", (int)w->bytes[from], w->at[from]);
		hr_text_clean(d->cpus, strlen(d->cpus));
	}
	if (from + 1 < w->n && isdigit((unsigned char)*w->at[from + 1])) {
		snprintf(d->numa, sizeof d->numa, "%.*s",
			 (int)(w->bytes[from + 1] < 15 ? w->bytes[from + 1] : 15), w->at[from + 1]);
		hr_text_clean(d->numa, strlen(d->numa));
	}
}

static bool row(const struct hr_smi_reader *r, struct hr_model *m, const struct words *w)
{
	unsigned device, i;

	if (!m->smi || r->table == NO_TABLE || w->n < 2)
		return false;
	device = find_device(m->smi, w->at[0], w->bytes[0]);
	if (device == HR_SMI_MAX || !is_cell((enum table)r->table, w->at[1], w->bytes[1]) ||
	    (r->table == OTHER && w->n != r->columns + 1))
		return false;
	m->smi->rows++;
	for (i = 0; i < r->columns && i + 1 < w->n; i++) {
		if (!is_cell((enum table)r->table, w->at[i + 1], w->bytes[i + 1]))
			break;
		if (r->column[i] < HR_SMI_MAX && r->column[i] != device)
			parse_matrix_cell(r, &m->smi->cell[device][r->column[i]], w->at[i + 1],
					  w->bytes[i + 1]);
	}
	if (r->table == TOPO)
		parse_affinity(&m->smi->device[device], w, i + 1);
	return true;
}

/* "NIC0: mlx5_0", and "GPU[0] : (Topology) Numa Node: 1" of rocm-smi. */
static bool legend(struct hr_model *m, const struct words *w)
{
	unsigned device = HR_SMI_MAX;
	char name[HR_SMI_NAME] = "";

	if (!m->smi || w->n < 2)
		return false;
	if (w->n == 2 && w->at[0][w->bytes[0] - 1] == ':')
		device = find_device(m->smi, w->at[0], w->bytes[0] - 1);
	if (device < HR_SMI_MAX) {
		snprintf(m->smi->device[device].device, HR_SMI_NAME, "%.*s", (int)w->bytes[1],
			 w->at[1]);
		hr_text_clean(m->smi->device[device].device, strlen(m->smi->device[device].device));
		return true;
	}
	if (w->n < 4 || !is_word(w, w->n - 2, "Node:") || !is_word(w, w->n - 3, "Numa"))
		return false;
	if (strncmp(w->at[0], "GPU[", 4) == 0)
		snprintf(name, sizeof name, "GPU%u", (unsigned)atoi(w->at[0] + 4) & 0xffff);
	else if (is_word(w, 0, "GPU"))
		snprintf(name, sizeof name, "GPU%u", (unsigned)atoi(w->at[1]) & 0xffff);
	device = find_device(m->smi, name, strlen(name));
	if (device < HR_SMI_MAX)
		snprintf(m->smi->device[device].numa, 16, "%u",
			 (unsigned)atoi(w->at[w->n - 1]) & 0xffff);
	return device < HR_SMI_MAX;
}

/* Titles of the tables of rocm-smi and amd-smi. */
static bool title(struct hr_smi_reader *r, const char *line)
{
	static const struct {
		const char *text;
		enum table table;
		bool amd;
	} titles[] = {
		{ "Weight between two GPUs", WEIGHT, false },
		{ "Hops between two GPUs", HOPS, false },
		{ "Link Type between two GPUs", TYPE, false },
		{ "Link accessibility between two GPUs", ACCESS, false },
		{ "between two GPUs", OTHER, false },
		{ "LINK TYPE TABLE:", TYPE, true },
		{ "WEIGHT TABLE:", WEIGHT, true },
		{ "HOPS TABLE:", HOPS, true },
		{ "ACCESS TABLE:", ACCESS, true },
		{ " TABLE:", OTHER, true },
	};

	for (unsigned i = 0; i < sizeof titles / sizeof *titles; i++)
		if (strstr(line, titles[i].text)) {
			r->table = (uint8_t)titles[i].table;
			r->amd = titles[i].amd;
			r->columns = 0;
			return true;
		}
	return false;
}

/* "nvidia-smi topo -p2p rw": the access that the next matrix is about. */
static bool command(struct hr_smi_reader *r, const char *line)
{
	const char *at = strstr(line, "topo -");

	if (!at)
		return false;
	r->table = NO_TABLE;
	r->accesses = 0;
	at = strstr(at, "-p2p");
	for (at = at ? at + 4 : ""; *at == ' '; at++)
		;
	for (; hr_p2p_access_of(*at) < HR_P2P_ACCESSES; at++)
		r->accesses |= (uint8_t)(1u << hr_p2p_access_of(*at));
	return true;
}

/* A quick test that the data lines of a dump, "100: 86 80 ..", fail. */
static bool may_matter(const struct hr_smi_reader *r, const char *line)
{
	size_t n = 0;

	while (n < 4 && isxdigit((unsigned char)line[n]))
		n++;
	if (n >= 2 && line[n] == ':' && line[n + 1] == ' ')
		return false;
	return r->amd || strstr(line, "GPU") || strstr(line, "TABLE:") || strstr(line, "topo -") ||
	       (r->table != NO_TABLE && *line);
}

bool hr_smi_line(struct hr_smi_reader *r, struct hr_model *m, const char *line)
{
	struct words w;

	if (!may_matter(r, line))
		return false;
	if (command(r, line))
		return false;
	if (title(r, line))
		return true;
	split(line, &w);
	/* Lines with addresses end the tables of amd-smi, unless they are rows or headers. */
	if (header(r, m, &w) || row(r, m, &w) || legend(m, &w))
		return true;
	if (w.n && is_address(w.at[0], w.bytes[0]))
		*r = (struct hr_smi_reader){ .accesses = r->accesses };
	return false;
}

/* Index of the n-th GPU of NVIDIA in the model, or HR_NO_FN. */
static int32_t nvidia_gpu(const struct hr_model *m, uint32_t n)
{
	for (int32_t i = 0; i < (int32_t)m->count; i++)
		if (hr_is_gpu(&m->fn[i]) && hr_get(&m->fn[i], HR_F_VENDOR, 0) == 0x10de && n-- == 0)
			return i;
	return HR_NO_FN;
}

static int attach_pair(struct hr_model *m, const struct hr_smi_cell *c, uint64_t from, uint64_t to)
{
	struct hr_gpu_link link = { .from = from,
				    .to = to,
				    .count = c->nvlinks,
				    .fabric = HR_NVLINK,
				    .source = HR_SRC_INFERRED };
	struct hr_p2p answer = { .from = from, .to = to, .source = HR_SRC_INFERRED };
	bool any = false;
	int err = c->nvlinks ? hr_model_add_link(m, &link) : 0;

	for (unsigned i = 0; i < HR_P2P_ACCESSES; i++) {
		answer.status[i] = c->p2p[i];
		/* A matrix without its command is most often that of reads. */
		if (i == HR_P2P_READ && !c->p2p[i])
			answer.status[i] = c->p2p[HR_P2P_ACCESSES];
		any |= answer.status[i] != HR_P2P_UNREAD;
	}
	return err || !any ? err : hr_p2p_add(m, &answer);
}

int hr_smi_attach(struct hr_model *m)
{
	const struct hr_smi *s = m->smi;
	uint32_t gpus = 0, here = 0;
	int32_t at[HR_SMI_MAX];
	int err = 0;

	if (!s || !s->rows || hr_model_is_bare(m))
		return 0;
	if (strncmp(s->tool, "nvidia", 6) != 0) {
		hr_model_warn(m, "the matrix of %s is not used beside a list of functions",
			      s->tool);
		return 0;
	}
	for (uint32_t i = 0; i < s->devices; i++)
		at[i] = s->device[i].gpu ? nvidia_gpu(m, gpus++) : HR_NO_FN;
	while (here <= HR_SMI_MAX && nvidia_gpu(m, here) != HR_NO_FN)
		here++;
	if (here != gpus || s->left_out) {
		hr_model_warn(m,
			      "%s lists %u GPUs, and the PCI functions are %u GPUs of NVIDIA: "
			      "the matrix is not used",
			      s->tool, gpus, here);
		return 0;
	}
	for (uint32_t i = 0; i < s->devices && !err; i++)
		for (uint32_t j = 0; j < s->devices && !err; j++)
			if (i != j && at[i] != HR_NO_FN && at[j] != HR_NO_FN)
				err = attach_pair(m, &s->cell[i][j], hr_address(&m->fn[at[i]]),
						  hr_address(&m->fn[at[j]]));
	return err;
}
