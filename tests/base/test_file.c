/*
 * Tests of mapping files and of replacing them: afterwards a file has either all of its old contents or all of the
 * new.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system.h"

static void assert_contents(const char *path, const char *expected)
{
    char buffer[256] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(buffer, 1, sizeof buffer - 1, file);
    fclose(file);
    assert_int_equal(length, strlen(expected));
    assert_string_equal(buffer, expected);
}

/* Files in the folder of `path`: one that was being written must not be left behind. */
static size_t files_beside(const char *path)
{
    char folder[4096];
    assert_true(snprintf(folder, sizeof folder, "%s", path) < (int)sizeof folder);
    *strrchr(folder, '/') = '\0';
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

static int begin(void **state)
{
    xsm_context *ctx = NULL;
    if (xsm_context_new(NULL, &ctx, NULL) != XSM_OK) {
        return -1;
    }
    *state = ctx;
    return 0;
}

static int end(void **state)
{
    xsm_context_free(*state);
    test_files_end();
    return 0;
}

/* -- mapping ----------------------------------------------------------------------------------------------------- */

static void test_map(void **state)
{
    (void)state;
    xsm_error err = XSM_ERROR_INIT;
    xsmi_mapping map = {.data = NULL};
    assert_ok(xsmi_map_file(test_file("text", TEXT("some bytes\0more")), &map, &err), err);
    assert_int_equal(map.size, 15);
    assert_memory_equal(map.data, "some bytes\0more", 15);
    xsmi_unmap_file(&map);
    assert_true(!map.data && map.size == 0);
    xsmi_unmap_file(&map); /* twice is fine */

    assert_ok(xsmi_map_file(test_file("empty", "", 0), &map, &err), err);
    assert_non_null(map.data);
    assert_int_equal(map.size, 0);
    xsmi_unmap_file(&map);
}

/* The mapping is of the file that was there, whatever replaces it. */
static void test_map_survives_replacement(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_mapping map;
    xsmi_replace *file;
    const char *path = test_file("text", TEXT("old"));
    assert_ok(xsmi_map_file(path, &map, &err), err);
    assert_ok(xsmi_replace_open(*state, path, &file, &err), err);
    assert_ok(xsmi_replace_write(file, "newer", 5, &err), err);
    assert_ok(xsmi_replace_commit(file, &err), err);
    assert_memory_equal(map.data, "old", 3);
    xsmi_unmap_file(&map);
    assert_contents(path, "newer");
}

static void test_map_fails(void **state)
{
    (void)state;
    xsm_error err = XSM_ERROR_INIT;
    xsmi_mapping map = {.data = (const unsigned char *)"untouched", .size = 9};
    const char *missing = test_path("missing");
    assert_fails(xsmi_map_file(missing, &map, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, missing));
    assert_non_null(strstr(err.message, strerror(ENOENT)));
    assert_fails(xsmi_map_file("/tmp", &map, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_fails(xsmi_map_file("/dev/zero", &map, &err), XSM_ERROR_IO, err);
    assert_fails(xsmi_map_file("", &map, &err), XSM_ERROR_IO, err);
    /* A pipe without a writer must not make the caller wait. */
    const char *pipe = test_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    alarm(20);
    assert_fails(xsmi_map_file(pipe, &map, &err), XSM_ERROR_IO, err);
    alarm(0);
    assert_true(map.size == 9 && strcmp((const char *)map.data, "untouched") == 0);
}

/* -- replacing --------------------------------------------------------------------------------------------------- */

static void test_new_file(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *file;
    const char *path = test_path("new");
    mode_t mask = umask(027);
    assert_ok(xsmi_replace_open(*state, path, &file, &err), err);
    assert_ok(xsmi_replace_write(file, "0000 body", 9, &err), err);
    assert_ok(xsmi_replace_write(file, "", 0, &err), err);
    assert_ok(xsmi_replace_rewrite(file, 0, "head", 4, &err), err);
    assert_ok(xsmi_replace_write(file, " end", 4, &err), err);
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(xsmi_replace_commit(file, &err), err);
    umask(mask);
    assert_contents(path, "head body end");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640); /* what the mask leaves, as for any program's new file */
    assert_int_equal(files_beside(path), 1);
}

/* Whether the library knows files without a name, and the folder of a path takes them. */
static bool nameless_here(const char *path)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    int fd = xsmi_open_nameless(folder, O_WRONLY, 0600);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void test_old_stays_until_commit(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *file;
    const char *path = test_file("kept", TEXT("old contents"));
    assert_int_equal(chmod(path, 0604), 0);
    assert_ok(xsmi_replace_open(*state, path, &file, &err), err);
    assert_contents(path, "old contents");
    assert_ok(xsmi_replace_write(file, "new", 3, &err), err);
    assert_contents(path, "old contents");
    assert_int_equal(files_beside(path), nameless_here(path) ? 1 : 2);
    xsmi_replace_abandon(file);
    assert_contents(path, "old contents");
    assert_int_equal(files_beside(path), 1);

    assert_ok(xsmi_replace_open(*state, path, &file, &err), err);
    assert_ok(xsmi_replace_write(file, "new", 3, &err), err);
    assert_ok(xsmi_replace_commit(file, &err), err);
    assert_contents(path, "new");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0604); /* the old file's rights */
    assert_int_equal(files_beside(path), 1);
    xsmi_replace_abandon(NULL);
}

/* A process that dies in between leaves the old file as it was. */
static void test_crash(void **state)
{
    const char *path = test_file("kept", TEXT("old contents"));
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        xsmi_replace *file;
        if (xsmi_replace_open(*state, path, &file, NULL) != XSM_OK ||
            xsmi_replace_write(file, "half of the n", 13, NULL) != XSM_OK) {
            _exit(1);
        }
        _exit(0); /* neither commit nor abandon */
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_contents(path, "old contents");
    if (nameless_here(path)) {
        assert_int_equal(files_beside(path), 1); /* and nothing else */
    }
}

/* Two at once: the last to commit wins, and neither sees the other's bytes. */
static void test_two_writers(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *first, *second;
    const char *path = test_path("shared");
    assert_ok(xsmi_replace_open(*state, path, &first, &err), err);
    assert_ok(xsmi_replace_open(*state, path, &second, &err), err);
    assert_ok(xsmi_replace_write(first, "first", 5, &err), err);
    assert_ok(xsmi_replace_write(second, "second", 6, &err), err);
    assert_ok(xsmi_replace_commit(second, &err), err);
    assert_contents(path, "second");
    assert_ok(xsmi_replace_commit(first, &err), err);
    assert_contents(path, "first");
    assert_int_equal(files_beside(path), 1);
}

static void test_symbolic_links(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *file;
    const char *target = test_file("target", TEXT("old"));
    const char *link = test_path("link");
    const char *far = test_path("link to link");
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(symlink("link", far), 0);
    assert_ok(xsmi_replace_open(*state, far, &file, &err), err);
    assert_ok(xsmi_replace_write(file, "new", 3, &err), err);
    assert_ok(xsmi_replace_commit(file, &err), err);
    struct stat st;
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(target, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_contents(target, "new");

    assert_int_equal(unlink(target), 0);
    xsmi_replace *const untouched = (xsmi_replace *)&st;
    file = untouched;
    assert_fails(xsmi_replace_open(*state, link, &file, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "symbolic link"));
    assert_ptr_equal(file, untouched);
}

/* A name without a folder: the working folder's. */
static void test_relative_path(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *file;
    char folder[256], before[4096];
    snprintf(folder, sizeof folder, "%s", test_path("x"));
    *strrchr(folder, '/') = '\0';
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_ok(xsmi_replace_open(*state, "plain name", &file, &err), err);
    assert_ok(xsmi_replace_write(file, "text", 4, &err), err);
    assert_ok(xsmi_replace_commit(file, &err), err);
    assert_contents("plain name", "text");
    assert_int_equal(chdir(before), 0);
    assert_contents(test_path("plain name"), "text");
}

static void test_devices(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *file;
    assert_ok(xsmi_replace_open(*state, "/dev/null", &file, &err), err);
    assert_ok(xsmi_replace_write(file, "text", 4, &err), err);
    assert_ok(xsmi_replace_commit(file, &err), err);
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode)); /* written to, not replaced */

    assert_ok(xsmi_replace_open(*state, "/dev/full", &file, &err), err);
    assert_fails(xsmi_replace_write(file, "text", 4, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "/dev/full"));
    assert_non_null(strstr(err.message, strerror(ENOSPC)));
    assert_fails(xsmi_replace_rewrite(file, 0, "text", 4, &err), XSM_ERROR_IO, err);
    xsmi_replace_abandon(file);
    assert_int_equal(stat("/dev/full", &st), 0);
}

