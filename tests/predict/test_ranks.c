/*
 * Tests of filtered ranks of labels: compared with a plain count over all scores, with ties, with labels that other
 * datasets know, on any number of threads.
 */
#include "training.h"

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/metrics.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 6, CLASSES = 600, ROWS = 300, KNOWN = 200 };
enum { HITS = CLASSES + 3 }; /* more than there are classes */

typedef struct fixture {
    test_problem problem;
    xsm_dataset *rows, *known[2];
    uint64_t *offsets;
    uint32_t *labels;
} fixture;

/* Rows with up to four labels, some of them unseen, some rows without; the known rows repeat every second row of the
 * first and bring other labels for it, the second dataset for every third. */
static fixture start(bool sparse)
{
    xsm_error err = XSM_ERROR_INIT;
    fixture f = {.problem = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 6)};
    f.offsets = calloc(ROWS + 1, sizeof *f.offsets);
    f.labels = calloc(4 * ROWS, sizeof *f.labels);
    uint64_t seed = 3, count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t n = i % 5;
        uint32_t first = (uint32_t)(test_next(&seed) % (CLASSES / 2));
        for (uint32_t j = 0; j < n; j++) {
            f.labels[count++] = j == 3 ? XSM_CLASS_UNSEEN : first + j * (CLASSES / 8);
        }
        f.offsets[i + 1] = count;
    }
    f.rows = test_relabel(&f.problem, sparse, CLASSES, f.offsets, f.labels);
    for (int d = 0; d < 2; d++) {
        uint64_t chosen[KNOWN];
        uint64_t offsets[ROWS + 1];
        HELD_MEMORY(uint32_t, labels) = calloc(2 * ROWS, sizeof *labels);
        for (uint32_t i = 0; i < ROWS; i++) { /* one label that the row has, or has not, and one more */
            offsets[i] = 2 * i;
            labels[2 * i] = (uint32_t)(test_next(&seed) % CLASSES);
            labels[2 * i + 1] = (labels[2 * i] + 1 + (uint32_t)d) % CLASSES;
        }
        offsets[ROWS] = 2 * ROWS;
        HELD(xsm_dataset, all) = test_relabel(&f.problem, sparse, CLASSES, offsets, labels);
        for (uint32_t i = 0; i < KNOWN; i++) {
            chosen[i] = (i * (uint64_t)(d + 2)) % ROWS; /* some twice */
        }
        assert_ok(xsm_dataset_select(all, chosen, KNOWN, &f.known[d], &err), err);
    }
    return f;
}

static void end(fixture *f)
{
    xsm_dataset_free(f->rows);
    xsm_dataset_free(f->known[0]);
    xsm_dataset_free(f->known[1]);
    free(f->offsets);
    free(f->labels);
    test_problem_free(&f->problem);
}

/* The labels that the known rows give to a row with these features, set in `right`. */
static void mark_known(const fixture *f, uint64_t row, bool *right)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_row x = XSM_ROW_INIT;
    assert_ok(xsm_dataset_get_row(f->rows, row, &x, &err), err);
    for (int d = 0; d < 2; d++) {
        for (uint64_t i = 0; i < KNOWN; i++) {
            xsm_row y = XSM_ROW_INIT;
            assert_ok(xsm_dataset_get_row(f->known[d], i, &y, &err), err);
            bool same = x.count == y.count;
            for (uint64_t j = 0; same && j < x.count; j++) {
                same = x.values[j] == y.values[j] && (!x.index || x.index[j] == y.index[j]);
            }
            for (uint64_t j = 0; same && j < y.label_count; j++) {
                right[y.labels[j]] = true;
            }
        }
    }
}

/* `hits` may be NULL. */
static xsm_ranks count(const fixture *f, const xsm_model *m, bool filtered, double *hits)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_ranks r = XSM_RANKS_INIT;
    double counted[HITS] = {0};
    double sum = 0;
    static float scores[ROWS * CLASSES];
    xsm_batch batch = xsm_batch_range(f->rows, 0, ROWS);
    assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, scores, CLASSES, &err), err);
    for (uint64_t i = 0; i < ROWS; i++) {
        bool right[CLASSES] = {false};
        const float *z = scores + i * CLASSES;
        if (filtered) {
            mark_known(f, i, right);
        }
        for (uint64_t j = f->offsets[i]; j < f->offsets[i + 1]; j++) {
            if (f->labels[j] < CLASSES) {
                right[f->labels[j]] = true;
            }
        }
        for (uint64_t j = f->offsets[i]; j < f->offsets[i + 1]; j++) {
            uint32_t own = f->labels[j];
            r.labels++;
            r.unseen_labels += own >= CLASSES;
            if (own >= CLASSES) {
                continue;
            }
            double rank = 1;
            for (uint32_t k = 0; k < CLASSES; k++) {
                rank += right[k] ? 0 : z[k] > z[own] ? 1 : z[k] == z[own] ? 0.5 : 0;
            }
            sum += rank;
            r.reciprocal_rank += 1 / rank;
            for (int k = 0; k < HITS; k++) {
                counted[k] += rank <= k + 1;
            }
        }
    }
    r.mean_rank = sum / (double)(r.labels - r.unseen_labels);
    r.reciprocal_rank /= (double)r.labels;
    for (int k = 0; hits && k < HITS; k++) {
        hits[k] = counted[k] / (double)r.labels;
    }
    return r;
}

