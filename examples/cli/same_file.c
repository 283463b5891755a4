/* Compares files by device and inode. */
#include "same_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The folder of a path, and its name in it. */
static int find_folder(const char *path, struct stat *folder, const char **name)
{
    const char *slash = strrchr(path, '/');
    char *of = !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    const int found = of && stat(of, folder) == 0;
    *name = slash ? slash + 1 : path;
    free(of);
    return found;
}

int same_file(const char *a, const char *b)
{
    struct stat one, other;
    const char *names[2];
    const int exist[] = {stat(a, &one) == 0, stat(b, &other) == 0};
    if (exist[0] && exist[1]) {
        return S_ISREG(one.st_mode) && same_inode(&one, &other);
    }
    return !exist[0] && !exist[1] && find_folder(a, &one, &names[0]) && find_folder(b, &other, &names[1]) &&
           same_inode(&one, &other) && strcmp(names[0], names[1]) == 0;
}
