/*
 * libxsoftmax-words refuses to work with a libxsoftmax of another release, and touches nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <xsoftmax-words.h>
#include <xsoftmax.h>

/* What libxsoftmax-words is told, in place of libxsoftmax. */
uint32_t xsm_version(void)
{
    return 20304;
}

static void check(xsm_status status, const xsm_error *err)
{
    assert_int_equal(status, XSM_ERROR_UNSUPPORTED);
    assert_int_equal(err->status, XSM_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err->message, "release 2.3.4"));
}

static void another_release_is_refused(void **state)
{
    (void)state;
    xsm_error err = XSM_ERROR_INIT;
    xsm_corpus *corpus = NULL;
    xsm_model *model = NULL;
    xsm_skipgram *trainer = NULL;
    check(xsm_corpus_open(NULL, __FILE__, NULL, &corpus, &err), &err);
    check(xsm_word_model_new(NULL, NULL, 3, 0.1, 1, &model, &err), &err);
    check(xsm_word_model_read(NULL, __FILE__, &model, &err), &err);
    check(xsm_word_model_write(NULL, __FILE__, &err), &err);
    check(xsm_skipgram_new(NULL, NULL, NULL, NULL, NULL, NULL, &trainer, &err), &err);
    check(xsm_skipgram_fit(NULL, NULL, NULL, NULL, NULL, NULL, &err), &err);
    assert_true(!corpus && !model && !trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_release_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
