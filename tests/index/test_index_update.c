/*
 * Tests of updates of the spherical index: after any change of rows each row is in the cluster that a search among all
 * centres gives, though most rows are not compared with all; lists, positions and rows agree.
 */
#include "training.h"

#include "base/random.h"
#include "index/spherical.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct rows {
    float *x; /* [count][width] */
    uint32_t count, width;
} rows;

static void read_rows(const xsm_index_source *source, const uint32_t *list, uint32_t first, uint32_t count, float *out,
                      size_t stride)
{
    const rows *r = source->state;
    for (uint32_t j = 0; j < count; j++) {
        uint32_t k = list ? list[j] : first + j;
        memcpy(out + j * stride, r->x + (size_t)k * r->width, r->width * sizeof *out);
    }
}

static double normal(xsmi_stream *stream)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += xsmi_stream_uniform(stream);
    }
    return sum;
}

/* A context, rows about 20 points, and their clusters. */
typedef struct setup {
    xsm_context *ctx;
    xsmi_stream stream;
    rows r;
    xsm_index_source source;
    xsmi_sphere s;
} setup;

static void begin(setup *t, uint32_t count, uint32_t width, uint32_t clusters, uint32_t cpu_disable)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_context_new(STRUCT(xsm_context_options, .cpu_disable = cpu_disable), &t->ctx, &err), err);
    xsmi_stream_start(&t->stream, 7, 0, 0);
    t->r = (rows){calloc((size_t)count * width, sizeof(float)), count, width};
    assert_non_null(t->r.x);
    float *points = calloc((size_t)20 * width, sizeof *points);
    assert_non_null(points);
    for (size_t i = 0; i < (size_t)20 * width; i++) {
        points[i] = (float)normal(&t->stream);
    }
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t f = 0; f < width; f++) {
            t->r.x[(size_t)k * width + f] = points[(size_t)(k % 20) * width + f] + 0.3f * (float)normal(&t->stream);
        }
    }
    free(points);
    t->source = (xsm_index_source){.size = sizeof t->source,
                                   .context = t->ctx,
                                   .state = &t->r,
                                   .count = count,
                                   .width = width,
                                   .seed = 3,
                                   .read = read_rows};
    xsmi_sphere_settings settings = {clusters, 5, 32, 3};
    assert_ok(xsmi_sphere_build(&t->s, &settings, &t->source, &err), err);
}

static void end(setup *t)
{
    xsmi_sphere_clear(&t->s);
    free(t->r.x);
    xsm_context_free(t->ctx);
}

/* Rows as they lie in clusters, their lists, and gaps that promise no more than there is. */
static void check_sphere(const setup *t)
{
    const xsmi_sphere *s = &t->s;
    xsm_error err = XSM_ERROR_INIT;
    uint32_t total = 0;
    HELD_MEMORY(uint32_t, cluster) = calloc(t->r.count, sizeof *cluster);
    HELD_MEMORY(float, prepared) = calloc(t->r.count, s->stride * sizeof *prepared);
    HELD_MEMORY(float, gap) = calloc(t->r.count, sizeof *gap);
    assert_non_null(prepared);
    for (uint32_t k = 0; k < t->r.count; k++) {
        memcpy(prepared + k * s->stride, t->r.x + (size_t)k * t->r.width, t->r.width * sizeof *prepared);
        (void)xsmi_sphere_prepare(s, prepared + k * s->stride);
    }
    assert_ok(xsmi_sphere_assign(s, prepared, t->r.count, cluster, gap, &err), err);
    for (uint32_t k = 0; k < t->r.count; k++) {
        const xsmi_member *of = &s->member[k];
        const xsmi_cluster *c = &s->cluster[of->cluster];
        assert_true(of->position < c->count);
        assert_int_equal(*xsmi_cluster_class(s, c, of->position), k);
        assert_int_equal(of->cluster, cluster[k]);
        assert_true((double)of->gap <= (double)gap[k] + 1e-5 * sqrt(s->longest));
        const float *row = xsmi_cluster_row(s, c, of->position);
        for (uint32_t f = 0; f < t->r.width; f++) {
            assert_true(row[f / 4 * XSMI_LINE + f % 4] == t->r.x[(size_t)k * t->r.width + f]);
        }
    }
    for (uint32_t c = 0; c < s->clusters; c++) {
        total += s->cluster[c].count;
    }
    assert_int_equal(total, t->r.count);
}

