/*
 * config/base/files.h - open files by names that a user, a configuration or another file gives.
 *
 * Such a name can lead to a FIFO, a terminal or a device: open(2) may then wait for ever, or act (a
 * watchdog starts). hr_open() looks at the type before it opens, never waits in open(2), and looks
 * at the type again afterwards, because the name may lead to another file meanwhile. Files of the
 * kernel at fixed paths (/proc, /sys, /dev) need none of this.
 */
#ifndef CONFIG_BASE_FILES_H
#define CONFIG_BASE_FILES_H

/* Types that a caller accepts. */
enum {
	HR_OPEN_FILE = 1,   /* a regular file */
	HR_OPEN_FOLDER = 2, /* a directory */
	HR_OPEN_PIPE = 4,   /* a FIFO that a process opens for writing within HR_OPEN_PIPE_NS */
	HR_OPEN_ANY = 8,    /* a file, FIFO or device, waited for as long as open(2) waits */
};

#define HR_OPEN_PIPE_NS 5000000000ull

/*
 * Open a file: `flags` as of open(2); O_CLOEXEC and O_NOCTTY are added. With O_CREAT a new file
 * belongs to its owner alone (mode 0600). Returns a descriptor that waits in read(2) as usual, or
 * an error, with its text in *why: -EISDIR, -EINVAL: another type than those accepted; -ETIMEDOUT:
 * no process writes to the FIFO; -errno of open(2). *why stays valid as long as the text of
 * strerror(3).
 */
int hr_open(const char *path, int flags, unsigned types, const char **why);

#endif
