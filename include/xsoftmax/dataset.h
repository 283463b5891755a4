/* SPDX-License-Identifier: MIT */
/**
 * @file dataset.h
 * @brief Rows of features with their labels, from memory or from files.
 */
#ifndef XSOFTMAX_DATASET_H
#define XSOFTMAX_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/context.h>
#include <xsoftmax/dtype.h>
#include <xsoftmax/error.h>
#include <xsoftmax/storage.h>

/** @defgroup dataset Datasets
 *
 * A dataset is N rows of D features, dense or sparse (float32), each with zero or more labels. Inside the library a
 * label is a **class**, a number in [0, K). The labels of a file may be any integers (or words): when the library reads
 * a file, it gives the labels that occur class numbers in increasing order, and stores the **class map**: the label of
 * each class.
 *
 * Test data and data to predict are read against the class map of the training data (xsm_read_options::classes). A
 * label that is not in the map becomes #XSM_CLASS_UNSEEN: the row is kept and counts as an error.
 *
 * **Threads.** Functions that take a const dataset do not change it; several threads may call them at the same time.
 *  @{ */

/** A dataset; opaque. */
typedef struct xsm_dataset xsm_dataset;
/** A fitted row transform; opaque. */
typedef struct xsm_transform xsm_transform;
/** Maps words to features: the words of the training text and the text options; opaque, constant. */
typedef struct xsm_vocabulary xsm_vocabulary;

/** Class of a label that does not occur in the class map. */
#define XSM_CLASS_UNSEEN UINT32_MAX
/** Largest number of classes: 2^31 - 1. */
#define XSM_CLASSES_MAX UINT32_C(2147483647)
/** Largest number of features: 2^31 - 1. */
#define XSM_FEATURES_MAX UINT32_C(2147483647)

/** Which labels of a row are used. */
enum {
    XSM_KEEP_LABELS_ALL = 0,     /**< All, without duplicates, in file order. */
    XSM_KEEP_LABELS_FIRST = 1,   /**< The first in file order. */
    XSM_KEEP_LABELS_SMALLEST = 2 /**< The smallest label; for text, the first name in bytewise order. */
};

/** File formats.
 *
 *  #XSM_FORMAT_AUTO detects the format from the first line that identifies it. If line 1 has three integers and
 *  nothing else, the file is XC text with its header; so it is if line 1 has two and the first other line is a row. A
 *  header line with the label column, separated by commas or tabs, means CSV or TSV; so does a header line of names
 *  alone or, with a class map, with as many columns as the map has features. A line with a feature `f:v` means LIBSVM.
 *  A line that starts with the label prefix means text. XC text without its header looks like LIBSVM, so its format
 *  must be set explicitly. Blank lines, comments and lines with labels only are skipped; any other line is an error. A
 *  byte order mark is skipped. If the class map has a vocabulary, the format is text, and lines that cannot be text are
 *  an error: rows of XC or LIBSVM, a table with the label column, JSON and the like.
 *
 *  Values are finite decimal numbers with a decimal point in any locale; they are correctly rounded to float32. Labels
 *  are 64-bit integers; in CSV and TSV they may be words. The features of a row may be in any order, each at most once;
 *  zeros are not stored. Lines end with LF or CR LF and may have any length. */
enum {
    XSM_FORMAT_AUTO = 0, /**< Detected from the first lines. */
    /** Extreme Classification Repository text: `l1,l2 f:v f:v`, 0-based, labels not negative, with or without a header
     *  line `rows features labels`, which must match the rest of the file. `rows features` alone means that the labels
     *  are in another file (xsm_read_options::labels_path). A line that starts with a space or a feature
     *  has no labels. An empty line is a row without labels and features; at the end of a file with a header line it is
     *  not a row. */
    XSM_FORMAT_XC = 1,
    /** LIBSVM/SVMlight: `l1,l2 f:v f:v`, `#` starts a comment, blank lines are skipped; with a class map they are
     *  rows without labels and features, so that each has a prediction. Labels may be negative and may be written as
     *  `+1` or `1.0`, with blanks before them. A query id `qid:3` behind them is left out, with a warning. */
    XSM_FORMAT_LIBSVM = 2,
    /** Dense values with commas between, or another separator (xsm_read_options::separator), fields quoted as in RFC
     *  4180, with a header line or without (xsm_read_options::header). One column contains the label;
     *  an empty field means no label. Blanks around names, labels and quotes are no part of them. If every label is an
     *  integer without leading zeros, a plus or an exponent (`1.0` is 1), labels are numbers; otherwise they are words:
     *  the classes are the words in bytewise order, stored as names, and a class map with names is matched by name;
     *  `1.0` is the class 1 of a map of numbers. Empty lines are skipped. With a class map, they are rows of zeros
     *  without a label, and the label column may be missing: the file then has as many columns as features, and no row
     *  has a label. Writing names the columns as they were read, or by their words (`bucket 3 of 1000` for n-grams), or
     *  f0, f1, and so on. */
    XSM_FORMAT_CSV = 3,
    /** The same, tab-separated. Each line is a row: a quote at the start of a field is part of the text unless another
     *  ends the field in the same line. */
    XSM_FORMAT_TSV = 4,
    /** UTF-8 words separated by blanks, one row a line, as in fastText. A word that starts with the label prefix is a
     *  label, at any position in the line; the rest of the word is the label's name. A feature is a word, or an n-gram
     *  of words or characters that is hashed to a bucket; its value is the number of occurrences in the row. The
     *  classes are the names in bytewise order. An empty line is a row without labels and features. See
     *  #xsm_text_options. */
    XSM_FORMAT_TEXT = 5,
    /** A NumPy file: a matrix of numbers (floats, integers or booleans of any byte order), row by row. Labels are
     *  integers (or floats with integer values) in a second file (xsm_read_options::labels_path), or in a column of the
     *  matrix: xsm_read_options::label_column is its number, from 0; negative numbers count from the end. */
    XSM_FORMAT_NPY = 6,
    /** A cache that xsm_dataset_write() writes for fast reading: one safetensors file with rows, classes, names and
     *  vocabulary. It is mapped, not read, so it may be larger than memory. It must be an uncompressed file. */
    XSM_FORMAT_CACHE = 7,
    /** A NumPy archive (`.npz`) with one sparse matrix, as scipy.sparse.save_npz() writes it, in the format csr. Labels
     *  are in a second file (xsm_read_options::labels_path). It can be read, not written. */
    XSM_FORMAT_NPZ = 8
};

