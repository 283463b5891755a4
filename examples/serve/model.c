/*
 * The model that serves. A thread watches its file; a new one is mapped and checked, and takes over when it is found
 * sound. Requests that run keep the old one, which is freed when the last of them ends. A file that is not sound
 * changes nothing.
 */
#include "serve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Between two looks at the file. */
#define WATCH_NANOSECONDS 200000000

struct serve_model {
    uint64_t users; /* requests, and 1 while it serves */
    uint64_t generation;
    xsm_model *model;
    xsm_class_map map;
    xsm_model_info info;
    serve_worker *workers; /* [threads] */
    serve_worker *idle;
};

/* Which file a path names: a new one, or one with other contents, differs. */
typedef struct file_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
} file_identity;

typedef struct waiting_reload {
    struct waiting_reload *next;
    serve_reloaded done;
    void *user;
} waiting_reload;

struct serve_models {
    const serve_options *options;
    xsm_context *context;
    pthread_t loader;
    file_identity seen; /* of the file that was last loaded or refused; the loader's alone */
    atomic_int ending;

    pthread_mutex_t lock; /* of what follows, and of the users and idle workers of models */
    pthread_cond_t wake;
    waiting_reload *waiting;
    serve_model *serving;
    serve_replaced replaced;
};

_Thread_local uint64_t serve_deadline;
/* Set on the loader's thread: ends what it loads when the server ends. */
static _Thread_local const atomic_int *loader_ending;

uint64_t serve_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int32_t cancels(void *user, const xsm_activity *activity)
{
    (void)user;
    (void)activity;
    return (serve_deadline && serve_clock() > serve_deadline) || (loader_ending && *loader_ending);
}

/* 0 without a file. */
static int identify(const char *path, file_identity *out)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return 0;
    }
    *out = (file_identity){facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim};
    return 1;
}

