/* Bytes of files, runs that continue from a checkpoint, and datasets that are changed. */
#include "bits.h"

#include <stdio.h>
#include <string.h>

/* -- models and checkpoints ---------------------------------------------------------------------------------------- */

static xsm_status model_file(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const bits_training *t = what;
    xsm_error err = XSM_ERROR_INIT;
    const char *path = bits_path(machine, "model.safetensors");
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_transform *transform = NULL;
    bits_rig rig;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, t, &rig));
    BITS_TRY(bits_rig_train(machine, t, &rig));
    BITS_TRY(xsm_dataset_get_class_map(rig.data, &map, &err));
    BITS_TRY(xsm_model_set_class_map(rig.model, &map, &err));
    BITS_TRY(xsm_model_set_metadata(rig.model, "estimator", t->estimator, &err));
    BITS_TRY(xsm_transform_new(machine->context, "tfidf,unit", &transform, &err));
    BITS_TRY(xsm_transform_fit(transform, rig.data, &err));
    BITS_TRY(xsm_model_set_transform(rig.model, transform, &err));
    BITS_TRY(xsm_model_save(rig.model, path, NULL, &err));
    BITS_TRY(bits_add_file(hash, path));
end:
    remove(path);
    xsm_transform_free(transform);
    bits_rig_free(&rig);
    return status;
}

typedef struct half {
    xsm_trainer *trainer;
    bool stop;
} half;

static int32_t stop_after_one(void *user, const xsm_progress *progress)
{
    return ((const half *)user)->stop && progress->epoch_ended && progress->epoch == 1;
}

static xsm_status start(const bits_machine *machine, const bits_training *t, bits_rig *rig, half *h)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = t->epochs;
    options.batch = t->batch;
    options.eta = t->eta;
    options.progress = stop_after_one;
    options.progress_user = h;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, t, rig));
    BITS_TRY(xsm_trainer_new(machine->context, rig->model, rig->data, rig->estimator, rig->optimizer, &options,
                             &h->trainer, &err));
end:
    return status;
}

/* The bytes of a checkpoint after the first epoch of two, and the weights of a run that goes on from it. */
static xsm_status checkpoint(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const bits_training *t = what;
    xsm_error err = XSM_ERROR_INIT;
    const char *path = bits_path(machine, "checkpoint.safetensors");
    bits_rig first, second;
    half h = {NULL, true}, other = {NULL, false};
    memset(&second, 0, sizeof second);
    xsm_status status;
    BITS_TRY(start(machine, t, &first, &h));
    status = xsm_trainer_run(h.trainer, &err);
    if (status != XSM_CANCELLED) {
        goto end;
    }
    BITS_TRY(xsm_trainer_checkpoint(h.trainer, path, NULL, &err));
    BITS_TRY(bits_add_file(hash, path));
    BITS_TRY(start(machine, t, &second, &other));
    BITS_TRY(xsm_trainer_resume(other.trainer, path, NULL, &err));
    BITS_TRY(xsm_trainer_run(other.trainer, &err));
    BITS_TRY(bits_add_model(hash, second.model, second.data));
end:
    remove(path);
    xsm_trainer_free(h.trainer);
    xsm_trainer_free(other.trainer);
    bits_rig_free(&first);
    bits_rig_free(&second);
    return status;
}

static void files_of(const char *name, int form)
{
    bits_training t = bits_training_of(name, form);
    t.epochs = 1;
    bits_record(model_file, &t, "files %s, %s, model", name, bits_forms[form]);
    t.epochs = 2;
    bits_record(checkpoint, &t, "files %s, %s, checkpoint", name, bits_forms[form]);
}

static void checkpoints_of(const char *name)
{
    bits_training t = bits_training_of(name, BITS_EMBEDDING);
    t.optimizer = "adagrad";
    bits_record(checkpoint, &t, "files %s, embedding, checkpoint, adagrad", name);
}

/* -- datasets ------------------------------------------------------------------------------------------------------ */

typedef struct change {
    int set;
    bool several;
    int32_t format;        /* to write; 0 = none */
    const char *transform; /* NULL = none */
    bool shuffle, split;
} change;

