/* What features are, and where rows meet a model: schemas are compared, and rows are mapped. */
#include "support.h"
#include "data/dataset.h"
#include "data/schema.h"
#include "data/vocabulary.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 8 };

/* A schema: 'w' with words, separated by blanks; 'g' the same with 3 buckets of n-grams; 'c' with names of columns; '0'
 * or '1', numbers from there on; 'n', nothing. */
static xsmi_schema *make(const char *text)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    xsmi_schema *s = NULL;
    char words[64];
    snprintf(words, sizeof words, "%s", text + 1);
    if (text[0] == 'c') {
        uint32_t count = 1;
        for (char *p = words; *p; p++) {
            count += *p == ' ';
            *p = *p == ' ' ? '\0' : *p;
        }
        assert_ok(xsmi_schema_of_columns(ctx, words, strlen(text), count, &s, &err), err);
    } else if (text[0] == 'w' || text[0] == 'g') {
        xsm_text_options given = XSM_TEXT_OPTIONS_INIT, known;
        given.word_ngrams = text[0] == 'g' ? 2 : 1;
        given.buckets = 3;
        xsm_vocabulary *v;
        assert_ok(xsmi_text_options_read(&known, &given, &err), err);
        assert_ok(xsmi_vocabulary_new(ctx, &known, &v, &err), err);
        for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
            bool twice;
            assert_ok(xsmi_vocabulary_add(v, word, strlen(word), &twice, &err), err);
        }
        assert_ok(xsmi_schema_of_words(ctx, v, &s, &err), err);
        xsmi_vocabulary_release(v);
    } else {
        const int32_t base = text[0] == '0'   ? XSM_INDEX_BASE_ZERO
                             : text[0] == '1' ? XSM_INDEX_BASE_ONE
                                              : XSM_INDEX_BASE_AUTO;
        assert_ok(xsmi_schema_of_numbers(ctx, base, &s, &err), err);
    }
    xsm_context_free(ctx);
    return s;
}

/* The place of each feature, as its digit, '-' for none; or what the refusal says. */
typedef struct match_case {
    const char *rows, *wanted, *places, *says;
    bool same;
} match_case;

static const match_case cases[] = {
    /* Words. */
    {"wsalt oil egg", "wsalt oil egg", NULL, NULL, true},
    {"wsalt oil egg", "wegg salt oil", "120", "feature 0 (from 0) is the word 'salt' in rows, and the word 'egg' in m",
     0},
    {"wsalt oil", "wsalt oil egg", "01", "feature 2 (from 0) is none in rows, and the word 'egg' in m", true},
    {"wsalt tomato egg", "wsalt egg", "0-1", "feature 1 (from 0) is the word 'tomato' in rows, and the word 'egg' in m",
     0},
    {"wsalt egg tomato", "wsalt egg", "01-", "feature 2 (from 0) is the word 'tomato' in rows, and none in m", 0},
    {"wtomato", "wsalt", "-", "the word 'tomato'", 0},
    {"gsalt oil", "goil", "-0123", "feature 0", 0},
    {"goil", "gsalt oil", "1234", "feature 0 (from 0) is the word 'oil' in rows, and the word 'salt' in m", 0},
    {"gsalt", "gsalt", NULL, NULL, true},
    {"gsalt", "wsalt", NULL, "the text of rows was read with xsm_text_options.word_ngrams 2, and that of m with 1", 0},
    /* Columns. */
    {"cage size", "cage size", NULL, NULL, true},
    {"csize age", "cage size", "10", "feature 0 (from 0) is the column 'size' in rows, and the column 'age' in m", 0},
    {"cid size age", "cage size", "-10", "the column 'id'", 0},
    {"cage size id", "cage size", "01-", "feature 2 (from 0) is the column 'id' in rows, and none in m", 0},
    {"csize", "cage size", NULL, "the column 'age' of m is missing in rows, whose first is the column 'size'", 0},
    {"cother", "cage size", NULL, "the column 'age' of m is missing in rows (and others are)", 0},
    {"cx y x", "cy x x", "102", "feature 0", 0},
    {"cx y", "cx y x", NULL, "the column 'x' of m is missing", 0},
    /* Numbers. */
    {"0", "0", NULL, NULL, true},
    {"1", "1", NULL, NULL, true},
    {"0", "1", "-0123456", "the features of rows are numbered from 0, and those of m from 1", 0},
    {"1", "0", "12345678", "the features of rows are numbered from 1, and those of m from 0", 0},
    /* Nothing is known, or something else. */
    {"n", "wsalt", NULL, NULL, true},
    {"cage", "n", NULL, NULL, true},
    {"n", "1", NULL, NULL, true},
    {"wage", "cage", NULL, "the features of rows are words, and those of m are columns of a table", 0},
    {"cage", "1", NULL,
     "columns of a table, and those of m are numbers: the first is the column 'age' here, and number 1", 0},
    {"0", "wsalt", NULL, "the first is number 0 here, and the word 'salt' there", 0},
};