/** How text is converted to features. Start with #XSM_TEXT_OPTIONS_INIT; 0 and NULL mean the defaults.
 *
 *  Features 0 to V-1 are the words that occur often enough, the most frequent first. With n-grams, features V to V +
 *  `buckets` - 1 are the buckets; words that are added later (xsm_read_options::new_features) follow these. N-grams of
 *  words use all words of the line, rare words included. N-grams of characters use each word with angle brackets added,
 *  `<word>`, so that prefixes and suffixes differ from inner parts (Bojanowski et al. 2017, Enriching word vectors with
 *  subword information; Joulin et al. 2017, Bag of tricks for efficient text classification). */
typedef struct xsm_text_options {
    size_t size;              /**< sizeof(xsm_text_options). */
    const char *label_prefix; /**< Prefix of labels, without blanks; NULL = `__label__`. */
    uint32_t min_count;       /**< Words that occur less often are not features; 0 = 1. */
    uint32_t word_ngrams;     /**< Longest n-gram of words, 1 to 16; 0 = 1, single words only. */
    uint32_t min_chars;       /**< Shortest n-gram of characters, 1 to max_chars; 0 = 1 if max_chars is set. */
    uint32_t max_chars;       /**< Longest n-gram of characters, up to 64; 0 = none. */
    uint32_t buckets;         /**< Number of features that n-grams are hashed to, up to #XSM_FEATURES_MAX; 0 = 2^18. */
    uint32_t reserved;        /**< Zero. */
} xsm_text_options;

/** Starting value of an #xsm_text_options. */
#define XSM_TEXT_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_text_options), NULL, 0, 0, 0, 0, 0, 0                                                               \
    }

/** First feature index of a LIBSVM file, unless its indexes are numbers far above those in use, such as hashes: if the
 *  largest is above 2^20 and more than 16 times as many as there are different ones, or beyond #XSM_FEATURES_MAX (up to
 *  2^63 - 1), and no header, xsm_read_options::features or class map says how many features there are, the numbers in
 *  use become features, in rising order (xsm_class_map::feature_numbers). So it is in XC text. */
enum {
    /** As in the data of the class map; without a class map, 0 if an index 0 occurs, else 1. */
    XSM_INDEX_BASE_AUTO = 0,
    XSM_INDEX_BASE_ZERO = 1, /**< 0. */
    XSM_INDEX_BASE_ONE = 2   /**< 1; an index 0 is an error. */
};

/** The classes and features of a dataset or model; other data that is used with it must match them. A view: the
 *  pointers are borrowed from the object that filled it. Start with #XSM_CLASS_MAP_INIT.
 *
 *  In a map with `names` and without `labels`, the labels are words: the names. In any other map they are numbers, and
 *  names are only shown. Classes of two maps are the same if their labels are the same; the number 7 equals only the
 *  word "7". Equal words within a map are matched in their order: the first with the first of the other map, and so
 *  on. */
typedef struct xsm_class_map {
    size_t size;              /**< sizeof(xsm_class_map). */
    uint32_t classes;         /**< K. */
    uint32_t features;        /**< D. */
    const int64_t *labels;    /**< [K] the file's label of each class, strictly increasing; NULL = the class number
                                   itself, unless the classes are words. */
    const char *const *names; /**< [K] name of each class, or NULL. */
    int32_t index_base;       /**< First feature index of the file, an XSM_INDEX_BASE_* value; AUTO = unknown, because
                                   the data was not sparse text. Rows that are read against the map use the same
                                   base. */
    int32_t reserved;         /**< Zero. */
    const uint64_t *counts;   /**< [K] number of training rows with each class, or NULL = unknown. */
    uint64_t rows;            /**< Number of training rows, at least 1 and the largest count, at most INT64_MAX; 0
                                   without counts. */
    const xsm_vocabulary *vocabulary; /**< Vocabulary that the text was read with, or NULL. */
    const char *const *feature_names; /**< [feature_name_count] names of the columns of a table, or NULL; not with a
                                           vocabulary. */
    uint32_t feature_name_count;      /**< D, before transforms; 0 without names. */
    uint32_t feature_number_count;    /**< D, before transforms; 0 without numbers. */
    const int64_t *feature_numbers;   /**< [feature_number_count] number of each feature in XC and LIBSVM files, from 0
                                           on, each once; NULL = feature j is the j-th from the index base on. */
} xsm_class_map;

