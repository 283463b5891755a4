/* Tests of the container: reading well-formed files, refusing others, and writing. */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/activity.h"
#include "base/safetensors.h"

/* A file with this header text and `extra` bytes of data (0, 1, 2, ...), in memory aligned to 64; *size is its length.
 */
static unsigned char *make(const char *header, size_t extra, size_t *size)
{
    size_t length = strlen(header);
    *size = 8 + length + extra;
    unsigned char *bytes = aligned_alloc(64, (*size + 63) / 64 * 64);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    }
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < extra; i++) {
        bytes[8 + length + i] = (unsigned char)i;
    }
    return bytes;
}

static xsm_status open_bytes(xsm_context *ctx, const unsigned char *bytes, size_t size, const char *name,
                             xsmi_container **out, xsm_error *err)
{
    xsm_storage storage = XSM_STORAGE_INIT;
    storage.bytes = bytes;
    storage.byte_count = size;
    const xsmi_place place = {name, &storage};
    return xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = false}, out, err);
}

static xsm_status parse(const char *header, size_t extra, xsmi_container **out, unsigned char **bytes, xsm_error *err)
{
    size_t size;
    HELD(xsm_context, ctx) = NULL;
    assert_int_equal(xsm_context_new(NULL, &ctx, NULL), XSM_OK);
    *bytes = make(header, extra, &size);
    return open_bytes(ctx, *bytes, size, "some.file", out, err);
}

#define HEADER_24 "{\"a\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]}}"

TEST(reads_tensors)
{
    xsmi_container *c = NULL;
    unsigned char *bytes;
    assert_ok(parse("{\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[6,7]},"
                    "\"empty\":{\"dtype\":\"F64\",\"shape\":[0,5],\"data_offsets\":[0,0]},"
                    "\"a\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]},"
                    "\"__metadata__\":{\"x\":\"y\",\"\\u00e9\":\"\"}}      ",
                    7, &c, &bytes, &err),
              err);
    const xsmi_tensor *a = xsmi_container_tensor(c, "a");
    assert_non_null(a);
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(a->size, 6);
    assert_int_equal(a->data[0], 0);
    const xsmi_tensor *b = xsmi_container_tensor(c, "b");
    assert_int_equal(b->rank, 0);
    assert_int_equal(b->size, 1);
    assert_int_equal(b->data[0], 6);
    assert_int_equal(xsmi_container_tensor(c, "empty")->size, 0);
    assert_null(xsmi_container_tensor(c, "c"));
    assert_string_equal(xsmi_container_tensor_at(c, 2)->name, "b"); /* in the order of the file */
    assert_null(xsmi_container_tensor_at(c, 3));
    assert_string_equal(xsmi_container_metadata(c, "x"), "y");
    assert_string_equal(xsmi_container_metadata(c, "\xc3\xa9"), "");
    assert_null(xsmi_container_metadata(c, "y"));
    assert_non_null(xsmi_container_metadata_at(c, 1));
    assert_null(xsmi_container_metadata_at(c, 2));
    xsmi_container_close(c);
    free(bytes);
    xsmi_container_close(NULL);
}

/* A tensor that begins at no multiple of its dtype's size, as other programs may write it, is copied. */
TEST(aligns_tensors)
{
    xsmi_container *c = NULL;
    unsigned char *bytes;
    assert_ok(parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                    "\"b\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[3,3]},"
                    "\"c\":{\"dtype\":\"U32\",\"shape\":[2],\"data_offsets\":[3,11]}}",
                    11, &c, &bytes, &err),
              err);
    const xsmi_tensor *t = xsmi_container_tensor(c, "c");
    assert_int_equal((uintptr_t)t->data % XSMI_ALIGNMENT, 0);
    free(bytes);
    assert_memory_equal(t->data, ((const unsigned char[]){3, 4, 5, 6, 7, 8, 9, 10}), 8);
    assert_memory_equal(xsmi_container_tensor(c, "a")->data, ((const unsigned char[]){0, 1, 2}), 3);
    xsmi_mapping mapping = xsmi_container_detach_mapping(c);
    assert_ptr_equal(mapping.owner != NULL, true);
    xsmi_container_close(c);
    xsmi_unmap_file(&mapping);
}

#define TENSOR(entries) "{\"a\":{" entries "}}"
#define META(entries) "{\"__metadata__\":{" entries "}}"

