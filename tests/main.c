/*
 * The main() of programs whose tests are TEST(name) { ... }.
 */
#include "support.h"

#include <stdlib.h>

enum { MOST = 100 };

static struct listed {
    int line;
    struct CMUnitTest test;
} listed[MOST];
static size_t count;

void test_list(const char *name, int line, CMUnitTestFunction test)
{
    if (count == MOST) {
        abort();
    }
    /* The order of constructors is the compiler's; tests run in that of the file. */
    size_t at = count++;
    for (; at > 0 && listed[at - 1].line > line; at--) {
        listed[at] = listed[at - 1];
    }
    listed[at] = (struct listed){line, {name, test, NULL, NULL, NULL}};
}

int main(void)
{
    struct CMUnitTest tests[MOST];
    for (size_t i = 0; i < count; i++) {
        tests[i] = listed[i].test;
    }
    const int failures = _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
    test_files_end();
    return count == 0 ? 1 : failures;
}
