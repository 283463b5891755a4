/**
 * @file dataset.h
 * @brief Rows of features with their labels, from memory or from files.
 */
#ifndef XSOFTMAX_DATASET_H
#define XSOFTMAX_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/context.h>
#include <xsoftmax/error.h>

/** @defgroup dataset Datasets
 *
 * A dataset is N rows of D features, dense or sparse (float32), each with zero or more labels. Inside the library a
 * label is a **class**, a number in [0, K). A file's labels may be any numbers (or words): reading compacts the labels
 * that occur to classes and keeps the **class map**, the file's label of each class, in rising order.
 *
 * Data to test or predict is read against the class map of the training data (xsm_read_options::classes). A label that
 * the map lacks becomes #XSM_CLASS_UNSEEN: the row stays and counts as an error.
 *
 * **Threads.** A dataset is not changed by functions that take it const; such calls may run at once.
 *  @{ */

/** A dataset; opaque. */
typedef struct xsm_dataset xsm_dataset;
/** A fitted row transform; opaque. */
typedef struct xsm_transform xsm_transform;
/** What turns words into features: the words of training text and how they were taken; opaque, never changed. */
typedef struct xsm_vocabulary xsm_vocabulary;

/** Class of a label that does not occur in the class map. */
#define XSM_CLASS_UNSEEN UINT32_MAX
/** Most classes: 2^31 - 1. */
#define XSM_CLASSES_MAX UINT32_C(2147483647)
/** Most features: 2^31 - 1. */
#define XSM_FEATURES_MAX UINT32_C(2147483647)

/** Which labels of a row are kept. */
enum {
    XSM_LABELS_ALL = 0,     /**< All, duplicates dropped, in file order. */
    XSM_LABELS_FIRST = 1,   /**< The first in file order. */
    XSM_LABELS_SMALLEST = 2 /**< The one with the smallest number; of text, the first name in bytewise order. */
};

/** File formats.
 *
 * #XSM_FORMAT_AUTO decides by the first line that tells: three integers and nothing else on line 1 are XC text with its
 * header; a header line with the label column among its commas or tabs is CSV or TSV, and so is, against a class map,
 * one that names as many columns as there are features; a line with a feature `f:v` is LIBSVM; a line that starts with
 * the label prefix is text. XC text without its first line cannot be told from LIBSVM and must be asked for. Blank
 * lines, comments and lines with labels only tell nothing; any other line is an error. A byte order mark is skipped.
 * Against a class map with a vocabulary everything is text.
 *
 * Values are finite decimal numbers, rounded correctly to float32, with a point whatever the locale. Labels are
 * integers of 64 bits; in CSV and TSV they may be words. The features of a row may stand in any order, each once; zeros
 * are not stored. Lines end with LF or CR LF and may be of any length. */
enum {
    XSM_FORMAT_AUTO = 0, /**< Found out from the first lines. */
    /** Extreme Classification Repository text: `l1,l2 f:v f:v`, 0-based, labels not negative, with or without a first
     *  line `rows features labels`, which the rest must agree with. A line that starts with a space or a feature has no
     *  labels; an empty line is a row of nothing (at the end of a file with that first line: no row). */
    XSM_FORMAT_XC = 1,
    /** LIBSVM/SVMlight: `l1,l2 f:v f:v`, `#` starts a comment, blank lines are skipped. Labels may be negative and may
     *  be written as `+1` or `1.0`. */
    XSM_FORMAT_LIBSVM = 2,
    /** Comma-separated dense values under a header line, fields quoted as in RFC 4180. One column holds the label, or
     *  nothing for a row without one. Unless every label is an integer they are words: the classes are the words in
     *  bytewise order, kept as names, and a class map with names is matched by name. Against a class map the column may
     *  be missing: there are then as many columns as features, and no row has a label. */
    XSM_FORMAT_CSV = 3,
    XSM_FORMAT_TSV = 4, /**< The same, tab-separated. */
    /** Words of UTF-8 between blanks, a row a line, as fastText has it: words that start with the label prefix are
     *  labels, wherever they stand, and the rest of the word is the label's name. A feature is a word, or an n-gram of
     *  words or characters that is hashed to a bucket; its value is how often the row has it. The classes are the
     *  names in bytewise order. An empty line is a row of nothing. See #xsm_text_options. */
    XSM_FORMAT_TEXT = 5,
    /** A NumPy file: a matrix of float32 or float64 in row-major order, little-endian. Labels are integers (or whole
     *  floats) in a second file (xsm_read_options::labels_path), or in the column of the matrix whose number
     *  xsm_read_options::label_column is, from 0, or from the end below 0. */
    XSM_FORMAT_NPY = 6,
    /** What xsm_dataset_write() makes of a dataset for reading it again: one safetensors file, with classes, names and
     *  vocabulary. It is mapped, not read, so it may be larger than memory; files only, not compressed. */
    XSM_FORMAT_CACHE = 7
};

