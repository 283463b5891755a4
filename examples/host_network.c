/*
 * A host with its own network below the softmax: one hidden layer of rectified linear units, in plain C. The host
 * computes the hidden vectors of a batch; the library computes the loss, the coefficients and the gradient with respect
 * to the hidden vectors; each changes its own weights. The first run is on MNIST with the exact softmax, the second on
 * many classes with a few classes per step. Before training, the gradient of the whole network is checked against
 * differences of the loss. After training, the hidden layer and the softmax are saved in one file, and used from there.
 *
 *     host_network MODEL [FOLDER]     the file; FOLDER has mnist_train.txt.gz and mnist_test.txt.gz, without it data
 * are generated
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/tensors.h>

enum { HIDDEN = 128, BATCH = 32, STRIDE = HIDDEN + 4 /* rows of hidden vectors need not be contiguous */ };

static void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "host_network: %s\n", err->message);
        exit(1);
    }
}

static void *need(void *memory)
{
    if (!memory) {
        fprintf(stderr, "host_network: out of memory\n");
        exit(1);
    }
    return memory;
}

/* A random number in [-1, 1), the same on every machine (splitmix64). */
static float noise(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ (z >> 31)) >> 40) / 8388608.0f - 1.0f;
}

/* -- the host's network -------------------------------------------------------------------------------------------- */

typedef struct network {
    uint32_t features;
    float scale;         /* of the features */
    const float *weight; /* [features][HIDDEN], in a model's file or its own */
    const float *bias;   /* [HIDDEN] */
    float *own_weight;   /* NULL in a file's network, which cannot learn */
    float own_bias[HIDDEN];
    float hidden[BATCH * STRIDE];   /* of a batch */
    float gradient[BATCH * STRIDE]; /* dL/dhidden */
} network;

static network *new_network(uint32_t features, float scale)
{
    uint64_t state = 3;
    network *n = need(calloc(1, sizeof *n));
    n->features = features;
    n->scale = scale;
    n->weight = n->own_weight = need(malloc((size_t)features * HIDDEN * sizeof(float)));
    n->bias = n->own_bias;
    float width = sqrtf(6.0f / (float)(features < 100 ? features : 100)); /* about a hundred features are nonzero */
    for (size_t i = 0; i < (size_t)features * HIDDEN; i++) {
        n->own_weight[i] = width * noise(&state);
    }
    return n;
}

static uint32_t feature_at(const xsm_row *x, uint64_t j)
{
    return x->index ? x->index[j] : (uint32_t)j;
}

static void forward(network *n, const xsm_dataset *data, const uint64_t *rows, size_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    for (size_t i = 0; i < count; i++) {
        xsm_row x = XSM_ROW_INIT;
        float *out = n->hidden + i * STRIDE;
        check(xsm_dataset_get_row(data, rows[i], &x, &err), &err);
        memcpy(out, n->bias, HIDDEN * sizeof *out);
        for (uint64_t j = 0; j < x.count; j++) {
            const float *w = n->weight + (size_t)feature_at(&x, j) * HIDDEN, value = n->scale * x.values[j];
            for (size_t h = 0; value != 0 && h < HIDDEN; h++) {
                out[h] += value * w[h];
            }
        }
        for (size_t h = 0; h < HIDDEN; h++) {
            out[h] = out[h] > 0 ? out[h] : 0;
        }
    }
}

/* Converts dL/dhidden to dL/d(input of the rectifier). */
static void through_rectifier(network *n, size_t count)
{
    for (size_t i = 0; i < count * STRIDE; i++) {
        n->gradient[i] = n->hidden[i] > 0 ? n->gradient[i] : 0;
    }
}

static void backward(network *n, const xsm_dataset *data, const uint64_t *rows, size_t count, float eta)
{
    xsm_error err = XSM_ERROR_INIT;
    through_rectifier(n, count);
    for (size_t i = 0; i < count; i++) {
        xsm_row x = XSM_ROW_INIT;
        const float *g = n->gradient + i * STRIDE;
        check(xsm_dataset_get_row(data, rows[i], &x, &err), &err);
        for (uint64_t j = 0; j < x.count; j++) {
            float *w = n->own_weight + (size_t)feature_at(&x, j) * HIDDEN, value = -eta * n->scale * x.values[j];
            for (size_t h = 0; value != 0 && h < HIDDEN; h++) {
                w[h] += value * g[h];
            }
        }
        for (size_t h = 0; h < HIDDEN; h++) {
            n->own_bias[h] -= eta * g[h];
        }
    }
}

/* -- in the model's file ------------------------------------------------------------------------------------------- */

