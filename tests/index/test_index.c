/*
 * Tests of search indexes: the conformance suite on the built-in ones, faulty tables, invalid calls, models, drift,
 * failed allocations, and recall on trained weights and on the vectors of a recommender.
 */
#include "training.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include "index/index.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static xsm_index *make(const char *name, const char *options)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_index, x, xsm_index_new(NULL, name, &x, &err));
    char copy[256];
    snprintf(copy, sizeof copy, "%s", options);
    for (char *save = NULL, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = '\0';
        assert_ok(xsm_index_set(x, word, equals + 1, &err), err);
    }
    return x;
}

TEST(built_in_indexes_pass_the_suite)
{
    xsm_index_check_options o = XSM_INDEX_CHECK_OPTIONS_INIT;
    o.recall = 1;
    assert_ok(xsm_index_check(NULL, xsm_index_find("exact"), &o, &err), err);
    o.rows = 1000;
    o.width = 3;
    o.recall = 0.8;
    assert_ok(xsm_index_check(NULL, xsm_index_find("spherical"), &o, &err), err);
    static const char *const all[] = {"probe=3000", NULL}, *const few[] = {"clusters=200", "drift=0.05", NULL};
    o.rows = 3000;
    o.width = 17;
    o.recall = 1;
    o.set = all; /* every cluster: exact */
    assert_ok(xsm_index_check(NULL, xsm_index_find("spherical"), &o, &err), err);
    o.recall = 0.3;
    o.set = few;
    assert_ok(xsm_index_check(NULL, xsm_index_find("spherical"), &o, &err), err);
}

/* -- tables at fault ----------------------------------------------------------------------------------------------- */

/* The exact index with a fault of a kind. */
static int fault;

static xsm_status faulty_query(const void *state, const xsm_index_block *b, xsm_error *err)
{
    xsm_status status = xsmi_exact_index_ops.query(state, b, err);
    for (uint32_t i = 0; i < b->count && status == XSM_OK; i++) {
        uint32_t *classes = b->classes + i * b->list_stride;
        float *scores = b->scores + i * b->list_stride;
        bool many = b->lengths[i] > 3;
        if (fault == 1 && many) { /* an order that is none */
            uint32_t k = classes[0];
            float z = scores[0];
            classes[0] = classes[1];
            scores[0] = scores[1];
            classes[1] = k;
            scores[1] = z;
        } else if (fault == 2 && many) { /* a row twice, with a score of its own that is not its own */
            classes[1] = classes[0];
        } else if (fault == 3) {
            classes[0] = 1000000;
        } else if (fault == 4) {
            scores[0] += 1;
        } else if (fault == 5) {
            b->lengths[i] = b->top + 1;
        } else if (fault == 6 && many) { /* the best is missing */
            b->lengths[i]--;
            memmove(classes, classes + 1, b->lengths[i] * sizeof *classes);
            memmove(scores, scores + 1, b->lengths[i] * sizeof *scores);
        } else if (fault == 7 && b->count > 1) { /* in company, a query finds less */
            b->lengths[i] = 0;
        } else if (fault == 8) {
            return XSM_ERROR_DATA;
        } else if (fault == 9 && b->list_stride > b->top) { /* a list begins where none was asked for */
            memcpy(b->classes + (size_t)i * b->top, classes, b->lengths[i] * sizeof *classes);
        }
    }
    return status;
}

/* -- blocks of hosts with another version's header ----------------------------------------------------------------- */

typedef enum header { HEADER_SHORT, HEADER_LATER, HEADER_LATER_USED, HEADER_APART, HEADER_TOO_NEAR } header;

/* The table asked, and the header that the host's own block is of. */
static const xsm_index_ops *asked;
static header host_header;

/* Hands a search on in a block of its own. */
static xsm_status hand_on(const void *state, const xsm_index_block *b, xsm_error *err)
{
    struct {
        xsm_index_block block;
        size_t more[3];
    } host = {*b, {0}};
    const size_t apart = b->top + (host_header == HEADER_APART ? 5 : 0);
    HELD_MEMORY(uint32_t, classes) = malloc(b->count * apart * sizeof *classes);
    HELD_MEMORY(float, scores) = malloc(b->count * apart * sizeof *scores);
    assert_true(classes && scores);
    host.block.classes = classes;
    host.block.scores = scores;
    host.block.size = sizeof host;
    host.block.list_stride = apart;
    if (host_header == HEADER_SHORT) {
        host.block.size = offsetof(xsm_index_block, list_stride);
    } else if (host_header == HEADER_LATER_USED) {
        host.more[1] = 1;
    } else if (host_header == HEADER_TOO_NEAR) {
        host.block.list_stride = b->top - 1;
    }
    for (size_t i = 0; i < b->count * apart; i++) {
        classes[i] = 12345678;
    }
    xsm_status status = asked->query(state, &host.block, err);
    for (uint32_t i = 0; i < b->count && status == XSM_OK; i++) {
        memcpy(b->classes + i * b->list_stride, classes + i * apart, b->top * sizeof *classes);
        memcpy(b->scores + i * b->list_stride, scores + i * apart, b->top * sizeof *scores);
        for (size_t j = b->top; j < apart; j++) {
            assert_int_equal(classes[i * apart + j], 12345678);
        }
    }
    return status;
}