/** How text becomes features. Start with #XSM_TEXT_OPTIONS_INIT; 0 and NULL stand for the defaults.
 *
 * Features 0 to V-1 are the words that occur often enough, the most frequent first; features V to V + `buckets` - 1 are
 * the buckets, where there are n-grams. An n-gram of words is made of all words of the line, rare ones too. Those of
 * characters are taken from each word between angle brackets, `<word>`, so that beginnings and ends differ from middles
 * (Bojanowski et al. 2017, Enriching word vectors with subword information; Joulin et al. 2017, Bag of tricks for
 * efficient text classification). */
typedef struct xsm_text_options {
    size_t size;              /**< sizeof(xsm_text_options). */
    const char *label_prefix; /**< What labels start with, no blanks in it; NULL = `__label__`. */
    uint32_t min_count;       /**< Words that occur less often are no features; 0 = 1. */
    uint32_t word_ngrams;     /**< Longest n-gram of words, 1 to 16; 0 = 1, the words alone. */
    uint32_t min_chars;       /**< Shortest n-gram of characters, 1 to max_chars; 0 = 1 where max_chars is set. */
    uint32_t max_chars;       /**< Longest n-gram of characters, to 64; 0 = none. */
    uint32_t buckets;         /**< Features that n-grams share, to #XSM_FEATURES_MAX; 0 = 2^18. */
    uint32_t reserved;        /**< Zero. */
} xsm_text_options;

/** Starting value of an #xsm_text_options. */
#define XSM_TEXT_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_text_options), NULL, 0, 0, 0, 0, 0, 0                                                               \
    }

/** First feature index of a LIBSVM file. */
enum {
    /** As in the data that the class map is of; without one, 0 if an index 0 occurs, else 1. */
    XSM_INDEX_BASE_AUTO = 0,
    XSM_INDEX_BASE_ZERO = 1, /**< 0. */
    XSM_INDEX_BASE_ONE = 2   /**< 1; an index 0 is an error. */
};

/** What data must agree with: the classes and features of the data or model that it will be used with. A view; the
 *  pointers are borrowed from the object that filled it. */
typedef struct xsm_class_map {
    size_t size;              /**< sizeof(xsm_class_map). */
    uint32_t classes;         /**< K. */
    uint32_t features;        /**< D. */
    const int64_t *labels;    /**< [K] the file's label of each class, rising; NULL = the class number itself. */
    const char *const *names; /**< [K] name of each class, or NULL. */
    int32_t index_base;       /**< First feature index of the file, an XSM_INDEX_BASE_* value; AUTO = not known, because
                                   it was no sparse text. Rows read against the map are taken to be alike. */
    int32_t reserved;         /**< Zero. */
    const uint64_t *counts;   /**< [K] training rows that carry each class, or NULL = not known. */
    uint64_t rows;            /**< Training rows, at least the largest count; without counts 0. */
    const xsm_vocabulary *vocabulary; /**< What text was read with, or NULL. */
} xsm_class_map;

/** Starting value of an #xsm_class_map. */
#define XSM_CLASS_MAP_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(xsm_class_map), 0, 0, NULL, NULL, 0, 0, NULL, 0, NULL                                                   \
    }

/** How to read a file. Start with #XSM_READ_OPTIONS_INIT. An option of one format is refused where another is asked for
 *  by `format`. With #XSM_FORMAT_AUTO it is for files that turn out to have that format, and says nothing of others;
 * but a `labels_path` goes with no other file, as its labels would be lost. */
