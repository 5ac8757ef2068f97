/*
 * pci/apply.h - the register writes of a fix, made on this machine.
 */
#ifndef PCI_APPLY_H
#define PCI_APPLY_H

#include "pci/topo/change.h"

/*
 * Write through libpciaccess and read back; `after` of each write becomes what was read. Bits that
 * are not ours keep the value they have at that moment. 0; -EIO: a register did not take the value
 * (index in *failed); -ENODEV, -EACCES.
 */
int hr_fix_write_all(const struct hr_model *m, struct hr_fix *fix, unsigned *failed);

#endif