TEST(blocks_of_other_headers_are_read)
{
    for (size_t i = 0; xsm_index_at(i); i++) {
        asked = xsm_index_at(i);
        xsm_index_ops ops = *asked;
        ops.query = hand_on;
        ops.name = "host";
        xsm_index_check_options o = XSM_INDEX_CHECK_OPTIONS_INIT;
        o.rows = 500;
        o.recall = i ? 0.7 : 1;
        static const header good[] = {HEADER_LATER, HEADER_APART};
        for (size_t h = 0; h < sizeof good / sizeof good[0]; h++) {
            host_header = good[h];
            assert_ok(xsm_index_check(NULL, &ops, &o, &err), err);
        }
        host_header = HEADER_SHORT;
        assert_fails(xsm_index_check(NULL, &ops, &o, &err), XSM_ERROR_STRUCT_OLD, err);
        host_header = HEADER_LATER_USED;
        assert_fails(xsm_index_check(NULL, &ops, &o, &err), XSM_ERROR_STRUCT_NEW, err);
        print_message("%s\n", err.message);
        host_header = HEADER_TOO_NEAR;
        assert_fails(xsm_index_check(NULL, &ops, &o, &err), XSM_ERROR_RANGE, err);
        print_message("%s\n", err.message);
    }
}

/* -- lists in any order -------------------------------------------------------------------------------------------- */

static xsm_status ask_in_any_order(const void *state, const xsm_index_block *b, xsm_error *err)
{
    xsm_index_block any = *b;
    any.any_order = 1;
    return asked->query(state, &any, err);
}

/* Where one cluster, or a few, hold more rows than a list has room for, the list is of the best of all, in whatever
 * order. */
TEST(large_clusters_give_their_best)
{
    enum { ROWS = 77, WIDTH = 5, QUERIES = 9, ALL_PROBED = 8 };
    static float numbers[ROWS * WIDTH], have_scores[QUERIES * ROWS], want_scores[QUERIES * ROWS];
    static uint32_t have[QUERIES * ROWS], want[QUERIES * ROWS], have_lengths[QUERIES], want_lengths[QUERIES];
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        numbers[i] = (float)sin(1.7 * (double)(i * i) + 0.3);
    }
    const xsm_index_rows rows = {sizeof rows, numbers, WIDTH, ROWS, WIDTH, NULL, 0, 0};
    asked = xsm_index_find("spherical");
    xsm_index_ops ops = *asked;
    ops.query = ask_in_any_order;
    ops.name = "host";
    xsm_index *x = NULL;
    HELD(xsm_index, truth) = make("exact", "");
    assert_ok(xsm_index_build(truth, &rows, &err), err);
    static const char *const clusters[] = {"1", "2", "3"};
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        assert_ok(xsm_index_new_from(NULL, &ops, &x, &err), err);
        assert_ok(xsm_index_set(x, "clusters", clusters[c], &err), err);
        assert_ok(xsm_index_build(x, &rows, &err), err);
        for (uint32_t top = c > 0 ? ALL_PROBED : 1; top <= ROWS; top++) {
            memset(have, 0xFF, sizeof have);
            xsm_index_search s = {sizeof s, numbers, WIDTH, QUERIES, top, 0, 0, 0, have, have_scores, have_lengths, 0};
            assert_ok(xsm_index_query(x, &s, &err), err);
            assert_int_equal(s.probed, QUERIES * ROWS);
            for (uint32_t i = 0; i < QUERIES; i++) {
                assert_int_equal(have_lengths[i], top);
            }
            s.classes = want;
            s.scores = want_scores;
            s.lengths = want_lengths;
            assert_ok(xsm_index_query(truth, &s, &err), err);
            for (uint32_t i = 0; i < QUERIES * top; i++) {
                const uint32_t first = i / top * top;
                uint32_t j = first;
                while (j < first + top && have[j] != want[i]) {
                    j++;
                }
                assert_true(j < first + top && fabsf(have_scores[j] - want_scores[i]) < 1e-5F);
            }
        }
        xsm_index_free(x);
    }
}