typedef struct xsm_read_options {
    size_t size;              /**< sizeof(xsm_read_options). */
    int32_t format;           /**< An XSM_FORMAT_* value. */
    int32_t labels;           /**< An XSM_LABELS_* value. */
    int32_t index_base;       /**< An XSM_INDEX_BASE_* value; LIBSVM only. */
    uint32_t features;        /**< Number of features D; 0 = from the header, the class map, or the largest index. */
    const char *label_column; /**< CSV and TSV: name of the label column; NULL = "label". NPY: its number, from 0, or
                                   from the end below 0; NULL = no column. */
    const xsm_class_map *classes; /**< Training data's classes and features, or NULL. Without `features`, D is taken
                                       from here, and larger feature indexes are dropped and counted. Its vocabulary,
                                       if it has one, is what text is read with; unknown words are left out. */
    const xsm_text_options *text; /**< Text: how it becomes features; NULL = the defaults, or the class map's. The
                                       defaults are accepted with any format. */
    const char *labels_path;      /**< NPY: file of labels, [N] or [N,1] integers; NULL = none. */
    const char *spool;   /**< A folder: rows are kept in temporary files there in place of memory, and go with the
                              dataset. NULL = memory. Caches are in memory in no case. */
    int32_t skip_verify; /**< Caches: 1 = believe the contents, so that reading costs no pass over them. */
    int32_t reserved;    /**< Zero. */
} xsm_read_options;

/** Starting value of an #xsm_read_options. */
#define XSM_READ_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_read_options), 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0                                       \
    }

/** How to write a file. Start with #XSM_WRITE_OPTIONS_INIT. An option of another format than `format` is refused. */
typedef struct xsm_write_options {
    size_t size;              /**< sizeof(xsm_write_options). */
    int32_t format;           /**< An XSM_FORMAT_* value, not AUTO and not TEXT. */
    int32_t index_base;       /**< LIBSVM: first feature index, an XSM_INDEX_BASE_* value; AUTO = 1. */
    const char *label_column; /**< CSV and TSV: name of the label column, the last one; NULL = "label". */
    const char *labels_path;  /**< NPY: where the labels go, [N] int64. Needed if there are labels. */
    const char *names_path;   /**< XC, LIBSVM and NPY: where names of classes go, as xsm_dataset_read_names() reads
                                   them; the labels are then class numbers. Needed if classes have names. */
} xsm_write_options;

/** Starting value of an #xsm_write_options. */
#define XSM_WRITE_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_write_options), 0, 0, NULL, NULL, NULL                                                              \
    }

/** Where bytes come from when they do not come from a file. */
typedef struct xsm_source {
    void *user; /**< Handed to read(). */
    /** Reads up to `size` bytes; returns how many, 0 at the end, below 0 when it failed. */
    int64_t (*read)(void *user, void *buffer, size_t size);
} xsm_source;

/** Labels of rows in the caller's memory, as classes in [0, `classes`). Start with #XSM_LABELS_INIT. */
typedef struct xsm_labels {
    size_t size;             /**< sizeof(xsm_labels). */
    uint32_t classes;        /**< K. */
    uint32_t reserved;       /**< Zero. */
    const uint64_t *offsets; /**< [N+1] row i has labels offsets[i]..offsets[i+1]; NULL = one label a row. */
    const uint32_t *labels; /**< The labels, no label twice in a row. #XSM_CLASS_UNSEEN is accepted, also repeatedly. */
} xsm_labels;

/** Starting value of an #xsm_labels. */
#define XSM_LABELS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(xsm_labels), 0, 0, NULL, NULL                                                                           \
    }

/** Ownership of the arrays handed to a constructor. */
enum {
    XSM_COPY = 0,  /**< The dataset keeps a copy. */
    XSM_BORROW = 1 /**< The dataset points to the caller's arrays, which must outlive it and stay unchanged. Features
                        are not copied unless a transform has to change them; labels likewise. */
};

/** What a dataset holds. */
typedef struct xsm_dataset_info {
    size_t size;               /**< sizeof(xsm_dataset_info). */
    uint64_t rows;             /**< N. */
    uint64_t values;           /**< Stored feature values: non-zeros when sparse, N*D when dense. */
    uint64_t labels;           /**< Labels over all rows, unseen ones included. */
    uint64_t unlabelled;       /**< Rows without a label. */
    uint64_t empty;            /**< Rows without a non-zero feature. */
    uint64_t unseen_rows;      /**< Rows of which no label is in the class map, though they have one. */
    uint64_t unseen_labels;    /**< Labels that are not in the class map. */
    uint64_t dropped_features; /**< Feature values that were dropped when reading because D is smaller. */
    uint32_t features;         /**< D. */
    uint32_t classes;          /**< K. */
    int32_t sparse;            /**< 1 = sparse, 0 = dense. */
    int32_t format;            /**< XSM_FORMAT_* value of the file, 0 if from memory. */
} xsm_dataset_info;

