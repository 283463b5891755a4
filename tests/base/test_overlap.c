/* Tests of the check for shared memory, compared with marks on every byte. */
#include "support.h"

#include <string.h>

#include "base/overlap.h"
#include "base/random.h"

enum { BYTES = 120 };

static unsigned char memory[BYTES];

static xsmi_region draw_region(xsmi_stream *s, const char *name, bool output)
{
    const size_t rows = (size_t)xsmi_stream_below(s, 6), width = (size_t)xsmi_stream_below(s, 9);
    const size_t step = width + (size_t)xsmi_stream_below(s, 11);
    const size_t bytes = rows ? (rows - 1) * step + width : 0;
    const size_t first = (size_t)xsmi_stream_below(s, BYTES - bytes + 1);
    const unsigned char *at = xsmi_stream_below(s, 20) ? memory + first : NULL;
    return (xsmi_region){name, at, rows, width, step, output};
}

static void mark(const xsmi_region *r, unsigned char *marks)
{
    memset(marks, 0, BYTES);
    for (size_t i = 0; r->first && i < r->rows; i++) {
        memset(marks + ((const unsigned char *)r->first - memory) + i * r->step, 1, r->width);
    }
}

TEST(test_two_regions)
{
    size_t shared = 0, apart = 0;
    xsmi_stream s;
    xsmi_stream_start(&s, 1, XSMI_STREAM_SHUFFLE, 0);
    for (int i = 0; i < 200000; i++) {
        xsmi_region regions[2] = {draw_region(&s, "one", true), draw_region(&s, "two", i % 2 == 0)};
        unsigned char marks[2][BYTES];
        mark(&regions[0], marks[0]);
        mark(&regions[1], marks[1]);
        bool share = false;
        for (size_t b = 0; b < BYTES; b++) {
            share |= marks[0][b] && marks[1][b];
        }
        const xsm_status status = xsmi_check_overlap("call", regions, 2, &err);
        assert_int_equal(status, share ? XSM_ERROR_ARGUMENT : XSM_OK);
        shared += share;
        apart += !share;
    }
    assert_true(shared > 20000 && apart > 20000);
}

/* Inputs may share memory, and a message names what does not. */
TEST(test_several_regions)
{
    const xsmi_region inputs[] = {xsmi_input("a", memory, 4, 8), xsmi_input("b", memory, 8, 4),
                                  xsmi_output("c", memory + 32, 3, 8)};
    assert_ok(xsmi_check_overlap("call", inputs, 3, &err), err);
    /* Two arrays of rows, one beside the other. */
    const xsmi_region beside[] = {xsmi_output_rows("left", memory, 5, 3, 6, 4),
                                  xsmi_input_rows("right", memory + 12, 5, 3, 6, 4)};
    assert_ok(xsmi_check_overlap("call", beside, 2, &err), err);
    const xsmi_region across[] = {xsmi_output_rows("left", memory, 5, 3, 6, 4),
                                  xsmi_input_rows("right", memory + 12, 4, 4, 6, 4)};
    assert_fails(xsmi_check_overlap("call", across, 2, &err), XSM_ERROR_ARGUMENT, err);
    assert_string_equal(err.message, "call: left and right share memory; each output needs its own");
}