/* -- tables at fault, again ---------------------------------------------------------------------------------------- */

static xsm_status no_update(void *state, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                            xsm_error *err)
{
    (void)state;
    (void)source;
    (void)rows;
    (void)count;
    (void)err;
    return XSM_OK;
}

TEST(faults_are_found)
{
    xsm_index_check_options o = XSM_INDEX_CHECK_OPTIONS_INIT;
    o.rows = 300;
    o.recall = 1;
    xsm_index_ops ops = xsmi_exact_index_ops;
    ops.query = faulty_query;
    ops.name = "faulty";
    fault = 0;
    assert_ok(xsm_index_check(NULL, &ops, &o, &err), err);
    for (fault = 1; fault <= 9; fault++) {
        assert_fails(xsm_index_check(NULL, &ops, &o, &err), XSM_ERROR_DATA, err);
        print_message("%d: %s\n", fault, err.message);
    }
    fault = 0;
    ops.update = no_update;
    assert_fails(xsm_index_check(NULL, &ops, &o, &err), XSM_ERROR_DATA, err);
    ops.update = NULL; /* is built anew then */
    assert_ok(xsm_index_check(NULL, &ops, &o, &err), err);
}

/* The exact index, with a fault of a kind in next(). */
static xsm_status faulty_next(const void *state, const xsm_index_block *b, xsm_error *err)
{
    static const xsm_index_block *shared;
    static uint32_t calls;
    xsm_index_block own = *b;
    if (fault == 1 && !b->begin) { /* begins anew */
        own.begin = 1;
    } else if (fault == 2 && b->top > 1) { /* lists less than it could */
        own.top = b->top - 1;
    } else if (fault == 3) {
        memset((unsigned char *)b->cursors + b->count * b->cursor_stride, 0, 1);
    } else if (fault == 4 && shared && calls % 2) { /* confuses cursors */
        own.begin = 1;
    }
    calls++;
    shared = b;
    xsm_status status = xsmi_exact_index_ops.next(state, &own, err);
    for (uint32_t i = 0; i < b->count && status == XSM_OK; i++) {
        uint32_t *classes = b->classes + i * b->list_stride, k = classes[0];
        float *scores = b->scores + i * b->list_stride, z = scores[0];
        if (fault == 5 && b->lengths[i] > 1) { /* an order that is none */
            classes[0] = classes[1];
            scores[0] = scores[1];
            classes[1] = k;
            scores[1] = z;
        } else if (fault == 6 && b->lengths[i] > 0) {
            scores[0] += 1;
        } else if (fault == 7 && !b->begin) { /* forgets the last */
            b->lengths[i] = 0;
        } else if (fault == 8 && b->begin && b->lengths[i] > 1) { /* not the best */
            memmove(classes, classes + 1, (b->lengths[i] - 1) * sizeof *classes);
            memmove(scores, scores + 1, (b->lengths[i] - 1) * sizeof *scores);
            b->lengths[i]--;
        } else if (fault == 9 && b->lengths[i] > 0) {
            classes[0] = 1000000;
        } else if (fault == 10 && !b->begin && b->count > 1) { /* in company, a query finds less */
            b->lengths[i] /= 2;
        }
    }
    return fault == 11 && !b->begin ? XSM_ERROR_DATA : status;
}

TEST(faults_of_next_are_found)
{
    xsm_index_check_options o = XSM_INDEX_CHECK_OPTIONS_INIT;
    o.rows = 300;
    o.recall = 1;
    xsm_index_ops ops = xsmi_exact_index_ops;
    ops.next = faulty_next;
    ops.name = "faulty";
    fault = 0;
    assert_ok(xsm_index_check(NULL, &ops, &o, &err), err);
    for (fault = 1; fault <= 11; fault++) {
        assert_fails(xsm_index_check(NULL, &ops, &o, &err), XSM_ERROR_DATA, err);
        print_message("%d: %s\n", fault, err.message);
    }
    fault = 0;
    ops.next = NULL;
    ops.cursor = NULL; /* nothing to try then */
    assert_ok(xsm_index_check(NULL, &ops, &o, &err), err);
}

