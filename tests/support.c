/* See support.h. */
#include "support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* In front of each block: what it was asked for with. */
typedef struct support_block {
    size_t size, alignment;
    void *start;
    uint64_t mark;
} support_block;

#define MARK UINT64_C(0x5eed0fb10c5eed0f)

static void *watched_allocate(void *user, size_t size, size_t alignment)
{
    support_memory *memory = user;
    memory->calls++;
    if (memory->calls == memory->fail_at) {
        return NULL;
    }
    size_t room = sizeof(support_block) + alignment;
    unsigned char *start = malloc(size + room);
    if (!start) {
        return NULL;
    }
    uintptr_t address = ((uintptr_t)start + sizeof(support_block) + alignment - 1) / alignment * alignment;
    support_block block = {size, alignment, start, MARK};
    memcpy((unsigned char *)address - sizeof block, &block, sizeof block);
    memset((void *)address, 0xA5, size); /* nothing may count on zeros */
    memory->blocks++;
    memory->bytes += size;
    return (void *)address;
}

static void watched_release(void *user, void *data, size_t size, size_t alignment)
{
    support_memory *memory = user;
    support_block block;
    memcpy(&block, (unsigned char *)data - sizeof block, sizeof block);
    if (block.mark != MARK || block.size != size || block.alignment != alignment) {
        memory->defect = true;
        return;
    }
    memory->blocks--;
    memory->bytes -= size;
    free(block.start);
}

xsm_context *support_context(support_memory *memory, uint32_t cpu_disable)
{
    xsm_allocator allocator = {memory, watched_allocate, watched_release};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.allocator = &allocator;
    options.threads = 1;
    options.cpu_disable = cpu_disable;
    xsm_context *context = NULL;
    assert_int_equal(xsm_context_new(&options, &context, NULL), XSM_OK);
    return context;
}

xsm_context *support_threads(uint32_t threads)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    xsm_context *context = NULL;
    assert_int_equal(xsm_context_new(&options, &context, NULL), XSM_OK);
    return context;
}

void support_fail_each(support_action action, void *state)
{
    support_memory memory = {0};
    xsm_context *context = support_context(&memory, 0);
    size_t held = memory.blocks;
    for (size_t k = 1;; k++) {
        xsm_error err = XSM_ERROR_INIT;
        memory.calls = 0;
        memory.fail_at = k;
        xsm_status status = action(state, context, &err);
        memory.fail_at = 0;
        assert_false(memory.defect);
        assert_int_equal(memory.blocks, held);
        if (status == XSM_OK) {
            assert_true(memory.calls < k); /* nothing went on as if it had memory */
            break;
        }
        assert_int_equal(status, XSM_ERROR_MEMORY);
        assert_int_equal(err.status, XSM_ERROR_MEMORY);
        assert_true(err.message[0] != '\0');
        assert_true(k < 100000);
    }
    xsm_context_free(context);
    assert_int_equal(memory.blocks, 0);
}

char *support_folder(void)
{
    const char *base = getenv("TMPDIR");
    if (!base) {
        base = "/tmp";
    }
    char *folder = support_path(base, "xsm-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

char *support_path(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

void support_remove_folder(char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char *path = support_path(folder, entry->d_name);
            unlink(path);
            free(path);
        }
    }
    closedir(dir);
    rmdir(folder);
    free(folder);
}

size_t support_count_files(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count - 2;
}

unsigned char *support_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    assert_true(end >= 0);
    rewind(file);
    unsigned char *data = malloc((size_t)end + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)end, file), (size_t)end);
    fclose(file);
    *size = (size_t)end;
    return data;
}

void support_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}
