/* The table of kinds of files that are not read. In `advice`, FILE stands for the path. */
#include "read/foreign.h"
#include "base/order.h"
#include "base/utf8.h"
#include "read/number.h"

#include <stdio.h>
#include <string.h>

/* A file begins with `start`, and has `inner` at `offset`. */
struct xsmi_foreign {
    const char *start;
    size_t start_length, offset;
    const char *inner;
    size_t inner_length;
    const char *name, *advice; /* advice NULL: no command turns such a file into rows */
};
typedef struct xsmi_foreign kind;

#define BYTES(text) (text), sizeof(text) - 1
#define STARTS(text) BYTES(text), 0, NULL, 0
#define PANDAS(call) "python3 -c \"import pandas; pandas." call ".to_csv('rows.csv', index=False)\""
#define NUMPY(modules, array) "python3 -c \"import numpy" modules "; numpy.save('rows.npy', " array ")\""
#define ZIP "PK\x03\x04"

static const kind kinds[] = {
    {STARTS("\xFD"
            "7zXZ\0"),
     "compressed with xz", "xz -dc FILE >rows.txt"},
    {BYTES("BZh"), 4, BYTES("1AY&SY"), "compressed with bzip2", "bzip2 -dc FILE >rows.txt"},
    {STARTS("\x28\xB5\x2F\xFD"), "compressed with zstd", "zstd -dc FILE >rows.txt"},
    {STARTS("\x04\x22\x4D\x18"), "compressed with lz4", "lz4 -dc FILE >rows.txt"},
    {STARTS("]\0\0"), "compressed with lzma", "xz -dc FILE >rows.txt"},
    {STARTS("\x1F\x9D"), "compressed with compress", "gzip -dc FILE >rows.txt"},
    {STARTS("7z\xBC\xAF\x27\x1C"), "an archive of 7-Zip", "7z e -so FILE >rows.txt"},
    {STARTS("Rar!\x1A\x07"), "a RAR archive", "unrar p -inul FILE >rows.txt"},
    {BYTES(ZIP), 30, BYTES("[Content_Types].xml"), "an Office document",
     "libreoffice --headless --convert-to csv FILE"},
    {BYTES(ZIP), 30, BYTES("mimetypeapplication/vnd.oasis"), "an OpenDocument file",
     "libreoffice --headless --convert-to csv FILE"},
    {STARTS(ZIP), "a zip archive", "unzip -p FILE >rows.txt"},
    {STARTS("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), "an Office document", "libreoffice --headless --convert-to csv FILE"},
    {BYTES(""), 257, BYTES("ustar"), "a tar archive", "tar -xOf FILE >rows.txt"},
    {STARTS("ARROW1\0"), "Apache Arrow (Feather)", PANDAS("read_feather('FILE')")},
    {STARTS("\xFF\xFF\xFF\xFF"), "a stream of Apache Arrow",
     "python3 -c \"import pyarrow; pyarrow.ipc.open_stream('FILE').read_pandas().to_csv('rows.csv', index=False)\""},
    {STARTS("\x89HDF\r\n\x1A\n"), "HDF5 (h5ls FILE shows what is in it)",
     NUMPY(", h5py", "h5py.File('FILE')['NAME'][:]")},
    {STARTS("MATLAB 5.0 MAT-file"), "a file of MATLAB", NUMPY(", scipy.io", "scipy.io.loadmat('FILE')['NAME']")},
    {STARTS("MATLAB 7.3 MAT-file"), "a file of MATLAB", NUMPY(", h5py", "h5py.File('FILE')['NAME'][:].T")},
    {STARTS("\x80\x02"), "a pickle of Python", NUMPY(", pickle", "pickle.load(open('FILE', 'rb'))")},
    {STARTS("\x80\x03"), "a pickle of Python", NUMPY(", pickle", "pickle.load(open('FILE', 'rb'))")},
    {STARTS("\x80\x04"), "a pickle of Python", NUMPY(", pickle", "pickle.load(open('FILE', 'rb'))")},
    {STARTS("\x80\x05"), "a pickle of Python", NUMPY(", pickle", "pickle.load(open('FILE', 'rb'))")},
    {STARTS("SQLite format 3\0"), "a database of SQLite (sqlite3 FILE .tables names its tables)",
     "sqlite3 -header -csv FILE 'SELECT * FROM TABLE' >rows.csv"},
    {STARTS("X\n\0\0\0"), "an object of R",
     "Rscript -e 'write.csv(readRDS(\"FILE\"), \"rows.csv\", row.names = FALSE)'"},
    {STARTS("RDX3\n"), "objects of R", "Rscript -e 'write.csv(get(load(\"FILE\")), \"rows.csv\", row.names = FALSE)'"},
    {STARTS("RDX2\n"), "objects of R", "Rscript -e 'write.csv(get(load(\"FILE\")), \"rows.csv\", row.names = FALSE)'"},
    {STARTS("<stata_dta>"), "a file of Stata", PANDAS("read_stata('FILE')")},
    {STARTS("$FL2@(#)"), "a file of SPSS", PANDAS("read_spss('FILE')")},
    {STARTS("Obj\x01"), "Apache Avro", "python3 -m fastavro FILE >rows.json"},
    {STARTS("\0\0\x08\x01"), "labels in the format of MNIST (IDX)", NUMPY("", "numpy.fromfile('FILE', 'u1')[8:]")},
    {STARTS("\0\0\x08\x03"), "images in the format of MNIST (IDX)",
     NUMPY("", "numpy.fromfile('FILE', 'u1')[16:].reshape(-1, 784)")},
    {STARTS("\xBA\x16\x4F\x2F"), "a model of fastText", NULL},
    {STARTS("{\\rtf"), "an RTF document", "libreoffice --headless --convert-to txt:Text FILE"},
    {STARTS("%PDF-"), "a PDF document", "pdftotext -layout FILE rows.txt"},
    {STARTS("\x89PNG\r\n\x1A\n"), "an image (PNG)",
     NUMPY(", PIL.Image", "numpy.array(PIL.Image.open('FILE')).reshape(1, -1)")},
    {STARTS("\xFF\xD8\xFF"), "an image (JPEG)",
     NUMPY(", PIL.Image", "numpy.array(PIL.Image.open('FILE')).reshape(1, -1)")},
    {STARTS("\xFF\xFE\0\0"), "text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE >rows.txt"},
    {STARTS("\0\0\xFE\xFF"), "text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE >rows.txt"},
    {STARTS("\xFF\xFE"), "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE >rows.txt"},
    {STARTS("\xFE\xFF"), "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE >rows.txt"},
};

/* How text files of such kinds begin, in small letters. */
static const struct {
    const char *start, *name, *advice;
} texts[] = {
    {"<!doctype html", "a page of HTML", PANDAS("read_html('FILE')[0]")},
    {"<html", "a page of HTML", PANDAS("read_html('FILE')[0]")},
    {"<table", "a page of HTML", PANDAS("read_html('FILE')[0]")},
    {"<?xml", "XML", PANDAS("read_xml('FILE')")},
    {"{\"", "JSON lines", PANDAS("read_json('FILE', lines=True)")},
    {"{ \"", "JSON lines", PANDAS("read_json('FILE', lines=True)")},
    {"{}", "JSON lines", PANDAS("read_json('FILE', lines=True)")},
    {"[{\"", "JSON", PANDAS("read_json('FILE')")},
    {"[{ \"", "JSON", PANDAS("read_json('FILE')")},
    {"[[", "JSON", PANDAS("read_json('FILE')")},
    {"@relation", "ARFF",
     "sed '1,/^ *@[Dd][Aa][Tt][Aa]/d; /^%/d; /^[[:space:]]*$/d' FILE >rows.csv (a table without a header line, labels "
     "last: xsm_read_options.header = XSM_HEADER_NO and xsm_read_options.label_column -1)"},
    {"sep=", "a table below a line of Excel's about its separator", "sed 1d FILE >rows.csv"},
    {"%%matrixmarket", "a Matrix Market file",
     "python3 -c \"import scipy.io, scipy.sparse; scipy.sparse.save_npz('rows.npz', "
     "scipy.io.mmread('FILE').tocsr())\""},
};

bool xsmi_is_safetensors(const unsigned char *start, size_t size)
{
    return size > 8 && start[8] == '{' && start[5] == 0 && start[6] == 0 && start[7] == 0;
}

bool xsmi_is_npz(const unsigned char *start, size_t size)
{
    const size_t header = 30;
    const size_t name = size < header ? 0 : start[26] | (size_t)start[27] << 8;
    return name > 4 && size >= header + name && memcmp(start, ZIP, sizeof ZIP - 1) == 0 &&
           memcmp(start + header + name - 4, ".npy", 4) == 0;
}

/* Whether the bytes at `offset` agree with `wanted` as far as there are any; *whole: all of `wanted` was compared. */
static bool agrees(const unsigned char *bytes, size_t count, size_t offset, const char *wanted, size_t length,
                   bool *whole)
{
    const size_t there = count > offset ? XSMI_MIN(count - offset, length) : 0;
    *whole = there == length;
    return memcmp(bytes + offset * (there > 0), wanted, there) == 0;
}

/* Whether the bytes show this kind; *open: more bytes may. */
static bool matches(const kind *k, const unsigned char *bytes, size_t count, bool *open)
{
    bool whole, inner = true;
    if (!agrees(bytes, count, 0, k->start, k->start_length, &whole)) {
        return false;
    }
    if (whole && k->inner && !agrees(bytes, count, k->offset, k->inner, k->inner_length, &inner)) {
        return false;
    }
    *open |= k->start_length > 0 && !(whole && inner);
    return whole && inner;
}

/* Kinds that are recognised by more than fixed bytes. */
static const kind wide[] = {{STARTS(""), "text in UTF-16", "iconv -f UTF-16LE -t UTF-8 FILE >rows.txt"},
                            {STARTS(""), "text in UTF-16", "iconv -f UTF-16BE -t UTF-8 FILE >rows.txt"}};
static const kind parquet = {STARTS("PAR1"), "Apache Parquet", PANDAS("read_parquet('FILE')")};
static const kind torch = {STARTS(ZIP), "a file of PyTorch", NUMPY(", torch", "torch.load('FILE')['NAME'].numpy()")};

/* Returns the kind of text in UTF-16 without a byte order mark that the bytes look like, or NULL. */
static const kind *wide_of(const unsigned char *bytes, size_t count)
{
    for (size_t low = 0; low < 2 && count >= 4; low++) {
        const unsigned char first = bytes[low], second = bytes[2 + low];
        if (first > ' ' && first < 0x7F && second >= ' ' && second < 0x7F && (bytes[1 - low] | bytes[3 - low]) == 0) {
            return &wide[low];
        }
    }
    return NULL;
}

/* Whether the bytes are Parquet's: after `PAR1` comes a byte that is not text. */
static bool is_parquet(const unsigned char *bytes, size_t count)
{
    return count >= 5 && memcmp(bytes, "PAR1", 4) == 0 && (bytes[4] < '\t' || (bytes[4] > '\r' && bytes[4] < ' '));
}

/* Whether the bytes are a PyTorch file: a zip whose first entry is FOLDER/data.pkl. */
static bool is_torch(const unsigned char *bytes, size_t count)
{
    static const char name[] = "/data.pkl";
    bool found = false;
    for (size_t at = 30; at < 160 && at + sizeof name - 1 <= count && !found; at++) {
        found = memcmp(bytes + at, name, sizeof name - 1) == 0;
    }
    return found && memcmp(bytes, ZIP, sizeof ZIP - 1) == 0;
}

const xsmi_foreign *xsmi_foreign_of(const unsigned char *bytes, size_t count, bool *open)
{
    bool is_zip, is_par;
    *open = agrees(bytes, count, 0, BYTES(ZIP), &is_zip) ||                 /* its first entry may be long */
            (agrees(bytes, count, 0, BYTES("PAR1"), &is_par) && count < 5); /* the next byte shows it */
    if (xsmi_is_npz(bytes, count) || xsmi_is_safetensors(bytes, count)) {
        return NULL;
    }
    if (is_parquet(bytes, count) || is_torch(bytes, count)) {
        return is_parquet(bytes, count) ? &parquet : &torch;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (matches(&kinds[i], bytes, count, open)) {
            return &kinds[i];
        }
    }
    return wide_of(bytes, count);
}

/* Whether a shell takes the path as it is, without quotes. */
static bool is_plain(const char *path)
{
    return strlen(path) < 80 &&
           path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+,=@%-")] == '\0' &&
           path[0] != '-';
}

/* Fails with the advice, in which the path replaces FILE; for a compressed file, the decompressed one does. */
static xsm_status refuse(const xsmi_source *s, const char *name, const char *advice, xsm_error *err)
{
    char command[400] = "";
    const char *const path = s->fd >= 0 && is_plain(s->name) ? s->name : "FILE";
    const char *const file = s->gunzip ? "rows.unpacked" : path;
    if (!advice) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s: %s; rows of data are wanted here", s->name, name);
    }
    if (s->gunzip) {
        snprintf(command, sizeof command, "gzip -dc %s >%s; ", path, file);
    }
    for (const char *at; (at = strstr(advice, "FILE")) != NULL; advice = at + 4) {
        const size_t used = strlen(command);
        snprintf(command + used, sizeof command - used, "%.*s%s", (int)(at - advice), advice, file);
    }
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s: %s, which is not read; this makes it readable: %s%s", s->name,
                     name, command, advice);
}

