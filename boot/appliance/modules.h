/*
 * boot/appliance/modules.h - loading kernel modules as the first process, where there is no
 * modprobe.
 */
#ifndef BOOT_APPLIANCE_MODULES_H
#define BOOT_APPLIANCE_MODULES_H

#include <stddef.h>

/*
 * Load a module and what it needs. name is an absolute path (only that file is loaded), or a name
 * as modprobe takes it ('-' and '_' are the same), to be found in FOLDER/modules.dep, which depmod
 * writes. Modules that are there already, or are part of the kernel (FOLDER/modules.builtin), are
 * fine. options go to the module itself, not to what it needs.
 * 0; -ENOENT: no such module; -errno of finit_module(2). What is wrong is logged.
 */
int hr_module_load(const char *folder, const char *name, const char *options);

/* "/lib/modules/RELEASE" of the running kernel; returns path. */
const char *hr_module_folder(char *path, size_t bytes);

/*
 * The files to load for a name, in order, as modules.dep has them: the last is the module. Each is
 * handed to `each` as a path relative to the folder; stops when that returns nonzero, which is then
 * the result. 0; -ENOENT: the module is not in modules.dep; -EINVAL: modules.dep is malformed;
 * -errno: it cannot be read.
 */
int hr_module_files(const char *folder, const char *name, int (*each)(void *to, const char *file),
		    void *to);

#endif