static void test_places_that_cannot_be_written(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *const untouched = (xsmi_replace *)&err;
    xsmi_replace *file = untouched;
    char path[300];
    snprintf(path, sizeof path, "%s/x", test_path("no folder"));
    assert_fails(xsmi_replace_open(*state, path, &file, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, path));
    assert_fails(xsmi_replace_open(*state, "/tmp", &file, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "directory"));
    assert_fails(xsmi_replace_open(*state, "/proc/xsoftmax", &file, &err), XSM_ERROR_IO,
                 err); /* root may not, either */
    assert_fails(xsmi_replace_open(*state, "", &file, &err), XSM_ERROR_IO, err);
    snprintf(path, sizeof path, "%s/x", test_file("file", "", 0));
    assert_fails(xsmi_replace_open(*state, path, &file, &err), XSM_ERROR_IO, err);
    assert_ptr_equal(file, untouched);
}

/* The folder goes away while the file is being written: commit says so, and releases all the same. */
static void test_commit_fails(void **state)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_replace *file;
    char folder[256], path[300], moved[256];
    snprintf(folder, sizeof folder, "%s", test_path("folder"));
    snprintf(moved, sizeof moved, "%s", test_path("moved"));
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_ok(xsmi_replace_open(*state, path, &file, &err), err);
    assert_ok(xsmi_replace_write(file, "text", 4, &err), err);
    assert_int_equal(rename(folder, moved), 0);
    assert_fails(xsmi_replace_commit(file, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, path));
}

