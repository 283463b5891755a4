/* Labels that are not in the file of the rows: xsm_read_options.labels_path. */
#ifndef XSMI_LABEL_FILE_H
#define XSMI_LABEL_FILE_H

#include "read/reader.h"

/* Gives the rows of the reader those of the file, which must have as many; it fails if a row has a label. */
xsm_status xsmi_read_label_file(xsmi_reader *r, xsm_error *err);

#endif
