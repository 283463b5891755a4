/* Compares files by device and inode. */
#include "same_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

enum { LINKS = 40, LENGTH = 4096 }; /* the most links that are followed */

/* Copies a path, of a file that is not there; symbolic links are replaced by what they name. */
static void follow_links(const char *path, char *to)
{
    char target[LENGTH];
    ssize_t length;
    snprintf(to, LENGTH, "%s", path);
    for (int i = 0; i < LINKS && (length = readlink(to, target, sizeof target)) >= 0; i++) {
        const char *slash = *target == '/' ? NULL : strrchr(to, '/');
        const size_t kept = slash ? (size_t)(slash - to) + 1 : 0;
        snprintf(to + kept, LENGTH - kept, "%.*s", (int)length, target);
    }
}

int same_file(const char *a, const char *b)
{
    struct stat one, other;
    const char *names[2];
    char paths[2][LENGTH];
    const int exist[] = {stat(a, &one) == 0, stat(b, &other) == 0};
    if (exist[0] && exist[1]) {
        return !S_ISCHR(one.st_mode) && same_inode(&one, &other);
    }
    follow_links(a, paths[0]);
    follow_links(b, paths[1]);
    return !exist[0] && !exist[1] && find_folder(paths[0], &one, &names[0]) &&
           find_folder(paths[1], &other, &names[1]) && same_inode(&one, &other) && strcmp(names[0], names[1]) == 0;
}
