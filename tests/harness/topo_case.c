/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/topo_case.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/cmd/cmd.h"

extern const struct hr_command hr_cmd_topo;
void __gcov_dump(void) __attribute__((weak)); /* in builds that count the lines that run */

/* ---- a program's output as items */

/* Members that other members imply, or that do not depend on the machine. */
static bool is_left_out(const char *key, bool sentences)
{
	static const char *const implied[] = { "schema", "version",   "view",	   "title",
					       "origin", "confirmed", "headlines", "headline",
					       "rows",	 "columns",   "name" };
	static const char *const sentence[] = { "why", "fix", "remedy", "terms" };

	for (size_t i = 0; i < sizeof implied / sizeof *implied; i++)
		if (strcmp(key, implied[i]) == 0)
			return true;
	for (size_t i = 0; !sentences && i < sizeof sentence / sizeof *sentence; i++)
		if (strcmp(key, sentence[i]) == 0)
			return true;
	return false;
}

static void __attribute__((format(printf, 3, 4)))
add(struct topo_items *to, const char *path, const char *format, ...)
{
	struct topo_item *item;
	va_list args;

	if (to->count % 256 == 0)
		to->item = realloc(to->item, (to->count + 256) * sizeof *to->item);
	item = &to->item[to->count++];
	va_start(args, format);
	item->path = strdup(path);
	if (vasprintf(&item->text, format, args) < 0)
		abort();
	va_end(args);
}

/* Addresses are without the domain 0000. */
static const char *plain(const char *text)
{
	return strncmp(text, "0000:", 5) == 0 ? text + 5 : text;
}

static const char *scalar(struct json_object *value)
{
	return plain(json_object_get_string(value));
}

/* Members that distinguish an object from the others of its array, and are not repeated in it. */
static const char *const identities[] = { "address", "gpu", "nvme", "a", "b", "what" };

static bool is_identity(const char *key)
{
	for (size_t i = 0; i < sizeof identities / sizeof *identities; i++)
		if (strcmp(key, identities[i]) == 0)
			return true;
	return false;
}

static void identify(struct json_object *o, size_t number, char *id, size_t capacity)
{
	struct json_object *value;
	size_t used = 0;

	snprintf(id, capacity, "%zu", number);
	for (size_t i = 0; i < sizeof identities / sizeof *identities && used + 1 < capacity; i++)
		if (json_object_object_get_ex(o, identities[i], &value) &&
		    json_object_is_type(value, json_type_string))
			used += (size_t)snprintf(id + used, capacity - used, "%s%s",
						 used ? " " : "", scalar(value));
}

static void put_value(struct topo_items *to, const char *path, const char *key,
		      struct json_object *value, bool sentences);

static bool has_verdict_of(struct json_object *flow, struct json_object *pair)
{
	static const char *const member[] = { "verdict", "rule" };
	struct json_object *a, *b;

	for (size_t i = 0; i < sizeof member / sizeof *member; i++)
		if (!json_object_object_get_ex(flow, member[i], &a) ||
		    !json_object_object_get_ex(pair, member[i], &b) ||
		    strcmp(scalar(a), scalar(b)) != 0)
			return false;
	return true;
}

/* Flows whose verdict and rule are not those of the pair. */
static void put_flows(struct topo_items *to, const char *path, struct json_object *pair,
		      struct json_object *flows, bool sentences)
{
	for (char name[] = "f1"; name[1] <= '4'; name[1]++) {
		struct json_object *flow;

		if (!json_object_object_get_ex(flows, name, &flow))
			add(to, path, "%s=missing", name);
		else if (!has_verdict_of(flow, pair))
			put_value(to, path, name, flow, sentences);
	}
}

static void put_members(struct topo_items *to, const char *path, struct json_object *o,
			bool sentences)
{
	json_object_object_foreach(o, key, value)
	{
		if (strcmp(key, "flows") == 0)
			put_flows(to, path, o, value, sentences);
		else if (!is_left_out(key, sentences) && !(path[0] && is_identity(key)))
			put_value(to, path, key, value, sentences);
	}
}

