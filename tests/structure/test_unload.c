/* dlclose() while a context lives: its threads go on, and it can still be freed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xsoftmax/context.h>

static void symbol(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "unload: %s\n", dlerror());
        exit(1);
    }
    memcpy(function, &found, size);
}

int main(int argc, char **argv)
{
    xsm_status (*make)(const xsm_context_options *, xsm_context **, xsm_error *);
    void (*release)(xsm_context *);
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "unload: %s\n", argc == 2 ? dlerror() : "usage: test_unload LIBRARY");
        return 1;
    }
    symbol(library, "xsm_context_new", &make, sizeof make);
    symbol(library, "xsm_context_free", &release, sizeof release);
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *context = NULL;
    options.threads = 3;
    if (make(&options, &context, &err) != XSM_OK) {
        fprintf(stderr, "unload: %s\n", err.message);
        return 1;
    }
    dlclose(library);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    release(context);
    return 0;
}