TEST(refuses_malformed_files)
{
    static const struct {
        const char *header;
        size_t extra;
        xsm_status status;
        const char *says;
    } cases[] = {
        {"", 0, XSM_ERROR_FORMAT, "too few"},
        {"", 8, XSM_ERROR_FORMAT, "begin with"},
        {"[]", 0, XSM_ERROR_FORMAT, "begin with"},
        {" {}", 0, XSM_ERROR_FORMAT, "begin with"},
        {"{", 1, XSM_ERROR_FORMAT, "JSON"},
        {"{}x", 0, XSM_ERROR_FORMAT, "JSON"},
        {"{\"a\":1e999}", 0, XSM_ERROR_FORMAT, "dtype, shape"},
        {"{}", 1, XSM_ERROR_FORMAT, "1 bytes after"},
        {"{\"a\":1}", 0, XSM_ERROR_FORMAT, "dtype, shape"},
        {"{\"__metadata__\":[]}", 0, XSM_ERROR_FORMAT, "not an object"},
        {META("\"a\":1"), 0, XSM_ERROR_FORMAT, "not text"},
        {META("\"a\":\"1\",\"a\":\"1\""), 0, XSM_ERROR_FORMAT, "duplicate"},
        {META("\"a\":\"\\u0000\""), 0, XSM_ERROR_FORMAT, "JSON"},
        {META("\"a\":\"\xff\""), 0, XSM_ERROR_FORMAT, "JSON"},
        {META("\"a\":\"\xc3\\u00a9\""), 0, XSM_ERROR_FORMAT, "not UTF-8"},
        {META("\"a\":\"\\ud800\""), 0, XSM_ERROR_FORMAT, "no meaning"},
        {META("\"a\":\"\\ud800\\u0041\""), 0, XSM_ERROR_FORMAT, "no meaning"},
        {META("\"a\":\"\\udc00\""), 0, XSM_ERROR_FORMAT, "no meaning"},
        {META("\"a\":\"\\u12g4\""), 0, XSM_ERROR_FORMAT, "no meaning"},
        {META("\"a\":\"\\x41\""), 0, XSM_ERROR_FORMAT, "no meaning"},
        {META("\"a\":\"\n\""), 0, XSM_ERROR_FORMAT, "control character"},
        {META("\"a\":\"x"), 0, XSM_ERROR_FORMAT, "does not end"},
        {META("\"a\":\"\\"), 0, XSM_ERROR_FORMAT, "JSON"},
        {META("\"a\":\"x\","), 0, XSM_ERROR_FORMAT, "a text is expected"},
        {META("\"a\" \"x\""), 0, XSM_ERROR_FORMAT, "':' is expected"},
        {META("\"a\":\"x\" \"b\":\"y\""), 0, XSM_ERROR_FORMAT, "',' or '}'"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, XSM_ERROR_FORMAT, "duplicate"},
        {"{\"a\":}", 0, XSM_ERROR_FORMAT, "a value is expected"},
        {"{\"a\":[}", 0, XSM_ERROR_FORMAT, "within a value"},
        {"{\"a\":\"", 1, XSM_ERROR_FORMAT, "within a value"},
        {"{\"a\":{}}", 0, XSM_ERROR_FORMAT, "dtype, shape"},
        {"{\"a\":[[[[1]]]]}", 0, XSM_ERROR_FORMAT, "dtype, shape"},
        {TENSOR("\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT,
         "dtype, shape"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "a value"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1 1],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "dimension 0"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "dimension 0"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[[[1]]],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "dimension 0"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[18446744073709551617],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT,
         "dimension 0"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,9223372036854775808]"), 1, XSM_ERROR_FORMAT,
         "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, XSM_ERROR_FORMAT, "duplicate"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1]"), 1, XSM_ERROR_FORMAT, "dtype, shape"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1"), 1, XSM_ERROR_FORMAT, "dtype, shape"},
        {TENSOR("\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "dtype, shape"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "dtype, shape"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":1"), 1, XSM_ERROR_FORMAT, "dtype, shape"},
        {TENSOR("\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]"), 8, XSM_ERROR_FORMAT, "'C64'"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT,
         "9 dimensions"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "dimension 0"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1,1.0],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "dimension 1"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]"), 1, XSM_ERROR_FORMAT, "data_offsets"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]"), 1, XSM_ERROR_FORMAT, "data_offsets"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,\"1\"]"), 1, XSM_ERROR_FORMAT, "data_offsets"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]"), 1, XSM_ERROR_FORMAT, "data_offsets"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]"), 1, XSM_ERROR_FORMAT, "cut short"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]"), 1, XSM_ERROR_FORMAT, "cut short"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,9223372036854775807]"), 1,
         XSM_ERROR_FORMAT, "cut short"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]"), 1, XSM_ERROR_FORMAT, "shape"},
        {TENSOR("\"dtype\":\"F64\",\"shape\":[2305843009213693953],\"data_offsets\":[0,8]"), 8, XSM_ERROR_FORMAT,
         "shape"}, /* times 8 is 8 modulo 2^64 */
        {TENSOR("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0, XSM_ERROR_FORMAT,
         "shape"},
        {TENSOR("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]") "x", 4, XSM_ERROR_FORMAT, "JSON"},
        {TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]"), 2, XSM_ERROR_FORMAT, "does not begin"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, XSM_ERROR_FORMAT, "does not begin"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
         3, XSM_ERROR_FORMAT, "does not begin"},
        {META("\"format_version\":\"1\""), 0, XSM_ERROR_FORMAT, "not 'checksum'"},
        {META("\"checksum\":\"0123456789abcdef\""), 0, XSM_ERROR_FORMAT, "not 'format_version'"},
        {META("\"format_version\":\"2\",\"checksum\":\"?\""), 0, XSM_ERROR_FILE_VERSION, "is 2"},
        {"{\"a\":{\"dtype\":\"new\",\"more\":{\"]\":[true]}},\"__metadata__\":{\"format_version\":\"2\",\"checksum\":"
         "\"\"}}",
         0, XSM_ERROR_FILE_VERSION, "is 2"}, /* whatever else there is */
        {META("\"format_version\":\"99999999999999999999\",\"checksum\":\"?\""), 0, XSM_ERROR_FILE_VERSION, "999"},
        {META("\"format_version\":\"0\",\"checksum\":\"?\""), 0, XSM_ERROR_FORMAT, "format_version"},
        {META("\"format_version\":\"\",\"checksum\":\"?\""), 0, XSM_ERROR_FORMAT, "format_version"},
        {META("\"format_version\":\"1x\",\"checksum\":\"?\""), 0, XSM_ERROR_FORMAT, "format_version"},
        {META("\"format_version\":\"1\",\"checksum\":\"?\""), 0, XSM_ERROR_FORMAT, "hexadecimal"},
        {META("\"format_version\":\"1\",\"checksum\":\"0123456789ABCDEF\""), 0, XSM_ERROR_FORMAT, "hexadecimal"},
        {META("\"format_version\":\"1\",\"checksum\":\"0123456789abcdef0\""), 0, XSM_ERROR_FORMAT, "hexadecimal"},
        {META("\"format_version\":\"1\",\"\\u0063hecksum\":\"0123456789abcdef\""), 0, XSM_ERROR_CHECKSUM, "damaged"},
        {META("\"format_version\":\"1\",\"checksum\":\"0123456789abcdef\""), 0, XSM_ERROR_CHECKSUM, "damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xsmi_container *c = NULL;
        unsigned char *bytes;
        assert_fails(parse(cases[i].header, cases[i].extra, &c, &bytes, &err), cases[i].status, err);
        if (!strstr(err.message, cases[i].says) || strncmp(err.message, "some.file: ", 11) != 0) {
            fail_msg("%s: '%s' does not say '%s'", cases[i].header, err.message, cases[i].says);
        }
        assert_null(c);
        free(bytes);
    }
}

