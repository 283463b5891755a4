/* Whether two paths are of one file: for the command, and for other programs that write files. */
#ifndef SAME_FILE_H
#define SAME_FILE_H

/* Whether two paths are of one file, by whatever names, also one that is not there yet; a device takes all. */
int same_file(const char *a, const char *b);

#endif
