/* Mapping and reading files, and replacing files atomically. */
#include "base/activity.h"
#include "base/file.h"
#include "base/order.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

xsm_status xsmi_read_open(const char *path, int *out, size_t *size, xsm_error *err)
{
    char text[128];
    /* Without O_NONBLOCK, opening a pipe would wait for a writer; on a regular file it means nothing. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return xsmi_fail(err, XSM_ERROR_IO, "%s: cannot open: %s", path, xsmi_error_text(errno, text, sizeof text));
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return xsmi_fail(err, XSM_ERROR_IO, "%s: not a regular file", path);
    }
    if ((uint64_t)st.st_size > SIZE_MAX / 2) {
        close(fd);
        return xsmi_fail(err, XSM_ERROR_LIMIT,
                         "%s: cannot map: %llu bytes are more than a %zu-bit process has room for", path,
                         (unsigned long long)st.st_size, 8 * sizeof(void *));
    }
    *out = fd;
    *size = (size_t)st.st_size;
    return XSM_OK;
}

xsm_status xsmi_map_file(const char *path, xsmi_mapping *out, xsm_error *err)
{
    char text[128];
    int fd = -1;
    size_t size = 0;
    XSMI_TRY(xsmi_read_open(path, &fd, &size, err));
    if (size == 0) {
        close(fd);
        *out = (xsmi_mapping){.data = (const unsigned char *)""}; /* a mapping cannot be empty */
        return XSM_OK;
    }
    struct stat st;
    void *data = fstat(fd, &st) == 0 ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    int failure = errno;
    close(fd);
    if (data == MAP_FAILED) {
        return xsmi_fail(err, XSM_ERROR_IO, "%s: cannot map: %s", path, xsmi_error_text(failure, text, sizeof text));
    }
    *out = (xsmi_mapping){.data = data, .size = size, .device = (uint64_t)st.st_dev, .inode = (uint64_t)st.st_ino};
    return XSM_OK;
}

bool xsmi_is_mapped(const xsmi_mapping *mapping, const char *path)
{
    struct stat st;
    return mapping->inode != 0 && stat(path, &st) == 0 && (uint64_t)st.st_dev == mapping->device &&
           (uint64_t)st.st_ino == mapping->inode;
}

xsm_status xsmi_read_at(int fd, const char *path, uint64_t offset, void *to, size_t size, size_t *got, xsm_error *err)
{
    char text[128];
    for (*got = 0; *got < size;) {
        const ssize_t count = pread(fd, (unsigned char *)to + *got, size - *got, (off_t)(offset + *got));
        if (count == 0) {
            break;
        }
        if (count > 0) {
            *got += (size_t)count;
        } else if (errno != EINTR) {
            return xsmi_fail(err, XSM_ERROR_IO, "%s: cannot read: %s", path, xsmi_error_text(errno, text, sizeof text));
        }
    }
    return XSM_OK;
}