/** Starting value of an #xsm_class_map. */
#define XSM_CLASS_MAP_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(xsm_class_map), 0, 0, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, 0, 0, NULL                                 \
    }

/** No class: fills the list of a row with fewer predictions than were wanted, and stands for a label that a class map
 *  lacks. */
#define XSM_NO_CLASS UINT32_MAX

/** Whether the first line of CSV and TSV has the names of the columns. */
enum {
    /** Detected: it has them if one field is the name of the label column, or if columns of features have words in it.
     *  A warning is logged if it is read as a row, or as names only because of words. If it may be either, as 0, 1, 2,
     *  ..., that is an error. */
    XSM_HEADER_AUTO = 0,
    XSM_HEADER_YES = 1, /**< It has. */
    XSM_HEADER_NO = 2   /**< It is a row; columns have numbers. */
};

/** What happens to a feature that a sparse row names more than once. */
enum {
    XSM_DUPLICATES_FAIL = 0, /**< It is an error. */
    XSM_DUPLICATES_SUM = 1   /**< Its values are added. */
};

/** What happens to bytes that are not UTF-8, and to NUL, in text, labels and names of columns. */
enum {
    XSM_BAD_BYTES_FAIL = 0,   /**< They are an error. */
    XSM_BAD_BYTES_REPLACE = 1 /**< U+FFFD replaces them, as Python's errors='replace' does; a warning is logged. */
};

/** Options of tables that say what the table of the class map had (xsm_read_options::recalled). */
enum {
    XSM_RECALLED_LABEL_COLUMN = 1,     /**< `label_column`. */
    XSM_RECALLED_WEIGHTS_COLUMN = 2,   /**< `weights_column`. */
    XSM_RECALLED_IGNORE_COLUMNS = 4,   /**< `ignore_columns`. */
    XSM_RECALLED_SEPARATOR = 8,        /**< `separator`. */
    XSM_RECALLED_LABEL_SEPARATOR = 16, /**< `label_separator`. */
    XSM_RECALLED_HEADER = 32,          /**< `header`. */
    XSM_RECALLED_TEXT_COLUMN = 64      /**< `text_column`. */
};

/** How to read a file. Start with #XSM_READ_OPTIONS_INIT. If `format` names a format, options of other formats are an
 *  error. With #XSM_FORMAT_AUTO, options of formats other than the detected one are ignored, except `labels_path`: it
 *  is an error for any file that is not NPY, NPZ or XC, because its labels would be lost, and `weights_column` for any
 *  that has no columns. */
typedef struct xsm_read_options {
    size_t size;        /**< sizeof(xsm_read_options). */
    int32_t format;     /**< An XSM_FORMAT_* value. */
    int32_t labels;     /**< An XSM_KEEP_LABELS_* value. */
    int32_t index_base; /**< An XSM_INDEX_BASE_* value; LIBSVM only. AUTO is that of the class map: where this is
                             #XSM_INDEX_BASE_ZERO and no row has a feature 0, a warning is logged, and numbers up to D
                             are an error. #XSM_INDEX_BASE_ONE reads feature 1 as the first of such a map. A comment of
                             scikit-learn above the rows that says the base counts as if it were given; with a class map
                             of another base it is an error. */
    uint32_t features;  /**< Number of features D, up to #XSM_FEATURES_MAX; 0 = from the header, the class map, or the
                             largest index. */
    const char *label_column;     /**< CSV and TSV: name of the label column, or its number, from 0, negative from the
                                       end; NULL = "label". NPY: its number; NULL = no label column. */
    const xsm_class_map *classes; /**< Classes and features of the training data, or NULL. If `features` is 0, D is that
                                       of the map, and larger feature indexes of sparse rows are dropped and counted;
                                       dense rows have D columns, or names that say which are wanted. If the map has a
                                       vocabulary, text is read with it, and unknown words are left out and counted. */
    const xsm_text_options *text; /**< Text: how it is converted to features; NULL = the defaults, or the options of the
                                       class map. The defaults are accepted with any format. */
    const char *labels_path;      /**< File of the rows' labels. NPY, NPZ, and XC whose rows have none: a .npy vector of
                                       integers, a .npz matrix of SciPy that is not zero where a row has a label, or text
                                       with a line for each row, `l1,l2` or `l1:1 l2:1`, plain or gzip. Line 1 may be a
                                       header `N L` or `N D L`: it is one if N is the number of rows or of the lines
                                       below it, or if these have colons; N must be that of the rows. NULL = none. */
    const char *spool;     /**< A folder: rows are stored in temporary files there instead of memory; the files are
                                removed with the dataset. NULL = memory. Caches are never in memory. */
    int32_t skip_verify;   /**< Caches: 1 = do not verify the checksum. What the file says of its rows is
                                checked in one pass all the same. */
    int32_t label_weights; /**< XC, LIBSVM and text: 1 = a label may be followed by its weight, finite and at least 0:
                                `3:0.5,7 0:1` and `__label__x:0.5 words`; a line of numbers without labels then starts
                                with a space. Labels without one have the weight 1. */
    const char *weights_path;   /**< File of the rows' weights, plain or gzip: a number a line, one for each row, finite
                                     and at least 0. NULL = none, or those of a cache. */
    const char *weights_column; /**< CSV and TSV: name of the column of the rows' weights, which are finite and at least
                                     0. NPY: its number, as for `label_column`. The file must have it. NULL = none; not
                                     with `weights_path`. */
    int32_t new_features;       /**< 1 = features that `classes` lacks, words of text too, are not dropped but follow
                                     those that it has, so that a model can learn them (xsm_model_grow()). Words count
                                     from `text`'s `min_count` on. */
    int32_t new_labels;         /**< 1 = labels that `classes` lacks are classes, too, as in xsm_dataset_extend(). */
    int32_t duplicates;         /**< XC, LIBSVM and NPZ: an XSM_DUPLICATES_* value. */
    int32_t bad_bytes;          /**< Text, CSV and TSV: an XSM_BAD_BYTES_* value. */
    int32_t header;             /**< CSV and TSV: an XSM_HEADER_* value. */
    int32_t recalled;      /**< XSM_RECALLED_* bits of the options that describe the class map's table, not this file:
                                it may be no table, may lack these columns (a warning is logged if it has labels and no
                                weights) and may have another separator. If its columns have no names, they may be all
                                of that table, all but the labels, or the features alone. If they have names, a number
                                names a column only if there are as many columns as in that table, and never a feature.
                                `weights_path` replaces a column of weights. With #XSM_RECALLED_TEXT_COLUMN the file may
                                be text, if the map has a vocabulary and `format` is AUTO. It is read as text unless
                                line 1 has the column's name or, if the column is a number, has tabs or a label of the
                                map in the label's column. Other lines with as many columns, and a table of other
                                columns, are an error. */
    const char *separator; /**< CSV: the character between columns, of one byte, " " for any number of blanks; NULL =
                                the one of , ; | that splits the first line best outside quotes, the one between
                                labels only if no other does; two that split it as well are an error. */
    const char *ignore_columns;  /**< CSV and TSV: names or numbers of columns that are left out, commas between. NULL =
                                      none, but for a first column without a name, as pandas and R write it: it numbers
                                      the rows. */
    const char *label_separator; /**< CSV and TSV: the character between labels of a row; NULL = one label a row. */
    const char *text_column;     /**< CSV and TSV: name or number of a column whose words are the features, as in
                                      #XSM_FORMAT_TEXT, but for labels: those are in their column. NULL = none. */
} xsm_read_options;