static void check(const fixture *f, const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_dataset *known[2] = {f->known[0], f->known[1]};
    xsm_ranks first = XSM_RANKS_INIT;
    double want_hits[HITS], first_hits[HITS] = {0};
    for (int filtered = 0; filtered < 2; filtered++) {
        xsm_ranks want = count(f, m, filtered, want_hits);
        for (uint32_t threads = 1; threads < 5; threads += 3) {
            HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
            xsm_ranks_options o = XSM_RANKS_OPTIONS_INIT;
            xsm_ranks got = XSM_RANKS_INIT;
            double hits[HITS];
            got.top = HITS;
            got.hits = hits;
            o.known = known;
            o.known_count = filtered ? 2 : 0;
            assert_ok(xsm_evaluate_ranks(ctx, m, f->rows, &o, &got, &err), err);
            assert_true(got.labels == want.labels && got.unseen_labels == want.unseen_labels && got.unseen_labels > 0);
            assert_true(fabs(got.reciprocal_rank - want.reciprocal_rank) < 1e-12);
            assert_true(fabs(got.mean_rank - want.mean_rank) < 1e-9 * want.mean_rank);
            for (int k = 0; k < HITS; k++) {
                assert_true(fabs(hits[k] - want_hits[k]) < 1e-12);
            }
            if (threads == 1) {
                first = got;
                memcpy(first_hits, hits, sizeof hits);
            }
            assert_memory_equal(&got, &first, offsetof(xsm_ranks, top));
            assert_memory_equal(hits, first_hits, sizeof hits);
            got.hits = NULL; /* not wanted */
            got.top = 0;
            assert_ok(xsm_evaluate_ranks(ctx, m, f->rows, &o, &got, &err), err);
            assert_memory_equal(&got, &first, offsetof(xsm_ranks, top));
        }
    }
    /* What the known labels change is not nothing. */
    assert_true(count(f, m, true, NULL).mean_rank < count(f, m, false, NULL).mean_rank);
}

TEST(ranks_are_counted_over_what_is_not_known_to_be_right)
{
    for (int kind = 0; kind < 4; kind++) {
        fixture f = start(kind & 1);
        xsm_model *m =
            test_model(NULL, &f.problem, kind & 1, kind & 2 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, 1, 9);
        check(&f, m);
        xsm_model_free(m);
        end(&f);
    }
}

TEST(classes_with_equal_scores_share_their_ranks)
{
    fixture f = start(true);
    xsm_model *m = test_model(NULL, &f.problem, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    for (uint32_t k = 0; k < CLASSES; k++) {
        m->w.bias[k] = (float)(k % 3);
    }
    check(&f, m);
    xsm_model_free(m);
    end(&f);
}

/* The ranks of rows with weights and of so many copies of each are the same, to the bit where `dyadic`: else the sum of
 * 1/rank is rounded in another order. Any number of threads gives the same bits. */
static void check_copies(const fixture *f, const xsm_model *m, xsm_dataset *rows, bool dyadic)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_dataset *known[2] = {f->known[0], f->known[1]};
    const xsm_ranks_options o = {sizeof o, known, 2};
    uint64_t copies[3 * ROWS], count = 0;
    float weights[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        weights[i] = (float)((i / 3) % 4);
        for (float n = 0; n < weights[i]; n++) {
            copies[count++] = i;
        }
    }
    MADE(xsm_dataset, all, xsm_dataset_select(rows, copies, count, &all, &err));
    double plain_hits[HITS], wanted_hits[HITS], hits[HITS];
    xsm_ranks plain = {.size = sizeof plain, .top = HITS, .hits = plain_hits};
    xsm_ranks wanted = {.size = sizeof wanted, .top = HITS, .hits = wanted_hits};
    assert_ok(xsm_evaluate_ranks(NULL, m, rows, &o, &plain, &err), err);
    assert_ok(xsm_evaluate_ranks(NULL, m, all, &o, &wanted, &err), err);
    xsm_dataset_weights w = {sizeof w, weights, ROWS, NULL, 0};
    assert_ok(xsm_dataset_set_weights(rows, &w, &err), err);
    double first = 0;
    for (uint32_t threads = 1; threads < 5; threads += 3) {
        HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
        xsm_ranks got = {.size = sizeof got, .top = HITS, .hits = hits};
        assert_ok(xsm_evaluate_ranks(ctx, m, rows, &o, &got, &err), err);
        assert_true(got.labels == plain.labels && got.unseen_labels == plain.unseen_labels);
        assert_true(got.mean_rank == wanted.mean_rank && got.mean_rank != plain.mean_rank);
        assert_memory_equal(hits, wanted_hits, sizeof hits);
        assert_true(dyadic ? got.reciprocal_rank == wanted.reciprocal_rank
                           : fabs(got.reciprocal_rank - wanted.reciprocal_rank) < 1e-12);
        first = threads == 1 ? got.reciprocal_rank : first;
        assert_true(got.reciprocal_rank == first);
    }
    memset(weights, 0, sizeof weights);
    assert_ok(xsm_dataset_set_weights(rows, &w, &err), err);
    assert_fails(xsm_evaluate_ranks(NULL, m, rows, &o, &plain, &err), XSM_ERROR_DATA, err);
}

