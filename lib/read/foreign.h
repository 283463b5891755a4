/*
 * Kinds of files that are not read: recognised by how they begin, and refused with the command that makes them
 * readable.
 */
#ifndef XSMI_FOREIGN_H
#define XSMI_FOREIGN_H

#include "read/source.h"

typedef struct xsmi_foreign xsmi_foreign;

/* The kind of file that begins with these bytes, NULL if it is none of those here; *open: more bytes may show another.
 */
const xsmi_foreign *xsmi_foreign_of(const unsigned char *bytes, size_t count, bool *open);
/* Fails; the message has the command, with the name in it if it is that of a file, behind gzip's if it needs that. */
xsm_status xsmi_foreign_refuse(const xsmi_source *s, const xsmi_foreign *found, xsm_error *err);
/* Fails likewise if the first line that is not empty shows such a file. */
xsm_status xsmi_foreign_refuse_text(const xsmi_source *s, const char *line, size_t length, xsm_error *err);
/* Whether it is a safetensors file: the length of its header, which may look like anything, and a brace. */
bool xsmi_is_safetensors(const unsigned char *start, size_t size);
/* Whether it is a NumPy archive: a zip file whose first entry is an array. */
bool xsmi_is_npz(const unsigned char *start, size_t size);

#endif