static int same_file(const file_identity *a, const file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

static void free_model(serve_model *m, uint32_t threads)
{
    if (!m) {
        return;
    }
    for (uint32_t i = 0; m->workers && i < threads; i++) {
        serve_worker *w = &m->workers[i];
        xsm_predictor_free(w->predictor);
        free(w->classes);
        free(w->scores);
        free(w->probabilities);
        serve_rows_free(w->rows);
    }
    free(m->workers);
    xsm_model_free(m->model);
    free(m);
}

xsm_status serve_out_of_memory(xsm_error *err)
{
    snprintf(err->message, sizeof err->message, "out of memory");
    return err->status = XSM_ERROR_MEMORY;
}

const char *serve_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A message about the model's file, with which it begins, without the file's folder. */
static const char *without_folder(const char *message, const char *path)
{
    const char *name = serve_file_name(path);
    const size_t folder = (size_t)(name - path);
    if (strncmp(message, path, folder) == 0) {
        return message + folder;
    }
    const char *at = strncmp(message, path, 8) == 0 ? strstr(message, name) : NULL; /* a path shortened in its middle */
    return at ? at : message;
}

static xsm_status prepare_worker(serve_model *m, serve_worker *w, xsm_context *context, const serve_options *options,
                                 xsm_error *err)
{
    xsm_predictor_options settings = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor_info facts = XSM_PREDICTOR_INFO_INIT;
    *w = (serve_worker){.next = m->idle, .of = m, .model = m->model, .map = &m->map, .info = &m->info};
    m->idle = w;
    settings.top = options->top;
    xsm_status status = xsm_predictor_new(m->model, &settings, &w->predictor, err);
    status = status == XSM_OK ? xsm_predictor_get_info(w->predictor, &facts, err) : status;
    if (status != XSM_OK) {
        return status;
    }
    w->top = facts.top;
    const size_t entries = (size_t)options->rows * w->top;
    w->classes = calloc(entries, sizeof *w->classes);
    w->scores = calloc(entries, sizeof *w->scores);
    w->probabilities = calloc(entries, sizeof *w->probabilities);
    if (!w->classes || !w->scores || !w->probabilities) {
        return serve_out_of_memory(err);
    }
    w->rows = serve_rows_new(context, w, err);
    return w->rows ? XSM_OK : err->status;
}

/* A row without features: has the model all that a prediction needs? */
static xsm_status try_model(const serve_worker *w, xsm_error *err)
{
    const uint64_t offsets[2] = {0, 0};
    const uint32_t index = 0;
    const float value = 0;
    const xsm_batch row = xsm_batch_sparse_values(offsets, &index, &value, 1, xsm_model_feature_count(w->model));
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    prediction.batch = &row;
    prediction.classes = w->classes;
    prediction.scores = w->scores;
    prediction.probabilities = w->probabilities;
    return xsm_predictor_run(w->predictor, &prediction, err);
}

/* Maps the file and checks all of it: structure, checksum, and what it predicts. */
static xsm_status load(const serve_models *models, serve_model **out, xsm_error *err)
{
    const serve_options *options = models->options;
    serve_model *m = calloc(1, sizeof *m);
    if (!m || !(m->workers = calloc(options->threads, sizeof *m->workers))) {
        free(m);
        return serve_out_of_memory(err);
    }
    m->users = 1;
    m->map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    m->info = (xsm_model_info)XSM_MODEL_INFO_INIT;
    xsm_status status = xsm_model_load(models->context, options->path, NULL, NULL, &m->model, err);
    status = status == XSM_OK ? xsm_model_get_class_map(m->model, &m->map, err) : status;
    status = status == XSM_OK ? xsm_model_get_info(m->model, &m->info, err) : status;
    for (uint32_t i = 0; status == XSM_OK && i < options->threads; i++) {
        status = prepare_worker(m, &m->workers[i], models->context, options, err);
    }
    status = status == XSM_OK ? try_model(&m->workers[0], err) : status;
    if (status != XSM_OK) {
        free_model(m, options->threads);
        return status;
    }
    *out = m;
    return XSM_OK;
}

/* Gives up one use; the caller has the lock. Returns the model if that was the last one. */
static serve_model *unused(serve_model *m)
{
    return m && --m->users == 0 ? m : NULL;
}

/* Loads the file, and lets it serve if it is sound. */
static xsm_status replace(serve_models *models, xsm_error *err)
{
    serve_model *made = NULL, *old = NULL;
    if (!identify(models->options->path, &models->seen)) {
        models->seen = (file_identity){0};
    }
    const xsm_status status = load(models, &made, err);
    pthread_mutex_lock(&models->lock);
    serve_replaced *r = &models->replaced;
    if (status == XSM_OK) {
        old = unused(models->serving);
        models->serving = made;
        made->generation = ++r->generation;
        for (uint32_t i = 0; i < models->options->threads; i++) {
            made->workers[i].generation = made->generation;
        }
        r->reason[0] = '\0';
    } else {
        r->refused++;
        snprintf(r->reason, sizeof r->reason, "%s", without_folder(err->message, models->options->path));
    }
    const uint64_t generation = r->generation;
    pthread_mutex_unlock(&models->lock);
    free_model(old, models->options->threads);
    if (status == XSM_OK) {
        fprintf(stderr, "serve: model %llu: %u classes, %u features\n", (unsigned long long)generation,
                xsm_model_class_count(made->model), made->info.input_features);
    } else if (generation > 0 && !models->ending) {
        fprintf(stderr, "serve: %s; model %llu goes on serving\n", err->message, (unsigned long long)generation);
    }
    return status;
}

static void wait_for_work(serve_models *models)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WATCH_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int late = 0;
    while (!models->ending && !models->waiting && !late) {
        late = pthread_cond_timedwait(&models->wake, &models->lock, &until) != 0;
    }
}

static void tell(waiting_reload *waiting, const char *reason)
{
    while (waiting) {
        waiting_reload *next = waiting->next;
        waiting->done(waiting->user, reason);
        free(waiting);
        waiting = next;
    }
}

/* Loads the file if it is another than the last, and gives the reason why the last one was not taken, or "". A file
 * that is not there is nothing new, unless somebody `asks`. */