/* "A1-port@02:00.0", and the sentences. */
static void put_finding(struct topo_items *to, const char *path, struct json_object *o,
			bool sentences)
{
	struct json_object *value;
	char rule[64], at[48] = "";

	json_object_object_get_ex(o, "rule", &value);
	snprintf(rule, sizeof rule, "%s", scalar(value));
	if (json_object_object_get_ex(o, "address", &value))
		snprintf(at, sizeof at, "@%s", scalar(value));
	add(to, path, "%s%s", rule, at);
	if (sentences && json_object_object_get_ex(o, "why", &value))
		add(to, path, "{%s}", scalar(value));
	if (sentences && json_object_object_get_ex(o, "fix", &value))
		add(to, path, "-> {%s}", scalar(value));
}

static void put_array(struct topo_items *to, const char *path, const char *key,
		      struct json_object *list, bool sentences)
{
	char inner[256], id[96], *text;
	size_t size, n = json_object_array_length(list);
	FILE *scalars = open_memstream(&text, &size);

	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		if (!json_object_is_type(o, json_type_object)) {
			fprintf(scalars, "%s%s", i ? "," : "", scalar(o));
			continue;
		}
		if (strcmp(key, "findings") == 0) {
			put_finding(to, path, o, sentences);
			continue;
		}
		identify(o, i, id, sizeof id);
		if (strcmp(key, "functions") == 0 || strcmp(key, "pairs") == 0)
			snprintf(inner, sizeof inner, "%s%s", path, id);
		else
			snprintf(inner, sizeof inner, "%s%s%s %s", path, path[0] ? " " : "", key,
				 id);
		put_members(to, inner, o, sentences);
	}
	fclose(scalars);
	if (size)
		add(to, path, "%s=%s", key, text);
	free(text);
}

static void put_object(struct topo_items *to, const char *path, const char *key,
		       struct json_object *value, bool sentences)
{
	struct json_object *fact, *source;
	char inner[256];

	/* A fact with the first letter of its source, a flow with the rule. */
	if (json_object_object_get_ex(value, "value", &fact) &&
	    json_object_object_get_ex(value, "source", &source))
		add(to, path, "%s=%s/%c", key, scalar(fact), json_object_get_string(source)[0]);
	else if (json_object_object_length(value) == 2 &&
		 json_object_object_get_ex(value, "verdict", &fact) &&
		 json_object_object_get_ex(value, "rule", &source))
		add(to, path, "%s=%s/%s", key, scalar(fact), scalar(source));
	else if (strcmp(key, "facts") == 0)
		put_members(to, path, value, sentences);
	else {
		snprintf(inner, sizeof inner, "%s%s%s", path, path[0] ? " " : "", key);
		put_members(to, inner, value, sentences);
	}
}

static void put_value(struct topo_items *to, const char *path, const char *key,
		      struct json_object *value, bool sentences)
{
	if (json_object_is_type(value, json_type_object))
		put_object(to, path, key, value, sentences);
	else if (json_object_is_type(value, json_type_array))
		put_array(to, path, key, value, sentences);
	else if (!json_object_is_type(value, json_type_boolean))
		add(to, path, "%s=%s", key, value ? scalar(value) : "null");
	else if (json_object_get_boolean(value))
		add(to, path, "%s", key);
}

/* "150: 0d 00 ...": registers, from which a reader makes the facts again. */
static bool is_row(const char *line)
{
	size_t digits = strspn(line, "0123456789abcdef");

	return digits >= 2 && digits <= 3 && strncmp(line + digits, ": ", 2) == 0;
}

/* A capture: facts of a function, or of the machine, are lines "headrace: NAME=VALUE". */
static void put_capture(struct topo_items *to, char *text)
{
	char path[64] = "", *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *fact = strstr(line, "headrace: ");

		if (fact)
			add(to, path, "%s", fact + 10);
		else if (is_row(line))
			continue;
		else if (isxdigit((unsigned char)line[0]) && strchr(line, ' ') && line[3] != ' ') {
			snprintf(path, sizeof path, "%.*s", (int)strcspn(plain(line), " "),
				 plain(line));
			add(to, path, "'%s'", line + strcspn(line, " ") + 1);
		} else
			add(to, path, "'%s'", line + strspn(line, " \t"));
	}
}

static void put_lines(struct topo_items *to, const char *path, char *text)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		add(to, path, "%s", line);
}

/* ---- one command */

/* The bytes of a file in memory, with a 0 behind them; the caller frees them. */
static char *contents(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)size + 1);

	cr_assert_eq(pread(fd, text, (size_t)size, 0), size);
	close(fd);
	return text;
}

