/* Where systems differ. */
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if XSMI_HAVE_SCHED_GETAFFINITY
#include <sched.h>
#endif
#if XSMI_HAVE_GETRANDOM
#include <sys/random.h>
#endif

const char *xsmi_error_text(int number, char *buffer, size_t size)
{
#if XSMI_HAVE_GNU_STRERROR_R
    return strerror_r(number, buffer, size);
#else
    if (strerror_r(number, buffer, size) != 0) { /* a number without words, or too many of them */
        snprintf(buffer, size, "error %d", number);
    }
    return buffer;
#endif
}

uint32_t xsmi_processors(void)
{
#if XSMI_HAVE_SCHED_GETAFFINITY
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int count = CPU_COUNT(&set);
        return count > 0 ? (uint32_t)count : 1;
    }
#endif
#if XSMI_HAVE_PROCESSORS_ONLINE
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more than CPU_SETSIZE processors */
    return online > 0 ? (uint32_t)online : 1;
#else
    return 1;
#endif
}

uint64_t xsmi_name_number(uint32_t attempt)
{
    uint64_t number;
#if XSMI_HAVE_GETRANDOM
    if (getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number) {
        return number;
    }
#endif
    /* Two processes differ in their ids, two threads in where their stacks are, two calls in the time. */
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    number = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    const uint64_t parts[] = {(uint64_t)getpid(), (uint64_t)(uintptr_t)&number, attempt};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        number = (number ^ parts[i]) * 0x9E3779B97F4A7C15u; /* for a fixed rest, different parts give different
                                                               numbers */
        number ^= number >> 32;
    }
    return number;
}

#if XSMI_HAVE_O_TMPFILE
/* Returns the name that /proc has for an open file, by which one without a name gets one. */
static const char *proc_name(int fd, char *name, size_t size)
{
    snprintf(name, size, "/proc/self/fd/%d", fd);
    return name;
}
#endif

int xsmi_open_nameless(const char *folder, int flags, unsigned mode)
{
#if XSMI_HAVE_O_TMPFILE
    return open(folder, flags | O_TMPFILE | O_CLOEXEC, mode);
#else
    (void)folder;
    (void)flags;
    (void)mode;
    errno = EOPNOTSUPP;
    return -1;
#endif
}

bool xsmi_lacks_nameless(int number)
{
    return number == EOPNOTSUPP || number == EISDIR;
}

int xsmi_name_nameless(int fd, const char *name)
{
#if XSMI_HAVE_O_TMPFILE
    char proc[64];
    return linkat(AT_FDCWD, proc_name(fd, proc, sizeof proc), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
#else
    (void)fd;
    (void)name;
    errno = EOPNOTSUPP;
    return -1;
#endif
}

bool xsmi_can_name_nameless(int fd)
{
#if XSMI_HAVE_O_TMPFILE
    char proc[64];
    return access(proc_name(fd, proc, sizeof proc), F_OK) == 0;
#else
    (void)fd;
    return false;
#endif
}

void xsmi_write_back(int fd, uint64_t before, uint64_t from, uint64_t to)
{
#if XSMI_HAVE_SYNC_FILE_RANGE
    (void)sync_file_range(fd, (off_t)from, (off_t)(to - from), SYNC_FILE_RANGE_WRITE);
    (void)sync_file_range(fd, (off_t)before, (off_t)(from - before),
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
#else
    (void)fd;
    (void)before;
    (void)from;
    (void)to;
#endif
}

/* What posix_fallocate() does, by writing zeros. */
static int write_zeros(int fd, uint64_t from, uint64_t to)
{
    static const unsigned char zeros[1 << 16];
    while (from < to) {
        const size_t piece = to - from < sizeof zeros ? (size_t)(to - from) : sizeof zeros;
        const ssize_t written = pwrite(fd, zeros, piece, (off_t)from);
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        from += written > 0 ? (uint64_t)written : 0;
    }
    return 0;
}

int xsmi_reserve_blocks(int fd, uint64_t from, uint64_t to)
{
#if XSMI_HAVE_POSIX_FALLOCATE
    const int failure = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
    if (failure != EOPNOTSUPP && failure != EINVAL) { /* some C libraries fail where the file system cannot do it */
        return failure;
    }
#endif
    return write_zeros(fd, from, to);
}

void *xsmi_remap(int fd, void *old, size_t old_bytes, size_t bytes)
{
    void *data;
#if XSMI_HAVE_MREMAP
    data = old ? mremap(old, old_bytes, bytes, MREMAP_MAYMOVE)
               : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#else
    data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); /* the same pages once more */
    if (data != MAP_FAILED && old) {
        munmap(old, old_bytes);
    }
#endif
    return data == MAP_FAILED ? NULL : data;
}

void xsmi_advise_huge(void *memory, size_t bytes)
{
#if XSMI_HAVE_MADV_HUGEPAGE
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}

void xsmi_advise_forget(const void *memory, size_t bytes)
{
#if XSMI_HAVE_MADV_DONTNEED
    (void)madvise((void *)(uintptr_t)memory, bytes, MADV_DONTNEED);
#else
    (void)memory;
    (void)bytes;
#endif
}
