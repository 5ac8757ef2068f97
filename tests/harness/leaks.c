/*
 * tests/harness/leaks.c - a cheaper search for leaks at the end of a process, for builds with the
 * address sanitizer: the program and the unit tests are linked with this file.
 *
 * The sanitizer looks for pointers to allocated memory in all static memory, also in pages that were
 * never used: 2,000 page faults, half of the time of a short command, most of them in tables of the
 * sanitizer itself. Here it looks in none (use_globals=0). Instead it gets a list of the words that
 * could be such pointers, from the pages that exist (/proc/self/pagemap) of the program and its
 * libraries, except the sanitizer's. Without that file it gets the whole static memory of these. Both
 * ways find the same leaks.
 */
#ifdef __SANITIZE_ADDRESS__
#include <fcntl.h>
#include <link.h>
#include <sanitizer/lsan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bits of an entry of /proc/PID/pagemap: the page is in memory, or swapped out. */
#define PAGE_EXISTS (UINT64_C(3) << 62)

enum { PAGE = 4096, ENTRIES = 512 };

/* Raw calls, because tests replace functions of libc. */
static struct {
	int pagemap;
	uintptr_t *words;
	size_t count, most;
} found;

const char *__lsan_default_options(void);

const char *__lsan_default_options(void)
{
	return "use_globals=0";
}

static size_t bytes_of(const ElfW(Phdr) * segment)
{
	return segment->p_type == PT_LOAD && segment->p_flags & PF_W ? segment->p_memsz : 0;
}

static bool is_sanitizer(const struct dl_phdr_info *object)
{
	return strstr(object->dlpi_name, "/libasan.so") != NULL;
}

static int count_words(struct dl_phdr_info *object, size_t size, void *unused)
{
	for (int i = 0; i < object->dlpi_phnum; i++)
		found.most += bytes_of(&object->dlpi_phdr[i]) / sizeof *found.words + 1;
	return 0;
}

/* A heap begins above the program, which is linked at fixed addresses below 4 GiB. */
__attribute__((no_sanitize_address)) static void look_at_words(uintptr_t begin, uintptr_t end)
{
	for (const uintptr_t *word = (const uintptr_t *)begin; word < (const uintptr_t *)end;
	     word++)
		if (*word > UINT32_MAX && *word >> 47 == 0)
			found.words[found.count++] = *word;
}

/* Returns false when the pages of these addresses are unknown. */
static bool look_at_pages(uintptr_t begin, uintptr_t end)
{
	uint64_t entries[ENTRIES];

	for (uintptr_t first = begin / PAGE; first * PAGE < end; first += ENTRIES) {
		const long n = syscall(SYS_pread64, found.pagemap, entries, sizeof entries,
				       first * sizeof *entries);

		if (n != sizeof entries)
			return false;
		for (uintptr_t i = 0; i < ENTRIES; i++) {
			const uintptr_t page = (first + i) * PAGE;

			if (page < end && entries[i] & PAGE_EXISTS)
				look_at_words(page < begin ? begin : page,
					      page + PAGE < end ? page + PAGE : end);
		}
	}
	return true;
}

static int look_at_object(struct dl_phdr_info *object, size_t size, void *unused)
{
	for (int i = 0; i < object->dlpi_phnum && !is_sanitizer(object); i++) {
		const uintptr_t begin =
			(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr + 7) & ~(uintptr_t)7;
		const size_t bytes = bytes_of(&object->dlpi_phdr[i]) & ~(size_t)7;

		if (bytes && !(found.words && look_at_pages(begin, begin + bytes)))
			__lsan_register_root_region((const void *)begin, bytes);
	}
	return 0;
}

static void look_at_static_memory(void)
{
	long words;

	found.count = found.most = 0;
	dl_iterate_phdr(count_words, NULL);
	found.pagemap =
		(int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	words = found.pagemap < 0 ? -1
				  : syscall(SYS_mmap, NULL, found.most * sizeof *found.words,
					    PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	found.words = words == -1 ? NULL : (uintptr_t *)words;
	dl_iterate_phdr(look_at_object, NULL);
	if (found.count)
		__lsan_register_root_region(found.words, found.count * sizeof *found.words);
	if (found.pagemap >= 0)
		syscall(SYS_close, found.pagemap);
}

/* exit() calls functions in the reverse order of their registration: this one after those of the
 * program, and before the search, which the sanitizer has registered earlier. */
__attribute__((constructor(101))) static void at_end(void)
{
	atexit(look_at_static_memory);
}
#endif