/* The model points to the network's numbers until it is freed: what is saved is what they are then. */
static void put_into_model(const network *n, xsm_model *model)
{
    xsm_error err = XSM_ERROR_INIT;
    const uint64_t shape[] = {n->features, HIDDEN};
    xsm_tensor t = XSM_TENSOR_INIT;
    t.dtype = "F32";
    t.ownership = XSM_BORROW;
    t.name = "hidden.weight";
    t.shape = shape;
    t.rank = 2;
    t.data = n->weight;
    t.bytes = (uint64_t)n->features * HIDDEN * sizeof(float);
    check(xsm_model_set_tensor(model, &t, &err), &err);
    t.name = "hidden.bias";
    t.shape = shape + 1;
    t.rank = 1;
    t.data = n->bias;
    t.bytes = HIDDEN * sizeof(float);
    check(xsm_model_set_tensor(model, &t, &err), &err);
    t.name = "input.scale"; /* one number */
    t.shape = NULL;
    t.rank = 0;
    t.data = &n->scale;
    t.bytes = sizeof(float);
    check(xsm_model_set_tensor(model, &t, &err), &err);
}

static const float *floats_of(const xsm_model *model, const char *name, uint64_t rows, uint64_t columns)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_tensor t = XSM_TENSOR_INIT;
    check(xsm_model_get_tensor(model, name, &t, &err), &err);
    if (strcmp(t.dtype, "F32") != 0 || t.bytes != rows * columns * sizeof(float)) {
        fprintf(stderr, "host_network: tensor '%s' is not that of this network\n", name);
        exit(1);
    }
    return t.data;
}

/* The network of a model that was loaded; its weights stay in the mapped file, as the model's do. */
static network *get_from_model(const xsm_model *model, uint32_t features)
{
    network *n = need(calloc(1, sizeof *n));
    n->features = features;
    n->weight = floats_of(model, "hidden.weight", features, HIDDEN);
    n->bias = floats_of(model, "hidden.bias", 1, HIDDEN);
    n->scale = *floats_of(model, "input.scale", 1, 1);
    return n;
}

static void free_network(network *n)
{
    free(n->own_weight);
    free(n);
}

/* -- network and softmax ------------------------------------------------------------------------------------------- */

typedef struct task {
    const char *name, *estimator, *negatives;
    uint32_t epochs;
    double eta;     /* of the softmax; multiplied by 0.7 each epoch */
    float eta_host; /* of the network below it */
    xsm_dataset *train, *test;
    float scale;
} task;

/* The hidden vectors of rows, in the library's form: labels are indexed by row. */
static xsm_batch hidden_batch(const network *n, const xsm_dataset *data, const uint64_t *rows, size_t count)
{
    xsm_batch batch = xsm_batch_values(n->hidden, count, HIDDEN, STRIDE);
    batch.dataset = data;
    batch.rows = rows;
    return batch;
}

static xsm_estimator *new_estimator(const task *t, const xsm_model *model)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *e;
    check(xsm_estimator_new(NULL, t->estimator, &e, &err), &err);
    if (t->negatives) {
        check(xsm_estimator_set(e, "negatives", t->negatives, &err), &err);
    }
    check(xsm_estimator_bind_labels(e, model, t->train, &err), &err);
    return e;
}

/* The loss of a batch of one row, and dL/dhidden; always with the same draws. */
static double loss_of(const task *t, network *n, const xsm_model *model, xsm_gradient *g, uint64_t row)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
    xsm_estimator *e = new_estimator(t, model);
    forward(n, t->train, &row, 1);
    xsm_batch batch = hidden_batch(n, t->train, &row, 1);
    check(xsm_estimator_gradient_input(e, &batch, t->eta, g, n->gradient, STRIDE, &err), &err);
    check(xsm_gradient_get_view(g, &view, &err), &err);
    xsm_estimator_free(e);
    return view.loss;
}

/* Checks the gradient with respect to weights of the host against differences of the loss; returns the largest error,
 * relative to 1 plus the slope. */
