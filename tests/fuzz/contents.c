#include "contents.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *copy_of(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    fuzz_require(copy != NULL, "memory");
    memcpy(copy, data, size);
    return copy;
}

static char *text_of(const char *text)
{
    return copy_of(text, strlen(text) + 1);
}

/* What the container writes itself. */
static bool is_container_key(const char *key)
{
    return strcmp(key, XSMI_KEY_VERSION) == 0 || strcmp(key, XSMI_KEY_LIBRARY) == 0 ||
           strcmp(key, XSMI_KEY_CHECKSUM) == 0;
}

void fuzz_contents_read(xsm_context *ctx, const xsm_storage *saved, fuzz_contents *c)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsmi_place place = {"saved", saved};
    xsmi_container *file = NULL;
    const xsmi_tensor *t;
    const xsmi_entry *entry;
    memset(c, 0, sizeof *c);
    fuzz_require(xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = false}, &file, &err) == XSM_OK,
                 err.message);
    for (; (t = xsmi_container_tensor_at(file, c->tensor_count)) != NULL; c->tensor_count++) {
        fuzz_require(c->tensor_count < FUZZ_TENSORS, "not so many tensors");
        c->tensors[c->tensor_count] = *t;
        c->data[c->tensor_count] = copy_of(t->data, t->size);
        c->names[c->tensor_count] = text_of(t->name);
    }
    for (size_t i = 0; (entry = xsmi_container_metadata_at(file, i)) != NULL; i++) {
        if (!is_container_key(entry->key)) {
            fuzz_require(c->entry_count < FUZZ_ENTRIES, "not so many entries");
            c->keys[c->entry_count] = text_of(entry->key);
            c->values[c->entry_count++] = text_of(entry->value);
        }
    }
    xsmi_container_close(file);
}

static fuzz_contents copy_contents(const fuzz_contents *from)
{
    fuzz_contents c = *from;
    for (size_t i = 0; i < c.tensor_count; i++) {
        c.data[i] = copy_of(from->data[i], c.tensors[i].size);
        c.names[i] = text_of(from->names[i]);
    }
    for (size_t i = 0; i < c.entry_count; i++) {
        c.keys[i] = text_of(from->keys[i]);
        c.values[i] = text_of(from->values[i]);
    }
    return c;
}

void fuzz_contents_free(fuzz_contents *c)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        free(c->data[i]);
        free(c->names[i]);
    }
    for (size_t i = 0; i < c->entry_count; i++) {
        free(c->keys[i]);
        free(c->values[i]);
    }
}

/* -- changes ------------------------------------------------------------------------------------------------------ */

/* Puts a number among those of a tensor: its bits, or the number that it is. */
static void change_number(fuzz_contents *c, size_t tensor, size_t place, uint32_t bits, bool as_value)
{
    xsmi_tensor *t = &c->tensors[tensor];
    size_t each = xsmi_dtype_size(t->dtype), count = t->size / each;
    if (count == 0) {
        return;
    }
    uint8_t *at = c->data[tensor] + place % count * each;
    float f;
    memcpy(&f, &bits, sizeof f);
    double d = (double)f;
    int64_t whole = (int32_t)bits;
    if (!as_value || each < 8) {
        memcpy(at, &bits, each < 4 ? each : 4);
    } else {
        memcpy(at, t->dtype == XSMI_DTYPE_F64 ? (const void *)&d : (const void *)&whole, 8);
    }
}

/* Two numbers of a tensor change places, or one becomes the other. */
static void exchange_numbers(fuzz_contents *c, size_t tensor, size_t place, uint32_t other)
{
    const xsmi_tensor *t = &c->tensors[tensor];
    const size_t each = xsmi_dtype_size(t->dtype), count = t->size / each;
    uint8_t number[8];
    if (count > 0) {
        uint8_t *a = c->data[tensor] + place % count * each, *b = c->data[tensor] + (other >> 1) % count * each;
        memcpy(number, a, each);
        memcpy(a, b, each);
        if (other & 1) {
            memcpy(b, number, each);
        }
    }
}

/* A whole number becomes a little larger or smaller. */
static void move_number(fuzz_contents *c, size_t tensor, size_t place, uint32_t by)
{
    const xsmi_tensor *t = &c->tensors[tensor];
    const size_t each = xsmi_dtype_size(t->dtype), count = t->size / each;
    uint64_t number = 0;
    if (count > 0) {
        uint8_t *at = c->data[tensor] + place % count * each;
        memcpy(&number, at, each);
        number += (uint64_t)(by % 9) - 4;
        memcpy(at, &number, each);
    }
}