static void look(serve_models *models, int asks, char *reason)
{
    file_identity now;
    xsm_error err = XSM_ERROR_INIT;
    if (identify(models->options->path, &now) ? !same_file(&now, &models->seen) : asks) {
        (void)replace(models, &err);
    }
    pthread_mutex_lock(&models->lock);
    memcpy(reason, models->replaced.reason, sizeof models->replaced.reason);
    pthread_mutex_unlock(&models->lock);
}

static void *watch(void *argument)
{
    serve_models *models = argument;
    loader_ending = &models->ending;
    pthread_mutex_lock(&models->lock);
    for (int ending = 0; !ending;) {
        wait_for_work(models);
        waiting_reload *waiting = models->waiting;
        models->waiting = NULL;
        ending = models->ending;
        pthread_mutex_unlock(&models->lock);
        char reason[sizeof models->replaced.reason] = "the server ends";
        if (!ending) {
            look(models, waiting != NULL, reason);
        }
        tell(waiting, reason[0] ? reason : NULL);
        pthread_mutex_lock(&models->lock);
    }
    pthread_mutex_unlock(&models->lock);
    return NULL;
}

serve_models *serve_models_open(const serve_options *options)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options settings = XSM_CONTEXT_OPTIONS_INIT;
    pthread_condattr_t clock;
    serve_models *models = calloc(1, sizeof *models);
    if (!models) {
        fputs("serve: out of memory\n", stderr);
        return NULL;
    }
    models->options = options;
    pthread_mutex_init(&models->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&models->wake, &clock);
    pthread_condattr_destroy(&clock);
    settings.threads = 1; /* requests run beside each other, each on its own thread */
    settings.progress = cancels;
    if (xsm_context_new(&settings, &models->context, &err) != XSM_OK || replace(models, &err) != XSM_OK) {
        fprintf(stderr, "serve: %s\n", err.message);
    } else if (pthread_create(&models->loader, NULL, watch, models) != 0) {
        fputs("serve: a thread cannot be started\n", stderr);
    } else {
        return models;
    }
    models->ending = 1;
    serve_models_free(models);
    return NULL;
}

void serve_models_end(serve_models *models)
{
    pthread_mutex_lock(&models->lock);
    models->ending = 1;
    pthread_cond_signal(&models->wake);
    pthread_mutex_unlock(&models->lock);
    pthread_join(models->loader, NULL);
}

void serve_models_free(serve_models *models)
{
    if (!models) {
        return;
    }
    free_model(models->serving, models->options->threads);
    xsm_context_free(models->context);
    pthread_cond_destroy(&models->wake);
    pthread_mutex_destroy(&models->lock);
    free(models);
}

serve_worker *serve_models_take(serve_models *models)
{
    pthread_mutex_lock(&models->lock);
    serve_worker *w = models->serving->idle; /* there is one: no more threads ask than there are workers */
    models->serving->idle = w->next;
    models->serving->users++;
    pthread_mutex_unlock(&models->lock);
    return w;
}

void serve_models_give(serve_models *models, serve_worker *worker)
{
    pthread_mutex_lock(&models->lock);
    worker->next = worker->of->idle;
    worker->of->idle = worker;
    serve_model *old = unused(worker->of);
    pthread_mutex_unlock(&models->lock);
    free_model(old, models->options->threads);
}

void serve_models_reload(serve_models *models, serve_reloaded done, void *user)
{
    waiting_reload *w = malloc(sizeof *w);
    const char *reason = w ? NULL : "out of memory";
    pthread_mutex_lock(&models->lock);
    if (models->ending) {
        reason = "the server ends";
    } else if (w) {
        *w = (waiting_reload){models->waiting, done, user};
        models->waiting = w;
        pthread_cond_signal(&models->wake);
    }
    pthread_mutex_unlock(&models->lock);
    if (reason) {
        free(w);
        done(user, reason);
    }
}

void serve_models_replaced(serve_models *models, serve_replaced *out)
{
    pthread_mutex_lock(&models->lock);
    *out = models->replaced;
    pthread_mutex_unlock(&models->lock);
}