/** Starting value of an #xsm_read_options. */
#define XSM_READ_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_read_options), 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL,  \
            NULL, NULL, NULL                                                                                           \
    }

/** How to write a file. Start with #XSM_WRITE_OPTIONS_INIT. Options of formats other than `format` are an error. */
typedef struct xsm_write_options {
    size_t size;                /**< sizeof(xsm_write_options). */
    int32_t format;             /**< An XSM_FORMAT_* value, not AUTO and not TEXT. */
    int32_t index_base;         /**< LIBSVM: first feature index, an XSM_INDEX_BASE_* value; AUTO = that of the class
                                     map, so that numbers keep their meaning, or 1. */
    const char *label_column;   /**< CSV and TSV: name of the label column, which is the last; NULL = "label". */
    const char *labels_path;    /**< NPY: file to write the labels to, [N] int64. Required if there are labels. */
    const char *names_path;     /**< XC, LIBSVM and NPY: file to write the names of classes to, for
                                     xsm_dataset_read_names(); the labels are then class numbers. Required if classes have
                                     names. The files must be different ones, by whatever paths. */
    const char *weights_path;   /**< All formats but CACHE: file to write the rows' weights to, a number a line. This or
                                     `weights_column` is required if the rows have weights. */
    const char *weights_column; /**< CSV and TSV: name of the column of the rows' weights, before the labels; NULL =
                                     none. */
} xsm_write_options;

/** Starting value of an #xsm_write_options. */
#define XSM_WRITE_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_write_options), 0, 0, NULL, NULL, NULL, NULL, NULL                                                  \
    }

/** Labels of rows in the caller's memory, as classes in [0, `classes`). Start with #XSM_LABELS_INIT. */
typedef struct xsm_labels {
    size_t size;          /**< sizeof(xsm_labels). */
    uint32_t classes;     /**< K. */
    uint32_t offset_bits; /**< Bits of an offset, 32 or 64; 0 = 64. Offsets of 32 are copied, whoever owns the rest. */
    const void *offsets;  /**< [N+1] row i has labels[offsets[i]..offsets[i+1]); NULL = one label a row. */
    const uint32_t *labels; /**< The labels, without duplicates in a row. #XSM_CLASS_UNSEEN is allowed, also more than
                                 once. */
    const float *weights;   /**< Weight of each of these labels, finite and at least 0: its term of the loss counts so
                                 many times. NULL = 1 each. */
} xsm_labels;

/** Starting value of an #xsm_labels. */
#define XSM_LABELS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(xsm_labels), 0, 0, NULL, NULL, NULL                                                                     \
    }

/** Ownership of the arrays that are passed to a constructor. */
enum {
    XSM_COPY = 0, /**< The dataset makes a copy. */
    /** The dataset points to the caller's arrays, which must outlive it, also where an estimator or a trainer keeps it,
     *  and stay unchanged: an #xsm_release_hook says when they are no longer needed. Features and labels are copied
     *  only when a function has to change them. */
    XSM_BORROW = 1
};