static int file_of(const char *bytes, size_t size)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void child(const int *fd, char *args)
{
	char *argv[32] = { NULL }, *save = NULL;
	int argc = 0;

	for (char *word = strtok_r(args, " ", &save); word && argc < 31;
	     word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	for (int i = 0; i < 3; i++) {
		dup2(fd[i], i);
		close(fd[i]); /* a command does not write to a file that it has open */
	}
	optind = 1;
	argc = hr_cmd_topo.fn(argc, argv);
	fflush(NULL);
	if (__gcov_dump)
		__gcov_dump();
	_exit(argc); /* without the search for leaks, which takes longer than the command */
}

bool topo_case_run(const char *input, size_t size, const char *args, bool sentences,
		   struct topo_items *to)
{
	int fd[3] = { file_of(input, size), file_of("", 0), file_of("", 0) }, status;
	char *words, *out, *messages;
	struct json_object *document;
	bool printed;
	pid_t pid;

	cr_assert_gt(asprintf(&words, "topo --from - %s", args), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		child(fd, words);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	close(fd[0]);
	out = contents(fd[1]);
	messages = contents(fd[2]);
	document = strstr(args, "--json") && out[0] ? json_tokener_parse(out) : NULL;
	if (WIFSIGNALED(status))
		add(to, "", "killed by signal %d", WTERMSIG(status));
	else if (!document)
		add(to, "", "exit_code=%d", WEXITSTATUS(status));
	if (document)
		put_members(to, "", document, sentences);
	else if (strstr(args, "--capture"))
		put_capture(to, out);
	else
		put_lines(to, "stdout", out);
	put_lines(to, "!", messages);
	printed = out[0] != '\0';
	json_object_put(document);
	free(out);
	free(messages);
	free(words);
	return printed;
}

void topo_items_free(struct topo_items *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->item[i].path);
		free(list->item[i].text);
	}
	free(list->item);
	*list = (struct topo_items){ 0 };
}

/* ---- differences */

static bool contains(const struct topo_items *list, const struct topo_item *item, size_t *at)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct topo_item *other = &list->item[(*at + i) % list->count];

		if (strcmp(item->text, other->text) == 0 && strcmp(item->path, other->path) == 0) {
			*at = (*at + i + 1) % list->count;
			return true;
		}
	}
	return false;
}

/* Whether a list has a member of that name at that path. */
static bool names(const struct topo_items *list, const struct topo_item *item)
{
	size_t bytes = strcspn(item->text, "=");

	for (size_t i = 0; i < list->count; i++)
		if (strncmp(item->text, list->item[i].text, bytes) == 0 &&
		    list->item[i].text[bytes] == item->text[bytes] &&
		    strcmp(item->path, list->item[i].path) == 0)
			return true;
	return false;
}

static bool has_path(const struct topo_items *list, const char *path)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->item[i].path, path) == 0)
			return true;
	return false;
}

/* The address as a whole in a text: 05:00.0 is no part of 10000:05:00.0. */
static const char *find_address(const char *text, const char *address)
{
	const size_t length = strlen(address);

	for (const char *at = text; (at = strstr(at, address)) != NULL; at++)
		if ((at == text || !strchr("0123456789abcdef:", at[-1])) &&
		    !isxdigit((unsigned char)at[length]))
			return at;
	return NULL;
}

/* The text with one address in place of another; the caller frees it. */
static char *renamed(const char *text, const struct topo_likeness *like)
{
	const char *at = find_address(text, like->of);
	char *to;

	if (asprintf(&to, "%.*s%s%s", at ? (int)(at - text) : (int)strlen(text), text,
		     at ? like->address : "", at ? at + strlen(like->of) : "") < 0)
		abort();
	return to;
}

/* A pair may be the other way round. */
static void turn(const struct topo_items *list, char *path)
{
	char turned[64], *blank = strchr(path, ' ');

	if (!blank || strchr(blank + 1, ' ') || has_path(list, path))
		return;
	snprintf(turned, sizeof turned, "%s %.*s", blank + 1, (int)(blank - path), path);
	if (has_path(list, turned))
		memcpy(path, turned, strlen(turned) + 1);
}

/* Whether the path has an address. */
static bool is_of_function(const char *path)
{
	return strchr(path, ':') && strchr(path, '.');
}