/* A search over all clusters of `spherical` lists all rows in the order of `exact`, whatever the portions. */
TEST(further_rows_fall)
{
    enum { ROWS = 700, WIDTH = 6, QUERIES = 40 };
    static float numbers[ROWS * WIDTH];
    static const uint32_t portions[] = {1, 7, 64, ROWS};
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        numbers[i] = (float)sin(1.7 * (double)(i * i) + 0.3);
    }
    for (size_t k = ROWS - 2; k < ROWS; k++) { /* scores of two rows overflow to -INFINITY */
        memset(numbers + k * WIDTH, 0, WIDTH * sizeof *numbers);
        numbers[k * WIDTH] = -3e38f;
    }
    const xsm_index_rows rows = {sizeof rows, numbers, WIDTH, ROWS, WIDTH, NULL, 0, 0};
    for (size_t c = 0; xsm_index_at(c / 4); c++) {
        HELD(xsm_index, x) = make(xsm_index_at(c / 4)->name, c / 4 ? "probe=700" : "");
        assert_ok(xsm_index_build(x, &rows, &err), err);
        const uint32_t top = portions[c % 4];
        const size_t stride = xsmi_index_query_stride(x), cursor = xsmi_index_cursor(x);
        float *queries = aligned_alloc(64, QUERIES * stride * sizeof *queries);
        void *cursors = aligned_alloc(64, QUERIES * cursor);
        void *scratch = aligned_alloc(64, (xsmi_index_scratch(x, top) + 63) / 64 * 64);
        uint32_t *classes = malloc(QUERIES * top * sizeof *classes), lengths[QUERIES];
        HELD_MEMORY(float, scores) = malloc(QUERIES * top * sizeof *scores);
        uint64_t probed[QUERIES];
        assert_true(queries && cursors && scratch && classes && scores);
        memset(queries, 0, QUERIES * stride * sizeof *queries);
        for (size_t i = 0; i < QUERIES; i++) {
            memcpy(queries + i * stride, numbers + 11 * i * WIDTH, WIDTH * sizeof *queries);
            queries[i * stride] = 1.5f;
        }
        xsm_index_block block = {sizeof block, queries, stride,  QUERIES, top,     -INFINITY, 0, classes, scores,
                                 lengths,      probed,  scratch, top,     cursors, cursor,    1, 0};
        float last[QUERIES];
        uint32_t listed = 0;
        static bool seen[QUERIES][ROWS];
        memset(seen, 0, sizeof seen);
        for (; listed < ROWS; listed += lengths[0], block.begin = 0) {
            assert_ok(xsmi_index_next(x, &block, &err), err);
            for (uint32_t i = 0; i < QUERIES; i++) {
                assert_int_equal(lengths[i], ROWS - listed < top ? ROWS - listed : top);
                for (uint32_t j = 0; j < lengths[i]; j++) {
                    const uint32_t k = classes[i * top + j];
                    double want = 0;
                    for (uint32_t f = 0; f < WIDTH; f++) {
                        want += (double)queries[i * stride + f] * (double)numbers[k * WIDTH + f];
                    }
                    const double have = (double)scores[i * top + j];
                    assert_true(k < ROWS - 2 ? fabs(have - want) < 1e-5 : have == -INFINITY);
                    assert_true((listed + j == 0 || scores[i * top + j] <= last[i]) && !seen[i][k]);
                    last[i] = scores[i * top + j];
                    seen[i][k] = true;
                }
                assert_true(probed[i] == (block.begin ? ROWS : 0));
            }
        }
        assert_ok(xsmi_index_next(x, &block, &err), err);
        assert_int_equal(lengths[0], 0);
        for (block.any_order = 1; block.any_order >= 0; block.any_order--) { /* a search leaves out none */
            assert_ok(xsmi_index_block(x, &block, &err), err);
            assert_int_equal(lengths[QUERIES - 1], top);
        }
        block.any_order = 0;
        assert_true(top < ROWS || (classes[ROWS - 1] == ROWS - 1 && scores[ROWS - 2] == -INFINITY));
        xsm_index_search s = {sizeof s, queries, stride, QUERIES, top, 0, 0, 0, classes, scores, lengths, 0};
        assert_int_equal(xsm_index_query(x, &s, &err), top < ROWS ? XSM_OK : XSM_ERROR_RANGE);
        block.cursors = NULL;
        assert_fails(xsmi_index_next(x, &block, &err), XSM_ERROR_ARGUMENT, err);
        block.cursors = cursors;
        block.cursor_stride = cursor - 64;
        assert_fails(xsmi_index_next(x, &block, &err), XSM_ERROR_RANGE, err);
        block.cursor_stride = cursor + 1;
        assert_fails(xsmi_index_next(x, &block, &err), XSM_ERROR_RANGE, err);
        block.cursor_stride = cursor;
        block.begin = 2;
        assert_fails(xsmi_index_next(x, &block, &err), XSM_ERROR_RANGE, err);
        free(queries);
        free(cursors);
        free(scratch);
        free(classes);
    }
}