/** Dense rows in the caller's memory. Start with #XSM_DENSE_ROWS_INIT. */
typedef struct xsm_dense_rows {
    size_t size;              /**< sizeof(xsm_dense_rows). */
    const void *values;       /**< Feature j of row i is number i*stride + j. Not read if `features` is 0. */
    size_t stride;            /**< Numbers from one row to the next, at least `features`; 0 = `features`. */
    size_t rows;              /**< N >= 1. */
    uint32_t features;        /**< D; 0 for rows that have labels only. */
    int32_t dtype;            /**< Type of the values, #XSM_DTYPE_FLOAT32 or #XSM_DTYPE_FLOAT64, which is rounded. */
    const xsm_labels *labels; /**< Labels of the rows, or NULL for rows to predict. */
    int32_t ownership;        /**< #XSM_COPY or, for float32, #XSM_BORROW. */
    int32_t reserved;         /**< Zero. */
    xsm_release_hook release; /**< With #XSM_BORROW: called when these arrays, and those of the labels, are no longer
                                   needed: after the last reference to the dataset has been given up, also by an
                                   estimator or a trainer that kept it, or after all of the arrays have been copied
                                   because a function had to change them. It must not use the dataset. So a dataset can
                                   own memory of another language, such as a NumPy array. NULL = the caller knows. */
    void *release_user;       /**< Argument of release(). */
    const float *weights;     /**< [N] weight of each row, finite and at least 0; NULL = 1 each. Copied or borrowed as
                                   the values are. See @ref guide_weights. */
} xsm_dense_rows;

/** Starting value of an #xsm_dense_rows: float32, copied, without labels. */
#define XSM_DENSE_ROWS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_dense_rows), NULL, 0, 0, 0, 0, NULL, 0, 0, NULL, NULL, NULL                                         \
    }

/** Sparse rows (CSR) in the caller's memory. Offsets and indexes are integers of 32 or 64 bits, not negative, so arrays
 *  of signed and of unsigned types are accepted. Start with #XSM_CSR_ROWS_INIT. */
typedef struct xsm_csr_rows {
    size_t size;              /**< sizeof(xsm_csr_rows). */
    const void *offsets;      /**< [N+1] row i has the values offsets[i] to offsets[i+1] - 1; offsets[0] = 0,
                                   non-decreasing. */
    const void *index;        /**< Features of the values, in [0, D), strictly increasing within a row; NULL without
                                   values. */
    const void *values;       /**< The values; NULL without values. */
    size_t rows;              /**< N >= 1. */
    uint32_t features;        /**< D; 0 for rows that have labels only. */
    int32_t dtype;            /**< Type of the values, #XSM_DTYPE_FLOAT32 or #XSM_DTYPE_FLOAT64, which is rounded. */
    uint32_t offset_bits;     /**< Bits of an offset, 32 or 64; 0 = 64. */
    uint32_t index_bits;      /**< Bits of an index, 32 or 64; 0 = 32. */
    const xsm_labels *labels; /**< Labels of the rows, or NULL for rows to predict. */
    int32_t ownership;        /**< #XSM_COPY or, for float32, offsets of 64 bits and indexes of 32, #XSM_BORROW. */
    int32_t reserved;         /**< Zero. */
    xsm_release_hook release; /**< As in xsm_dense_rows. */
    void *release_user;       /**< Argument of release(). */
    const float *weights;     /**< As in xsm_dense_rows. */
} xsm_csr_rows;

/** Starting value of an #xsm_csr_rows: float32, offsets of 64 bits, indexes of 32, copied, without labels. */
#define XSM_CSR_ROWS_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(xsm_csr_rows), NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, NULL, NULL                            \
    }

/** Facts about a dataset. Start with #XSM_DATASET_INFO_INIT. */
typedef struct xsm_dataset_info {
    size_t size;               /**< sizeof(xsm_dataset_info). */
    uint64_t rows;             /**< N. */
    uint64_t values;           /**< Stored feature values: non-zeros if sparse, N*D if dense. */
    uint64_t labels;           /**< Labels of all rows, including unseen labels. */
    uint64_t unlabelled;       /**< Rows without a label. */
    uint64_t empty;            /**< Rows without a non-zero feature. */
    uint64_t unseen_rows;      /**< Rows that have labels, none of which is in the class map. */
    uint64_t unseen_labels;    /**< Labels that are not in the class map. */
    uint64_t dropped_features; /**< Feature values that were dropped while reading, because their index is not below
                                    D, and words that the class map's vocabulary lacks. */
    uint32_t features;         /**< D. */
    uint32_t classes;          /**< K. */
    int32_t sparse;            /**< 1 = sparse, 0 = dense. */
    int32_t format;            /**< XSM_FORMAT_* value of the file, 0 if from memory. */
    double total_weight;       /**< The sum of the rows' weights; N if each is 1. */
    int32_t weighted;          /**< 1 = the rows have weights, 0 = each counts once. */
    int32_t label_weighted;    /**< 1 = labels have weights, 0 = each counts once. */
    uint32_t unknown_features; /**< Columns or words of the file that the class map has not; they were left out. */
    uint32_t reserved;         /**< Zero. */
} xsm_dataset_info;

/** Starting value of an #xsm_dataset_info. */
#define XSM_DATASET_INFO_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_dataset_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                    \
    }

/** One row: a view into the dataset. Start with #XSM_ROW_INIT. */
typedef struct xsm_row {
    size_t size;            /**< sizeof(xsm_row). */
    const float *values;    /**< [count] feature values. */
    const uint32_t *index;  /**< [count] their features, strictly increasing; NULL if dense (value i is that of feature
                                 i). */
    uint64_t count;         /**< Number of values: non-zeros if sparse, D if dense. */
    const uint32_t *labels; /**< [label_count] classes, or #XSM_CLASS_UNSEEN. */
    uint64_t label_count;   /**< Number of labels. */
    double weight;          /**< Weight of the row, 1 without weights. */
    const float *label_weights; /**< [label_count] weight of each label; NULL = 1 each. */
} xsm_row;

