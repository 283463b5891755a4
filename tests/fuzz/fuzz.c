/* Shared by the fuzz targets: replaying inputs, files in memory, and properties of every dataset. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fuzz_require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

void fuzz_require_reason(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fuzz_require(err->status == status && err->message[0] != '\0', "an error says what is wrong");
        fuzz_require(!strchr(err->message, '\n'), "an error is one line");
    }
}

/* -- replaying ---------------------------------------------------------------------------------------------------- */

static void *allocate(size_t size)
{
    void *block = malloc(size ? size : 1);
    fuzz_require(block != NULL, "there is memory");
    return block;
}

static uint8_t *read_path(const char *path, size_t *size)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    fuzz_require(file && fstat(fileno(file), &st) == 0, path);
    uint8_t *data = allocate((size_t)st.st_size);
    *size = fread(data, 1, (size_t)st.st_size, file);
    fclose(file);
    return data;
}

static uint64_t replay(const char *path, bool prefixes)
{
    uint64_t runs = 0;
    DIR *folder = opendir(path);
    if (folder) {
        for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            char inner[4096];
            if (entry->d_name[0] != '.') {
                fuzz_require(snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < (int)sizeof inner, path);
                runs += replay(inner, prefixes);
            }
        }
        closedir(folder);
        return runs;
    }
    size_t size;
    uint8_t *data = read_path(path, &size);
    for (size_t length = prefixes ? 0 : size; length <= size; length++) {
        uint8_t *copy = allocate(length);
        memcpy(copy, data, length);
        LLVMFuzzerTestOneInput(copy, length);
        free(copy);
        runs++;
    }
    free(data);
    return runs;
}

int fuzz_replay(int argc, char **argv, bool prefixes)
{
    uint64_t runs = 0;
    for (int i = 1; i < argc; i++) {
        runs += replay(argv[i], prefixes);
    }
    printf("%llu inputs replayed\n", (unsigned long long)runs);
    return runs == 0;
}

/* -- bytes and files ---------------------------------------------------------------------------------------------- */

static int64_t read_bytes(void *user, void *buffer, size_t size)
{
    fuzz_bytes *b = user;
    size_t count = b->left < size ? b->left : size;
    count = count < b->step ? count : b->step;
    if (count > 0) {
        memcpy(buffer, b->data, count);
    }
    b->data += count;
    b->left -= count;
    return (int64_t)count;
}

xsm_source fuzz_source(fuzz_bytes *bytes)
{
    return (xsm_source){sizeof(xsm_source), bytes, read_bytes};
}

xsm_buffer *fuzz_buffer(xsm_context *ctx)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_buffer *buffer = NULL;
    fuzz_require(xsm_buffer_new(ctx, &buffer, &err) == XSM_OK, err.message);
    return buffer;
}

xsm_storage fuzz_storage(xsm_buffer *buffer)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_storage storage = XSM_STORAGE_INIT;
    fuzz_require(xsm_buffer_get_storage(buffer, &storage, &err) == XSM_OK, err.message);
    return storage;
}

xsm_dataset *fuzz_read_rows(xsm_context *ctx, const char *text, const xsm_read_options *options)
{
    xsm_error err = XSM_ERROR_INIT;
    fuzz_bytes bytes = {(const uint8_t *)text, strlen(text), SIZE_MAX};
    xsm_dataset *rows = NULL;
    fuzz_require(xsm_dataset_read(ctx, NULL, FUZZ_BYTES(&bytes, "rows"), options, &rows, &err) == XSM_OK, err.message);
    return rows;
}

static char folder[1024];

static void remove_folder(void)
{
    fuzz_clear();
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (!folder[0]) {
        const char *parent = getenv("TMPDIR");
        parent = parent ? parent : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        fuzz_require(snprintf(folder, sizeof folder, "%s/xsoftmax-fuzz-XXXXXX", parent) < (int)sizeof folder, parent);
        fuzz_require(mkdtemp(folder) != NULL, folder);
        atexit(remove_folder);
    }
    return folder;
}