TEST(tables_that_cannot_be_right)
{
    xsm_index *x = (xsm_index *)&err;
#define REFUSE(change, wanted)                                                                                         \
    do {                                                                                                               \
        xsm_index_ops ops = xsmi_exact_index_ops;                                                                      \
        change;                                                                                                        \
        assert_fails(xsm_index_new_from(NULL, &ops, &x, &err), wanted, err);                                           \
        assert_ptr_equal(x, (xsm_index *)&err);                                                                        \
    } while (0)
    REFUSE(ops.size = 16, XSM_ERROR_STRUCT_OLD);
    REFUSE(ops.abi = XSM_EXT_ABI_VERSION + 1, XSM_ERROR_ABI);
    REFUSE(ops.flags = 2, XSM_ERROR_ARGUMENT);
    REFUSE(ops.name = NULL, XSM_ERROR_ARGUMENT);
    REFUSE(ops.build = NULL, XSM_ERROR_ARGUMENT);
    REFUSE(ops.query = NULL, XSM_ERROR_ARGUMENT);
    REFUSE(ops.next = NULL, XSM_ERROR_ARGUMENT);
    REFUSE(ops.cursor = NULL, XSM_ERROR_ARGUMENT);
    assert_fails(xsm_index_new(NULL, "sherical", &x, &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "did you mean 'spherical'?"));
    assert_fails(xsm_index_new(NULL, NULL, &x, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_new(NULL, "exact", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_check(NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    static const char *const names[] = {"exact", "spherical"};
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(xsm_index_at(i)->name, names[i]);
        assert_true(strlen(xsm_index_at(i)->summary) > 5);
        assert_string_equal(xsm_index_ops_option(xsm_index_at(i), 0)->name, "seed");
    }
    size_t count = 0;
    for (; xsm_index_at(count); count++) { /* the names in XSMI_INDEXES are those of the tables */
        assert_string_equal(xsmi_index_names[count], xsm_index_at(count)->name);
    }
    assert_null(xsmi_index_names[count]);
    assert_null(xsm_index_find("nonesuch"));
}

/* An index is of the model's classes, features and geometry when it was built. */
TEST(changed_models_need_another_index)
{
    const uint32_t one = 1;
    for (size_t i = 0; xsm_index_at(i / 3); i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(30, 6, 9, false, 2);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_index, x) = make(xsm_index_at(i / 3)->name, "");
        HELD(xsm_predictor, made) = NULL;
        xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
        options.index = x;
        options.top = 1;
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        map.classes = 10;
        assert_ok(xsm_index_build_model(x, m, &err), err);
        switch (i % 3) {
        case 0:
            assert_ok(xsm_model_set_geometry(m, XSM_GEOMETRY_EUCLIDEAN, &err), err);
            break;
        case 1:
            assert_ok(xsm_model_grow(m, 6, &map, &err), err);
            break;
        default:
            assert_ok(xsm_model_grow(m, 7, NULL, &err), err);
        }
        assert_fails(xsm_predictor_new(m, &options, &made, &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_index_update(x, &one, 1, &err), XSM_ERROR_STATE, err);
        assert_ok(xsm_index_build_model(x, m, &err), err);
        assert_ok(xsm_index_update(x, &one, 1, &err), err);
        assert_ok(xsm_predictor_new(m, &options, &made, &err), err);
    }
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

TEST(bad_calls_are_refused)
{
    float rows[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, scores[4];
    uint32_t classes[4], lengths[2], one = 1, four = 4;
    for (size_t i = 0; xsm_index_at(i); i++) {
        HELD(xsm_index, x) = make(xsm_index_at(i)->name, "");
        xsm_index_rows r = {sizeof r, rows, 3, 4, 3, NULL, 0, 0};
        xsm_index_search s = {sizeof s, rows, 3, 2, 2, 0, 0, 0, classes, scores, lengths, 0};
        assert_fails(xsm_index_query(x, &s, &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_index_update(x, &one, 1, &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_index_build(x, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_index_build_model(x, NULL, &err), XSM_ERROR_ARGUMENT, err);
        r.stride = 2;
        assert_fails(xsm_index_build(x, &r, &err), XSM_ERROR_SHAPE, err);
        r.stride = 3;
        r.count = 0;
        assert_fails(xsm_index_build(x, &r, &err), XSM_ERROR_RANGE, err);
        r.count = 4;
        rows[10] = NAN;
        assert_fails(xsm_index_build(x, &r, &err), XSM_ERROR_DIVERGED, err);
        assert_non_null(strstr(err.message, "row 3 "));
        rows[10] = 11;
        assert_ok(xsm_index_build(x, &r, &err), err);
        assert_fails(xsm_index_set(x, "seed", "3", &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_index_update(x, &four, 1, &err), XSM_ERROR_RANGE, err);
        assert_fails(xsm_index_update(x, &one, 5, &err), XSM_ERROR_RANGE, err); /* more than there are */
        assert_ok(xsm_index_query(x, &s, &err), err);
        assert_true(lengths[0] == 2 && classes[0] == 3 && classes[1] == 2 && scores[0] == 10 + 22 + 36);
        assert_true(s.probed == 8);
        s.top = 5;
        assert_fails(xsm_index_query(x, &s, &err), XSM_ERROR_RANGE, err);
        s.top = 0;
        assert_fails(xsm_index_query(x, &s, &err), XSM_ERROR_RANGE, err);
        s.top = 2;
        s.stride = 2;
        assert_fails(xsm_index_query(x, &s, &err), XSM_ERROR_SHAPE, err);
        s.stride = 3;
        s.lengths = NULL;
        assert_fails(xsm_index_query(x, &s, &err), XSM_ERROR_ARGUMENT, err);
        s.lengths = lengths;
        s.has_least_score = 1;
        s.least_score = 68; /* a score that is the least one counts */
        assert_ok(xsm_index_query(x, &s, &err), err);
        assert_true(lengths[0] == 1 && classes[0] == 3 && classes[1] == UINT32_MAX);
        s.least_score = NAN;
        assert_fails(xsm_index_query(x, &s, &err), XSM_ERROR_RANGE, err);
        rows[3] = INFINITY;
        assert_fails(xsm_index_update(x, &one, 1, &err), XSM_ERROR_DIVERGED, err);
        rows[3] = 4;
        xsm_index_info info = XSM_INDEX_INFO_INIT;
        assert_ok(xsm_index_get_info(x, &info, &err), err);
        assert_true(info.rows == 4 && info.width == 3);
    }
    xsm_index_free(NULL);
}

/* A model's classes are found with its scores, whatever its layout, scales and bias. */
TEST(models_are_searched)
{
    for (int bits = 0; bits < 8; bits++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(30, 9, 400, false, 5);
        HELD(xsm_model, m) = test_model(NULL, &p, bits & 1, bits & 2 ? XSM_LAYOUT_FEATURE_MAJOR : 0, 1, 6);
        m->w.alpha = 0.5;
        if ((bits & 4) && !(bits & 2)) {
            assert_ok(xsmi_model_need_row_scale(m, &err), err);
            for (uint32_t k = 0; k < 400; k++) {
                m->w.row_scale[k] = 1 / (1 + 0.01 * k);
            }
        }
        for (size_t i = 0; xsm_index_at(i); i++) {
            HELD(xsm_index, x) = make(xsm_index_at(i)->name, i ? "probe=400" : "");
            assert_ok(xsm_index_build_model(x, m, &err), err);
            uint32_t classes[30 * 3], lengths[30];
            float scores[30 * 3];
            xsm_index_search s = {sizeof s, p.x, 9, 30, 3, 0, 0, 0, classes, scores, lengths, 0};
            assert_ok(xsm_index_query(x, &s, &err), err);
            for (uint32_t q = 0; q < 30; q++) {
                double best = -INFINITY;
                for (uint32_t k = 0; k < 400; k++) {
                    best = fmax(best, test_score(m, k, p.x + q * 9));
                }
                assert_true(fabs((double)scores[3 * q] - best) < 1e-5);
                assert_true(fabs(test_score(m, classes[3 * q], p.x + q * 9) - best) < 1e-5);
            }
        }
    }
}

/* -- drift --------------------------------------------------------------------------------------------------------- */

/* Rows of a few directions, so that clusters mean something. */
static float *clustered(uint32_t rows, uint32_t width, uint32_t directions, uint64_t *seed)
{
    HELD_MEMORY(float, centres) = calloc((size_t)directions * width, sizeof *centres);
    float *x = calloc((size_t)rows * width, sizeof *x);
    assert_true(centres && x);
    for (size_t i = 0; i < (size_t)directions * width; i++) {
        centres[i] = (float)(test_uniform(seed) - 0.5);
    }
    for (uint32_t k = 0; k < rows; k++) {
        const float *centre = centres + test_next(seed) % directions * width;
        double size = 0.5 + test_uniform(seed);
        for (uint32_t j = 0; j < width; j++) {
            x[(size_t)k * width + j] = (float)(size * ((double)centre[j] + 0.3 * (test_uniform(seed) - 0.5)));
        }
    }
    return x;
}

/* Queries that no search could rank. */
TEST(queries_are_finite)
{
    enum { K = 300, D = 4, TOP = 3 };
    uint64_t seed = 5;
    float *x = clustered(K, D, 8, &seed), scores[2 * TOP];
    uint32_t classes[2 * TOP], lengths[2];
    static const struct {
        float number;
        const char *why;
    } bad[] = {
        {NAN, "number 2"}, {INFINITY, "number 2"}, {-INFINITY, "number 2"}, {3e38f, "so long"}, {-3e19f, "so long"}};
    for (size_t i = 0; xsm_index_at(i); i++) {
        HELD(xsm_index, index) = make(xsm_index_at(i)->name, "");
        xsm_index_rows rows = {sizeof rows, x, D, K, D, NULL, 0, 0};
        assert_ok(xsm_index_build(index, &rows, &err), err);
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            const float queries[2 * D] = {1, 2, 3, 4, 1, 2, bad[b].number, 4};
            xsm_index_search s = {.size = sizeof s,
                                  .queries = queries,
                                  .stride = D,
                                  .count = 2,
                                  .top = TOP,
                                  .classes = classes,
                                  .scores = scores,
                                  .lengths = lengths};
            double recall = -1;
            assert_fails(xsm_index_query(index, &s, &err), XSM_ERROR_RANGE, err);
            assert_non_null(strstr(err.message, "query 1"));
            assert_non_null(strstr(err.message, bad[b].why));
            assert_fails(xsmi_index_recall(index, &s, &recall, &err), XSM_ERROR_RANGE, err);
            assert_true(recall == -1);
        }
    }
    free(x);
}

/* Where all rows have the same score any of them are right. */
TEST(ties_are_found)
{
    enum { K = 600, D = 7 };
    uint64_t seed = 5;
    float x[K * D], q[20 * D];
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < K * D; i++) { /* equal rows, zeros, and rows that are orthogonal to the queries */
            x[i] = kind == 0 ? 0.1f * (float)(i % D + 1) : kind == 1 ? 0 : (float)(test_uniform(&seed) - 0.5);
        }
        for (int i = 0; i < 20 * D; i++) {
            q[i] = kind == 3 ? 0 : (float)(test_uniform(&seed) - 0.5);
        }
        for (int i = 0; kind == 2 && i < K; i++) {
            x[i * D + 1] = x[i * D];
        }
        for (int i = 0; kind == 2 && i < 20; i++) {
            for (int j = 0; j < D; j++) {
                q[i * D + j] = j == 0 ? (float)(i + 1) / 3 : j == 1 ? -(float)(i + 1) / 3 : 0;
            }
        }
        for (size_t i = 0; xsm_index_at(i); i++) {
            HELD(xsm_index, index) = make(xsm_index_at(i)->name, "");
            xsm_index_rows rows = {sizeof rows, x, D, K, D, NULL, 0, 0};
            double recall = -1;
            assert_ok(xsm_index_build(index, &rows, &err), err);
            const xsm_index_search s = {.size = sizeof s, .queries = q, .stride = D, .count = 20, .top = 10};
            assert_ok(xsmi_index_recall(index, &s, &recall, &err), err);
            if (recall != 1) {
                fail_msg("%s, kind %d: %g", xsm_index_at(i)->name, kind, recall);
            }
        }
    }
}

TEST(drift_is_bounded)
{
    enum { K = 2000, D = 12 };
    uint64_t seed = 3;
    HELD_MEMORY(float, x) = clustered(K, D, 40, &seed);
    HELD_MEMORY(float, y) = clustered(K, D, 40, &seed);
    HELD(xsm_index, index) = make("spherical", "drift=0.3 probe=200");
    xsm_index_rows rows = {sizeof rows, x, D, K, D, NULL, 0, 0};
    assert_ok(xsm_index_build(index, &rows, &err), err);
    double recall;
    assert_ok(xsmi_index_recall(index, STRUCT(xsm_index_search, .queries = y, .stride = D, .count = 100, .top = 10),
                                &recall, &err),
              err);
    assert_true(recall > 0.9);
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    uint64_t most = 0;
    for (uint32_t k = 0; k < K; k += 50) {
        uint32_t touched[50];
        for (uint32_t j = 0; j < 50; j++) {
            touched[j] = (k * 7 + j) % K;
            memcpy(x + touched[j] * D, y + touched[j] * D, D * sizeof *x);
        }
        assert_ok(xsm_index_update(index, touched, 50, &err), err);
        assert_ok(xsm_index_get_info(index, &info, &err), err);
        most = info.moved > most ? info.moved : most;
        assert_ok(xsmi_index_recall(index, STRUCT(xsm_index_search, .queries = y, .stride = D, .count = 50, .top = 10),
                                    &recall, &err),
                  err);
        assert_true(recall > 0.8);
    }
    assert_true(info.rebuilds > 0 && most <= 0.3 * K);
    for (uint32_t k = 0; k < K * D; k++) {
        x[k] *= 100; /* longer by far than any row was */
    }
    uint32_t first = 0;
    uint64_t before = info.rebuilds;
    assert_ok(xsm_index_update(index, &first, 1, &err), err);
    assert_ok(xsm_index_get_info(index, &info, &err), err);
    assert_true(info.rebuilds == before + 1);
}

/* All rows alike: clusters are halved, so that none holds everything. */
TEST(equal_rows_are_spread)
{
    enum { K = 5000 };
    HELD_MEMORY(float, x) = calloc(K * 4, sizeof *x);
    assert_non_null(x);
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t i = 0; i < K * 4; i++) {
            x[i] = (float)kind;
        }
        HELD(xsm_index, index) = make("spherical", "");
        xsm_index_rows rows = {sizeof rows, x, 4, K, 4, NULL, 0, 0};
        assert_ok(xsm_index_build(index, &rows, &err), err);
        xsm_index_info info = XSM_INDEX_INFO_INIT;
        assert_ok(xsm_index_get_info(index, &info, &err), err);
        assert_int_equal(info.clusters, 566);
        assert_true(info.largest <= 2 * K / 566 + 2);
    }
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static xsm_status build_update_search(void *state, xsm_context *ctx, xsm_error *err)
{
    static float rows[40 * 3];
    uint64_t seed = 8;
    HELD(xsm_index, x) = NULL;
    for (int i = 0; i < 40 * 3; i++) {
        rows[i] = (float)test_uniform(&seed) - 0.5f;
    }
    xsm_index_rows r = {sizeof r, rows, 3, 40, 3, NULL, 0, 0};
    uint32_t classes[8], lengths[2], touched[40];
    float scores[8];
    xsm_index_search s = {sizeof s, rows, 3, 2, 4, 0, 0, 0, classes, scores, lengths, 0};
    xsm_status status = xsm_index_new(ctx, state, &x, err);
    if (status == XSM_OK) {
        status = xsm_index_build(x, &r, err);
    }
    for (uint32_t k = 0; k < 40; k++) {
        touched[k] = k;
        rows[3 * k] = 5; /* all move together: clusters grow */
    }
    if (status == XSM_OK) {
        status = xsm_index_update(x, touched, 40, err);
    }
    if (status == XSM_OK || status == XSM_ERROR_MEMORY) { /* after a failed update it is still an index */
        xsm_index_info info = XSM_INDEX_INFO_INIT;
        if (x && xsm_index_get_info(x, &info, NULL) == XSM_OK && info.rows) {
            xsm_status searched = xsm_index_query(x, &s, status == XSM_OK ? err : NULL);
            status = status == XSM_OK ? searched : status;
        }
    }
    if (status == XSM_OK) {
        double recall;
        status = xsmi_index_recall(x, STRUCT(xsm_index_search, .queries = rows, .stride = 3, .count = 2, .top = 4),
                                   &recall, err);
    }
    return status;
}

TEST(every_allocation_may_fail)
{
    char exact[] = "exact", spherical[] = "spherical";
    assert_true(test_every_allocation(build_update_search, exact) > 10);
    assert_true(test_every_allocation(build_update_search, spherical) > 20);
}

/* -- real data ----------------------------------------------------------------------------------------------------- */

static float *read_floats(const char *path, size_t count)
{
    float *x = calloc(count, sizeof *x);
    char command[1024];
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    FILE *file = popen(command, "r");
    assert_true(x && file && fread(x, sizeof *x, count, file) == count);
    (void)pclose(file); /* it may have had more to say */
    return x;
}

TEST(recall_of_recommended_items)
{
    enum { K = 12101, D = 64, QUERIES = 2000 };
    const char *path = test_data("mips-items/items_12101x64.f32.gz");
    if (!path) {
        skip();
    }
    HELD_MEMORY(float, items) = read_floats(path, (size_t)K * D);
    HELD_MEMORY(float, queries) = read_floats(test_data("mips-items/queries_22363x64.f32.gz"), (size_t)QUERIES * D);
    xsm_index *x = make("spherical", "probe=605"); /* K/20 */
    xsm_index_rows rows = {sizeof rows, items, D, K, D, NULL, 0, 0};
    assert_ok(xsm_index_build(x, &rows, &err), err);
    double recall[3];
    static const uint32_t tops[] = {1, 10, 100};
    for (int i = 0; i < 3; i++) {
        assert_ok(xsmi_index_recall(
                      x, STRUCT(xsm_index_search, .queries = queries, .stride = D, .count = QUERIES, .top = tops[i]),
                      &recall[i], &err),
                  err);
    }
    print_message("items: recall at 1, 10, 100: %.3f %.3f %.3f\n", recall[0], recall[1], recall[2]);
    assert_true(recall[1] >= 0.9);
    xsm_index_free(x);
}
