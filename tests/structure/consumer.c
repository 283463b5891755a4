/* A program of somebody else's, built and run outside the tree by check_consumer.py. */
#include <stdio.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>

int main(void)
{
    if (xsm_version() != XSM_VERSION || xsm_abi_version() != XSM_ABI_VERSION) {
        fprintf(stderr, "built against another release than it runs with\n");
        return 1;
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *context = NULL;
    if (xsm_context_new(NULL, &context, &err) != XSM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    /* An error comes back in words, and leaves the output alone. */
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.cpu_disable = 1u << 31;
    xsm_context *other = NULL;
    if (xsm_context_new(&options, &other, &err) != XSM_ERROR_RANGE || !strstr(err.message, "cpu_disable") || other) {
        fprintf(stderr, "an option that does not exist was not refused\n");
        return 1;
    }
    printf("libxsoftmax %s, %s\n", xsm_version_string(), xsm_context_instruction_set(context));
    xsm_context_free(context);
    return 0;
}