/* A header of `count` times `piece`, with the number of each where it has a %zu. */
static char *repeat(const char *begin, const char *piece, size_t count, const char *end)
{
    const size_t room = strlen(begin) + count * (strlen(piece) + 20) + strlen(end) + 1;
    char *text = malloc(room);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, room, "%s", begin);
    for (size_t i = 0; i < count; i++) {
        const char *number = strstr(piece, "%zu");
        const size_t before = number ? (size_t)(number - piece) : strlen(piece);
        used += (size_t)snprintf(text + used, room - used, "%.*s", (int)before, piece);
        used += number ? (size_t)snprintf(text + used, room - used, "%zu%s", i, number + 3) : 0;
    }
    snprintf(text + used, room - used, "%s", end);
    return text;
}

static void *parse_deep(void *unused)
{
    (void)unused;
    static const char *const pieces[] = {"[", "{\"a\":", "[{\"a\":"};
    for (size_t i = 0; i < 3; i++) {
        for (int within = 0; within < 3; within++) {
            static const char *const begins[] = {
                "{\"a\":", "{\"__metadata__\":{\"a\":", "{\"a\":{\"dtype\":\"U8\",\"shape\":"};
            xsm_error err = XSM_ERROR_INIT;
            xsmi_container *c = NULL;
            unsigned char *bytes;
            HELD_MEMORY(char, header) = repeat(begins[within], pieces[i], 100000, "");
            assert_fails(parse(header, 0, &c, &bytes, &err), XSM_ERROR_FORMAT, err);
            free(bytes);
        }
    }
    return NULL;
}

