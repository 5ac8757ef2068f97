/*
 * pci/apply.h - makes the register writes of a fix on this machine.
 */
#ifndef PCI_APPLY_H
#define PCI_APPLY_H

#include "pci/topo/forecast/change.h"

/*
 * Write through libpciaccess and read back; `after` of each write becomes the value read. Bits
 * outside the write's mask keep their present value. 0; -EIO: a register did not accept the value
 * (its index is in *failed); -ENODEV, -EACCES.
 */
int hr_fix_write_all(const struct hr_model *m, struct hr_fix *fix, unsigned *failed);

#endif