const char *fuzz_path(const char *name)
{
    static char path[sizeof folder + 300];
    fuzz_require(snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name) < (int)sizeof path, name);
    return path;
}

void fuzz_write(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(fuzz_path(name), "wb");
    fuzz_require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0, name);
}

uint8_t *fuzz_read(const char *name, size_t *size)
{
    return read_path(fuzz_path(name), size);
}

void fuzz_clear(void)
{
    DIR *files = opendir(fuzz_folder());
    fuzz_require(files != NULL, folder);
    for (const struct dirent *entry; (entry = readdir(files)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            unlink(fuzz_path(entry->d_name));
        }
    }
    closedir(files);
}

/* -- datasets ----------------------------------------------------------------------------------------------------- */

void fuzz_walk(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    fuzz_require(xsm_dataset_get_info(d, &info, &err) == XSM_OK, "info");
    fuzz_require(xsm_dataset_get_class_map(d, &map, &err) == XSM_OK, "classes");
    fuzz_require(info.rows > 0 && info.features > 0 && info.classes == map.classes, "sizes");
    for (uint32_t k = 1; k < map.classes; k++) {
        fuzz_require(!map.labels || map.labels[k] > map.labels[k - 1], "labels rise");
        fuzz_require(!map.names || strcmp(map.names[k], map.names[k - 1]) > 0, "names rise");
    }
    uint64_t labels = 0;
    uint64_t values = 0;
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        fuzz_require(xsm_dataset_get_row(d, i, &row, &err) == XSM_OK, "row");
        for (uint64_t j = 0; j < row.count; j++) {
            fuzz_require(row.values[j] - row.values[j] == 0, "finite values");
            fuzz_require(!row.index || (row.index[j] < info.features && (j == 0 || row.index[j] > row.index[j - 1])),
                         "indexes rise");
            fuzz_require(!row.index || row.values[j] != 0, "no zeros kept");
        }
        for (uint64_t j = 0; j < row.label_count; j++) {
            fuzz_require(row.labels[j] < info.classes || row.labels[j] == XSM_CLASS_UNSEEN, "classes in range");
        }
        labels += row.label_count;
        values += row.count;
    }
    fuzz_require(labels == info.labels && values == info.values, "totals");
}

void fuzz_read_again(const xsm_dataset *d, const uint8_t *data, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset_info first = XSM_DATASET_INFO_INIT;
    xsm_dataset_info second = XSM_DATASET_INFO_INIT;
    fuzz_require(xsm_dataset_get_class_map(d, &map, &err) == XSM_OK, "classes");
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.classes = &map;
    options.format = XSM_FORMAT_TEXT;
    fuzz_bytes bytes = {data, size, SIZE_MAX};
    xsm_dataset *again = NULL;
    fuzz_require(xsm_dataset_read(NULL, NULL, FUZZ_BYTES(&bytes, "fuzz"), &options, &again, &err) == XSM_OK,
                 err.message);
    fuzz_require(xsm_dataset_get_info(d, &first, &err) == XSM_OK, "info");
    fuzz_require(xsm_dataset_get_info(again, &second, &err) == XSM_OK, "info");
    fuzz_require(first.rows == second.rows && first.features == second.features && first.values == second.values,
                 "the same sizes");
    for (uint64_t i = 0; i < first.rows; i++) {
        xsm_row a = XSM_ROW_INIT;
        xsm_row c = XSM_ROW_INIT;
        fuzz_require(xsm_dataset_get_row(d, i, &a, &err) == XSM_OK && xsm_dataset_get_row(again, i, &c, &err) == XSM_OK,
                     "rows");
        fuzz_require(a.count == c.count &&
                         (a.count == 0 || (memcmp(a.index, c.index, a.count * sizeof *a.index) == 0 &&
                                           memcmp(a.values, c.values, a.count * sizeof *a.values) == 0)),
                     "the same features");
    }
    xsm_dataset_free(again);
}
