/* The system calls of VFIO: each one has its effect on a file that the kernel made. */
#include "nvme/vfio_calls.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u

TestSuite(vfio_calls, .timeout = 60);

/* Two pages: the first is full of 'a', the second of 'b'. Open for reading and writing. */
static int two_pages(void)
{
	char name[] = "/tmp/headrace-calls-XXXXXX", page[PAGE];
	const int made = mkstemp(name);
	int fd;

	cr_assert_geq(made, 0);
	for (char byte = 'a'; byte <= 'b'; byte++) {
		memset(page, byte, sizeof page);
		cr_assert_eq(write(made, page, sizeof page), (ssize_t)sizeof page);
	}
	fd = hr_vfio_call_open(name, O_RDWR);
	unlink(name);
	close(made);
	cr_assert_geq(fd, 0);
	return fd;
}

Test(vfio_calls, a_file_is_opened_with_its_flags_and_closed)
{
	const int fd = hr_vfio_call_open("/dev/null", O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_expect_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_expect_eq(hr_vfio_call_close(fd), 0);
	cr_expect_eq(fcntl(fd, F_GETFD), -1, "the descriptor is still open");
	errno = 0;
	cr_expect_eq(hr_vfio_call_close(fd), -1);
	cr_expect_eq(errno, EBADF);
	errno = 0;
	cr_expect_eq(hr_vfio_call_open("/dev/null/vfio", O_RDWR), -1);
	cr_expect_eq(errno, ENOTDIR);
}

Test(vfio_calls, a_request_has_its_argument_and_its_result)
{
	int end[2], bytes = -1;

	cr_assert_eq(pipe(end), 0);
	cr_assert_eq(write(end[1], "abc", 3), 3);
	cr_expect_eq(hr_vfio_call_ioctl(end[0], FIONREAD, &bytes), 0);
	cr_expect_eq(bytes, 3);
	errno = 0;
	cr_expect_eq(hr_vfio_call_ioctl(end[0], TIOCGWINSZ, &bytes), -1);
	cr_expect_eq(errno, ENOTTY);
	close(end[0]);
	close(end[1]);
}

Test(vfio_calls, a_part_of_a_file_is_mapped_for_both_directions_and_shared)
{
	const int fd = two_pages();
	char *page = hr_vfio_call_mmap(PAGE, fd, PAGE), seen[2];

	cr_assert_neq(page, MAP_FAILED);
	cr_expect_eq(page[0], 'b');
	page[1] = 'c';
	cr_expect_eq(pread(fd, seen, sizeof seen, PAGE), 2);
	cr_expect_arr_eq(seen, "bc", 2, "the write is in the file");
	cr_expect_eq(msync(page, PAGE, MS_ASYNC), 0, "it is mapped");
	cr_expect_eq(hr_vfio_call_munmap(page, PAGE), 0);
	cr_expect_eq(msync(page, PAGE, MS_ASYNC), -1, "it is not mapped any more");
	cr_expect_eq(hr_vfio_call_munmap(page + 1, PAGE), -1);
	cr_expect_eq(hr_vfio_call_mmap(PAGE, -1, 0), MAP_FAILED);
	hr_vfio_call_close(fd);
}

Test(vfio_calls, bytes_are_read_and_written_at_their_offset)
{
	const int fd = two_pages();
	char seen[4] = "....";

	cr_expect_eq(hr_vfio_call_pread(fd, seen, 3, PAGE - 1), 3);
	cr_expect_arr_eq(seen, "abb.", 4);
	cr_expect_eq(hr_vfio_call_pwrite(fd, "xyz", 2, PAGE - 1), 2);
	cr_expect_eq(hr_vfio_call_pread(fd, seen, 4, PAGE - 2), 4);
	cr_expect_arr_eq(seen, "axyb", 4);
	cr_expect_eq(hr_vfio_call_pread(fd, seen, 4, 2 * PAGE), 0, "behind the end");
	hr_vfio_call_close(fd);
	cr_expect_eq(hr_vfio_call_pread(fd, seen, 1, 0), -1);
	cr_expect_eq(hr_vfio_call_pwrite(fd, seen, 1, 0), -1);
}
