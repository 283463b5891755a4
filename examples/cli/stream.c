/*
 * Rows as they come, for predict --data - where standard input is no file: pieces of complete lines, each as large as
 * what is there, so that a line is answered before the next one is sent, and memory does not grow with the rows.
 *
 * A piece is read as a file of its own: before it comes a header, of tables their first line, of XC one with the number
 * of rows. The first piece settles the format. What is no text (compressed rows, NumPy, caches) is one piece.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a piece, about, where more is there. */
#define PIECE ((size_t)1 << 20)

int cli_stream_wanted(const char *path, const cli_data *data)
{
    struct stat st;
    return strcmp(path, "-") == 0 && !cli_group && data->format != XSM_FORMAT_NPY && data->format != XSM_FORMAT_CACHE &&
           fstat(STDIN_FILENO, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Reads what is there, and waits for something if nothing is. */
static int read_some(cli_stream *s)
{
    if (s->count + PIECE > s->room) {
        char *more = realloc(s->bytes, s->count + 2 * PIECE);
        if (!more) {
            return cli_fail("out of memory");
        }
        s->bytes = more;
        s->room = s->count + 2 * PIECE;
    }
    const int64_t got = cli_read_input(NULL, s->bytes + s->count, PIECE);
    if (got < 0) {
        return cli_stop_waits() ? cli_fail("cancelled while reading standard input")
                                : cli_fail("standard input: cannot read: %s", strerror(errno));
    }
    s->ended = got == 0;
    s->count += (size_t)got;
    return CLI_GO_ON;
}

/* Whether something is there at once. */
static int has_more(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) > 0;
}

/* Whether bytes are no lines of text. */
static int is_binary(const char *bytes, size_t count)
{
    static const char *const starts[] = {"\x1f\x8b",    "\x93NUMPY",        "BZh",
                                         "\xfd\x37zXZ", "\x28\xb5\x2f\xfd", "PK\x03\x04"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const size_t length = strlen(starts[i]);
        if (count >= length && memcmp(bytes, starts[i], length) == 0) {
            return 1;
        }
    }
    return memchr(bytes, '\0', count < 64 ? count : 64) != NULL;
}

/* The bytes of the complete lines, of the first `most` at most, and their number. */
static size_t complete(const cli_stream *s, uint64_t most, uint64_t *lines)
{
    size_t end = 0;
    int quoted = 0;
    *lines = 0;
    for (size_t i = 0; i < s->count && *lines < most; i++) {
        quoted ^= s->quotes && s->bytes[i] == '"';
        if (s->bytes[i] == '\n' && !quoted) {
            end = i + 1;
            ++*lines;
        }
    }
    if (s->ended && end < s->count && *lines < most) {
        ++*lines;
        end = s->count;
    }
    return end;
}

/* Whether a line is three numbers, with which XC begins: rows, features and labels; or two, where labels are in another
 * file. */
static int is_xc_header(const char *line, size_t length, unsigned long long n[3])
{
    char copy[80];
    if (length >= sizeof copy) {
        return 0;
    }
    memcpy(copy, line, length);
    copy[length] = '\0';
    unsigned long long more = ULLONG_MAX;
    n[2] = ULLONG_MAX;
    return strspn(copy, "0123456789 \t\r\n") == length &&
           sscanf(copy, "%llu %llu %llu %llu", &n[0], &n[1], &n[2], &more) >= 2 && more == ULLONG_MAX;
}

static void drop(cli_stream *s, size_t size)
{
    s->count -= size;
    if (s->count > 0) {
        memmove(s->bytes, s->bytes + size, s->count);
    }
}

/* Whether the rows are known to have tabs between fields, by flags or as the model's training data. */
static int has_tabs(const cli_stream *s, const cli_data *data)
{
    const char *separator = data->separator ? data->separator : s->separator;
    return data->format == XSM_FORMAT_TSV ||
           (separator && (strcmp(separator, "tab") == 0 || strcmp(separator, "\\t") == 0 || *separator == '\t'));
}

/* What the first line says of the format. */
static void look(cli_stream *s, cli_data *data, const xsm_class_map *map)
{
    /* By a number it is found in a file without a header line. */
    const char *const column =
        s->text_column && s->text_column[strspn(s->text_column, "-0123456789")] ? s->text_column : NULL;
    unsigned long long n[3];
    uint64_t lines;
    const size_t length = complete(s, 1, &lines);
    const int open = data->format == XSM_FORMAT_AUTO && !map->vocabulary && !data->separator;
    s->looked = 1;
    if ((open || data->format == XSM_FORMAT_XC) && is_xc_header(s->bytes, length, n)) {
        data->format = XSM_FORMAT_XC;
        s->announced = n[0];
        s->features = n[1];
        s->labels = n[2];
        s->lines = 1;
        drop(s, length);
        return;
    }
    const int columns = (map->features == 1 && map->index_base == XSM_INDEX_BASE_AUTO) ||
                        memchr(s->bytes, ',', length) || memchr(s->bytes, '\t', length) ||
                        memchr(s->bytes, ';', length) || memchr(s->bytes, '|', length);
    s->table = data->format == XSM_FORMAT_CSV || data->format == XSM_FORMAT_TSV || data->text_column ||
               data->header != XSM_HEADER_AUTO || data->separator || data->ignore_columns || data->label_separator ||
               (open && s->separator) || (open && columns && !memchr(s->bytes, ':', length)) ||
               (data->format == XSM_FORMAT_AUTO && column && memmem(s->bytes, length, column, strlen(column)));
    s->quotes = s->table && (data->separator || !memchr(s->bytes, '\t', length)) && !has_tabs(s, data);
    if (open && !s->table && map->index_base != XSM_INDEX_BASE_AUTO) {
        data->format = XSM_FORMAT_LIBSVM;
    }
    if (data->format == XSM_FORMAT_LIBSVM && data->index_base == XSM_INDEX_BASE_AUTO &&
        map->index_base == XSM_INDEX_BASE_ZERO && !map->feature_numbers) {
        data->index_base = XSM_INDEX_BASE_ZERO;
        s->doubtful = 1;
        cli_note_clear();
        fprintf(cli_messages(), "xsoftmax: note: the features of standard input are taken to count from 0, as those of "
                                "the model; --index-base 0 or 1 says it\n");
    }
}

/* Reads until there is a complete line, and of a table that begins a second one. */
static int fill(cli_stream *s, cli_data *data, const xsm_class_map *map, size_t *size, uint64_t *lines)
{
    for (;;) {
        *size = complete(s, UINT64_MAX, lines);
        if (!s->looked && s->count > 0 && is_binary(s->bytes, s->count)) {
            s->whole = 1;
            return CLI_GO_ON;
        }
        if (!s->looked && *lines > 0) {
            look(s, data, map);
            continue;
        }
        const uint64_t least = s->table && !s->header && data->header != XSM_HEADER_NO ? 2 : 1;
        if (s->ended || (*lines >= least && (s->count >= PIECE || !has_more()))) {
            return CLI_GO_ON;
        }
        const int code = read_some(s);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
}

/* Whether no line of a piece is a row: all are comments. */
static int is_comment(const cli_data *data, const char *bytes, size_t size)
{
    int comment = data->format == XSM_FORMAT_LIBSVM;
    for (const char *at = bytes, *end = bytes + size; comment && at < end; at++) {
        comment = *at == '#';
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at : end - 1;
    }
    return comment;
}

/* The bytes of the lines before the first one with this feature, and their number. */
static size_t lines_without(const char *bytes, size_t size, uint32_t feature, uint64_t *lines)
{
    char token[24];
    const size_t length = (size_t)snprintf(token, sizeof token, "%u:", feature);
    size_t start = 0;
    for (*lines = 0; start < size; ++*lines) {
        const char *line = bytes + start, *end = memchr(line, '\n', size - start);
        end = end ? end : bytes + size;
        const char *comment = memchr(line, '#', (size_t)(end - line)), *stop = comment ? comment : end;
        for (const char *at = line; (at = memmem(at, (size_t)(stop - at), token, length)) != NULL; at++) {
            if (at == line || at[-1] == ' ' || at[-1] == '\t') {
                return start;
            }
        }
        start = end < bytes + size ? (size_t)(end - bytes) + 1 : size;
    }
    return size;
}

/* Ends a piece before rows that seem to count from 1, whatever is in the pieces, so that the answers to the same rows
 * do not depend on how fast they come. A file is looked at as a whole. */
static int doubt_base(const cli_stream *s, const xsm_class_map *map, size_t *size, uint64_t *lines)
{
    if (s->doubtful && *size > 0) {
        *size = lines_without(s->bytes, *size, map->features, lines);
    }
    return *size > 0 || !s->doubtful || s->count == 0
               ? CLI_GO_ON
               : cli_fail(
                     "standard input, line %llu: a feature %u, and those of the model are 0 to %u, as if these rows "
                     "counted from 1: --index-base 1 if they do, else 0",
                     (unsigned long long)s->lines + 1, map->features, map->features - 1);
}

/* What the first piece has settled. */
static int settle(cli_stream *s, cli_data *data, const xsm_class_map *map, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    uint64_t lines;
    if (xsm_dataset_get_info(rows, &info, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    data->format = info.format;
    s->table = info.format == XSM_FORMAT_CSV || info.format == XSM_FORMAT_TSV;
    s->quotes &= info.format == XSM_FORMAT_CSV;
    if (s->table && data->header == XSM_HEADER_AUTO) {
        data->header = info.rows == s->done_lines ? XSM_HEADER_NO : XSM_HEADER_YES; /* was line 1 a row? */
    }
    if (s->table && !s->header && data->header == XSM_HEADER_YES) {
        const size_t length = complete(s, 1, &lines);
        s->header = cli_format("%.*s", (int)length, s->bytes);
    }
    if (info.format == XSM_FORMAT_LIBSVM && data->index_base == XSM_INDEX_BASE_AUTO &&
        map->index_base == XSM_INDEX_BASE_AUTO) {
        return cli_misuse("--data -: neither the model nor single rows say whether libsvm features begin at 0 or 1; "
                          "give --index-base");
    }
    return CLI_GO_ON;
}

/* Reads the first `size` bytes as rows. */
static int read_piece(cli_stream *s, xsm_context *context, cli_data *data, const xsm_model *model, size_t size,
                      uint64_t lines, xsm_dataset **rows)
{
    char *header = s->header                    ? cli_format("%s", s->header)
                   : s->announced == UINT64_MAX ? NULL
                   : s->labels == ULLONG_MAX
                       ? cli_format("%llu %llu\n", (unsigned long long)lines, s->features)
                       : cli_format("%llu %llu %llu\n", (unsigned long long)lines, s->features, s->labels);
    const cli_ahead ahead = {
        {header ? header : "", s->bytes}, {header ? strlen(header) : 0, size}, !s->whole, s->lines - (header ? 1 : 0)};
    cli_read_ahead(&ahead);
    const int code = cli_read_for_model(context, "-", data, model, rows);
    cli_read_ahead(NULL);
    free(header);
    return code;
}

int cli_stream_next(cli_stream *s, xsm_context *context, cli_data *data, const xsm_model *model, xsm_dataset **rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    size_t size = 0;
    uint64_t lines = 0;
    *rows = NULL;
    if (xsm_model_get_class_map(model, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    s->text_column = xsm_model_get_metadata(model, "training.text_column");
    s->separator = xsm_model_get_metadata(model, "training.separator");
    do { /* all but comments */
        s->lines += s->done_lines;
        drop(s, s->done);
        s->done = s->done_lines = 0;
        int code = s->whole && s->pieces > 0 ? CLI_GO_ON : fill(s, data, &map, &size, &lines);
        code = code == CLI_GO_ON && !s->whole ? doubt_base(s, &map, &size, &lines) : code;
        if (code != CLI_GO_ON) {
            return code;
        }
        if (s->pieces > 0 && (s->whole || size == 0)) {
            return s->announced == UINT64_MAX || s->announced == s->lines - 1
                       ? CLI_GO_ON
                       : cli_fail("standard input: %llu rows, and its first line says %llu",
                                  (unsigned long long)s->lines - 1, (unsigned long long)s->announced);
        }
        s->done = s->whole ? s->count : size;
        s->done_lines = lines;
    } while (is_comment(data, s->bytes, size) && !s->ended);
    int code = read_piece(s, context, data, model, s->done, lines, rows);
    code = code == CLI_GO_ON && s->pieces == 0 && !s->whole ? settle(s, data, &map, *rows) : code;
    s->pieces++;
    if (code != CLI_GO_ON) {
        xsm_dataset_free(*rows);
        *rows = NULL;
    }
    return code;
}

void cli_stream_free(cli_stream *s)
{
    free(s->bytes);
    free(s->header);
}