/* Moves `many` rows drawn at random, some twice in a list, by about `size` in each number. */
static uint64_t shake(setup *t, uint32_t many, double size)
{
    xsm_error err = XSM_ERROR_INIT;
    uint32_t *list = calloc(many, sizeof *list);
    xsmi_sphere_change change;
    double most = 0;
    assert_non_null(list);
    for (uint32_t j = 0; j < many; j++) {
        list[j] = (uint32_t)xsmi_stream_below(&t->stream, t->r.count);
        for (uint32_t f = 0; f < t->r.width; f++) {
            t->r.x[(size_t)list[j] * t->r.width + f] += (float)(size * normal(&t->stream));
        }
    }
    assert_ok(xsmi_sphere_update(&t->s, &t->source, list, many, &change, &err), err);
    for (uint32_t j = 0; j < many; j++) {
        double square = 0;
        for (uint32_t f = 0; f < t->r.width; f++) {
            double x = (double)t->r.x[(size_t)list[j] * t->r.width + f] - (double)t->s.mean[f];
            square += x * x;
        }
        most = square > most ? square : most;
    }
    assert_true(fabs(change.longest - most) <= 1e-4 * most);
    free(list);
    return change.moved;
}

TEST(rows_are_where_a_search_would_put_them)
{
    static const struct {
        uint32_t count, width, clusters;
    } shapes[] = {{2000, 16, 60}, {700, 3, 40}, {900, 33, 1}, {500, 1, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        setup t;
        begin(&t, shapes[i].count, shapes[i].width, shapes[i].clusters, 0);
        uint64_t moved = 0;
        for (int round = 0; round < 60; round++) {
            static const double sizes[] = {1e-4, 1e-3, 1e-2, 0.1, 0};
            moved += shake(&t, 1 + (uint32_t)xsmi_stream_below(&t.stream, 90), sizes[round % 5]);
            check_sphere(&t);
        }
        assert_true(shapes[i].clusters == 1 ? moved == 0 : moved > 0);
        end(&t);
    }
}

/* Small moves need no search: while a row's gap is large its cluster is not asked for. */
TEST(small_moves_use_up_the_gap)
{
    setup t;
    begin(&t, 2000, 16, 60, 0);
    uint32_t widest = 0;
    for (uint32_t k = 1; k < t.r.count; k++) {
        widest = t.s.member[k].gap > t.s.member[widest].gap ? k : widest;
    }
    double before = (double)t.s.member[widest].gap;
    xsmi_sphere_change change;
    assert_true(before > 0.05);
    t.r.x[(size_t)widest * t.r.width] += 0.01f;
    assert_ok(xsmi_sphere_update(&t.s, &t.source, &widest, 1, &change, &err), err);
    /* Less by twice what it moved by, with the number more that makes lengths equal; found anew it would be about what
     * it was. */
    assert_true((double)t.s.member[widest].gap <= before - 0.02 && (double)t.s.member[widest].gap > 0);
    assert_int_equal(change.moved, 0);
    check_sphere(&t);
    /* A leap uses it up, and it is found anew. */
    for (uint32_t f = 0; f < t.r.width; f++) {
        t.r.x[(size_t)widest * t.r.width + f] *= -1;
    }
    assert_ok(xsmi_sphere_update(&t.s, &t.source, &widest, 1, &change, &err), err);
    assert_int_equal(change.moved, 1);
    check_sphere(&t);
    end(&t);
}

/* The same clusters in the same order from each instruction set. */
TEST(instruction_sets_agree)
{
    static const uint32_t disabled[] = {0, XSM_CPU_DISABLE_AVX512,
                                        XSM_CPU_DISABLE_AVX512 | XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    setup t[3];
    for (int i = 0; i < 3; i++) {
        begin(&t[i], 1500, 17, 50, disabled[i]);
        for (int round = 0; round < 20; round++) {
            (void)shake(&t[i], 50, 0.05);
        }
        assert_memory_equal(t[i].s.member, t[0].s.member, 1500 * sizeof(xsmi_member));
    }
    for (int i = 0; i < 3; i++) {
        end(&t[i]);
    }
}
