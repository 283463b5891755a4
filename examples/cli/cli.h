/*
 * The interfaces shared by the parts of the xsoftmax command. Each file in cli/ is one part; together they use only the
 * public headers of the library.
 *
 * The command never calls setlocale(), so numbers are read and written with a point everywhere.
 */
#ifndef CLI_H
#define CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define XSM_EXPERIMENTAL /* choice, tuning, processes, distances, pairs, ranks */
#include <xsoftmax.h>
#include <xsoftmax/context.h>
#include <xsoftmax/filter.h>
#include <xsoftmax/sampler.h>

/* Exit codes. Functions return CLI_GO_ON if the command is to continue, and an exit code if it is to end. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_GO_ON = -1 };

/* --- text.c: messages and numbers for people ---------------------------------------------------------------------- */

/* Prints one line, "xsoftmax: ...", to standard error; returns CLI_FAILED. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; returns CLI_USAGE. */
int cli_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the library's error message; returns CLI_FAILED. */
int cli_library_failed(const xsm_error *err);
/* The library refused a search: because of its width (a usage error), or because the model has nothing to search. */
int cli_search_refused(const xsm_error *err);
/* Formats text like printf; the caller frees it. Ends the process if memory runs out. */
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The word nearest to `given` among `count` words, or NULL if none is near. */
const char *cli_nearest(const char *given, const char *const *words, size_t count);

/* A buffer for one of the texts below. */
typedef struct cli_buffer {
    char text[64];
} cli_buffer;

/* 1234567 as "1,234,567". */
const char *cli_grouped(uint64_t number, cli_buffer *buffer);
/* Bytes as "1.5 MiB". */
const char *cli_bytes(double bytes, cli_buffer *buffer);
/* Seconds as "0.42 s", "12.3 s" or "1:02:03". */
const char *cli_seconds(double seconds, cli_buffer *buffer);
/* The shortest decimal text that reads back as the same double; "" if it is not finite. */
const char *cli_real(double number, cli_buffer *buffer);
/* Writes a class's name as the data has it: its label, or its number. Tabs, line ends and backslashes of names become
 * \\t, \\n, \\r and \\\\. */
void cli_write_class(FILE *out, const xsm_class_map *map, uint32_t class);
/* The most memory that the process has used, in bytes. */
uint64_t cli_peak_bytes(void);
/* Seconds of a monotonic clock. */
double cli_clock(void);

/* --- names.c: the library's words in those of the command ----------------------------------------------------------
 */

/* Replaces the library's names of settings, values and things in a message by those of the command; it becomes no
 * longer. */
void cli_name_flags(char *text);

/* --- group.c: several processes that divide a model --------------------------------------------------------------- */

/* The group of this process; NULL = it is alone. */
extern const xsm_comm *cli_group;
/* Threads of this rank by default; 0 = all. */
extern uint32_t cli_group_threads;
/* Whether this process prints and writes: it is alone, or rank 0. */
int cli_leads(void);
/* Standard error of who leads; nowhere for others. */
FILE *cli_messages(void);
/* Keeps the first message of a rank that does not print; what was kept. */
void cli_hold(const char *message);
const char *cli_held(void);
/* Each rank gives its code, CLI_GO_ON or an exit code after a message; all get that of the first rank that failed,
 * whose message rank 0 prints. Alone: the code itself. Like the following, a call that all ranks make. */
int cli_agree(int code);
/* Whether the flag is set on any rank. */
int cli_agree_any(int flag);
/* Copies rank 0's bytes to the others. */
int cli_share(void *data, size_t bytes);
/* Refuses arguments that differ from rank 0's (same_arguments.h). */
int cli_compare_arguments(int argc, char **argv);
/* Whether an MPI's mpirun started this process, as which of how many. */
int cli_started(uint32_t *ranks, uint32_t *rank);

/* --- arguments.c: flags from a table ------------------------------------------------------------------------------ */

typedef enum {
    CLI_HEADING, /* no flag: a line of the help text */
    CLI_SWITCH,  /* int, set to 1 */
    CLI_TEXT,    /* const char * */
    CLI_INPUT,   /* const char *, the path of a file that is read */
    CLI_OUTPUT,  /* const char *, the path of a file that is written; none of it may be one that is read */
    CLI_LIST,    /* cli_list; may be given several times */
    CLI_INPUTS,  /* the same of paths of files that are read */
    CLI_WHOLE,   /* uint64_t */
    CLI_REAL,    /* double; NAN for the word choices[0], if there is one */
    CLI_CHOICE   /* int, the index in `choices` */
} cli_kind;

typedef struct cli_list {
    const char **items;
    size_t count;
} cli_list;