/* However deep values lie in each other, reading takes no stack for it. */
TEST(deep_headers)
{
    pthread_t thread;
    pthread_attr_t small;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 128 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, parse_deep, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&small);
}

static size_t most_memory(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (size_t)usage.ru_maxrss << 10;
}

static const struct {
    const char *begin, *piece, *end;
    xsm_status status;
} long_headers[] = {
    {"{\"a\":[0", ",0", "]}", XSM_ERROR_FORMAT},
    {"{\"__metadata__\":{\"a\":\"\"", ",\"%zu\":\"\"", "}}", XSM_OK},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
     ",\"%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", "}", XSM_OK},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0", ",0", "],\"data_offsets\":[0,0]}}", XSM_ERROR_FORMAT},
};

static xsm_status open_long(void *header, xsm_context *ctx, xsm_error *err)
{
    size_t size;
    xsmi_container *c = NULL;
    unsigned char *bytes = make(header, 0, &size);
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "loading", "bytes", 0);
    const xsm_status status = xsmi_end(&activity, open_bytes(ctx, bytes, size, "long", &c, err), err);
    xsmi_container_close(c);
    free(bytes);
    return status;
}

/* Memory in proportion to the header's bytes, of the context; and the hook is asked. */
TEST(long_headers_take_little)
{
    enum { BYTES = 4 << 20 };
    for (size_t i = 0; i < sizeof long_headers / sizeof *long_headers; i++) {
        const size_t count = BYTES / (strlen(long_headers[i].piece) + 5);
        HELD_MEMORY(char, header) = repeat(long_headers[i].begin, long_headers[i].piece, count, long_headers[i].end);
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1);
        const size_t before = most_memory();
        assert_int_equal(open_long(header, ctx, &err), long_headers[i].status);
        assert_true(most_memory() - before < 25 * (size_t)BYTES);
        assert_int_equal(test_memory_blocks(memory), 0);
        test_memory_end(memory, ctx);
        if (long_headers[i].status == XSM_OK) {
            test_every_poll(open_long, header, 1, 5, "loading");
        }
    }
}

TEST(refuses_lengths_beyond_the_file)
{
    HELD(xsm_context, ctx) = NULL;
    assert_int_equal(xsm_context_new(NULL, &ctx, NULL), XSM_OK);
    size_t size;
    unsigned char *bytes = make(HEADER_24, 6, &size);
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, INT64_MAX, UINT64_C(1) << 32, 1000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t b = 0; b < 8; b++) {
            bytes[b] = (unsigned char)(lengths[i] >> (8 * b));
        }
        xsmi_container *c = NULL;
        assert_fails(open_bytes(ctx, bytes, size, "f", &c, &err), XSM_ERROR_FORMAT, err);
    }
    free(bytes);
    /* A header that is there, but longer than is read. */
    HELD_MEMORY(char, long_header) = malloc(XSMI_HEADER_MAX + 2);
    assert_non_null(long_header);
    memset(long_header, ' ', XSMI_HEADER_MAX + 1);
    memcpy(long_header, "{}", 2);
    long_header[XSMI_HEADER_MAX + 1] = '\0';
    bytes = make(long_header, 0, &size);
    xsmi_container *c = NULL;
    assert_fails(open_bytes(ctx, bytes, size, "f", &c, &err), XSM_ERROR_LIMIT, err);
    free(bytes);
    long_header[XSMI_HEADER_MAX] = '\0';
    bytes = make(long_header, 0, &size);
    assert_ok(open_bytes(ctx, bytes, size, "f", &c, &err), err);
    xsmi_container_close(c);
    free(bytes);
}