/** Starting value of an #xsm_row. */
#define XSM_ROW_INIT                                                                                                   \
    {                                                                                                                  \
        sizeof(xsm_row), NULL, NULL, 0, NULL, 0, 0, NULL                                                               \
    }

/** What xsm_dataset_drop() removes. */
enum {
    XSM_DROP_UNLABELLED = 1, /**< Rows without a label. */
    XSM_DROP_EMPTY = 2,      /**< Rows without a non-zero feature. */
    XSM_DROP_CLASSES = 4,    /**< Classes without rows, after the rows: classes are renumbered so that each occurs; the
                                  class map keeps the file's labels. */
    XSM_DROP_WEIGHTLESS = 8  /**< Rows of weight 0. */
};

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a dataset of dense rows.
 *  @param context  context, or NULL
 *  @param rows     the rows
 *  @param[out] out the dataset, the caller's to release with xsm_dataset_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for a value that is not finite as a float32 (the message names row and feature),
 *          a weight that is not finite or below 0, or a label that is not below K or occurs twice in a row;
 *          #XSM_ERROR_UNSUPPORTED for #XSM_BORROW with a type other than float32; #XSM_ERROR_LIMIT. O(N D). */
XSM_API xsm_status xsm_dataset_from_dense(xsm_context *context, const xsm_dense_rows *rows, xsm_dataset **out,
                                          xsm_error *err);
/** Makes a dataset of sparse rows (CSR).
 *  @param context  context, or NULL
 *  @param rows     the rows
 *  @param[out] out the dataset, the caller's to release with xsm_dataset_free()
 *  @param err      what went wrong, or NULL
 *  @return as xsm_dataset_from_dense(); #XSM_ERROR_RANGE also for offsets or indexes out of order;
 *          #XSM_ERROR_UNSUPPORTED for #XSM_BORROW with types that are not the library's. O(N + values). */
XSM_API xsm_status xsm_dataset_from_csr(xsm_context *context, const xsm_csr_rows *rows, xsm_dataset **out,
                                        xsm_error *err);

/** Reads rows from a file or a storage, plain or gzip-compressed (detected from the first bytes).
 *  @param context context, or NULL
 *  @param path    the file, or NULL for `storage`
 *  @param storage what is read in place of a file, to its end, such as standard input or text in memory (@ref storage);
 *                 or NULL
 *  @param options how to read, or NULL
 *  @param[out] out the dataset, the caller's to release with xsm_dataset_free()
 *  @param err     what went wrong, with line and column; or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT with line and column; #XSM_ERROR_DATA for a file without rows,
 *          or a file without features if xsm_read_options::features is not set; #XSM_ERROR_CHECKSUM and
 *          #XSM_ERROR_FILE_VERSION for a cache; #XSM_ERROR_UNSUPPORTED for gzip in a build without zlib, for a cache on
 *          a big-endian machine, and for one in a storage; #XSM_ERROR_RANGE or #XSM_ERROR_ARGUMENT for the options;
 *          #XSM_ERROR_SHAPE for a file of weights with more or fewer lines than rows; #XSM_ERROR_LIMIT. O(bytes). */
XSM_API xsm_status xsm_dataset_read(xsm_context *context, const char *path, const xsm_storage *storage,
                                    const xsm_read_options *options, xsm_dataset **out, xsm_error *err);
/** Writes a dataset to a file and replaces an existing file atomically. Reading the file gives the same dataset. If the
 *  format cannot represent the dataset, the function fails and the error names the row.
 *
 *  | format | what it cannot represent |
 *  |---|---|
 *  | XC | labels below 0; names, without `names_path` |
 *  | LIBSVM | rows without label and features; names, without `names_path`. The file does not contain D. |
 *  | CSV, TSV | more than one label a row |
 *  | NPY | labels, unless every row has exactly one or no row has any; names, without `names_path` |
 *  | CACHE | |
 *
 *  Text cannot be written, because a dataset does not store its words. XC and LIBSVM leave out zeros, also those of
 *  dense rows; CACHE keeps sparse rows sparse; the other formats write every value. Numbers are written so that they
 *  read back as the same float32; zeros have no sign. Labels that are not in the class map (#XSM_CLASS_UNSEEN) and rows
 *  without features (D = 0) can be written to caches only.
 *  @param dataset the dataset
 *  @param path    the file
 *  @param options how to write it: `format` must be set
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED if the format cannot represent the dataset; #XSM_ERROR_IO; #XSM_ERROR_RANGE
 *          for the options; #XSM_ERROR_ARGUMENT also for the cache that the dataset is mapped from, unless a cache
 *          replaces it. The memory needed does not depend on the number of rows. O(values). */
XSM_API xsm_status xsm_dataset_write(const xsm_dataset *dataset, const char *path, const xsm_write_options *options,
                                     xsm_error *err);
/** Gives up the caller's reference to a dataset; NULL is allowed. The dataset is released with the last one: the
 *  estimator that is bound to it, and trainers, keep references (@ref guide_errors). */