/** Starting value of an #xsm_dataset_info. */
#define XSM_DATASET_INFO_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_dataset_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                   \
    }

/** One row, as a view into the dataset. */
typedef struct xsm_row {
    size_t size;            /**< sizeof(xsm_row). */
    const float *values;    /**< [count] feature values. */
    const uint32_t *index;  /**< [count] their features, rising; NULL when dense (feature i is value i). */
    uint64_t count;         /**< Values: non-zeros when sparse, D when dense. */
    const uint32_t *labels; /**< [label_count] classes, or #XSM_CLASS_UNSEEN. */
    uint64_t label_count;   /**< Labels. */
} xsm_row;

/** Starting value of an #xsm_row. */
#define XSM_ROW_INIT                                                                                                   \
    {                                                                                                                  \
        sizeof(xsm_row), NULL, NULL, 0, NULL, 0                                                                        \
    }

/** Rows that a row must not be, for xsm_dataset_drop(). */
enum {
    XSM_DROP_UNLABELLED = 1, /**< Without a label. */
    XSM_DROP_EMPTY = 2       /**< Without a non-zero feature. */
};

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a dataset of dense rows.
 *  @param context  context, or NULL
 *  @param values   row i, feature j at values[i*stride + j]
 *  @param rows     N >= 1
 *  @param features D; 0 for rows that have nothing but labels (`values` is not looked at then)
 *  @param stride   floats from row to row, >= D
 *  @param labels   labels of the rows, or NULL for rows to predict
 *  @param ownership #XSM_COPY or #XSM_BORROW
 *  @param[out] out the dataset, the caller's to release with xsm_dataset_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE for a label not below K or given twice in a row, or a
 *          value that is not finite (the message names row and place); #XSM_ERROR_LIMIT; #XSM_ERROR_MEMORY. O(N D). */
XSM_API xsm_status xsm_dataset_from_dense(xsm_context *context, const float *values, uint64_t rows, uint32_t features,
                                          size_t stride, const xsm_labels *labels, int32_t ownership, xsm_dataset **out,
                                          xsm_error *err);
/** Makes a dataset of sparse rows (CSR).
 *  @param context  context, or NULL
 *  @param offsets  [N+1] row i has the values offsets[i]..offsets[i+1]; offsets[0] = 0, never falling
 *  @param index    features of the values, in [0, D), strictly rising within a row
 *  @param values   the values
 *  @param rows     N >= 1
 *  @param features D; 0 for rows that have nothing but labels
 *  @param labels   labels of the rows, or NULL
 *  @param ownership #XSM_COPY or #XSM_BORROW
 *  @param[out] out the dataset, the caller's
 *  @param err      what went wrong, or NULL
 *  @return as xsm_dataset_from_dense(), and #XSM_ERROR_RANGE for offsets or indexes out of order. O(N + values). */
XSM_API xsm_status xsm_dataset_from_csr(xsm_context *context, const uint64_t *offsets, const uint32_t *index,
                                        const float *values, uint64_t rows, uint32_t features, const xsm_labels *labels,
                                        int32_t ownership, xsm_dataset **out, xsm_error *err);

/** Reads a file, plain or gzip-compressed (found out from its first bytes).
 *  @param context context, or NULL
 *  @param path    the file
 *  @param options how to read it, or NULL
 *  @param[out] out the dataset, the caller's
 *  @param err     what went wrong, with line and column
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT with line and column; #XSM_ERROR_LIMIT; #XSM_ERROR_MEMORY;
 *          #XSM_ERROR_RANGE or #XSM_ERROR_ARGUMENT for the options; #XSM_ERROR_UNSUPPORTED for gzip in a build without
 *          zlib, and for a cache on a big-endian machine; #XSM_ERROR_CHECKSUM and #XSM_ERROR_FILE_VERSION for a cache;
 *          #XSM_ERROR_DATA for a file without rows, or one without features whose number is not given. O(bytes). */
XSM_API xsm_status xsm_dataset_read(xsm_context *context, const char *path, const xsm_read_options *options,
                                    xsm_dataset **out, xsm_error *err);
/** The same from the host's own source of bytes, such as standard input or a buffer; `name` stands for the path in
 *  error messages.
 *  @return as xsm_dataset_read(); #XSM_ERROR_UNSUPPORTED for a cache, which must be a file; #XSM_ERROR_IO where read()
 *          failed */