TEST(dtypes_have_names)
{
    static const struct {
        const char *name;
        size_t size;
    } known[] = {{"U8", 1}, {"I32", 4}, {"U32", 4}, {"F32", 4}, {"I64", 8}, {"U64", 8}, {"F64", 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        xsmi_dtype dtype;
        assert_true(xsmi_dtype_parse(known[i].name, &dtype));
        assert_string_equal(xsmi_dtype_name(dtype), known[i].name);
        assert_int_equal(xsmi_dtype_size(dtype), known[i].size);
    }
    xsmi_dtype dtype;
    assert_false(xsmi_dtype_parse("f32", &dtype));
    assert_false(xsmi_dtype_parse("", &dtype));
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

static const double values[3] = {1, -2, 0.5};

static const xsmi_tensor plan[] = {
    {.name = "d", .dtype = XSMI_DTYPE_F64, .rank = 1, .shape = {3}},
    {.name = "w", .dtype = XSMI_DTYPE_F32, .rank = 2, .shape = {1, 2}},
    {.name = "t", .dtype = XSMI_DTYPE_U8, .rank = 1, .shape = {1}},
};

static xsm_status write_some(xsm_context *ctx, const char *path, xsm_error *err)
{
    static const xsmi_entry metadata[] = {{"z", "\"\\\n"}, {"a", "\xe7\x8a\xac"}};
    xsmi_container_writer *w = NULL;
    XSMI_TRY(xsmi_container_create(ctx, path, &(xsmi_container_plan){plan, 3, 1, metadata, 2}, &w, err));
    xsm_status status = xsmi_container_write(w, values, sizeof values, err);
    if (status == XSM_OK) {
        status = xsmi_container_write(w, "abcdefgh", 8, err);
    }
    if (status == XSM_OK) {
        status = xsmi_container_write(w, "!", 1, err);
    }
    if (status != XSM_OK) {
        xsmi_container_abandon(w);
        return status;
    }
    return xsmi_container_commit(w, err);
}

TEST(writes_what_it_reads)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    const char *path = test_path("written");
    assert_ok(write_some(ctx, path, &err), err);
    xsmi_container *c = NULL;
    assert_ok(xsmi_container_open(ctx, path, true, &c, &err), err);
    assert_string_equal(xsmi_container_metadata(c, "z"), "\"\\\n");
    assert_string_equal(xsmi_container_metadata(c, "a"), "\xe7\x8a\xac");
    assert_string_equal(xsmi_container_metadata(c, "format_version"), "1");
    assert_string_equal(xsmi_container_metadata(c, "library"), xsm_version_string());
    const xsmi_tensor *d = xsmi_container_tensor(c, "d");
    const xsmi_tensor *w = xsmi_container_tensor(c, "w");
    assert_memory_equal(d->data, values, sizeof values);
    assert_memory_equal(w->data, "abcdefgh", 8);
    assert_int_equal((uintptr_t)w->data % XSMI_ALIGNMENT, 0); /* a mapping begins on a page */
    assert_int_equal(xsmi_container_tensor(c, "t")->data[0], '!');
    xsmi_mapping mapping = xsmi_container_detach_mapping(c);
    xsmi_container_close(c);
    assert_int_equal(mapping.data[mapping.size - 1], '!');
    xsmi_unmap_file(&mapping);
    test_memory_end(memory, ctx);
    test_files_end();
}

TEST(refuses_bad_plans)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    const char *path = test_path("bad");
    xsmi_container_writer *w = NULL;
    const xsmi_tensor odd[] = {plan[2], plan[0]};
    assert_fails(xsmi_container_create(ctx, path, &(xsmi_container_plan){odd, 2, 0, NULL, 0}, &w, &err),
                 XSM_ERROR_INTERNAL, err);
    xsmi_tensor large = plan[0];
    large.shape[0] = UINT64_C(1) << 60;
    assert_fails(xsmi_container_create(ctx, path, &(xsmi_container_plan){&large, 1, 0, NULL, 0}, &w, &err),
                 XSM_ERROR_LIMIT, err);
    large.shape[0] = UINT64_C(1) << 61;
    assert_fails(xsmi_container_create(ctx, path, &(xsmi_container_plan){&large, 1, 0, NULL, 0}, &w, &err),
                 XSM_ERROR_LIMIT, err);
    assert_null(w);
    /* Fewer bytes than announced. */
    assert_ok(xsmi_container_create(ctx, path, &(xsmi_container_plan){plan, 3, 1, NULL, 0}, &w, &err), err);
    assert_ok(xsmi_container_write(w, values, sizeof values, &err), err);
    assert_fails(xsmi_container_commit(w, &err), XSM_ERROR_INTERNAL, err);
    /* A header longer than will be read again. */
    char *text = malloc(XSMI_HEADER_MAX + 1);
    assert_non_null(text);
    memset(text, 'x', XSMI_HEADER_MAX);
    text[XSMI_HEADER_MAX] = '\0';
    xsmi_entry entry = {"k", text};
    assert_fails(xsmi_container_create(ctx, path, &(xsmi_container_plan){plan, 3, 1, &entry, 1}, &w, &err),
                 XSM_ERROR_LIMIT, err);
    free(text);
    xsmi_container *c = NULL;
    assert_fails(xsmi_container_open(ctx, path, true, &c, &err), XSM_ERROR_IO, err); /* nothing was made */
    xsmi_container_abandon(NULL);
    test_memory_end(memory, ctx);
    test_files_end();
}