/* What a function that is a copy of another one is expected to have: what that one has. */
static void add_copies(struct topo_items *base, const struct topo_items *list,
		       const struct topo_likeness *like)
{
	const struct topo_items *from = has_path(list, like->of) ? list : base;
	const struct topo_items before = *base;
	const size_t count = from->count;

	for (size_t i = 0; i < count; i++) {
		char *path, *text;

		/* a plan is a choice, and its rates are */
		if (strncmp(from->item[i].path, "assignment ", 11) == 0 ||
		    strstr(from->item[i].path, "one_at_a_time") ||
		    !find_address(from->item[i].path, like->of))
			continue;
		path = renamed(from->item[i].path, like);
		text = renamed(from->item[i].text, like);
		turn(list, path);
		if (!has_path(&(struct topo_items){ base->item, before.count }, path))
			add(base, path, "%s", text);
		free(path);
		free(text);
	}
}

static struct topo_items copy(const struct topo_items *list)
{
	struct topo_items to = { 0 };

	for (size_t i = 0; i < list->count; i++)
		add(&to, list->item[i].path, "%s", list->item[i].text);
	return to;
}

static void print(FILE *out, const char *sign, const char *at, const char *text, char **path,
		  size_t *column)
{
	size_t length = strlen(sign) + strlen(text) + 1;

	if (!*path || strcmp(*path, at) != 0 || *column + length > 98) {
		*column = (size_t)fprintf(out, "%s> %s%s", *path ? "\n" : "", at, at[0] ? "" : ".");
		free(*path);
		*path = strdup(at);
	}
	fprintf(out, " %s%s", sign, text);
	*column += length;
}

/* Whether an object is missing because one of its functions is. */
static bool follows(const struct topo_items *base, const struct topo_items *list, const char *path)
{
	for (size_t i = 0; i < base->count; i++) {
		const char *other = base->item[i].path;

		if (i && strcmp(other, base->item[i - 1].path) == 0)
			continue;
		if (!strchr(other, ' ') && strcmp(other, path) != 0 && is_of_function(other) &&
		    find_address(path, other) && !has_path(list, other))
			return true;
	}
	return false;
}

/* How many items of a path are missing, and how many are as before. */
static size_t count_missing(const struct topo_items *list, const struct topo_items *base,
			    const char *path, size_t *same)
{
	size_t at = 0, missing = 0;

	*same = 0;
	for (size_t i = 0; i < base->count; i++) {
		if (strcmp(base->item[i].path, path) != 0)
			continue;
		if (contains(list, &base->item[i], &at))
			++*same;
		else
			missing += !names(list, &base->item[i]);
	}
	return missing;
}

/* An object of which most is missing: what is as before, and "-*" for all that is not printed. */
static void print_rest(const struct topo_items *list, const struct topo_items *base, FILE *out,
		       const char *at, char **path, size_t *column)
{
	size_t hint = 0;

	for (size_t i = 0; i < base->count; i++)
		if (strcmp(base->item[i].path, at) == 0 && contains(list, &base->item[i], &hint))
			print(out, "", at, base->item[i].text, path, column);
	print(out, "-", at, "*", path, column);
}

static void print_missing(const struct topo_items *list, const struct topo_items *base, FILE *out,
			  char **path, size_t *column)
{
	const char *whole = NULL; /* the path of which all is printed */
	size_t at = 0, same;

	for (size_t i = 0; i < base->count; i++) {
		const struct topo_item *item = &base->item[i];

		if (contains(list, item, &at) || names(list, item) ||
		    (whole && strcmp(whole, item->path) == 0))
			continue;
		if (is_of_function(item->path) && !has_path(list, item->path)) {
			whole = item->path;
			if (!follows(base, list, whole))
				print(out, "", whole, "gone", path, column);
		} else if (is_of_function(item->path) &&
			   count_missing(list, base, item->path, &same) > 2 + 2 * same) {
			whole = item->path;
			print_rest(list, base, out, whole, path, column);
		} else {
			print(out, "-", item->path, item->text, path, column);
		}
	}
}

void topo_items_print(const struct topo_items *list, const struct topo_items *base,
		      const struct topo_likeness *like, size_t likes, FILE *out)
{
	struct topo_items expected = copy(base);
	size_t column = 0, at = 0;
	char *path = NULL;

	for (size_t i = 0; i < likes; i++)
		add_copies(&expected, list, &like[i]);
	for (size_t i = 0; i < list->count; i++)
		if (!contains(&expected, &list->item[i], &at))
			print(out, "", list->item[i].path, list->item[i].text, &path, &column);
	print_missing(list, &expected, out, &path, &column);
	if (path)
		fputc('\n', out);
	free(path);
	topo_items_free(&expected);
}