xsm_status xsmi_foreign_refuse(const xsmi_source *s, const xsmi_foreign *found, xsm_error *err)
{
    return refuse(s, found->name, found->advice, err);
}

static bool begins_with(const char *text, size_t length, const char *start)
{
    size_t i = 0;
    for (; i < length && start[i]; i++) {
        const char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 'a' - 'A') : text[i];
        if (c != start[i]) {
            return false;
        }
    }
    return start[i] == '\0';
}

xsm_status xsmi_foreign_refuse_text(const xsmi_source *s, const char *line, size_t length, xsm_error *err)
{
    while (length > 0 && xsmi_is_space(*line)) {
        line++;
        length--;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const bool link = strcmp(texts[i].start, "[[") == 0 && length > 2 && !strchr(" \"[-.0123456789", line[2]);
        if (!link && (strcmp(texts[i].start, "sep=") != 0 || length == 5) &&
            begins_with(line, length, texts[i].start)) {
            return refuse(s, texts[i].name, texts[i].advice, err);
        }
    }
    return XSM_OK;
}

/* Whether a line is Vowpal Wabbit's: numbers, perhaps a tag, a bar, features behind it: `1 2.0 'tag|f a:1 b`. */
static bool is_vowpal(const char *line, size_t length)
{
    const char *const bar = memchr(line, '|', length), *const end = line + length;
    const size_t before = bar ? (size_t)(bar - line) : 0, numbers = strspn(line, "0123456789+-.: ");
    const char *const tag = line + numbers;
    if (!bar || numbers > before || (numbers < before && *tag != '\'') ||
        (numbers == before && before && bar[-1] != ' ')) {
        return false;
    }
    const size_t after = (size_t)(end - bar) - 1;
    const bool only = !memchr(bar + 1, '|', after), words = after > 1 && memchr(bar + 2, ' ', after - 1);
    if (words && !xsmi_is_digit(bar[1]) && (bar[1] != ' ' ? bar[1] != '|' : only && !xsmi_is_digit(bar[2]))) {
        return true; /* |f a b; | a b */
    }
    for (const char *p = bar; p + 1 < end; p++) {
        if (*p == ':' && p[-1] > ' ' && (xsmi_is_digit(p[1]) || p[1] == '-' || p[1] == '.')) {
            return true;
        }
    }
    return false;
}

xsm_status xsmi_foreign_refuse_vowpal(const xsmi_source *s, const char *line, size_t length, xsm_error *err)
{
    return !is_vowpal(line, length)
               ? XSM_OK
               : refuse(s, "LABEL | FEATURES, as of Vowpal Wabbit",
                        "sed -E 's/^([^ |]*)[^|]*/__label__\\1 /; s/\\|[^ ]*//g; s/:[-+.0-9e]+//g' FILE >rows.txt "
                        "(text, without "
                        "values; if features are numbers, sed -E 's/^([^ |]*)[^|]*\\|[^ ]*/\\1/' makes LIBSVM's rows)",
                        err);
}