typedef struct cli_flag {
    const char *name; /* without the dashes */
    cli_kind kind;
    void *value;          /* of the type that the kind says; contains the default before parsing */
    const char *argument; /* the name of the value in the help text */
    const char *help;
    const char *const *choices; /* ended by NULL; NULL = none */
    double minimum, maximum;    /* the smallest and the largest accepted number */
    int above;                  /* 1 = the minimum itself is not accepted */
    int required;
} cli_flag;

typedef struct cli_command {
    const char *name;
    const char *operand; /* the name of an operand in the usage line; NULL = none is accepted */
    const char *summary; /* one line */
    const char *details; /* paragraphs for the help text, or NULL */
    int (*run)(const struct cli_command *command, int argc, char **argv);
} cli_command;

/* Reads argv[0..argc) into the flags' values and the operand. An output of the name - becomes standard output, and what
 * is said goes to standard error. Returns CLI_GO_ON, or an exit code if help was requested and printed, or if an error
 * was reported. */
int cli_parse(const cli_command *command, const cli_flag *flags, size_t flag_count, const char **operand, int argc,
              char **argv);
void cli_list_free(cli_list *list);

/* Lets the model that is written take the place of the one that is read. */
#define CLI_IN_PLACE_FLAG(value)                                                                                       \
    {                                                                                                                  \
        "in-place", CLI_SWITCH, &(value), NULL, "the model that is read may be replaced", NULL, 0, 0, 0, 0             \
    }

/* --- data.c: reading data and models ------------------------------------------------------------------------------ */

/* The values of the data flags; see CLI_DATA_FLAGS and CLI_TEXT_FLAGS. */
typedef struct cli_data {
    int format;
    int index_base;
    int labels; /* XSM_KEEP_LABELS_*, or -1 if not given */
    const char *label_column, *weights_column;
    const char *label_prefix; /* for text, like the following; 0 and NULL are the library's defaults */
    uint64_t min_count, word_ngrams, min_chars, max_chars, buckets;
    int believe;                  /* do not check caches */
    const char *labels_from;      /* for NumPy files */
    const char *spool;            /* the folder that stores rows instead of memory */
    const char *test_labels_from; /* train: labels_from for the test rows */
    const char *weights;          /* file of the rows' weights */
    const char *test_weights;     /* train: the same of the test rows */
    int label_weights;            /* labels have weights in text */
    int new_features, new_labels; /* those that the model lacks are kept (xsm_read_options) */
    int duplicates, bad_bytes;    /* XSM_DUPLICATES_*, XSM_BAD_BYTES_* */
    int header;                   /* XSM_HEADER_*; of tables, like the following */
    const char *separator, *ignore_columns, *label_separator, *text_column;
    int recalled;    /* XSM_RECALLED_*: what the model's table had (cli_recall_table()) */
    int ngrams_open; /* n-grams of text are chosen later: it is read with pairs of words */
} cli_data;

#define CLI_DATA_INIT                                                                                                  \
    {                                                                                                                  \
        XSM_FORMAT_AUTO, XSM_INDEX_BASE_AUTO, -1, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, \
            0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0                                                                \
    }

extern const char *const cli_format_words[];
extern const char *const cli_label_words[];
extern const char *const cli_base_words[];
extern const char *const cli_duplicate_words[];
extern const char *const cli_bad_byte_words[];
extern const char *const cli_header_words[];