/* Gives a tensor another length, its numbers repeated or cut off. */
static void change_shape(fuzz_contents *c, size_t tensor, size_t place, uint32_t number, bool by_one)
{
    xsmi_tensor *t = &c->tensors[tensor];
    size_t bytes = 0;
    if (t->rank == 0) {
        return;
    }
    uint64_t *length = &t->shape[place % t->rank];
    *length = !by_one ? number % 64 : number % 2 ? *length + 1 : *length - (*length > 0);
    fuzz_require(xsmi_tensor_bytes(t, &bytes), "a small tensor");
    uint8_t *data = malloc(bytes ? bytes : 1);
    fuzz_require(data != NULL, "memory");
    for (size_t i = 0; i < bytes; i++) {
        data[i] = t->size ? c->data[tensor][i % t->size] : 0;
    }
    free(c->data[tensor]);
    c->data[tensor] = data;
    t->size = bytes;
}

static void change_dtype(fuzz_contents *c, size_t tensor, uint32_t number)
{
    xsmi_dtype to = (xsmi_dtype)(number % (XSMI_DTYPE_F64 + 1));
    if (xsmi_dtype_size(to) == xsmi_dtype_size(c->tensors[tensor].dtype)) {
        c->tensors[tensor].dtype = to;
    }
}

static void drop_tensor(fuzz_contents *c, size_t tensor)
{
    size_t last = --c->tensor_count;
    free(c->data[tensor]);
    free(c->names[tensor]);
    for (size_t i = tensor; i < last; i++) { /* the order keeps tensors aligned */
        c->tensors[i] = c->tensors[i + 1];
        c->data[i] = c->data[i + 1];
        c->names[i] = c->names[i + 1];
    }
}

static void change_value(fuzz_contents *c, size_t entry, size_t place, uint32_t number)
{
    char *value = c->values[entry];
    char text[32];
    switch (place % 4) {
    case 0:
        snprintf(text, sizeof text, "%" PRIu32, number);
        break;
    case 1:
        snprintf(text, sizeof text, "%.9g", ldexp((double)(int32_t)number, -16));
        break;
    case 2:
        value[0] = value[0] ? (char)(' ' + number % 95) : '\0';
        return;
    default:
        value[strlen(value) / 2] = '\0';
        return;
    }
    free(value);
    c->values[entry] = text_of(text);
}

/* A digit of a value. */
static void change_digit(fuzz_contents *c, size_t entry, size_t place, uint32_t number)
{
    char *value = c->values[entry], *digit = strpbrk(value + place % (strlen(value) + 1), "0123456789");
    if (digit) {
        *digit = (char)('0' + number % 10);
    }
}

static void exchange(char **a, char **b)
{
    char *text = *a;
    *a = *b;
    *b = text;
}