void xsmi_read_close(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

unsigned char *xsmi_map_memory(xsm_context *ctx, size_t size, xsmi_mapping *out)
{
    unsigned char *memory = xsmi_allocate(ctx, size, 1);
    if (memory) {
        *out = (xsmi_mapping){.data = memory, .size = size, .owner = xsmi_context_retain(ctx)};
    }
    return memory;
}

void xsmi_unmap_file(xsmi_mapping *mapping)
{
    xsm_context *owner = mapping->owner;
    void *data = (void *)(uintptr_t)mapping->data;
    if (owner) {
        xsmi_release(owner, data, mapping->size, 1);
    } else if (data && mapping->size > 0) {
        munmap(data, mapping->size);
    }
    *mapping = (xsmi_mapping){.data = NULL};
    xsm_context_free(owner);
}

struct xsmi_replace {
    xsm_context *context;
    char *path;
    char *temporary; /* NULL when written in place */
    size_t temporary_size;
    dev_t device; /* of the folder, if there is a temporary, and its number there */
    ino_t folder;
    bool named; /* a file of that name exists */
    int fd;
    uint64_t written, pushed, waited; /* bytes: in all; passed on to the disk; known to be on the disk */
};

static void release(xsmi_replace *file)
{
    xsm_context *ctx = file->context;
    if (file->fd >= 0) {
        close(file->fd);
    }
    xsmi_release_text(ctx, file->path);
    xsmi_release(ctx, file->temporary, file->temporary_size, 1);
    XSMI_OBJECT_FREE(file, xsmi_replace);
}

/* Returns the folder of a path, written to `size` bytes, which must be enough for the whole path. */
static const char *folder_of(const char *path, char *folder, size_t size)
{
    snprintf(folder, size, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash) {
        return ".";
    }
    slash[slash == folder] = '\0';
    return folder;
}

/* Opens an unnamed file in the folder of `path`, which disappears when the process is killed. Returns -1 where the
 * system has no such files. `name` is scratch for the folder's name. */
static int open_nameless(const char *path, char *name, size_t size)
{
    int fd = xsmi_open_nameless(folder_of(path, name, size), O_WRONLY, 0666);
    if (fd >= 0 && !xsmi_can_name_nameless(fd)) {
        close(fd); /* it could not get a name later */
        fd = -1;
    }
    return fd;
}

/* Makes a new file beside `path` with the permissions that the process's mask allows (mkstemp() would not), or names a
 * file that has no name. Returns the file, or -1 on failure. */
static int open_temporary(const char *path, int nameless, char *name, size_t size)
{
    int fd = -1;
    for (uint32_t attempt = 0; attempt < 100; attempt++) {
        snprintf(name, size, "%s.%016llx.tmp", path, (unsigned long long)xsmi_name_number(attempt));
        if (nameless < 0) {
            fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        } else if (xsmi_name_nameless(nameless, name) == 0) {
            fd = nameless;
        }
        if (fd >= 0 || errno != EEXIST) {
            break;
        }
    }
    return fd;
}

/* Gives a new file owner, group and permissions of the one that it replaces, as far as is allowed; if the group must be
 * another, its members get the permissions of all others. */
static void keep_rights(int fd, const struct stat *old)
{
    struct stat fresh;
    mode_t mode = old->st_mode & 0777;
    if (fstat(fd, &fresh) != 0) {
        return;
    }
    if (fresh.st_gid != old->st_gid && fchown(fd, (uid_t)-1, old->st_gid) != 0) {
        mode &= (mode_t)(0707 | (mode & 07) << 3);
    }
    (void)fchmod(fd, mode);
    if (fresh.st_uid != old->st_uid && fchown(fd, old->st_uid, (gid_t)-1) != 0) {
        return; /* only a privileged process can give files away */
    }
}

/* Milliseconds between two polls. */
#define POLL_EVERY 20

/* Opens a pipe once it has a reader; waiting can be cancelled. */
static xsm_status open_pipe(xsmi_replace *file, const char *path, xsm_error *err)
{
    xsm_status status = XSM_OK;
    xsmi_activity activity;
    xsmi_begin(&activity, file->context, "waiting for the reader of a pipe", "bytes", 0);
    while (status == XSM_OK && (file->fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK)) < 0 && errno == ENXIO) {
        (void)poll(NULL, 0, POLL_EVERY);
        status = xsmi_go_on(file->context, err);
    }
    return xsmi_end(&activity, status, err);
}

/* Opens anything but a regular file, by the name that was given: /dev/stdout may resolve to a name that does not
 * exist. */
static xsm_status open_in_place(xsmi_replace *file, const char *path, bool pipe, xsm_error *err)
{
    char text[128];
    if (pipe) {
        XSMI_TRY(open_pipe(file, path, err));
    } else {
        file->fd = open(path, O_WRONLY | O_CLOEXEC);
    }
    return file->fd >= 0
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_IO, "%s: cannot write: %s", path, xsmi_error_text(errno, text, sizeof text));
}