static xsm_status replace_once(void *state, xsm_context *ctx, xsm_error *err)
{
    xsmi_replace *file;
    XSMI_TRY(xsmi_replace_open(ctx, state, &file, err));
    xsm_status status = xsmi_replace_write(file, "new", 3, err);
    if (status != XSM_OK) {
        xsmi_replace_abandon(file);
        return status;
    }
    return xsmi_replace_commit(file, err);
}

static void test_refused_memory(void **state)
{
    (void)state;
    char path[300];
    snprintf(path, sizeof path, "%s", test_file("kept", TEXT("old")));
    assert_true(test_every_allocation(replace_once, path) >= 4);
    assert_contents(path, "new");
    assert_int_equal(files_beside(path), 1);
    snprintf(path, sizeof path, "%s", test_path("other"));
    assert_true(test_every_allocation(replace_once, path) >= 3);
    assert_int_equal(files_beside(path), 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(test_map),
        CASE(test_map_survives_replacement),
        CASE(test_map_fails),
        CASE(test_new_file),
        CASE(test_old_stays_until_commit),
        CASE(test_crash),
        CASE(test_two_writers),
        CASE(test_symbolic_links),
        CASE(test_relative_path),
        CASE(test_devices),
        CASE(test_places_that_cannot_be_written),
        CASE(test_commit_fails),
        CASE(test_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