TEST(matches)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const match_case *c = &cases[i];
        xsmi_schema *a = make(c->rows), *b = make(c->wanted);
        const xsmi_feature_side rows = {a, 0, "rows"}, wanted = {b, 0, "m"};
        xsmi_feature_map map;
        const xsm_status status = xsmi_features_match(&rows, &wanted, &map, &err);
        if ((status == XSM_OK) != (c->places || c->same)) {
            fail_msg("case %zu: %s: %s", i, xsm_status_name(status), err.message);
        }
        uint32_t unknown = 0;
        for (uint32_t j = 0; c->places && c->places[j] && !c->same; j++) {
            const uint32_t place = c->places[j] == '-' ? XSMI_NO_FEATURE : (uint32_t)(c->places[j] - '0');
            if (xsmi_feature_place(&map, j) != place) {
                fail_msg("case %zu: feature %u is %u", i, j, xsmi_feature_place(&map, j));
            }
            unknown += place == XSMI_NO_FEATURE;
        }
        if (status == XSM_OK) {
            assert_int_equal(map.same, c->same);
            assert_true(map.unknown == unknown || !map.to);
            xsmi_feature_map_end(&map);
        }
        const xsm_status as_is = xsmi_features_match(&rows, &wanted, NULL, &err);
        assert_int_equal(as_is, c->same && !c->says ? XSM_OK : XSM_ERROR_DATA);
        if (c->says && !strstr(err.message, c->says)) {
            fail_msg("case %zu: '%s' lacks '%s'", i, err.message, c->says);
        }
        xsmi_schema_release(a);
        xsmi_schema_release(b);
    }
}

/* Rows 1 2 3, 4 0 5, 0 6 0 of three features. */
static const float given[] = {1, 2, 3, 4, 0, 5, 0, 6, 0};

static xsm_dataset *rows_of(bool sparse, xsmi_schema *s)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    static const uint64_t offsets[] = {0, 3, 5, 6};
    static const uint32_t index[] = {0, 1, 2, 0, 2, 1};
    static const float values[] = {1, 2, 3, 4, 5, 6};
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    xsm_csr_rows csr = XSM_CSR_ROWS_INIT;
    dense.values = given;
    csr.offsets = offsets;
    csr.index = index;
    csr.values = values;
    dense.rows = csr.rows = 3;
    dense.features = csr.features = 3;
    dense.ownership = csr.ownership = XSM_BORROW;
    assert_ok(sparse ? xsm_dataset_from_csr(NULL, &csr, &d, &err) : xsm_dataset_from_dense(NULL, &dense, &d, &err),
              err);
    d->schema = s;
    return d;
}

/* For each feature that is wanted the one that it was, '-' for none. */
static void check_rows(const xsm_dataset *d, const char *from)
{
    assert_int_equal(d->features, strlen(from));
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features f = xsmi_dataset_features(d, i);
        size_t next = 0;
        for (uint32_t j = 0; j < d->features; j++) {
            const float wanted = from[j] == '-' ? 0 : given[i * 3 + (size_t)(from[j] - '0')];
            bool there = !f.index || (next < f.count && f.index[next] == j);
            assert_true((there ? f.values[next] : 0) == wanted);
            next += there;
        }
        assert_int_equal(next, f.count);
    }
}

TEST(maps_rows)
{
    static const struct {
        const char *rows, *wanted, *from;
        uint32_t unknown;
        uint64_t dropped;
    } maps[] = {
        {"wa b c", "wc a b", "201", 0, 0},    {"wa b c", "wb x a", "1-0", 1, 2}, {"ca b c", "cc a", "20", 1, 2},
        {"ca b c", "cb c a", "120", 0, 0},    {"1", "0", "-012", 0, 0},          {"wa b c", "wx y", "--", 3, 6},
        {"wa b c", "wa b c d", "012-", 0, 0},
    };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        for (int sparse = 0; sparse < 2; sparse++) {
            if (maps[i].from[strlen(maps[i].from) - 1] == '-' && maps[i].unknown == 0) {
                continue; /* the same rows: more features are the caller's */
            }
            HELD(xsm_dataset, d) = rows_of(sparse, make(maps[i].rows));
            xsmi_schema *wanted = make(maps[i].wanted);
            assert_ok(xsmi_dataset_match_features(d, &(xsmi_feature_side){wanted, 0, "the model"}, &err), err);
            check_rows(d, maps[i].from);
            assert_ptr_equal(d->schema, wanted);
            xsm_dataset_info info = XSM_DATASET_INFO_INIT;
            assert_ok(xsm_dataset_get_info(d, &info, &err), err);
            assert_int_equal(info.unknown_features, maps[i].unknown);
            assert_int_equal(info.dropped_features, maps[i].dropped);
            xsmi_schema_release(wanted);
        }
    }
}

/* What is refused leaves the rows as they were. */
TEST(refuses_rows)
{
    static const char *const sides[][3] = {
        {"0", "1", "row 0 (from 0) of the rows has a feature of number 0"},
        {"ca b c", "ca z", "the column 'z' of the model is missing"},
        {"wa b c", "gc a b", "word_ngrams"},
    };
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        for (int sparse = 0; sparse < 2; sparse++) {
            xsmi_schema *rows = make(sides[i][0]), *wanted = make(sides[i][1]);
            HELD(xsm_dataset, d) = rows_of(sparse, rows);
            assert_fails(xsmi_dataset_match_features(d, &(xsmi_feature_side){wanted, 0, "the model"}, &err),
                         XSM_ERROR_DATA, err);
            assert_non_null(strstr(err.message, sides[i][2]));
            assert_ptr_equal(d->schema, rows);
            check_rows(d, "012");
            xsmi_schema_release(wanted);
        }
    }
}