/* Opens a new file beside file->path; `old` describes the file that is there, NULL: none. */
static xsm_status open_beside(xsmi_replace *file, const struct stat *old, xsm_error *err)
{
    char text[128];
    struct stat folder;
    file->temporary_size = strlen(file->path) + sizeof ".0123456789abcdef.tmp";
    XSMI_TRY(xsmi_array_new(file->context, &file->temporary, file->temporary_size, 1, "a path", err));
    if (stat(folder_of(file->path, file->temporary, file->temporary_size), &folder) == 0) {
        file->device = folder.st_dev;
        file->folder = folder.st_ino;
    }
    file->fd = open_nameless(file->path, file->temporary, file->temporary_size);
    if (file->fd < 0) {
        file->fd = open_temporary(file->path, -1, file->temporary, file->temporary_size);
        file->named = file->fd >= 0;
    }
    if (file->fd < 0) {
        return xsmi_fail(err, XSM_ERROR_IO, "%s: cannot write: %s", file->path,
                         xsmi_error_text(errno, text, sizeof text));
    }
    if (old) {
        keep_rights(file->fd, old);
    }
    return XSM_OK;
}

/* Copies the path of a file to write. A symbolic link is followed, so that what it points to is replaced, not the link.
 */
static xsm_status copy_path(xsmi_replace *file, const char *path, bool follow, xsm_error *err)
{
    char text[128];
    xsm_context *ctx = file->context;
    char *real = follow ? xsmi_allocate(ctx, PATH_MAX, 1) : NULL;
    xsm_status status = XSM_OK;
    if (follow && !real) {
        status = xsmi_fail_memory(err, PATH_MAX, "a path");
    } else if (follow && !realpath(path, real)) {
        status = xsmi_fail(err, XSM_ERROR_IO, "%s: cannot write: %s", path, xsmi_error_text(errno, text, sizeof text));
    } else {
        file->path = xsmi_copy_text(ctx, real ? real : path, strlen(real ? real : path));
        status = file->path ? status : xsmi_fail_memory(err, strlen(path) + 1, "a path");
    }
    xsmi_release(ctx, real, PATH_MAX, 1);
    return status;
}

xsm_status xsmi_replace_open(xsm_context *ctx, const char *path, xsmi_replace **out, xsm_error *err)
{
    struct stat st;
    if (path[0] == '\0') {
        return xsmi_fail(err, XSM_ERROR_IO, "cannot write: the path is empty");
    }
    const bool exists = stat(path, &st) == 0, regular = !exists || S_ISREG(st.st_mode);
    if (!exists && lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        return xsmi_fail(err, XSM_ERROR_IO, "%s: cannot write: it is a symbolic link to nothing", path);
    }
    if (exists && S_ISDIR(st.st_mode)) {
        return xsmi_fail(err, XSM_ERROR_IO, "%s: is a directory", path);
    }
    xsmi_replace *file;
    XSMI_TRY(xsmi_array_new(ctx, &file, 1, sizeof *file, "a file being written", err));
    *file = (xsmi_replace){.context = xsmi_context_retain(ctx), .fd = -1};
    xsm_status status = copy_path(file, path, exists && regular, err);
    if (status == XSM_OK) {
        status = regular ? open_beside(file, exists ? &st : NULL, err)
                         : open_in_place(file, path, S_ISFIFO(st.st_mode), err);
    }
    if (status != XSM_OK) {
        release(file);
        return status;
    }
    *out = file;
    return XSM_OK;
}

bool xsmi_replace_forward(const xsmi_replace *file)
{
    return !file->temporary && lseek(file->fd, 0, SEEK_CUR) < 0;
}

static const char *name_of(const xsmi_replace *file)
{
    const char *slash = strrchr(file->path, '/');
    return slash ? slash + 1 : file->path;
}

