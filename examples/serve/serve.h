/*
 * What the parts of the server share. model.c keeps the model that serves and replaces it; rows.c answers a request for
 * predictions; ../serve.c speaks HTTP.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <xsoftmax.h>

typedef struct serve_options {
    const char *path;    /* the model's file */
    const char *address; /* to listen on, and the port; 0 = any free one */
    uint32_t port;
    uint32_t threads;     /* that answer requests */
    uint32_t top;         /* classes for each row, and most that a request may want */
    uint32_t rows;        /* most rows of a request */
    uint32_t connections; /* most at once */
    uint32_t seconds;     /* for a request to arrive, to be computed and to be sent, each */
    uint32_t body;        /* most bytes of a request's body */
} serve_options;

/* -- model.c: models are counted, and freed when their last request has ended -------------------------------------- */

typedef struct serve_models serve_models;
typedef struct serve_model serve_model;

/* One thread's memory for a model. */
typedef struct serve_worker {
    struct serve_worker *next; /* that no request uses */
    serve_model *of;           /* counted; what follows is of it */
    uint64_t generation;       /* 1 for the first model, one more for each that took over */
    const xsm_model *model;
    const xsm_class_map *map;
    const xsm_model_info *info;
    uint32_t top; /* classes that the predictor returns */
    xsm_predictor *predictor;
    uint32_t *classes; /* [rows][top], as the next two */
    float *scores;
    double *probabilities;
    struct serve_rows *rows; /* of rows.c */
} serve_worker;

/* Facts about what has been replaced. */
typedef struct serve_replaced {
    uint64_t generation; /* of the model that serves */
    uint64_t refused;    /* files that were not taken */
    char reason[480];    /* why the last file was not taken; empty if it was */
} serve_replaced;

/* Receives the end of a reload, mostly on the loader's thread: NULL, or why the file was not taken. */
typedef void (*serve_reloaded)(void *user, const char *reason);

/* Loads the model and starts the thread that watches its file. Returns NULL and says why on failure. */
serve_models *serve_models_open(const serve_options *options);
/* Ends the loader: what it is loading is not taken. Reloads that wait are told so, later ones at once. */
void serve_models_end(serve_models *models);
/* Releases everything; no request may run. NULL is allowed. */
void serve_models_free(serve_models *models);
/* A worker of the model that serves: there are as many as threads. The caller gives it back. */
serve_worker *serve_models_take(serve_models *models);
void serve_models_give(serve_models *models, serve_worker *worker);
/* Has the file loaded now if it is another than the last one. */
void serve_models_reload(serve_models *models, serve_reloaded done, void *user);
void serve_models_replaced(serve_models *models, serve_replaced *out);

/* Until when this thread's calls of the library may run, on serve_clock(); 0 = for ever. */
extern _Thread_local uint64_t serve_deadline;
/* Says so, and returns the status. */
xsm_status serve_out_of_memory(xsm_error *err);
/* The last part of a path: who asks need not know the folders of this machine. */
const char *serve_file_name(const char *path);
/* Nanoseconds since some start. */
uint64_t serve_clock(void);

/* -- rows.c -------------------------------------------------------------------------------------------------------- */

/* A status of HTTP, and the body; NULL if memory was lacking. */
typedef struct serve_answer {
    unsigned status;
    json_t *body;
} serve_answer;

/* An answer whose body says what is wrong. */
__attribute__((format(printf, 2, 3))) serve_answer serve_refuse(unsigned status, const char *format, ...);
/* For json_set_alloc_funcs(), which must be called first of all. */
void *serve_allocate(size_t size);
void serve_release(void *memory);
/* Answers a request for predictions. */
serve_answer serve_predict(serve_worker *worker, const serve_options *options, const char *body, size_t length);
/* Facts about the worker's model. */
serve_answer serve_describe(const serve_worker *worker, const serve_options *options);

/* The memory for rows of a worker that has its model, or NULL. */
struct serve_rows *serve_rows_new(xsm_context *context, const serve_worker *worker, xsm_error *err);
void serve_rows_free(struct serve_rows *rows);

#endif
