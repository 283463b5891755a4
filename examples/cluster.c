/*
 * Classes divided among processes: trains a model of which each process has a part, evaluates it, predicts and saves it
 * as one file, which any number of processes can load. Every process reads the file, or makes the same rows; then each
 * keeps a share of them.
 *
 *     mpirun -n 4 cluster [MODEL-FILE [DATA-FILE]]
 *
 * The result, and every byte of the file, is that of one process (mpirun -n 1).
 */
#define XSM_EXPERIMENTAL
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include <xsoftmax.h>
#include <xsoftmax/mpi.h>

enum { CLASSES = 20000, FEATURES = 16, ROWS = 40000, TOP = 3 };

/* A failed call of the library failed on every rank, with the same message, and rank 0 prints it, unless the group
 * itself failed. That, and what fails on this rank alone, must end the others, which may wait for it. */
static void check(xsm_status status, const xsm_error *err, uint32_t rank)
{
    if (status == XSM_ERROR_COMM) {
        fprintf(stderr, "cluster: %s\n", err->message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (status != XSM_OK) {
        if (rank == 0) {
            fprintf(stderr, "cluster: %s\n", err->message);
        }
        MPI_Finalize();
        exit(1);
    }
}

static void check_alone(xsm_status status, const xsm_error *err, uint32_t rank)
{
    if (status != XSM_OK) {
        fprintf(stderr, "cluster: rank %u: %s\n", (unsigned)rank, err->message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* A random number in [-1, 1), the same on every machine (splitmix64). */
static float noise(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ (z >> 31)) >> 40) / 8388608.0f - 1.0f;
}

/* Rows around the centre of their class. */
static xsm_status make_rows(xsm_context *context, xsm_dataset **out, xsm_error *err)
{
    uint64_t state = 1;
    float *values = malloc(sizeof *values * ROWS * FEATURES);
    uint32_t *classes = malloc(sizeof *classes * ROWS);
    if (!values || !classes) {
        fprintf(stderr, "cluster: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t centre = classes[i] = (uint32_t)(i % CLASSES);
        for (size_t j = 0; j < FEATURES; j++) {
            values[i * FEATURES + j] = noise(&centre) + noise(&state) / 10;
        }
    }
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = CLASSES;
    labels.labels = classes;
    xsm_dense_rows given = XSM_DENSE_ROWS_INIT;
    given.values = values;
    given.rows = ROWS;
    given.features = FEATURES;
    given.labels = &labels;
    const xsm_status status = xsm_dataset_from_dense(context, &given, out, err);
    free(values);
    free(classes);
    return status;
}

/* Trains a model of which this rank has a part. */
static xsm_model *train(xsm_context *context, const xsm_dataset *rows, uint32_t rank)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info about = XSM_DATASET_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_model *model = NULL;
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    options.epochs = 3;
    options.batch = 500;
    options.eta = 0.5;
    check_alone(xsm_dataset_get_info(rows, &about, &err), &err, rank);
    check_alone(xsm_dataset_get_class_map(rows, &map, &err), &err, rank);
    check(xsm_model_new_linear(context, about.features, about.classes, &shape, &model, &err), &err, rank);
    check_alone(xsm_model_set_class_map(model, &map, &err), &err, rank);
    check_alone(xsm_estimator_new(context, "sampled-softmax", &estimator, &err), &err, rank);
    check_alone(xsm_estimator_set_number(estimator, "negatives", 50, &err), &err, rank);
    check_alone(xsm_optimizer_new(context, "adagrad", &optimizer, &err), &err, rank);
    check(xsm_trainer_new(context, model, rows, estimator, optimizer, &options, &trainer, &err), &err, rank);
    check(xsm_trainer_run(trainer, &err), &err, rank);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    return model;
}

int main(int argc, char **argv)
{
    int provided;
    uint32_t best[TOP];
    double probabilities[TOP];
    xsm_error err = XSM_ERROR_INIT;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    const char *file = argc > 1 ? argv[1] : "cluster.safetensors", *data = argc > 2 ? argv[2] : NULL;

    MPI_Comm all = MPI_COMM_WORLD;
    xsm_comm group = XSM_COMM_INIT;
    check_alone(xsm_mpi_comm_new(&all, sizeof all, &group, &err), &err, 0);
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.comm = &group;
    options.threads = 1;
    xsm_context *context = NULL;
    xsm_dataset *rows = NULL;
    check_alone(xsm_context_new(&options, &context, &err), &err, group.rank);
    check_alone(data ? xsm_dataset_read(context, data, NULL, NULL, &rows, &err) : make_rows(context, &rows, &err), &err,
                group.rank);
    xsm_model *model = train(context, rows, group.rank);

    xsm_metrics metrics = XSM_METRICS_INIT;
    check(xsm_evaluate(context, model, rows, NULL, &metrics, &err), &err, group.rank);
    xsm_predictor_options search = XSM_PREDICTOR_OPTIONS_INIT;
    search.top = TOP;
    xsm_predictor *predictor = NULL;
    check(xsm_predictor_new(model, &search, &predictor, &err), &err, group.rank);
    xsm_batch first = xsm_batch_range(rows, 0, 1);
    xsm_prediction wanted = XSM_PREDICTION_INIT;
    wanted.batch = &first;
    wanted.classes = best;
    wanted.probabilities = probabilities;
    check(xsm_predictor_run(predictor, &wanted, &err), &err, group.rank);
    check(xsm_model_save(model, file, NULL, &err), &err, group.rank);
    if (group.rank == 0) {
        printf("log-loss %.9g, error %.4g; the first row's best classes:", metrics.log_loss, metrics.error);
        for (int i = 0; i < TOP; i++) {
            printf(" %u (%.9g)", (unsigned)best[i], probabilities[i]);
        }
        printf("\n%s is of %u ranks\n", file, (unsigned)group.ranks);
    }

    xsm_predictor_free(predictor);
    xsm_model_free(model);
    xsm_dataset_free(rows);
    xsm_context_free(context);
    xsm_mpi_comm_free(&group);
    MPI_Finalize();
    return 0;
}