/* What `what` asks for; a file of the corpus says it by the remainder by 8, where it is below 250. */
static void change(fuzz_contents *c, const uint8_t *bytes)
{
    const size_t place = (size_t)bytes[2] | (size_t)bytes[3] << 8;
    const unsigned what = bytes[0] < 250 ? bytes[0] % 8 : bytes[0];
    const bool tensors = what < 6 || (what >= 250 && what < 254);
    uint32_t number;
    memcpy(&number, bytes + 4, sizeof number);
    if (tensors ? c->tensor_count == 0 : c->entry_count == 0) {
        return;
    }
    const size_t at = bytes[1] % (tensors ? c->tensor_count : c->entry_count);
    switch (what) {
    case 0:
    case 1:
        change_number(c, at, place, number, what == 1);
        break;
    case 2:
        change_shape(c, at, place, number, false);
        break;
    case 3:
        change_dtype(c, at, number);
        break;
    case 4:
        drop_tensor(c, at);
        break;
    case 5:
        exchange(&c->names[at], &c->names[place % c->tensor_count]);
        break;
    case 6:
        change_value(c, at, place, number);
        break;
    case 7: /* an entry is no longer what it was for */
        c->keys[at][place % (strlen(c->keys[at]) + 1)] = '\0';
        break;
    case 250:
    case 251:
        exchange_numbers(c, at, place, number);
        break;
    case 252:
        move_number(c, at, place, number);
        break;
    case 253:
        change_shape(c, at, place, number, true);
        break;
    case 254:
        change_digit(c, at, place, number);
        break;
    default:
        exchange(&c->values[at], &c->values[place % c->entry_count]);
        break;
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static xsm_status put_tensors(const void *contents, xsmi_container_writer *w, xsm_error *err)
{
    const fuzz_contents *c = contents;
    xsm_status status = XSM_OK;
    for (size_t i = 0; i < c->tensor_count && status == XSM_OK; i++) {
        status = xsmi_container_write(w, c->data[i], c->tensors[i].size, err);
    }
    return status;
}

/* Larger numbers first, as the writer wants them; else in the order that there is. */
static void sort_tensors(fuzz_contents *c)
{
    for (size_t i = 1; i < c->tensor_count; i++) {
        for (size_t j = i; j > 0 && xsmi_dtype_size(c->tensors[j - 1].dtype) < xsmi_dtype_size(c->tensors[j].dtype);
             j--) {
            const xsmi_tensor t = c->tensors[j];
            uint8_t *data = c->data[j];
            char *name = c->names[j];
            c->tensors[j] = c->tensors[j - 1];
            c->data[j] = c->data[j - 1];
            c->names[j] = c->names[j - 1];
            c->tensors[j - 1] = t;
            c->data[j - 1] = data;
            c->names[j - 1] = name;
        }
    }
}

static fuzz_file file_of(const void *bytes, size_t size)
{
    const size_t room = (size + 63) / 64 * 64;
    fuzz_file f = {.block = aligned_alloc(64, room + 64), .size = size};
    fuzz_require(f.block != NULL, "memory");
    f.bytes = f.block + (room + 64 - size) / 8 * 8;
    memcpy(f.bytes, bytes, size);
    return f;
}

/* Writes the contents, with a checksum that is right. */
static bool write_file(xsm_context *ctx, fuzz_contents *c, fuzz_file *out)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_entry metadata[FUZZ_ENTRIES];
    size_t entries = 0;
    sort_tensors(c);
    for (size_t i = 0; i < c->tensor_count; i++) {
        c->tensors[i].name = c->names[i];
    }
    for (size_t i = 0; i < c->entry_count; i++) {
        if (!is_container_key(c->keys[i])) {
            metadata[entries++] = (xsmi_entry){c->keys[i], c->values[i]};
        }
    }
    xsm_buffer *buffer = fuzz_buffer(ctx);
    const xsm_storage storage = fuzz_storage(buffer);
    const xsmi_place place = {"made", &storage};
    const xsmi_container_plan plan = {c->tensors, c->tensor_count, 0, metadata, entries};
    xsmi_container_writer *w = NULL;
    xsm_status status = xsmi_container_create_at(ctx, &place, &plan, &w, &err);
    status = status == XSM_OK ? xsmi_container_fill(w, put_tensors, c, &err) : status;
    size_t size = 0;
    const void *bytes = xsm_buffer_bytes(buffer, &size);
    if (status == XSM_OK) {
        *out = file_of(bytes, size);
    }
    xsm_buffer_free(buffer);
    return status == XSM_OK;
}

bool fuzz_contents_make(xsm_context *ctx, const fuzz_contents *from, const uint8_t *data, size_t size, fuzz_file *out)
{
    fuzz_contents c = copy_contents(from);
    for (size_t i = 2; i + FUZZ_CHANGE <= size; i += FUZZ_CHANGE) {
        change(&c, data + i);
    }
    const bool made = write_file(ctx, &c, out);
    fuzz_contents_free(&c);
    const unsigned whole = size > 1 ? data[1] : 0;
    if (made && whole % 4 == 1) { /* with a checksum that is wrong */
        out->bytes[out->size - 1] ^= 1;
    } else if (made && whole % 4 == 2) { /* cut short */
        const fuzz_file all = *out;
        *out = file_of(all.bytes, all.size - (size_t)(whole / 4) * 8 % (all.size + 1));
        free(all.block);
    } else if (made && whole % 4 == 3) { /* damaged */
        out->bytes[(size_t)(whole / 4) * 37 % out->size] ^= 1;
    }
    return made;
}

void fuzz_file_free(fuzz_file *f)
{
    free(f->block);
}

xsm_storage fuzz_file_storage(const fuzz_file *f)
{
    xsm_storage storage = XSM_STORAGE_INIT;
    storage.name = "input";
    storage.bytes = f->bytes;
    storage.byte_count = f->size;
    return storage;
}

/* -- inputs of its own --------------------------------------------------------------------------------------------- */

uint32_t fuzz_number(uint64_t *state)
{
    static const float floats[] = {0, 1, -1, 0.5f, 1e-40f, 1e30f, -3e38f, INFINITY, -INFINITY, NAN};
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint32_t bits = (uint32_t)(*state >> 33), number = bits >> 2;
    if (bits % 4 == 0) {
        memcpy(&number, &floats[number % (sizeof floats / sizeof floats[0])], sizeof number);
    } else if (bits % 4 == 1) {
        number = number % 64 - 1;
    } else if (bits % 4 == 2) {
        number *= UINT32_C(2654435769);
    }
    return number;
}

void fuzz_contents_run(uint32_t count)
{
    uint64_t state = 1;
    count *= getenv("XSM_TEST_FULL") ? 20 : 1;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t data[2 + 4 * FUZZ_CHANGE];
        size_t length = 2;
        const size_t changes = 1 + (fuzz_number(&state) >> 5) % 4;
        data[0] = (uint8_t)i;
        data[1] = 0;
        for (size_t j = 0; j < changes; j++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            uint32_t which = (uint32_t)(state >> 32);
            const uint32_t value = fuzz_number(&state);
            which |= which >> 30 ? 0 : 0xF8 + which % 8; /* a quarter of the kinds from 250 on */
            memcpy(data + length, &which, sizeof which);
            memcpy(data + length + 4, &value, sizeof value);
            length += FUZZ_CHANGE;
        }
        LLVMFuzzerTestOneInput(data, length);
    }
}
