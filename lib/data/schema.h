/*
 * What the features of rows are. A feature number means nothing by itself: it is a word or a bucket of n-grams, a
 * column of a table, or a number in a file that counts from 0 or from 1. A schema says which. Datasets, models,
 * samplers and their files keep it, and xsmi_features_match() compares it wherever rows meet a model.
 *
 * A schema never changes once it is made, and its references are counted. NULL means that nothing is known, as of a
 * host's arrays. Rows that a transform has changed keep the schema of the rows before.
 */
#ifndef XSMI_SCHEMA_H
#define XSMI_SCHEMA_H

#include "base/base.h"
#include "base/contents.h"
#include "base/counted.h"
#include "data/dataset.h"

#include <xsoftmax/dataset.h>

typedef enum xsmi_schema_kind { XSMI_SCHEMA_WORDS, XSMI_SCHEMA_COLUMNS, XSMI_SCHEMA_NUMBERS } xsmi_schema_kind;

typedef struct xsmi_schema {
    xsmi_holders holders;
    xsm_context *context;
    xsmi_schema_kind kind;
    int32_t index_base;         /* XSM_INDEX_BASE_* of the file */
    uint32_t count;             /* words and buckets, columns, or numbers of a list; 0 of other numbers */
    uint64_t hash;              /* hash of the whole description of the features */
    xsm_vocabulary *vocabulary; /* of words: a reference */
    const char **names;         /* [count] of columns; they lie in `text`, one behind another */
    char *text;
    size_t text_size;
    int64_t *numbers; /* [count] of numbers: a list of them in the file; NULL: all from the base on */
} xsmi_schema;

/* Makes the schema that a class map describes; *out is NULL if it describes none. */
xsm_status xsmi_schema_of_map(xsm_context *ctx, const xsm_class_map *map, xsmi_schema **out, xsm_error *err);
/* Make schemas: of a vocabulary, which is retained; of `count` columns, whose names lie in `text`, each terminated; of
 * numbers from `index_base` on: for XSM_INDEX_BASE_AUTO *out is NULL. */
xsm_status xsmi_schema_of_words(xsm_context *ctx, const xsm_vocabulary *v, xsmi_schema **out, xsm_error *err);
xsm_status xsmi_schema_of_columns(xsm_context *ctx, const char *text, size_t size, uint32_t count, xsmi_schema **out,
                                  xsm_error *err);
xsm_status xsmi_schema_of_numbers(xsm_context *ctx, int32_t index_base, xsmi_schema **out, xsm_error *err);
/* Makes a schema of numbers in files, which are copied. */
xsm_status xsmi_schema_of_number_list(xsm_context *ctx, const int64_t *numbers, uint32_t count, xsmi_schema **out,
                                      xsm_error *err);
/* Refuses a schema whose names or numbers are not as many as the `features` of a model. */
xsm_status xsmi_schema_check_count(const xsmi_schema *s, uint32_t features, xsm_error *err);
/* Sets the members of a class map that describe features to views of the schema. */
void xsmi_schema_view(const xsmi_schema *s, xsm_class_map *map);
/* Adds or drops a reference; NULL is allowed. */
xsmi_schema *xsmi_schema_retain(const xsmi_schema *s);
void xsmi_schema_release(const xsmi_schema *s);

static inline bool xsmi_schema_equal(const xsmi_schema *a, const xsmi_schema *b)
{
    return a == b || (a && b && a->kind == b->kind && a->count == b->count && a->hash == b->hash);
}
/* Returns the number of a feature in files; the schema is of numbers. */
static inline int64_t xsmi_schema_number(const xsmi_schema *s, uint32_t feature)
{
    return s->numbers ? s->numbers[feature] : (int64_t)feature + (s->index_base == XSM_INDEX_BASE_ONE);
}
static inline const xsm_vocabulary *xsmi_schema_vocabulary(const xsmi_schema *s)
{
    return s ? s->vocabulary : NULL;
}
static inline int32_t xsmi_schema_index_base(const xsmi_schema *s)
{
    return s ? s->index_base : XSM_INDEX_BASE_AUTO;
}

/* -- where rows meet a model (schema_match.c) ---------------------------------------------------------------------- */

/* The rows, or what wants them. */
typedef struct xsmi_feature_side {
    const xsmi_schema *schema;
    uint32_t features; /* D, before transforms; 0 = not known */
    const char *what;  /* how messages call it: "the rows", "the model" */
} xsmi_feature_side;

#define XSMI_NO_FEATURE UINT32_MAX

