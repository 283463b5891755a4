/*
 * Kinds of files that are not read. They are recognised by their first bytes and refused with the command that converts
 * them.
 */
#ifndef XSMI_FOREIGN_H
#define XSMI_FOREIGN_H

#include "read/source.h"

typedef struct xsmi_foreign xsmi_foreign;

/* Returns the kind of file that begins with these bytes, NULL if there is none; *open: more bytes may show one. */
const xsmi_foreign *xsmi_foreign_of(const unsigned char *bytes, size_t count, bool *open);
/* Fails with a message that has the command: with the path if the source is a file, and after gzip if it is
 * compressed. */
xsm_status xsmi_foreign_refuse(const xsmi_source *s, const xsmi_foreign *found, xsm_error *err);
/* Fails in the same way if a line, the first that is not empty, shows such a file. */
xsm_status xsmi_foreign_refuse_text(const xsmi_source *s, const char *line, size_t length, xsm_error *err);
/* Fails if a line looks like one of Vowpal Wabbit, as other text may, too. */
xsm_status xsmi_foreign_refuse_vowpal(const xsmi_source *s, const char *line, size_t length, xsm_error *err);
/* Whether it is a safetensors file: 8 bytes, a header's length below 2^40, are followed by a brace. */
bool xsmi_is_safetensors(const unsigned char *start, size_t size);
/* Whether it is a NumPy archive: a zip file whose first entry is an array. */
bool xsmi_is_npz(const unsigned char *start, size_t size);

#endif