/* Flags of every command that reads data. */
#define CLI_DATA_FLAGS(data)                                                                                           \
    {"format",                                                                                                         \
     CLI_CHOICE,                                                                                                       \
     &(data).format,                                                                                                   \
     "NAME",                                                                                                           \
     "what the data files are: auto, xc, libsvm, csv, tsv, text, npy, npz or cache (auto)",                            \
     cli_format_words,                                                                                                 \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0},                                                                                                               \
        {"index-base",                                                                                                 \
         CLI_CHOICE,                                                                                                   \
         &(data).index_base,                                                                                           \
         "BASE",                                                                                                       \
         "first feature index of libsvm files: auto, 0 or 1 (auto)",                                                   \
         cli_base_words,                                                                                               \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"label-column",                                                                                               \
         CLI_TEXT,                                                                                                     \
         &(data).label_column,                                                                                         \
         "NAME",                                                                                                       \
         "csv, tsv: name or number of the label column, from 0 or -1 (label); npy: number",                            \
         NULL,                                                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"weights-column",                                                                                             \
         CLI_TEXT,                                                                                                     \
         &(data).weights_column,                                                                                       \
         "NAME",                                                                                                       \
         "csv and tsv: name of the column of the rows' weights; npy: its number",                                      \
         NULL,                                                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"header",                                                                                                     \
         CLI_CHOICE,                                                                                                   \
         &(data).header,                                                                                               \
         "WHAT",                                                                                                       \
         "csv and tsv: line 1 has names of columns: auto, yes or no (auto)",                                           \
         cli_header_words,                                                                                             \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"separator",                                                                                                  \
         CLI_TEXT,                                                                                                     \
         &(data).separator,                                                                                            \
         "CHAR",                                                                                                       \
         "csv: what is between columns: a character, tab or space (found out: , ; |)",                                 \
         NULL,                                                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"ignore-columns",                                                                                             \
         CLI_TEXT,                                                                                                     \
         &(data).ignore_columns,                                                                                       \
         "LIST",                                                                                                       \
         "csv and tsv: names or numbers of columns that are left out",                                                 \
         NULL,                                                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"label-separator",                                                                                            \
         CLI_TEXT,                                                                                                     \
         &(data).label_separator,                                                                                      \
         "CHAR",                                                                                                       \
         "csv and tsv: what is between labels of a row (a row has one)",                                               \
         NULL,                                                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"text-column",                                                                                                \
         CLI_TEXT,                                                                                                     \
         &(data).text_column,                                                                                          \
         "NAME",                                                                                                       \
         "csv and tsv: name or number of a column whose words are the features",                                       \
         NULL,                                                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"labels-from",                                                                                                \
         CLI_INPUT,                                                                                                    \
         &(data).labels_from,                                                                                          \
         "FILE",                                                                                                       \
         "xc, npy and npz: file with the labels of each row",                                                          \
         NULL,                                                                                                         \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"duplicates",                                                                                                 \
         CLI_CHOICE,                                                                                                   \
         &(data).duplicates,                                                                                           \
         "WHAT",                                                                                                       \
         "xc, libsvm and npz: a feature named twice in a row: fail, or sum (fail)",                                    \
         cli_duplicate_words,                                                                                          \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"bad-bytes",                                                                                                  \
         CLI_CHOICE,                                                                                                   \
         &(data).bad_bytes,                                                                                            \
         "WHAT",                                                                                                       \
         "text, csv and tsv: bytes that are no UTF-8: fail, or replace them by U+FFFD (fail)",                         \
         cli_bad_byte_words,                                                                                           \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
    {                                                                                                                  \
        "no-verify", CLI_SWITCH, &(data).believe, NULL, "do not verify the checksum of caches", NULL, 0, 0, 0, 0       \
    }

/* Of commands that read rows with labels; what predict does with these is to pass them over. */
#define CLI_LABEL_WEIGHTS_FLAG(data)                                                                                   \
    {                                                                                                                  \
        "label-weights", CLI_SWITCH, &(data).label_weights, NULL,                                                      \
            "xc, libsvm, text: labels may have weights, 3:0.5 or __label__x:0.5", NULL, 0, 0, 0, 0                     \
    }

/* Of commands that count each row as often as its weight says. */
#define CLI_WEIGHTS_FLAG(data)                                                                                         \
    {                                                                                                                  \
        "weights", CLI_INPUT, &(data).weights, "FILE", "weight of each row, a number a line (1 each)", NULL, 0, 0, 0,  \
            0                                                                                                          \
    }

/* Flags of commands that make a vocabulary from the text they read; the other commands use the model's vocabulary. */
#define CLI_TEXT_FLAGS(data)                                                                                           \
    {"label-prefix",                                                                                                   \
     CLI_TEXT,                                                                                                         \
     &(data).label_prefix,                                                                                             \
     "TEXT",                                                                                                           \
     "text: what labels start with (__label__)",                                                                       \
     NULL,                                                                                                             \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0},                                                                                                               \
        {"min-count", CLI_WHOLE, &(data).min_count, "N", "text: leave out words that occur less often (1)",            \
         NULL,        1,         4294967295.0,      0,   0},                                                           \
        {"word-ngrams",                                                                                                \
         CLI_WHOLE,                                                                                                    \
         &(data).word_ngrams,                                                                                          \
         "N",                                                                                                          \
         "text: n-grams of up to N words are features too (1: none, or chosen)",                                       \
         NULL,                                                                                                         \
         1,                                                                                                            \
         16,                                                                                                           \
         0,                                                                                                            \
         0},                                                                                                           \
        {"min-chars",                                                                                                  \
         CLI_WHOLE,                                                                                                    \
         &(data).min_chars,                                                                                            \
         "N",                                                                                                          \
         "text: shortest n-gram of characters (1, with --max-chars)",                                                  \
         NULL,                                                                                                         \
         1,                                                                                                            \
         64,                                                                                                           \
         0,                                                                                                            \
         0},                                                                                                           \
        {"max-chars",                                                                                                  \
         CLI_WHOLE,                                                                                                    \
         &(data).max_chars,                                                                                            \
         "N",                                                                                                          \
         "text: longest n-gram of characters (0: none, or chosen)",                                                    \
         NULL,                                                                                                         \
         0,                                                                                                            \
         64,                                                                                                           \
         0,                                                                                                            \
         0},                                                                                                           \
    {                                                                                                                  \
        "buckets", CLI_WHOLE, &(data).buckets, "N", "text: features that all n-grams share (262144, or chosen)", NULL, \
            1, XSM_FEATURES_MAX, 0, 0                                                                                  \
    }

/* Refuses rows if none of them has a label; the message says how `path` could have provided labels. */
int cli_need_labels(const char *path, const xsm_dataset *rows);
/* Refuses flags that apply to none of the rows read (some may be NULL), because those have other formats. */
int cli_data_used(const cli_data *data, const xsm_dataset *const *read, size_t count);
/* Refuses all data flags that were given, because the file is not data. */
int cli_data_unused(const cli_data *data, const char *path);
/* Reads from standard input, for an xsm_source; -1 after Ctrl-C, too. */
int64_t cli_read_input(void *user, void *buffer, size_t size);
/* Bytes, in two parts, that come before the rest of standard input, or, `alone`, in place of it; and how many lines
 * came before them. */
typedef struct cli_ahead {
    const char *bytes[2];
    size_t count[2];
    int alone;
    uint64_t lines;
} cli_ahead;
/* What cli_read() of "-" is to begin with; NULL: nothing. The bytes are borrowed. */
void cli_read_ahead(const cli_ahead *bytes);
/* Reads a file, "-" being standard input, with the flags' settings. `classes` may be NULL. */
int cli_read(xsm_context *context, const char *path, const cli_data *data, const xsm_class_map *classes,
             xsm_dataset **out);
/* The labels kept of a row (XSM_KEEP_LABELS_*): `given`, or, if that is below 0, those that the model was trained with;
 * -1 = unknown. */
int cli_labels_kept(const xsm_model *model, int given);
/* Keeps in a model what flags say of tables, and of one with a column of text whether its format had tabs. */
xsm_status cli_note_table(xsm_model *model, const cli_data *data, int32_t format, xsm_error *err);
/* Whether a model's entry is one of these. */
int cli_is_of_table(const char *key);
/* Sets what a model keeps of them, where no flag does. */
void cli_recall_table(const xsm_model *model, cli_data *data);
/* Reads the rows that a saved model is applied to, and applies the model's transform. Labels are kept as in training
 * unless the flags say otherwise. */
int cli_read_for_model(xsm_context *context, const char *path, const cli_data *data, const xsm_model *model,
                       xsm_dataset **out);
int cli_context(uint64_t threads, xsm_context **out);
int cli_load(xsm_context *context, const char *path, xsm_model **out);
int cli_looks_like_model(const char *path);
int cli_is_tree_checkpoint(const char *path);
/* Loads the model for the rows of `data`; if that is the model and `path` is not, the message says so. */
int cli_load_for_data(xsm_context *context, const char *path, const char *data, xsm_model **out);
const char *cli_format_name(int32_t format);
/* Whether the features of a model are words. */
int cli_reads_words(const xsm_model *model);
/* What of the rows, words or features, is left out, as `owner` lacks it; NULL where nothing is. The caller frees the
 * text. */
char *cli_left_out(const xsm_dataset_info *info, int words, const char *owner);
/* The largest number that a feature has in files, if these number features otherwise; else 0. */
uint64_t cli_largest_number(const xsm_class_map *map);
/* Facts about objects as values; of NULL, those of the starting value. */
static inline xsm_model_info cli_model_info(const xsm_model *model)
{
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    (void)xsm_model_get_info(model, &info, NULL);
    return info;
}
static inline xsm_estimator_info cli_estimator_info(const xsm_estimator *estimator)
{
    xsm_estimator_info info = XSM_ESTIMATOR_INFO_INIT;
    (void)xsm_estimator_get_info(estimator, &info, NULL);
    return info;
}
static inline xsm_predictor_info cli_predictor_info(const xsm_predictor *predictor)
{
    xsm_predictor_info info = XSM_PREDICTOR_INFO_INIT;
    (void)xsm_predictor_get_info(predictor, &info, NULL);
    return info;
}
/* NULL for no sampler. */
static inline const char *cli_sampler_name(const xsm_sampler *sampler)
{
    xsm_sampler_info info = XSM_SAMPLER_INFO_INIT;
    (void)xsm_sampler_get_info(sampler, &info, NULL);
    return info.name;
}
static inline uint32_t cli_threads(const xsm_context *context)
{
    xsm_context_info info = XSM_CONTEXT_INFO_INIT;
    (void)xsm_context_get_info(context, &info, NULL);
    return info.threads;
}
/* Describes a model, its sizes and settings, in one line; the caller frees the text. */
char *cli_model_shape(const xsm_model *model);
/* A type of weights: its word, its XSM_DTYPE_* value, and the bytes of a number. (prune.c) */
typedef struct cli_type {
    const char *word;
    int32_t dtype;
    double bytes;
} cli_type;
/* Returns the type with an XSM_DTYPE_* value; one that is called unknown, of NaN bytes, if there is none. */
const cli_type *cli_type_of(int32_t dtype);
/* Bytes of a model's weights, those of its first layer included (speed.c). */
double cli_model_bytes(const xsm_model *model);
/* Seconds that the five best classes of a row take, one row after the other, by up to a thousand of the rows; of a
 * label tree with the beam, 0 = its own. NaN where that is not known: with several processes. */
double cli_prediction_seconds(const xsm_model *model, const xsm_dataset *rows, uint32_t beam);

/* --- stream.c: rows as they come ---------------------------------------------------------------------------------- */

/* Lines of standard input. Start it with CLI_STREAM_INIT. */
typedef struct cli_stream {
    char *bytes; /* those that were read and are not done with */
    size_t count, room;
    size_t done;                         /* bytes of the last piece */
    uint64_t lines, done_lines;          /* before the last piece, and its own */
    uint64_t pieces, announced;          /* announced: rows, by the first line of XC; UINT64_MAX without */
    unsigned long long features, labels; /* by that line */
    char *header;                        /* the first line of a table */
    const char *text_column, *separator; /* of the model's training data, or NULL */
    int ended, looked, table, whole;     /* whole: no text, but one piece */
    int doubtful;                        /* features count from 0, for the model's do, and nothing says it */
    int quotes;                          /* a line end within quotes ends no row, as in a table without tabs */
} cli_stream;
#define CLI_STREAM_INIT                                                                                                \
    {                                                                                                                  \
        NULL, 0, 0, 0, 0, 0, 0, UINT64_MAX, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0                                   \
    }
/* Whether rows are to be answered as they come: from standard input that is no file. */
int cli_stream_wanted(const char *path, const cli_data *data);
/* The next rows, as by cli_read_for_model(), or NULL at the end. Sets the format of `data` by the first ones. */
int cli_stream_next(cli_stream *s, xsm_context *context, cli_data *data, const xsm_model *model, xsm_dataset **rows);
void cli_stream_free(cli_stream *s);

/* --- index.c: an index to search the classes with ----------------------------------------------------------------- */

/* The values of --index, --index-file, --probe and --index-set; see CLI_INDEX_FLAGS. */
typedef struct cli_index {
    const char *name; /* as given, or of the file's index once that is loaded */
    const char *path; /* of an index's file; with neither of both there is no search */
    uint64_t probe;
    cli_list sets;
    xsm_context *context; /* borrowed */
    xsm_index *index;     /* made from the flags, or NULL */
    double seconds;       /* seconds that building or loading it took */
} cli_index;

#define CLI_INDEX_FLAGS(x, help)                                                                                       \
    CLI_INDEX_OPTIONS(x, help),                                                                                        \
    {                                                                                                                  \
        "index-file", CLI_INPUT, &(x).path, "FILE", "the same by an index that 'xsoftmax index' has saved", NULL, 0,   \
            0, 0, 0                                                                                                    \
    }

/* The flags of an index that is built. */
#define CLI_INDEX_OPTIONS(x, help)                                                                                     \
    {"index", CLI_TEXT, &(x).name, "NAME", (help), NULL, 0, 0, 0, 0},                                                  \
        {"probe",                                                                                                      \
         CLI_WHOLE,                                                                                                    \
         &(x).probe,                                                                                                   \
         "P",                                                                                                          \
         "--index: classes that a search scores, about (8 times the square root of all)",                              \
         NULL,                                                                                                         \
         1,                                                                                                            \
         XSM_CLASSES_MAX,                                                                                              \
         0,                                                                                                            \
         0},                                                                                                           \
    {                                                                                                                  \
        "index-set", CLI_LIST, &(x).sets, "KEY=VALUE", "another option of the index", NULL, 0, 0, 0, 0                 \
    }

/* Whether the flags request an index. */
int cli_index_wanted(const cli_index *x);
/* Makes the index that the flags request, if any, with its options. `in_tree`: a search in a tree was requested. */
int cli_index_make(xsm_context *context, cli_index *x, int in_tree);
/* Builds it over a model's classes, or loads it. */
int cli_index_build(cli_index *x, const xsm_model *model);
void cli_index_free(cli_index *x);

/* --- shortlist.c: a label tree that finds classes ----------------------------------------------------------------- */

/* The values of --shortlist and --candidates; see CLI_SHORTLIST_FLAGS. */
typedef struct cli_shortlist {
    const char *path; /* NULL: none */
    uint64_t candidates;
    xsm_model *model;
} cli_shortlist;

#define CLI_SHORTLIST_FLAGS(x, help)                                                                                   \
    {"shortlist", CLI_INPUT, &(x).path, "FILE", (help), NULL, 0, 0, 0, 0},                                             \
    {                                                                                                                  \
        "candidates", CLI_WHOLE, &(x).candidates, "N", "--shortlist: classes that are scored, at most (100)", NULL, 1, \
            XSM_CLASSES_MAX, 0, 0                                                                                      \
    }

/* Loads the label tree, if there is one. `other`: another search was requested, too. */
int cli_shortlist_load(xsm_context *context, cli_shortlist *s, int other);
void cli_shortlist_free(cli_shortlist *s);

/* --- filter.c: which classes may be predicted --------------------------------------------------------------------- */

/* The values of --allow, --deny, --exclude and --threshold; see CLI_FILTER_FLAGS. */
typedef struct cli_filter {
    const char *allow, *deny; /* files, or NULL */
    int known;                /* leave out the row's own labels */
    double threshold;         /* NAN: none */
    xsm_filter *filter;       /* made from the files, or NULL */
} cli_filter;

extern const char *const cli_exclude_words[];

#define CLI_FILTER_FLAGS(x)                                                                                            \
    {"allow", CLI_INPUT, &(x).allow, "FILE", "predict only the labels in this file, one a line", NULL, 0, 0, 0, 0},    \
        {"deny", CLI_INPUT, &(x).deny, "FILE", "do not predict the labels in this file", NULL, 0, 0, 0, 0},            \
        {"exclude",         CLI_CHOICE, &(x).known, "WHAT", "known: do not predict a row's own labels (nothing)",      \
         cli_exclude_words, 0,          0,          0,      0},                                                        \
    {                                                                                                                  \
        "threshold", CLI_REAL, &(x).threshold, "V", "leave out classes whose score or probability is below V", NULL,   \
            -3.4e38, 3.4e38, 0, 0                                                                                      \
    }

/* Reads the files and makes the filter, if there are any. */
int cli_filter_make(xsm_context *context, cli_filter *f, const xsm_model *model);
void cli_filter_free(cli_filter *f);

/* --- measures.c: the measures of the k best classes --------------------------------------------------------------- */

enum {
    CLI_MEASURES = 7,
    CLI_MEASURES_FIRST = 4, /* of reports of training, and of its history with several labels a row */
    CLI_MEASURE_RANKS = 4
};
typedef struct cli_measure {
    const char *key, *title; /* in JSON and CSV, and for people */
    size_t offset;           /* of its array in xsm_metrics */
} cli_measure;
extern const cli_measure cli_measures[CLI_MEASURES];
/* The values of k that are reported, rising. */
extern const uint32_t cli_measure_ranks[CLI_MEASURE_RANKS];
enum { CLI_MEASURE_TOP = 10 }; /* the last of them */

/* Metrics and their arrays; not to be copied once they are started. */
typedef struct cli_metrics {
    xsm_metrics of;
    double values[CLI_MEASURES][CLI_MEASURE_TOP];
} cli_metrics;
/* Sets the arrays, for xsm_evaluate(). */
void cli_metrics_start(cli_metrics *m);
/* Copies metrics and all of their arrays of CLI_MEASURE_TOP numbers. */
void cli_metrics_keep(cli_metrics *m, const xsm_metrics *from);

/* A measure for all k. */
const double *cli_measure_values(const xsm_metrics *metrics, size_t which);
/* A measure at k; NaN if it is unknown, or if `metrics` is NULL. */
double cli_measure_at(const xsm_metrics *metrics, size_t which, uint32_t k);
/* Prints the values, for example "@1 0.5 @3 0.6 @5 0.6" with " " as the separator. */
void cli_measure_print(const xsm_metrics *metrics, size_t which, const char *between);
/* Reads keys separated by commas; bit i of the set stands for cli_measures[i]. Returns CLI_GO_ON or an exit code. */
int cli_measures_read(const char *flag, const char *list, unsigned *set);
/* The share of the training rows without the most frequent class, which is the error of always answering it; NAN where
 * the model does not know. Then: whether the error of `metrics`, of rows enough, is not smaller by a standard error. */
double cli_guess_error(const xsm_model *model);
int cli_no_better_than_guess(const xsm_model *model, const xsm_metrics *metrics);
/* The log-loss of the classes' frequencies on the training rows; NAN where the model does not know, or where rows have
 * several labels. */
double cli_guess_log_loss(const xsm_model *model);

/* --- json.c: one JSON object -------------------------------------------------------------------------------------- */

typedef struct cli_json {
    FILE *out;
    int comma;
} cli_json;

/* A key of NULL writes no key: for the outermost object. */
void cli_json_open(cli_json *json, const char *key);
void cli_json_close(cli_json *json);
void cli_json_open_list(cli_json *json, const char *key);
void cli_json_close_list(cli_json *json);
void cli_json_text(cli_json *json, const char *key, const char *value);
void cli_json_whole(cli_json *json, const char *key, uint64_t value);
/* A class by its name, or by its label: a number. */
void cli_json_class(cli_json *json, const char *key, const xsm_class_map *map, uint32_t class);
void cli_json_null(cli_json *json, const char *key);
/* Numbers that JSON cannot represent become null. */
void cli_json_real(cli_json *json, const char *key, double value);
/* One member for each of cli_measure_ranks; `count` of the values are known. */
void cli_json_ranks(cli_json *json, const char *key, const double *values, uint32_t count);
/* {"log_loss", "error", "rows"} and, if `measures` are above 0, so many of the k best classes and "calibration_error".
 * `metrics` may be NULL: all are null. */
void cli_json_metrics(cli_json *json, const char *key, const xsm_metrics *metrics, size_t measures);

/* --- classes.c: figures of each class ----------------------------------------------------------------------------- */

/* The values of --by-class, --confusions, --f1-threshold and --no-f1, and what they led to. */
typedef struct cli_classes {
    const char *path; /* of the table, or NULL */
    uint64_t most;    /* confusions to report */
    double threshold; /* XSM_DEFAULT: by the rows and the model */
    int unwanted;     /* no figures of classes */
    xsm_class_metrics of;
    double *counts; /* [3][K] labels, predicted, right */
} cli_classes;

#define CLI_CLASSES_FLAGS(x)                                                                                           \
    {                                                                                                                  \
        "by-class",                                                                                                    \
        CLI_OUTPUT,                                                                                                    \
        &(x).path,                                                                                                     \
        "FILE",                                                                                                        \
        "write rows, predictions, precision, recall and F1 of each label here",                                        \
        NULL,                                                                                                          \
        0,                                                                                                             \
        0,                                                                                                             \
        0,                                                                                                             \
        0},                                                                                                            \
        {"confusions",                                                                                                 \
         CLI_WHOLE,                                                                                                    \
         &(x).most,                                                                                                    \
         "N",                                                                                                          \
         "report the N pairs of a missed label and a wrong one that are most frequent",                                \
         NULL,                                                                                                         \
         1,                                                                                                            \
         1e6,                                                                                                          \
         0,                                                                                                            \
         0},                                                                                                           \
        {"f1-threshold",                                                                                               \
         CLI_REAL,                                                                                                     \
         &(x).threshold,                                                                                               \
         "P",                                                                                                          \
         "F1: predicted are classes with this probability; 0: the best (0.5 for several labels, or 0)",                \
         NULL,                                                                                                         \
         0,                                                                                                            \
         1,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
    {                                                                                                                  \
        "no-f1", CLI_SWITCH, &(x).unwanted, NULL, "leave out F1, for which every class is scored once more", NULL, 0,  \
            0, 0, 0                                                                                                    \
    }

/* Checks the flags. */
int cli_classes_plan(const cli_classes *c);
/* Evaluates and writes the table. */
int cli_classes_run(cli_classes *c, xsm_context *context, const xsm_model *model, const xsm_dataset *rows,
                    uint32_t beam);
void cli_classes_report(const cli_classes *c, const xsm_model *model);
void cli_classes_json(cli_json *json, const cli_classes *c, const xsm_model *model);
void cli_classes_free(cli_classes *c);

/* --- progress.c: the bar ------------------------------------------------------------------------------------------ */

/* Shows the current activity, if standard error is a terminal. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Shows the progress of training. `since` is cli_clock() at its start. */
void cli_bar(const xsm_progress *progress, double since);
/* Removes the bar or the note. */
void cli_note_clear(void);
/* Whether notes are shown, and results do not come between them. */
int cli_notes_alone(void);
/* The hook of every context: shows how far a long call is, below the present note's text, and cancels it after Ctrl-C.
 */
int32_t cli_watch(void *user, const xsm_activity *activity);
/* The text that makes a terminal clear a line; "" if there is no terminal. */
const char *cli_erase_line(void);

/* --- output.c: files that are replaced when a run succeeds
 * ---------------------------------------------------------- */

/* A file to be written: first under a temporary name, unless it is not a regular file. */
typedef struct cli_output {
    char *path;      /* the path with links resolved; NULL = there is no such output */
    int in_place;    /* not a regular file: a pipe, a device */
    char *temporary; /* NULL = written in place, or not started */
    int ready;       /* the temporary file is complete */
} cli_output;

/* The checkpoint is only planned here: the library replaces it atomically at each save. */
enum { CLI_OUTPUT_MODEL, CLI_OUTPUT_HISTORY, CLI_OUTPUT_CHECKPOINT, CLI_OUTPUT_CLASSES, CLI_OUTPUTS };
extern cli_output cli_outputs[CLI_OUTPUTS];
/* The folder that contains a path; the caller frees it. */
char *cli_folder_of(const char *path);

/* Refuses outputs among the arguments that would replace a file that is read, or that are one file. cli_parse() calls
 * it; values of flags are set. */
int cli_output_check(const cli_flag *flags, size_t count);
/* Replaces an output of the name - by the path of what standard output was, which is standard error from then on. */
int cli_output_to_pipe(const cli_flag *flags, size_t count);
/* What messages call an output: its path, or standard output. */
const char *cli_output_shown(const char *path);
/* Puts what is complete of an output of the name - into the file that standard output was; in a pipe it is already.
 * Async-signal-safe; returns 0, or an error number. */
int cli_output_append(void);
/* Checks early whether an output can be written, and records it. Makes no file. */
int cli_output_plan(int which, const char *path);
/* Makes the temporary file, empty. Returns the name to write to, or NULL after an error message. */
const char *cli_output_begin(int which);
/* The same for a file that all ranks have a part in. The caller frees the name. */
char *cli_output_name(int which);
/* Renames the complete files. Async-signal-safe; returns 0, or the error number of a rename that failed. */
int cli_output_commit(void);
/* The same for one file. */
int cli_output_rename(int which);
/* Removes temporary files. Async-signal-safe. */
void cli_output_discard(void);
void cli_output_free(void);

/* --- stop.c: Ctrl-C ----------------------------------------------------------------------------------------------- */

/* From now on Ctrl-C (or SIGTERM, SIGHUP) requests that the run stops; a second one ends the process at once. Does
 * nothing if this state is already set. */
void cli_stop_install(void);
int cli_stop_requested(void);
/* The exit code of a command that ended with this one: of one that was stopped, 128 and the signal. */
int cli_stop_code(int code);
/* What was requested has happened: training has ended. From now on the request cancels nothing. */
void cli_stop_taken(void);
/* From now on a request cancels again: a model is written to a pipe, whose reader may never come. */
void cli_stop_again(void);
/* Whether a request is still to be followed. */
int cli_stop_waits(void);
/* From now on Ctrl-C keeps the complete outputs, writes the two texts and ends the process. The texts must remain
 * valid. */
void cli_stop_finishes(const char *output, const char *message);
/* Ctrl-C does nothing while the outputs are renamed. */
void cli_stop_hold(void);
/* Restores the previous handling of Ctrl-C. Does nothing if it is already restored. */
void cli_stop_remove(void);

/* --- history.c: the CSV file -------------------------------------------------------------------------------------- */

typedef struct cli_history {
    FILE *file;
    unsigned measures; /* the measures of the test rows, a set as read by cli_measures_read(); set it before the file is
                          opened */
    int failure;       /* errno of the first write that failed, or 0 */
} cli_history;

int cli_history_open(cli_history *history);
/* Starts the file again, for a run that starts again. */
void cli_history_again(cli_history *history);
/* Writes a line; `train` and `test` may be NULL. */
void cli_history_line(cli_history *history, const xsm_progress *progress, const xsm_metrics *train,
                      const xsm_metrics *test);
/* Completes the file; cli_output_commit() then renames it. */
int cli_history_close(cli_history *history);
void cli_history_abandon(cli_history *history);

/* --- commands.c: the whole command
 * ---------------------------------------------------------------------------------- */

/* The function behind main(): runs the command that argv[1] names, and flushes standard output. Returns the exit code.
 * It may be called repeatedly. */
int cli_main(int argc, char **argv);

/* --- the commands ------------------------------------------------------------------------------------------------- */

int cli_train(const cli_command *command, int argc, char **argv);
int cli_evaluate(const cli_command *command, int argc, char **argv);
int cli_calibrate(const cli_command *command, int argc, char **argv);
int cli_predict(const cli_command *command, int argc, char **argv);
int cli_convert(const cli_command *command, int argc, char **argv);
int cli_prune(const cli_command *command, int argc, char **argv);
int cli_convert_model(const cli_command *command, int argc, char **argv);
int cli_info(const cli_command *command, int argc, char **argv);
int cli_estimators(const cli_command *command, int argc, char **argv);
int cli_samplers(const cli_command *command, int argc, char **argv);
int cli_optimizers(const cli_command *command, int argc, char **argv);
int cli_indexes(const cli_command *command, int argc, char **argv);
int cli_index_save(const cli_command *command, int argc, char **argv);
int cli_import(const cli_command *command, int argc, char **argv);

#endif