TEST(weights_are_copies)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        fixture f = start(sparse);
        xsm_model *m = test_model(NULL, &f.problem, true, XSM_LAYOUT_CLASS_MAJOR, 1, 9);
        check_copies(&f, m, f.rows, false);
        xsm_model_free(m);
        end(&f);
    }
    /* Ranks of 1, 2 and 4 alone, whose reciprocals add up without rounding: class k has the rank k + 1. */
    fixture f = start(false);
    xsm_model *m = test_model(NULL, &f.problem, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    static const uint32_t classes[] = {0, 1, 3, XSM_CLASS_UNSEEN};
    uint64_t offsets[ROWS + 1] = {0};
    uint32_t labels[ROWS];
    for (uint32_t k = 0; k < CLASSES; k++) {
        m->w.bias[k] = -(float)k;
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        labels[i] = classes[i % 4];
        offsets[i + 1] = i + 1;
    }
    xsm_dataset_free(f.known[0]);
    xsm_dataset_free(f.known[1]);
    f.known[0] = test_relabel(&f.problem, false, CLASSES, offsets, labels); /* they know nothing more */
    f.known[1] = test_relabel(&f.problem, false, CLASSES, offsets, labels);
    xsm_dataset *rows = test_relabel(&f.problem, false, CLASSES, offsets, labels);
    check_copies(&f, m, rows, true);
    xsm_dataset_free(rows);
    xsm_model_free(m);
    end(&f);
}

TEST(what_cannot_be_is_refused)
{
    fixture f = start(false);
    xsm_model *m = test_model(NULL, &f.problem, true, XSM_LAYOUT_CLASS_MAJOR, 1, 9);
    xsm_ranks r = XSM_RANKS_INIT, untouched = XSM_RANKS_INIT;
    xsm_ranks_options o = XSM_RANKS_OPTIONS_INIT;
    assert_fails(xsm_evaluate_ranks(NULL, NULL, f.rows, NULL, &r, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_evaluate_ranks(NULL, m, NULL, NULL, &r, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_evaluate_ranks(NULL, m, f.rows, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    o.known_count = 1;
    assert_fails(xsm_evaluate_ranks(NULL, m, f.rows, &o, &r, &err), XSM_ERROR_ARGUMENT, err);
    test_problem wide = test_problem_new(4, FEATURES + 1, CLASSES, false, 2);
    const xsm_dataset *known[1] = {wide.data};
    o.known = known;
    assert_fails(xsm_evaluate_ranks(NULL, m, f.rows, &o, &r, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_evaluate_ranks(NULL, m, wide.data, NULL, &r, &err), XSM_ERROR_SHAPE, err);
    known[0] = NULL;
    assert_fails(xsm_evaluate_ranks(NULL, m, f.rows, &o, &r, &err), XSM_ERROR_ARGUMENT, err);
    uint64_t none[ROWS + 1] = {0};
    xsm_dataset *bare = test_relabel(&f.problem, false, CLASSES, none, f.labels);
    assert_fails(xsm_evaluate_ranks(NULL, m, bare, NULL, &r, &err), XSM_ERROR_DATA, err);
    double hits[1];
    r.hits = hits; /* of no length */
    assert_fails(xsm_evaluate_ranks(NULL, m, f.rows, NULL, &r, &err), XSM_ERROR_RANGE, err);
    r.hits = NULL;
    m->w.bias[7] = NAN;
    assert_fails(xsm_evaluate_ranks(NULL, m, f.rows, NULL, &r, &err), XSM_ERROR_DIVERGED, err);
    assert_memory_equal(&r, &untouched, sizeof r);
    xsm_dataset_free(bare);
    test_problem_free(&wide);
    xsm_model_free(m);
    end(&f);
}

typedef struct use {
    const fixture *f;
    const xsm_model *m;
} use;

static xsm_status rank(void *state, xsm_context *ctx, xsm_error *err)
{
    const use *u = state;
    const xsm_dataset *known[2] = {u->f->known[0], u->f->known[1]};
    double hits[3];
    xsm_ranks r = {.size = sizeof r, .top = 3, .hits = hits};
    xsm_ranks_options o = {sizeof o, known, 2};
    return xsm_evaluate_ranks(ctx, u->m, u->f->rows, &o, &r, err);
}

TEST(every_allocation_may_fail)
{
    fixture f = start(true);
    xsm_model *m = test_model(NULL, &f.problem, true, XSM_LAYOUT_CLASS_MAJOR, 1, 9);
    use u = {&f, m};
    assert_true(test_every_allocation(rank, &u) > 6);
    xsm_model_free(m);
    end(&f);
}
