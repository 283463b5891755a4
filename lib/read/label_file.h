/* Labels that are not in the file of the rows: xsm_read_options.labels_path. */
#ifndef XSMI_LABEL_FILE_H
#define XSMI_LABEL_FILE_H

#include "read/reader.h"

/* Gives the rows of the reader, none of which has a label, those of the file; it must have as many rows. */
xsm_status xsmi_read_label_file(xsmi_reader *r, xsm_error *err);

#endif
