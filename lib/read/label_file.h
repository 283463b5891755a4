/* Labels that are not in the file of the rows: xsm_read_options.labels_path. */
#ifndef XSMI_LABEL_FILE_H
#define XSMI_LABEL_FILE_H

#include "read/reader.h"

/* Reads the file and gives its labels to the reader's rows. Fails if it has more or fewer lines than rows, or if a row
 * has a label already. */
xsm_status xsmi_read_label_file(xsmi_reader *r, xsm_error *err);

#endif
