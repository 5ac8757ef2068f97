/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_member(FILE *out, const struct fake_member *m)
{
	size_t size = m->bytes ? m->size : m->text ? strlen(m->text) : 0;
	static const char magic[8] = { 'u', 's', 't', 'a', 'r', '\0', '0', '0' };
	char header[512] = "";
	unsigned sum = 0;

	snprintf(header, 100, "./%s", m->path);
	snprintf(header + 124, 12, "%011zo", size);
	header[156] = m->type ? m->type : m->link ? '2' : '0';
	if (m->link)
		snprintf(header + 157, 100, "%s", m->link);
	memcpy(header + 257, magic, sizeof magic);
	memset(header + 148, ' ', 8);
	for (size_t i = 0; i < sizeof header; i++)
		sum += (unsigned char)header[i];
	snprintf(header + 148, 8, "%06o", sum);
	fwrite(header, 1, 512, out);
	fwrite(m->bytes ? (const char *)m->bytes : m->text ? m->text : "", 1, size, out);
	for (size_t pad = size; pad % 512; pad++)
		fputc(0, out);
}

char *fake_archive(const struct fake_member *list, size_t count, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	if (!out)
		abort();
	for (size_t i = 0; i < count; i++)
		put_member(out, &list[i]);
	for (unsigned i = 0; i < 1024; i++)
		fputc(0, out);
	if (fclose(out))
		abort();
	return text;
}