XSM_API xsm_status xsm_dataset_read_source(xsm_context *context, const xsm_source *source, const char *name,
                                           const xsm_read_options *options, xsm_dataset **out, xsm_error *err);
/** Writes a dataset, replacing what is at `path` in one piece. What comes back by reading the file is the same dataset;
 *  where the format cannot hold it, that is an error which says so and names the row.
 *
 *  | format | what it cannot hold |
 *  |---|---|
 *  | XC | labels below 0; names, without `names_path` |
 *  | LIBSVM | rows without label and features; names, without `names_path`. It does not say D. |
 *  | CSV, TSV | more than one label a row |
 *  | NPY | other than one label in each row, or none in all; names, without `names_path` |
 *  | CACHE | |
 *
 *  Text cannot be written: its words are gone. XC, LIBSVM and CACHE keep rows sparse (a dense row's zeros are left out
 * of the first two), the others write every value. Numbers are written so that they read back as the same float32,
 * zeros without a sign. Labels that the class map lacks (#XSM_CLASS_UNSEEN), and rows of no features (D = 0), go into
 * caches only.
 *  @param dataset the dataset
 *  @param path    the file
 *  @param options how to write it
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE for the options; #XSM_ERROR_UNSUPPORTED when the format
 * cannot hold the dataset; #XSM_ERROR_IO; #XSM_ERROR_MEMORY. Memory does not depend on the number of rows.
 *          O(values). */
XSM_API xsm_status xsm_dataset_write(const xsm_dataset *dataset, const char *path, const xsm_write_options *options,
                                     xsm_error *err);
/** Releases a dataset; NULL is fine. */
XSM_API void xsm_dataset_free(xsm_dataset *dataset);

/** Fills `info` (start it with #XSM_DATASET_INFO_INIT). O(1).
 *  @return #XSM_OK, #XSM_ERROR_ARGUMENT, #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_dataset_get_info(const xsm_dataset *dataset, xsm_dataset_info *info, xsm_error *err);
/** Fills `row` (start it with #XSM_ROW_INIT) with a view of row `index`, valid until the dataset changes. O(1).
 *  @return as xsm_dataset_get_info(), and #XSM_ERROR_RANGE for a row that is not there */
XSM_API xsm_status xsm_dataset_get_row(const xsm_dataset *dataset, uint64_t index, xsm_row *row, xsm_error *err);
/** Fills `map` (start it with #XSM_CLASS_MAP_INIT) with a view of the class map, valid until the dataset changes.
 *  O(1).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_dataset_get_classes(const xsm_dataset *dataset, xsm_class_map *map, xsm_error *err);
/** Words that a vocabulary has, V. */
XSM_API uint32_t xsm_vocabulary_words(const xsm_vocabulary *vocabulary);
/** The word that is feature `index`, terminated; NULL from V on. Borrowed from the vocabulary. */
XSM_API const char *xsm_vocabulary_word(const xsm_vocabulary *vocabulary, uint32_t index);
/** Fills `options` (start it with #XSM_TEXT_OPTIONS_INIT) with what the vocabulary was made with, defaults filled in;
 *  the prefix is borrowed.
 *  @return #XSM_OK, #XSM_ERROR_ARGUMENT, #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_vocabulary_get_options(const xsm_vocabulary *vocabulary, xsm_text_options *options,
                                              xsm_error *err);
/** Rows that carry each class, [K]; borrowed from the dataset, valid until it changes. */
XSM_API const uint64_t *xsm_dataset_class_counts(const xsm_dataset *dataset);

/** Gives the classes names, for data whose file has none: line i (from 0) of the file, plain or gzip, names the file's
 * label i.
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT for text that is not UTF-8 or an empty line; #XSM_ERROR_SHAPE when
 *          a label of the class map has no line; #XSM_ERROR_MEMORY. The dataset is untouched on failure. */
XSM_API xsm_status xsm_dataset_read_names(xsm_dataset *dataset, const char *path, xsm_error *err);

/** Removes rows.
 *  @param dataset the dataset
 *  @param which   sum of XSM_DROP_* values
 *  @param[out] dropped number of rows removed, or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for other values; #XSM_ERROR_DATA when no row would be left (the dataset is
 *          untouched); #XSM_ERROR_MEMORY. O(N + values). */
XSM_API xsm_status xsm_dataset_drop(xsm_dataset *dataset, uint32_t which, uint64_t *dropped, xsm_error *err);
/** Keeps one label a row (an XSM_LABELS_* value; "smallest" goes by the file's label, and an unseen one is taken only
 * where there is no other). The classes stay as they are.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY. O(labels). */
