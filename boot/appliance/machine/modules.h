/*
 * boot/appliance/machine/modules.h - loads kernel modules as the first process, where there is
 * no modprobe.
 */
#ifndef BOOT_APPLIANCE_MACHINE_MODULES_H
#define BOOT_APPLIANCE_MACHINE_MODULES_H

#include <stddef.h>

/*
 * Load a module and the modules it depends on. name is an absolute path (only that file is loaded),
 * or a name as modprobe takes it ('-' and '_' are the same), which is looked up in
 * FOLDER/modules.dep, written by depmod. A module that is loaded already, or is part of the kernel
 * (FOLDER/modules.builtin), is not an error. options are for the module itself, not for its
 * dependencies.
 * 0; -ENOENT: no such module; -errno of finit_module(2). Errors are logged.
 */
int hr_module_load(const char *folder, const char *name, const char *options);

/* Write "/lib/modules/RELEASE" of the running kernel to path; returns path. */
const char *hr_module_folder(char *path, size_t bytes);

/*
 * The files to load for a module name, in the order of loading; the last is the module. `each` gets
 * each file as a path relative to the folder. A nonzero return value of `each` stops the loop and
 * is the result. 0; -ENOENT: the module is not in modules.dep; -EINVAL: modules.dep is malformed;
 * -errno: modules.dep is not readable.
 */
int hr_module_files(const char *folder, const char *name, int (*each)(void *to, const char *file),
		    void *to);

#endif