static xsm_status write_and_read(void *state, xsm_context *ctx, xsm_error *err)
{
    const char *path = state;
    XSMI_TRY(write_some(ctx, path, err));
    xsmi_container *c = NULL;
    XSMI_TRY(xsmi_container_open(ctx, path, true, &c, err));
    xsmi_container_close(c);
    return XSM_OK;
}

TEST(every_allocation_may_fail)
{
    char *path = strdup(test_path("allocations"));
    test_every_allocation(write_and_read, path);
    free(path);
    test_files_end();
}

/* -- in part ------------------------------------------------------------------------------------------------------- */

/* Of `lines` [6, 4] the lines 2 to 4, of `columns` [3, 8] the columns 1 and 2. */
static void choose_some(const void *chooser, const xsmi_tensor *t, xsmi_tensor_part *part)
{
    const size_t number = sizeof(float);
    assert_null(chooser);
    assert_int_equal(part->from, 0);
    assert_int_equal(part->to, t->size);
    if (strcmp(t->name, "lines") == 0) {
        part->from = 2 * 4 * number;
        part->to = 5 * 4 * number;
    } else if (strcmp(t->name, "columns") == 0) {
        *part = (xsmi_tensor_part){8 * number, number, 3 * number};
    }
}

typedef struct reading {
    const unsigned char *bytes;
    size_t size, at;
} reading;

static int64_t read_some(void *user, void *buffer, size_t size)
{
    reading *r = user;
    size_t count = size < 7 ? size : 7;
    count = count < r->size - r->at ? count : r->size - r->at;
    memcpy(buffer, r->bytes + r->at, count);
    r->at += count;
    return (int64_t)count;
}

enum { PART_FILE, PART_BYTES, PART_SOURCE, PART_PLACES };

static xsm_status open_part(xsm_context *ctx, int where, bool believe, const unsigned char *bytes, size_t size,
                            xsmi_container **out, xsm_error *err)
{
    const char *path = test_path("part");
    reading r = {bytes, size, 0};
    xsm_source source = {sizeof source, &r, read_some};
    xsm_storage storage = XSM_STORAGE_INIT;
    if (where == PART_FILE) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, size, f), size);
        assert_int_equal(fclose(f), 0);
    } else if (where == PART_BYTES) {
        storage.bytes = bytes;
        storage.byte_count = size;
    } else {
        storage.source = &source;
    }
    const xsmi_place place = {path, where == PART_FILE ? NULL : &storage};
    return xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = believe, .choose = choose_some}, out, err);
}

static void choose_all(const void *chooser, const xsmi_tensor *t, xsmi_tensor_part *part)
{
    (void)chooser;
    assert_int_equal(part->line, t->size);
}