XSM_API void xsm_dataset_free(xsm_dataset *dataset);
/** Returns another reference to a dataset, which the caller gives up with xsm_dataset_free(); NULL for NULL. Any
 *  thread. O(1). */
XSM_API xsm_dataset *xsm_dataset_ref(const xsm_dataset *dataset);

/** Fills `info` (start it with #XSM_DATASET_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_dataset_get_info(const xsm_dataset *dataset, xsm_dataset_info *info, xsm_error *err);
/** Fills `row` (start it with #XSM_ROW_INIT) with a view of row `index`, valid until the dataset changes. O(1).
 *  @return as xsm_dataset_get_info(), and #XSM_ERROR_RANGE for a row that does not exist */
XSM_API xsm_status xsm_dataset_get_row(const xsm_dataset *dataset, uint64_t index, xsm_row *row, xsm_error *err);
/** Fills `map` (start it with #XSM_CLASS_MAP_INIT) with a view of the class map, valid until the dataset changes;
 *  its counts are those of the dataset's rows. O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_dataset_get_class_map(const xsm_dataset *dataset, xsm_class_map *map, xsm_error *err);
/** Writes the label of a class, as programs show it, to `buffer` [size]: its name if classes have names, else its
 *  number. It is terminated and cut to `size` bytes; with NULL and 0 nothing is written. O(1).
 *  @return its length without the zero, in bytes, whatever `size` is; 0 for a class that the map lacks */
XSM_API size_t xsm_class_map_label(const xsm_class_map *map, uint32_t class_number, char *buffer, size_t size);
/** Returns the first class with this label, as xsm_class_map_label() writes it; #XSM_NO_CLASS if there is none. O(log
 *  K) for numbers, O(K) for names: a program that searches for many names should make a table of its own. A whole
 *  number that no name is spelled like finds it as a float, and the reverse: 24, 24.0, 2.4e+01. */
XSM_API uint32_t xsm_class_map_find(const xsm_class_map *map, const char *label);

/** Reads names of the classes, for data whose file has none: line i (from 0) of the file `path`, plain or gzip, is the
 *  name of the data file's label i.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for labels that are words; #XSM_ERROR_IO; #XSM_ERROR_FORMAT for text that is
 *  not UTF-8 or an empty line; #XSM_ERROR_SHAPE if a label of the class map has no line. The dataset is unchanged on
 *          failure. */
XSM_API xsm_status xsm_dataset_read_names(xsm_dataset *dataset, const char *path, xsm_error *err);

/** Removes rows, or classes that no row has.
 *  @param dataset the dataset; unchanged on failure
 *  @param which   sum of XSM_DROP_* values; with rows and classes it works as two calls, the rows first
 *  @param[out] dropped number of rows removed, or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DATA if no row would remain; #XSM_ERROR_ARGUMENT for other values of `which`. O(N +
 *          values) for rows, O(K + labels) for classes. */
XSM_API xsm_status xsm_dataset_drop(xsm_dataset *dataset, uint32_t which, uint64_t *dropped, xsm_error *err);
/** Removes the labels that fewer than `least` rows have, and their classes: classes are renumbered as by
 *  #XSM_DROP_CLASSES, and a row keeps its other labels, with their weights. A row may be left without a label; it stays
 *  for xsm_dataset_drop() to remove and count.
 *  @param dataset the dataset; unchanged on failure
 *  @param least   at least 1
 *  @param known   class map of a model: its labels stay, however few rows have them; NULL = none
 *  @param[out] dropped number of labels removed, without those that no row had; or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DATA if no label would remain; the message says how many rows the most frequent one has;
 *          #XSM_ERROR_RANGE for `least`, or a map out of order. O(K + labels), and sorting where labels have names. */
XSM_API xsm_status xsm_dataset_drop_rare_labels(xsm_dataset *dataset, uint64_t least, const xsm_class_map *known,
                                                uint64_t *dropped, xsm_error *err);
/** Keeps one label a row: `which` is an XSM_KEEP_LABELS_* value. #XSM_KEEP_LABELS_SMALLEST compares the labels of the
 *  file, and uses an unseen label only if the row has no other. The classes do not change.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for another `which`. O(labels). */
XSM_API xsm_status xsm_dataset_keep_labels(xsm_dataset *dataset, int32_t which, xsm_error *err);
/** Adds the classes of a map that the dataset lacks, so that a model that was trained on other rows can also learn
 *  these rows (xsm_model_grow()). If both maps are of numbers, so is the union, in increasing order. Otherwise it is of
 *  words, numbers as they are spelled: first the classes of the map in its order, then the new ones. Sparse rows get
 *  the number of features of the map if that is larger.
 *  Features become those of the map, words by word and columns by name; what the map lacks follows as new features.
 *  @param dataset the dataset; its labels are renumbered
 *  @param map     class map of a model or of other data; its counts are ignored
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE for dense rows with fewer features than the map; #XSM_ERROR_RANGE for labels
 *          that do not increase; #XSM_ERROR_DATA for words that meet numbers with names, features of another kind,
 *          n-grams that are made in another way, or a column of the map that is missing; #XSM_ERROR_LIMIT. The dataset
 *          is unchanged on failure. */
XSM_API xsm_status xsm_dataset_extend(xsm_dataset *dataset, const xsm_class_map *map, xsm_error *err);
/** Permutes the rows at random; every order is equally likely, and the same seed gives the same order.
 *  @return #XSM_OK, or what any function may return (@ref error). The dataset is unchanged on failure. O(N +
 *          values). */