XSM_API xsm_status xsm_dataset_keep_labels(xsm_dataset *dataset, int32_t which, xsm_error *err);
/** Renumbers the classes so that each occurs; the class map keeps the file's labels.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY (the dataset is untouched). O(K + labels). */
XSM_API xsm_status xsm_dataset_compact(xsm_dataset *dataset, xsm_error *err);
/** Adds the classes of a map that the dataset has not, so that it fits a model that was trained on other rows and is to
 *  learn these as well (xsm_model_grow()). Where both maps have names and no labels of their own, classes are the same
 *  when their names are, the map's come first and in its order; otherwise when their labels are, and all are in rising
 *  order. Sparse rows get the map's features, if those are more.
 *  @param dataset the dataset; its labels are renumbered
 *  @param map     of a model or of other data; its counts do not matter
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE for dense rows with fewer features than the map;
 *          #XSM_ERROR_RANGE for labels that do not rise; #XSM_ERROR_LIMIT; #XSM_ERROR_MEMORY (the dataset is untouched)
 */
XSM_API xsm_status xsm_dataset_extend(xsm_dataset *dataset, const xsm_class_map *map, xsm_error *err);
/** Permutes the rows, each order equally likely, the same for the same seed.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY (the dataset is untouched). O(N + values). */
XSM_API xsm_status xsm_dataset_shuffle(xsm_dataset *dataset, uint64_t seed, xsm_error *err);
/** Copies chosen rows, in the order given and as often as given, with the same features and classes.
 *  @return #XSM_OK; #XSM_ERROR_RANGE for a row that is not there; #XSM_ERROR_ARGUMENT for no rows; #XSM_ERROR_MEMORY.
 * O(values copied). */
XSM_API xsm_status xsm_dataset_select(const xsm_dataset *dataset, const uint64_t *rows, uint64_t count,
                                      xsm_dataset **out, xsm_error *err);
/** Splits into two datasets at random: `part` gets floor(fraction*N + 1/2) rows, `rest` the others, both in the
 *  original order.
 *  @param dataset  the dataset, unchanged
 *  @param fraction in (0, 1); both parts must get a row
 *  @param seed     the same seed gives the same split
 *  @param[out] part the chosen rows, the caller's
 *  @param[out] rest the other rows, the caller's
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for the fraction; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY. O(N + values). */
XSM_API xsm_status xsm_dataset_split(const xsm_dataset *dataset, double fraction, uint64_t seed, xsm_dataset **part,
                                     xsm_dataset **rest, xsm_error *err);

/** Makes a row transform from its description: steps separated by commas, done in that order.
 *
 *  | step | what it does |
 *  |---|---|
 *  | `truncate=N` | drops the features from N on; D becomes min(D, N), which may be 0 |
 *  | `tfidf` | multiplies feature j by log((1 + N) / (1 + n_j)) + 1, n_j the training rows where it is not zero |
 *  | `unit` | divides a row by its Euclidean norm (a row of zeros stays) |
 *
 *  An empty description does nothing; `tfidf` may stand once.
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown step (the message lists those known); #XSM_ERROR_RANGE for its value
 * or a second `tfidf`; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_transform_new(xsm_context *context, const char *description, xsm_transform **out,
                                     xsm_error *err);
/** Learns from training rows what the steps need (the idf weights; the D that they were fitted for). Steps see the
 *  rows as the steps before them leave them. The dataset is not changed.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY. O(values) with `tfidf`, else O(1). */
XSM_API xsm_status xsm_transform_fit(xsm_transform *transform, const xsm_dataset *dataset, xsm_error *err);
/** Transforms a dataset in place. A borrowed dataset takes its own copy first.
 *  @return #XSM_OK; #XSM_ERROR_STATE before xsm_transform_fit(); #XSM_ERROR_SHAPE when D differs from the fitted one;
 *          #XSM_ERROR_RANGE when `tfidf` takes a value beyond float32; #XSM_ERROR_MEMORY. The dataset is untouched on
 *          failure. */
XSM_API xsm_status xsm_transform_apply(const xsm_transform *transform, xsm_dataset *dataset, xsm_error *err);
/** The description that the transform was made from, in its normal form; borrowed. */
XSM_API const char *xsm_transform_description(const xsm_transform *transform);
/** Releases a transform; NULL is fine. */
XSM_API void xsm_transform_free(xsm_transform *transform);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