static double check_gradient(const task *t, network *n, xsm_model *model, xsm_gradient *g)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    uint64_t state = 5;
    double worst = 0;
    check(xsm_model_get_parameters(model, &w, &err), &err);
    for (uint32_t k = 0; k < w.classes; k++) { /* with weights of 0 the gradient for the hidden layer would be 0 */
        for (uint32_t j = 0; j < w.features; j++) {
            w.weight[k * w.class_step + j * w.feature_step] = 0.1f * noise(&state);
        }
    }
    for (uint64_t row = 0; row < 4; row++) {
        xsm_row x = XSM_ROW_INIT;
        check(xsm_dataset_get_row(t->train, row, &x, &err), &err);
        for (size_t h = 0; h < HIDDEN; h += 7) {
            loss_of(t, n, model, g, row);
            through_rectifier(n, 1);
            uint64_t j = x.count / 2;
            double want = (double)(n->gradient[h] * n->scale * x.values[j]);
            float *at = &n->own_weight[(size_t)feature_at(&x, j) * HIDDEN + h], before = *at, h2 = 0x1p-6f;
            double there = (double)n->hidden[h];
            *at = before + h2;
            double above = loss_of(t, n, model, g, row), there_above = (double)n->hidden[h];
            *at = before - h2;
            double below = loss_of(t, n, model, g, row), there_below = (double)n->hidden[h];
            *at = before;
            if ((there > 0) != (there_above > 0) || (there > 0) != (there_below > 0)) {
                continue; /* the difference crosses the rectifier's corner */
            }
            double slope = (above - below) / (2 * (double)h2);
            worst = fmax(worst, fabs(slope - want) / (1 + fabs(slope)));
        }
    }
    for (uint32_t k = 0; k < w.classes; k++) {
        for (uint32_t j = 0; j < w.features; j++) {
            w.weight[k * w.class_step + j * w.feature_step] = 0;
        }
    }
    return worst;
}

/* The share of rows whose best class is their label. */
static double accuracy(network *n, const xsm_model *model, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor *p;
    uint64_t right = 0;
    options.top = 1;
    check(xsm_dataset_get_info(data, &info, &err), &err);
    check(xsm_predictor_new(model, &options, &p, &err), &err);
    for (uint64_t first = 0; first < info.rows; first += BATCH) {
        uint64_t rows[BATCH];
        uint32_t best[BATCH];
        size_t count = info.rows - first < BATCH ? (size_t)(info.rows - first) : BATCH;
        for (size_t i = 0; i < count; i++) {
            rows[i] = first + i;
        }
        forward(n, data, rows, count);
        xsm_batch batch = xsm_batch_values(n->hidden, count, HIDDEN, STRIDE); /* prediction needs no labels */
        check(xsm_predictor_run(p, &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = best},
                                &err),
              &err);
        for (size_t i = 0; i < count; i++) {
            xsm_row row = XSM_ROW_INIT;
            check(xsm_dataset_get_row(data, rows[i], &row, &err), &err);
            right += row.label_count > 0 && row.labels[0] == best[i];
        }
    }
    xsm_predictor_free(p);
    return (double)right / (double)info.rows;
}

static void shuffle(uint64_t *rows, uint64_t count, uint64_t *state)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t j = i + (uint64_t)((double)(noise(state) + 1) / 2 * (double)(count - i)), before = rows[i];
        rows[i] = rows[j];
        rows[j] = before;
    }
}

/* Saves network and softmax to one file, and returns the accuracy of what is read back. */
static double save_and_test(const network *n, xsm_model *model, const char *path, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *loaded;
    put_into_model(n, model);
    check(xsm_model_save(model, path, NULL, &err), &err);
    check(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), &err);
    network *again = get_from_model(loaded, n->features);
    const double reached = accuracy(again, loaded, data);
    free_network(again);
    xsm_model_free(loaded);
    return reached;
}

/* Trains and tests; returns whether the result is as good as expected. */
static int run(const task *t, double least, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_model *model;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = 1;
    check(xsm_dataset_get_info(t->train, &info, &err), &err);
    check(xsm_model_new_linear(NULL, HIDDEN, info.classes, &options, &model, &err), &err);
    check(xsm_gradient_new(NULL, &gradient, &err), &err);
    check(xsm_optimizer_new(NULL, "sgd", &optimizer, &err), &err);
    network *n = new_network(info.features, t->scale);
    printf("%s: %llu rows of %u features, %d hidden units, %u classes, estimator %s\n", t->name,
           (unsigned long long)info.rows, info.features, HIDDEN, info.classes, t->estimator);
    double wrong = check_gradient(t, n, model, gradient);
    printf("  the gradient and differences of the loss differ by at most %.1e\n", wrong);

    xsm_estimator *e = new_estimator(t, model);
    check(xsm_optimizer_bind(optimizer, model, &err), &err);
    uint64_t *order = need(malloc(info.rows * sizeof *order)), state = 11;
    for (uint64_t i = 0; i < info.rows; i++) {
        order[i] = i;
    }
    for (uint32_t epoch = 0; epoch < t->epochs; epoch++) {
        double eta = t->eta * pow(0.7, epoch), loss = 0;
        float eta_host = t->eta_host * powf(0.7f, (float)epoch);
        shuffle(order, info.rows, &state);
        for (uint64_t first = 0; first < info.rows; first += BATCH) {
            const uint64_t *rows = order + first;
            size_t count = info.rows - first < BATCH ? (size_t)(info.rows - first) : BATCH;
            xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
            forward(n, t->train, rows, count);
            xsm_batch batch = hidden_batch(n, t->train, rows, count);
            check(xsm_estimator_gradient_input(e, &batch, eta, gradient, n->gradient, STRIDE, &err), &err);
            check(xsm_optimizer_apply(optimizer, &batch, gradient, eta, &err), &err);
            backward(n, t->train, rows, count, eta_host);
            check(xsm_gradient_get_view(gradient, &view, &err), &err);
            loss += view.loss * (double)count;
        }
        printf("  epoch %u: loss %.4f, test accuracy %.4f\n", epoch + 1, loss / (double)info.rows,
               accuracy(n, model, t->test));
    }
    double reached = accuracy(n, model, t->test), loaded = save_and_test(n, model, path, t->test);
    printf("  from %s: test accuracy %.4f\n", path, loaded);
    free(order);
    xsm_estimator_free(e);
    xsm_gradient_free(gradient);
    xsm_optimizer_free(optimizer);
    xsm_model_free(model);
    free_network(n); /* after the model, which points to its numbers */
    if (!(wrong < 1e-3) || !(reached >= least) || !(loaded == reached)) {
        printf(
            "  that is not as it should be: the gradient within 1e-3, accuracy at least %.2f, from the file the same\n",
            least);
        return 0;
    }
    return 1;
}

