/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/replay.c - gives a fuzz target the inputs of files, in a build without libFuzzer.
 *
 * Usage: PROGRAM FILE...   The empty input is the first one. The name of each input is printed before
 * the target gets it, so that the last line names the input that ended the process.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static void give(const char *name, FILE *file)
{
	uint8_t *data = NULL;
	size_t bytes = 0;

	printf("input: %s\n", name);
	fflush(stdout);
	if (file) {
		/* exactly as large as the input, so that a sanitizer sees an access beyond its end */
		if (fseek(file, 0, SEEK_END) == 0 && ftell(file) > 0)
			bytes = (size_t)ftell(file);
		rewind(file);
		data = malloc(bytes ? bytes : 1);
		if (!data || fread(data, 1, bytes, file) != bytes)
			exit(EXIT_FAILURE);
		fclose(file);
	}
	LLVMFuzzerTestOneInput(data, bytes);
	free(data);
}

int main(int argc, char **argv)
{
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	give("empty", NULL);
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");

		if (!file) {
			perror(argv[i]);
			return EXIT_FAILURE;
		}
		give(argv[i], file);
	}
	printf("%d inputs\n", argc);
	return EXIT_SUCCESS;
}