static xsm_status changed(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const change *c = what;
    xsm_error err = XSM_ERROR_INIT;
    const xsm_dataset *from = c->several ? machine->several[c->set] : machine->one[c->set];
    xsm_dataset *data = NULL, *part = NULL, *rest = NULL;
    xsm_transform *transform = NULL;
    uint64_t rows[40];
    xsm_status status;
    for (uint64_t i = 0; i < 40; i++) {
        rows[i] = i * 37 % 120;
    }
    BITS_TRY(xsm_dataset_select(from, rows, 40, &data, &err));
    if (c->transform) {
        BITS_TRY(xsm_transform_new(machine->context, c->transform, &transform, &err));
        BITS_TRY(xsm_transform_fit(transform, data, &err));
        BITS_TRY(xsm_transform_apply(transform, data, &err));
    }
    if (c->shuffle) {
        BITS_TRY(xsm_dataset_shuffle(data, 3, &err));
    }
    if (c->split) {
        BITS_TRY(xsm_dataset_split(data, 0.3, 4, &part, &rest, &err));
        BITS_TRY(bits_add_dataset(hash, part));
        BITS_TRY(xsm_dataset_drop(rest, XSM_DROP_CLASSES, NULL, &err));
        BITS_TRY(bits_add_dataset(hash, rest));
    }
    BITS_TRY(bits_add_dataset(hash, data));
end:
    xsm_transform_free(transform);
    xsm_dataset_free(data);
    xsm_dataset_free(part);
    xsm_dataset_free(rest);
    return status;
}

/* The bytes, and what comes back by reading them. */
static xsm_status written(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const change *c = what;
    xsm_error err = XSM_ERROR_INIT;
    char path[4096], labels[4096];
    snprintf(path, sizeof path, "%s", bits_path(machine, "rows"));
    snprintf(labels, sizeof labels, "%s", bits_path(machine, "labels"));
    xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    options.format = read.format = c->format;
    options.labels_path = read.labels_path = c->format == XSM_FORMAT_NPY ? labels : NULL;
    xsm_dataset *data = NULL;
    xsm_status status;
    BITS_TRY(xsm_dataset_write(c->several ? machine->several[c->set] : machine->one[c->set], path, &options, &err));
    BITS_TRY(bits_add_file(hash, path));
    BITS_TRY(xsm_dataset_read(machine->context, path, NULL, &read, &data, &err));
    BITS_TRY(bits_add_dataset(hash, data));
end:
    xsm_dataset_free(data);
    remove(path);
    remove(labels);
    return status;
}

static void datasets(void)
{
    static const char *const sets[] = {"dense", "sparse"};
    static const char *const formats[] = {NULL, "xc", "libsvm", "csv", "tsv", NULL, "npy", "cache"};
    static const char *const transforms[] = {"unit",     "tfidf",         "tfidf,unit", "truncate=40",
                                             "standard", "unit,standard", "tfidf,log",  "tfidf,unit,products=2"};
    const size_t for_sparse = 2; /* the last of them; in dense rows tfidf weighs nothing, and no value is above 1 */
    for (int set = BITS_DENSE_ROWS; set <= BITS_SPARSE_ROWS; set++) {
        for (int several = 0; several < 2; several++) {
            change c = {.set = set, .several = several};
            const char *labels = several ? "several" : "one";
            const size_t count = sizeof transforms / sizeof *transforms - (set == BITS_SPARSE_ROWS ? 0 : for_sparse);
            for (size_t i = 0; i < count; i++) {
                c.transform = transforms[i];
                bits_record(changed, &c, "data %s, %s a row, %s", sets[set], labels, c.transform);
            }
            c.transform = NULL;
            c.shuffle = true;
            bits_record(changed, &c, "data %s, %s a row, shuffled", sets[set], labels);
            c.split = true;
            bits_record(changed, &c, "data %s, %s a row, shuffled and split", sets[set], labels);
            for (c.format = XSM_FORMAT_XC; c.format <= XSM_FORMAT_CACHE; c.format++) {
                if (formats[c.format]) {
                    bits_record(written, &c, "data %s, %s a row, %s", sets[set], labels, formats[c.format]);
                }
            }
        }
    }
}

void bits_of_files(void)
{
    const xsm_estimator_ops *ops;
    for (size_t i = 0; (ops = xsm_estimator_at(i)); i++) {
        for (int form = BITS_DENSE; form <= BITS_SPARSE; form++) {
            files_of(ops->name, form);
        }
        checkpoints_of(ops->name);
    }
    datasets();
}