TEST(reads_parts)
{
    HELD(xsm_context, ctx) = NULL;
    xsmi_container *c = NULL;
    xsmi_container_writer *w = NULL;
    assert_int_equal(xsm_context_new(NULL, &ctx, NULL), XSM_OK);
    float numbers[24];
    for (size_t i = 0; i < 24; i++) {
        numbers[i] = (float)i;
    }
    const xsmi_tensor tensors[] = {
        {.name = "empty", .dtype = XSMI_DTYPE_F64, .rank = 2, .shape = {0, 5}},
        {.name = "lines", .dtype = XSMI_DTYPE_F32, .rank = 2, .shape = {6, 4}},
        {.name = "columns", .dtype = XSMI_DTYPE_F32, .rank = 2, .shape = {3, 8}},
        {.name = "all", .dtype = XSMI_DTYPE_U8, .rank = 1, .shape = {5}},
    };
    const xsmi_container_plan some_plan = {.tensors = tensors, .count = 4, .aligned = 1};
    char path[256];
    snprintf(path, sizeof path, "%s", test_path("whole"));
    assert_ok(xsmi_container_create(ctx, path, &some_plan, &w, &err), err);
    assert_ok(xsmi_container_write(w, numbers, sizeof numbers, &err), err);
    assert_ok(xsmi_container_write(w, numbers, sizeof numbers, &err), err);
    assert_ok(xsmi_container_write(w, "abcde", 5, &err), err);
    assert_ok(xsmi_container_commit(w, &err), err);
    size_t size;
    unsigned char *bytes = test_read(path, &size);
    for (int where = 0; where < PART_PLACES; where++) {
        for (int believe = 0; believe < 2; believe++) {
            assert_ok(open_part(ctx, where, believe, bytes, size, &c, &err), err);
            const xsmi_tensor *t = xsmi_container_tensor(c, "lines");
            assert_int_equal(t->size, 96);
            assert_int_equal(xsmi_tensor_kept(t), 48);
            assert_memory_equal(t->data, numbers + 8, 48);
            assert_int_equal((uintptr_t)t->data % 64, 0);
            t = xsmi_container_tensor(c, "columns");
            const float some[] = {1, 2, 9, 10, 17, 18};
            assert_int_equal(xsmi_tensor_kept(t), sizeof some);
            assert_memory_equal(t->data, some, sizeof some);
            assert_memory_equal(xsmi_container_tensor(c, "all")->data, "abcde", 5);
            assert_int_equal(xsmi_tensor_kept(xsmi_container_tensor(c, "empty")), 0);
            xsmi_mapping mapping = xsmi_container_detach_mapping(c);
            assert_in_range(mapping.size, 5, 64); /* of what is read whole alone */
            xsmi_container_close(c);
            xsmi_unmap_file(&mapping);
            /* Cut short, and longer. */
            assert_int_not_equal(open_part(ctx, where, believe, bytes, size - 1, &c, &err), XSM_OK);
            assert_int_not_equal(open_part(ctx, where, believe, bytes, 5, &c, &err), XSM_OK);
            assert_int_not_equal(open_part(ctx, where, believe, bytes, 0, &c, &err), XSM_OK);
        }
        /* Any bit that is wrong is found, also where nobody reads. */
        for (size_t i = 0; i < size; i++) {
            bytes[i] ^= 4;
            assert_int_not_equal(open_part(ctx, where, false, bytes, size, &c, &err), XSM_OK);
            bytes[i] ^= 4;
        }
        const size_t last = size - 6; /* of a column that is not read */
        bytes[last] ^= 4;
        assert_fails(open_part(ctx, where, false, bytes, size, &c, &err), XSM_ERROR_CHECKSUM, err);
        assert_ok(open_part(ctx, where, true, bytes, size, &c, &err), err);
        xsmi_container_close(c);
        bytes[last] ^= 4;
    }
    xsm_storage in_place = XSM_STORAGE_INIT;
    in_place.bytes = bytes;
    in_place.byte_count = size;
    const xsmi_place all = {"all", &in_place};
    assert_ok(xsmi_container_open_at(ctx, &all, (xsmi_open_how){.choose = choose_all}, &c, &err), err);
    assert_ptr_equal(xsmi_container_tensor(c, "all")->data, bytes + size - 5);
    xsmi_container_close(c);
    const xsmi_place nowhere = {.name = "/nowhere/at/all"};
    assert_fails(xsmi_container_open_at(ctx, &nowhere, (xsmi_open_how){.choose = choose_some}, &c, &err), XSM_ERROR_IO,
                 err);
    free(bytes);
}
