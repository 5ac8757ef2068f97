/*
 * boot/cmd/topo/views/smi.h - the answer to a text that has no PCI function: a matrix of nvidia-smi,
 * rocm-smi or amd-smi, or lines of ACSCtl without addresses.
 *
 * The devices of a matrix have no PCI addresses, so no view of topo applies to them. The answer
 * tells what the text states, what it does not state, and the command that shows the rest.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_SMI_H
#define BOOT_CMD_TOPO_VIEWS_SMI_H

#include "boot/cmd/topo/topo.h"

/*
 * True when the model has no function or none whose class or name the text states, and the text has
 * a matrix or lines of ACSCtl.
 */
bool hr_topo_has_answer_without_functions(const struct hr_model *m);

/* Print that answer as text, or as the document of view "matrix". Returns HR_TOPO_UNKNOWN. */
int hr_topo_without_functions(struct hr_topo *t, bool json);

#endif