/* -- data ---------------------------------------------------------------------------------------------------------- */

/* Rows around the two centres of their class: no linear model can rank the class first for both centres. */
static xsm_dataset *make_data(uint32_t classes, uint32_t features, uint64_t rows, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    uint64_t centre_state = 1, state = seed;
    float *centres = need(malloc(sizeof *centres * 2 * classes * features));
    float *values = need(malloc(sizeof *values * rows * features));
    uint32_t *labels = need(malloc(sizeof *labels * rows));
    for (size_t i = 0; i < (size_t)2 * classes * features; i++) {
        centres[i] = noise(&centre_state);
    }
    for (uint64_t i = 0; i < rows; i++) {
        size_t centre = (size_t)(i % (2 * classes));
        labels[i] = (uint32_t)(centre / 2);
        for (size_t j = 0; j < features; j++) {
            values[i * features + j] = centres[centre * features + j] + 0.4f * noise(&state);
        }
    }
    xsm_labels given = XSM_LABELS_INIT;
    given.classes = classes;
    given.labels = labels;
    xsm_dataset *data;
    check(
        xsm_dataset_from_dense(
            NULL,
            &(xsm_dense_rows){
                .size = sizeof(xsm_dense_rows), .values = values, .rows = rows, .features = features, .labels = &given},
            &data, &err),
        &err);
    free(labels);
    free(values);
    free(centres);
    return data;
}

static xsm_dataset *read_data(const char *folder, const char *file, const xsm_dataset *train)
{
    char path[4096];
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset *data;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) {
        fprintf(stderr, "host_network: the folder's name is too long\n");
        exit(1);
    }
    if (train) {
        check(xsm_dataset_get_class_map(train, &map, &err), &err);
        options.classes = &map;
    }
    check(xsm_dataset_read(NULL, path, NULL, &options, &data, &err), &err);
    return data;
}

int main(int argc, char **argv)
{
    task digits = {"generated data", "softmax", NULL, 3, 0.2, 0.2f, NULL, NULL, 1};
    double least = 0.9;
    if (argc < 2) {
        fprintf(stderr, "usage: host_network MODEL [FOLDER]\n");
        return 1;
    }
    if (argc > 2) {
        digits.name = "MNIST";
        digits.epochs = 6;
        digits.train = read_data(argv[2], "mnist_train.txt.gz", NULL);
        digits.test = read_data(argv[2], "mnist_test.txt.gz", digits.train);
        digits.scale = 1.0f / 255;
        least = 0.96; /* a linear softmax has 0.92 */
    } else {
        digits.train = make_data(10, 64, 20000, 7);
        digits.test = make_data(10, 64, 2000, 8);
    }
    task many = {"many classes", "sampled-softmax", "20", 4, 0.3, 0.1f, NULL, NULL, 1};
    many.train = make_data(1000, 32, 40000, 7);
    many.test = make_data(1000, 32, 4000, 8);
    int good = run(&digits, least, argv[1]);
    good &= run(&many, 0.8, argv[1]);
    xsm_dataset_free(digits.train);
    xsm_dataset_free(digits.test);
    xsm_dataset_free(many.train);
    xsm_dataset_free(many.test);
    return good ? 0 : 1;
}