/* Which wanted feature each feature of rows is. */
typedef struct xsmi_feature_map {
    xsm_context *context; /* a reference, with `to` */
    xsmi_feature_side rows, wanted;
    uint32_t *to; /* [from], XSMI_NO_FEATURE for one that is not wanted; NULL: feature j is feature j + shift */
    uint32_t from;
    int32_t shift;
    bool same;        /* each feature is what it is on the other side: rows need no change */
    uint32_t unknown; /* features of the rows that are not wanted; the first of them */
    uint32_t first_unknown;
} xsmi_feature_map;

/* Compares what the features of both sides are. Where one knows nothing they are the same, and the caller compares
 * their numbers. Otherwise words are found by name and buckets by number, if both sides make n-grams alike; columns by
 * name, of which none may be missing; and numbers are those in the file, from whichever base.
 * `map`, which xsmi_feature_map_end() releases, gets the result. With map NULL, all rows' features must be the same
 * already. XSM_ERROR_DATA: the message names the first difference. */
xsm_status xsmi_features_match(const xsmi_feature_side *rows, const xsmi_feature_side *wanted, xsmi_feature_map *map,
                               xsm_error *err);
void xsmi_feature_map_end(xsmi_feature_map *map);
/* After features have grown: refuses `after` unless it begins with all features of `before`. */
xsm_status xsmi_features_kept(const xsmi_feature_side *before, const xsmi_feature_side *after, xsm_error *err);
/* As xsmi_features_match() with a map, but features of the rows that the other side lacks become new features behind
 * those that are wanted. *joined, to be released, is the schema of all. */
xsm_status xsmi_features_join(const xsmi_feature_side *rows, const xsmi_feature_side *wanted, xsmi_feature_map *map,
                              xsmi_schema **joined, xsm_error *err);

static inline uint32_t xsmi_feature_place(const xsmi_feature_map *map, uint32_t feature)
{
    if (map->to) {
        return feature < map->from ? map->to[feature] : XSMI_NO_FEATURE;
    }
    return map->shift < 0 && feature == 0 ? XSMI_NO_FEATURE : feature + (uint32_t)map->shift;
}

/* Gives the rows of a dataset the features, and the schema, of what wants them. Values of features that are not wanted
 * are dropped and counted; but where numbers are shifted, one that would be lost is an error. Unchanged on failure. */
xsm_status xsmi_dataset_map_features(xsm_dataset *d, const xsmi_feature_map *map, xsm_error *err);
/* The same in two steps, of which the second cannot fail. Between them, xsmi_feature_arrays_free() releases what the
 * first has made. */
typedef struct xsmi_mapped_features {
    xsmi_feature_arrays to; /* of rows whose values move */
    uint32_t features;
    uint64_t dropped;
    bool moved;
} xsmi_mapped_features;
xsm_status xsmi_dataset_prepare_features(xsm_dataset *d, const xsmi_feature_map *map, xsmi_mapped_features *made,
                                         xsm_error *err);
void xsmi_dataset_take_mapped(xsm_dataset *d, const xsmi_feature_map *map, const xsmi_mapped_features *made);
/* Compares the features of a dataset that may be changed with those that are wanted, and maps them. */
xsm_status xsmi_dataset_match_features(xsm_dataset *d, const xsmi_feature_side *wanted, xsm_error *err);

/* -- on disk (schema_file.c) ---------------------------------------------------------------------------------------
 * Words: the tensor `vocabulary`, U8, a word a line in the order of features, and the metadata `vocabulary`, how text
 * becomes words and n-grams. Columns: the tensor `feature_names`, U8, each name terminated by a zero byte. The base of
 * numbers is metadata of the file that holds the schema; a list of them is the tensor `feature_numbers`, I64. */

#define XSMI_VOCABULARY_TENSOR "vocabulary"
#define XSMI_FEATURE_NAMES_TENSOR "feature_names"
#define XSMI_FEATURE_NUMBERS_TENSOR "feature_numbers"
#define XSMI_BUCKETS_TENSOR "vocabulary_buckets"
#define XSMI_KEY_VOCABULARY "vocabulary"
#define XSMI_KEY_INDEX_BASE "index_base" /* first feature index of the data files, 0 or 1 */
/* Adds the tensors of a schema, if there are any, and the metadata of words, to what a file will contain. */
xsm_status xsmi_schema_list(const xsmi_schema *s, xsmi_contents *c, xsm_error *err);
/* Adds the base, if there is one. */
xsm_status xsmi_schema_list_base(const xsmi_schema *s, xsmi_contents *c, xsm_error *err);
/* Reads the schema of a file with its base; *out is NULL if it says nothing. */
xsm_status xsmi_schema_load(xsm_context *ctx, const xsmi_container *file, const char *name, xsmi_schema **out,
                            xsm_error *err);

#endif