bool xsmi_replace_same(const xsmi_replace *a, const xsmi_replace *b)
{
    return a && b && a->temporary && b->temporary && a->device == b->device && a->folder == b->folder &&
           strcmp(name_of(a), name_of(b)) == 0;
}

static xsm_status write_all(xsmi_replace *file, const unsigned char *bytes, size_t size, bool at, uint64_t offset,
                            xsm_error *err)
{
    char text[128];
    while (size > 0) {
        ssize_t written = at ? pwrite(file->fd, bytes, size, (off_t)offset) : write(file->fd, bytes, size);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) { /* a pipe that is full */
                XSMI_TRY(xsmi_go_on(file->context, err));
                (void)poll(&(struct pollfd){.fd = file->fd, .events = POLLOUT}, 1, POLL_EVERY);
                continue;
            }
            return xsmi_fail(err, XSM_ERROR_IO, "%s: cannot write: %s", file->path,
                             xsmi_error_text(errno, text, sizeof text));
        }
        bytes += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    return XSM_OK;
}

/* Bytes that are written at once; and bytes that may wait in memory before they must be on the disk, which bounds how
 * long a cancelled call waits. */
#define PIECE ((size_t)4 << 20)
#define PUSHED ((size_t)8 << 20)

xsm_status xsmi_replace_write(xsmi_replace *file, const void *data, size_t size, xsm_error *err)
{
    for (size_t at = 0; at < size;) {
        const size_t piece = XSMI_MIN(size - at, PIECE);
        XSMI_TRY(xsmi_go_on(file->context, err));
        XSMI_TRY(write_all(file, (const unsigned char *)data + at, piece, false, 0, err));
        at += piece;
        file->written += piece;
        if (file->temporary && file->written - file->pushed >= PUSHED) {
            xsmi_write_back(file->fd, file->waited, file->pushed, file->written);
            file->waited = file->pushed;
            file->pushed = file->written;
        }
    }
    return XSM_OK;
}

xsm_status xsmi_replace_rewrite(xsmi_replace *file, uint64_t offset, const void *data, size_t size, xsm_error *err)
{
    return write_all(file, data, size, true, offset, err);
}

/* A rename is durable only after its folder was synced. Some file systems cannot sync a folder, which is no failure. */
static void sync_folder(xsmi_replace *file)
{
    /* The temporary name is no longer needed. */
    const char *folder = folder_of(file->path, file->temporary, file->temporary_size);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

xsm_status xsmi_replace_commit(xsmi_replace *file, xsm_error *err)
{
    char text[128];
    if (!file->temporary) {
        int fd = file->fd;
        file->fd = -1;
        if (close(fd) != 0) {
            xsm_status status = xsmi_fail(err, XSM_ERROR_IO, "%s: cannot write: %s", file->path,
                                          xsmi_error_text(errno, text, sizeof text));
            release(file);
            return status;
        }
        release(file);
        return XSM_OK;
    }
    bool failed = fsync(file->fd) != 0;
    if (!failed && !file->named) {
        file->named = open_temporary(file->path, file->fd, file->temporary, file->temporary_size) >= 0;
        failed = !file->named;
    }
    int fd = file->fd;
    file->fd = -1;
    failed = (close(fd) != 0) || failed;
    failed = failed || rename(file->temporary, file->path) != 0;
    if (failed) {
        xsm_status status =
            xsmi_fail(err, XSM_ERROR_IO, "%s: cannot write: %s", file->path, xsmi_error_text(errno, text, sizeof text));
        if (file->named) {
            unlink(file->temporary);
        }
        release(file);
        return status;
    }
    sync_folder(file);
    release(file);
    return XSM_OK;
}

void xsmi_replace_abandon(xsmi_replace *file)
{
    if (file) {
        if (file->named) {
            unlink(file->temporary);
        }
        release(file);
    }
}