XSM_API xsm_status xsm_dataset_shuffle(xsm_dataset *dataset, uint64_t seed, xsm_error *err);
/** Makes a dataset of copies of rows, in the given order; a row may be repeated. Features and classes are the same.
 *  @param dataset the dataset, unchanged
 *  @param rows    [count] row numbers, below N
 *  @param count   number of these rows, at least 1
 *  @param[out] out the dataset of the copies, the caller's to release with xsm_dataset_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for a row that does not exist; #XSM_ERROR_ARGUMENT for no rows. O(values
 *          copied). */
XSM_API xsm_status xsm_dataset_select(const xsm_dataset *dataset, const uint64_t *rows, size_t count, xsm_dataset **out,
                                      xsm_error *err);
/** Splits a dataset into two at random: `part` gets floor(fraction*N + 1/2) rows, `rest` the other rows, both in the
 *  original order.
 *  @param dataset  the dataset, unchanged
 *  @param fraction in (0, 1); both datasets must get a row
 *  @param seed     the same seed gives the same split
 *  @param[out] part the chosen rows, the caller's to release with xsm_dataset_free()
 *  @param[out] rest the other rows, likewise
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for the fraction. O(N + values). */
XSM_API xsm_status xsm_dataset_split(const xsm_dataset *dataset, double fraction, uint64_t seed, xsm_dataset **part,
                                     xsm_dataset **rest, xsm_error *err);

/** Makes a row transform from its description: steps separated by commas, applied in that order.
 *
 *  | step | what it does |
 *  |---|---|
 *  | `truncate=N` | drops features N and above; D becomes min(D, N), which may be 0 |
 *  | `log` | replaces a value x by 1 + log(x) if x > 1, by -1 - log(-x) if x < -1 (others do not change) |
 *  | `tfidf` | multiplies feature j by log((1 + N) / (1 + n_j)) + 1; it is not zero in n_j training rows |
 *  | `standard` | gives each feature mean 0 and variance 1 in the training rows; sparse rows keep their means |
 *  | `unit` | divides a row by its Euclidean norm (a row of zeros does not change) |
 *  | `products=N` | appends the products of pairs of features; N is at least 1 |
 *
 *  `products` takes sparse rows. Pairs are those of features that are both not zero in N training rows or more, in the
 *  order of the first feature, then of the second: pair k is feature D + k, and D grows by the number of pairs.
 *  Logarithms are natural. `log` is for features that are counts: the sublinear term frequency of Manning, Raghavan and
 *  Schuetze (Introduction to Information Retrieval, 2008, section 6.4.1). No value is above 90 after it, or below -90,
 *  and zeros stay zeros, so that n_j is the same with it.
 *  `standard` replaces x by (x - m_j) / s_j, where m_j is the mean of feature j over the N training rows and s_j^2 its
 *  variance, the mean of the squared differences from m_j, as in scikit-learn's StandardScaler. If it is fitted to
 *  sparse rows, it divides by the same s_j and subtracts nothing, so that zeros stay zeros (StandardScaler with
 *  with_mean=False). Where a feature has the same value in all training rows s_j is 1. Rows count once, whatever their
 *  weights. If a transform with means is applied to sparse rows, they list all features afterwards, as their zeros
 *  become other values. An empty description, or `none`, makes a transform that does nothing. `tfidf`, `standard` and
 *  `products` may occur once each, `tfidf` before the others.
 *  @param context     context, or NULL
 *  @param description the steps
 *  @param[out] out    the transform, the caller's to release with xsm_transform_free()
 *  @param err         what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown step (the message lists the known steps); #XSM_ERROR_RANGE for the
 *          value of a step, a second `tfidf`, `standard` or `products`, or `tfidf` behind one of the others */
XSM_API xsm_status xsm_transform_new(xsm_context *context, const char *description, xsm_transform **out,
                                     xsm_error *err);
/** Fits the transform to training rows: computes idf weights, means and scales, finds the pairs of `products` and
 *  stores D. Each step gets the rows as the previous steps transformed them. The dataset does not change.
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for `products` and dense rows; #XSM_ERROR_LIMIT if D would exceed
 *          #XSM_FEATURES_MAX; #XSM_ERROR_RANGE as xsm_transform_apply(), of the steps before `standard`. O(values) with
 *          `tfidf` or `standard`, else O(1); `products` takes the time of the pairs of non-zero
 *          values in all rows, and while it counts them 16 bytes a row and 28 a feature. */
XSM_API xsm_status xsm_transform_fit(xsm_transform *transform, const xsm_dataset *dataset, xsm_error *err);
/** Transforms a dataset in place. A dataset with borrowed arrays copies them first; with `products`, and where sparse
 *  rows get means, rows get new arrays.
 *  @return #XSM_OK; #XSM_ERROR_SHAPE if D differs from the fitted D; #XSM_ERROR_STATE before xsm_transform_fit(), and
 *          for rows that were transformed before, unless the transform has no steps;
 *          #XSM_ERROR_RANGE if a value times its idf weight, one by its scale, or a product, overflows float32;
 *          #XSM_ERROR_UNSUPPORTED for `products` and dense rows. The dataset is unchanged on failure. */
XSM_API xsm_status xsm_transform_apply(const xsm_transform *transform, xsm_dataset *dataset, xsm_error *err);
/** Releases a transform; NULL is allowed. */
XSM_API void xsm_transform_free(xsm_transform *transform);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
