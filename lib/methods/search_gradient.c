/* The loss and gradient of scores (logits) that a search found (search_gradient.h). */
#include "methods/search_gradient.h"

#include "base/arena.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

const char *const xsmi_missing_names[] = {"auto", "zero", "drop", NULL};
const char *const xsmi_startup_words[] = {"auto", NULL};

/* Scores that are skipped together if none of them is above the threshold. */
#define RUN 64
#define NONE UINT32_MAX

/* -- scratch ------------------------------------------------------------------------------------------------------- */

/* A class that is a label, is in A, or has a coefficient. */
typedef struct slot {
    uint32_t class;
    bool label, known, active; /* known: v is filled, and the class was removed from the lists */
    double coefficient;
} slot;

/* One thread's scratch for one example. */
typedef struct scratch_arrays {
    slot *slots;         /* [slot_most] labels first */
    float *v;            /* [slot_most][blocks] */
    uint32_t *table;     /* [table_most] slots by hash of class, NONE = empty */
    uint32_t *fresh;     /* [slot_most] classes whose v must be computed */
    float *best;         /* [blocks][Q/RUN + 1] the largest score of each run of a list */
    double *run_scratch; /* [Q/RUN + 1][3] */
    uint32_t *of;        /* [P + slot_most + Q] the class of each score passed to the loss */
    double *z, *g;       /* [P + slot_most + Q] */
    double *scratch;     /* the loss's scratch */
    double *log_sum;     /* [blocks] log Z, of losses that have it */
    uint32_t *length;    /* [blocks] with `error`, else NULL: classes of each list that count so far */
    float *scores;       /* [blocks][Q] with `error`, else NULL: a copy of their scores */
    uint32_t slot_count, table_size;
} scratch_arrays;

/* Returns the largest number of classes that can occur for an example. */
static size_t slot_most(const xsmi_search *s)
{
    return (size_t)s->most_labels + (size_t)s->blocks * XSMI_MAX(s->candidates, s->longest);
}

static size_t table_most(const xsmi_search *s)
{
    size_t size = 1024;
    while (size < 2 * slot_most(s)) {
        size *= 2;
    }
    return size;
}

static scratch_arrays divide_scratch(const xsmi_search *s, xsmi_arena *arena)
{
    scratch_arrays p = {.slot_count = 0, .table_size = 1024};
    size_t slots = slot_most(s), scores = s->most_labels + slots + s->longest, runs = s->longest / RUN + 1;
    size_t loss = s->loss->scratch ? s->loss->scratch(s->most_labels, slots + s->longest) : 0;
    p.slots = xsmi_arena_take(arena, slots, sizeof *p.slots);
    p.v = xsmi_arena_take(arena, slots, s->blocks * sizeof *p.v);
    p.table = xsmi_arena_take(arena, table_most(s), sizeof *p.table);
    p.fresh = xsmi_arena_take(arena, slots, sizeof *p.fresh);
    p.best = xsmi_arena_take(arena, runs, s->blocks * sizeof *p.best);
    p.run_scratch = xsmi_arena_take(arena, runs, 3 * sizeof *p.run_scratch);
    p.of = xsmi_arena_take(arena, scores, sizeof *p.of);
    p.z = xsmi_arena_take(arena, scores, sizeof *p.z);
    p.g = xsmi_arena_take(arena, scores, sizeof *p.g);
    p.scratch = xsmi_arena_take(arena, loss, sizeof *p.scratch);
    p.log_sum = xsmi_arena_take(arena, s->blocks, sizeof *p.log_sum);
    if (s->error > 0) {
        p.length = xsmi_arena_take(arena, s->blocks, sizeof *p.length);
        p.scores = xsmi_arena_take(arena, s->longest, s->blocks * sizeof *p.scores);
    }
    return p;
}

size_t xsmi_search_scratch(const void *state)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_scratch(state, &arena);
    return arena.used;
}

/* -- slots --------------------------------------------------------------------------------------------------------- */

static uint32_t *slot_of(const scratch_arrays *p, uint32_t class)
{
    uint32_t mask = p->table_size - 1, at = (class * UINT32_C(2654435769)) >> 8 & mask;
    while (p->table[at] != NONE && p->slots[p->table[at]].class != class) {
        at = (at + 1) & mask;
    }
    return &p->table[at];
}

static void start_slots(scratch_arrays *p)
{
    memset(p->table, 0xff, p->table_size * sizeof *p->table);
    p->slot_count = 0;
}

/* Returns the slot of a class; adds one if the class has none. */
static uint32_t need_slot(scratch_arrays *p, uint32_t class)
{
    uint32_t *number = slot_of(p, class);
    if (*number != NONE) {
        return *number;
    }
    if (2 * (p->slot_count + 1) > p->table_size) {
        p->table_size *= 2; /* the memory suffices: table_most() */
        memset(p->table, 0xff, p->table_size * sizeof *p->table);
        for (uint32_t i = 0; i < p->slot_count; i++) {
            *slot_of(p, p->slots[i].class) = i;
        }
        number = slot_of(p, class);
    }
    *number = p->slot_count;
    p->slots[p->slot_count] = (slot){.class = class};
    return p->slot_count++;
}

static bool is_known(const scratch_arrays *p, uint32_t class)
{
    uint32_t at = *slot_of(p, class);
    return at != NONE && p->slots[at].known;
}

/* -- one block's loss ---------------------------------------------------------------------------------------------- */

/* A block's list of found classes; scores of classes that are known by now become -INFINITY. */
typedef struct list {
    const uint32_t *classes;
    float *scores;
    float *best; /* the largest score of each run */
    uint32_t count, runs;
} list;

static list list_of(const scratch_arrays *p, const xsm_search_block *block, uint64_t example, uint32_t j)
{
    uint64_t at = example * block->blocks + j;
    const size_t first = at * block->candidates;
    uint32_t count = p->length ? p->length[j] : block->found_length[at];
    return (list){
        .classes = block->found + first,
        .scores = p->scores ? p->scores + (size_t)j * block->candidates : block->found_score + first,
        .best = p->best + (size_t)j * (block->candidates / RUN + 1),
        .count = count,
        .runs = (count + RUN - 1) / RUN,
    };
}

static void find_best(const xsmi_search *s, const list *found, uint32_t run)
{
    uint32_t first = run * RUN, left = found->count - first;
    found->best[run] = s->kernels->row_max(found->scores + first, XSMI_MIN(left, RUN));
}

/* Appends the scores above the bar to the `count` present ones. Returns the new number, or 0 if a score in the list
 * belonged to a known class: the bar may have been too high. */
static size_t pass_over(const xsmi_search *s, const scratch_arrays *p, const list *found, double bar, size_t count)
{
    bool again = false;
    for (uint32_t run = 0, first = 0; first < found->count; run++, first += RUN) {
        if (!((double)found->best[run] > bar)) {
            continue;
        }
        bool drop = false;
        for (uint32_t i = first; i < found->count && i < first + RUN; i++) {
            if (!((double)found->scores[i] > bar)) {
                continue;
            }
            if (is_known(p, found->classes[i])) {
                found->scores[i] = -INFINITY;
                drop = true;
            } else {
                p->of[count] = found->classes[i];
                p->z[count++] = (double)found->scores[i];
            }
        }
        if (drop) {
            find_best(s, found, run);
            again = true;
        }
    }
    return again ? 0 : count;
}

/* Returns the number of absent classes, if they count: all classes except the listed and the known ones. Removes known
 * ones from the list. */
static double count_missing(const xsmi_search *s, const scratch_arrays *p, const list *found, uint32_t known)
{
    uint32_t listed = 0;
    for (uint32_t run = 0, i = 0; run < found->runs; run++) {
        bool drop = false;
        for (; i < found->count && i / RUN == run; i++) {
            if (is_known(p, found->classes[i])) {
                drop |= !(found->scores[i] == -INFINITY);
                found->scores[i] = -INFINITY;
            } else {
                listed++;
            }
        }
        if (drop) {
            find_best(s, found, run);
        }
    }
    return (double)(s->classes - listed - known);
}

/* Computes the largest score of each run of all lists. Later only runs that lose a class are scanned again. */
static void find_all_best(const xsmi_search *s, const scratch_arrays *p, const xsm_search_block *block,
                          uint64_t example)
{
    for (uint32_t j = 0; j < s->blocks; j++) {
        list found = list_of(p, block, example, j);
        for (uint32_t run = 0; run < found.runs; run++) {
            find_best(s, &found, run);
        }
    }
}

/* Returns the loss of block j, and computes its gradient, the labels' first: entries [0, *count) of p->of, z and g. */
static double compute_block(const xsmi_search *s, const scratch_arrays *p, const xsm_search_block *block,
                            uint64_t example, uint32_t j, size_t *count)
{
    list found = list_of(p, block, example, j);
    size_t labels = 0, start = 0;
    uint32_t known = 0;
    double least = INFINITY, extra = -INFINITY;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const slot *k = &p->slots[i];
        if (k->known) {
            double v = (double)p->v[(size_t)i * s->blocks + j];
            known++;
            labels += k->label;
            p->of[start] = k->class;
            p->z[start++] = v;
            least = k->label && v < least ? v : least;
            extra = !k->label && v > extra ? v : extra;
        }
    }
    double missing = s->missing_zero ? count_missing(s, p, &found, known) : 0;
    size_t all = 0;
    while (all == 0) { /* each repetition has removed classes from the list */
        double most = missing > 0 && extra < 0 ? 0 : extra, bar = -INFINITY;
        for (uint32_t run = 0; run < found.runs; run++) {
            double best = (double)found.best[run];
            most = best > most || best != best ? best : most;
        }
        if (!(most < INFINITY && least > -INFINITY && least < INFINITY)) {
            *count = labels;
            p->g[0] = p->log_sum[j] = (double)NAN; /* the caller detects and reports it */
            return (double)NAN;
        }
        if (most > -INFINITY && s->loss->bar) {
            bar = s->loss->bar(s->mu, least, most, found.best, found.runs, p->run_scratch);
        } else if (most > -INFINITY && s->loss->least) {
            bar = s->loss->least(s->mu, least, most);
        }
        all = pass_over(s, p, &found, bar, start);
    }
    *count = all;
    xsmi_loss_scores z = {p->z, p->z + labels, labels, all - labels, missing};
    xsmi_loss_gradient g = {p->g, p->g + labels, 0, 0};
    const double loss = s->loss->gradient(&z, s->mu, &g, p->scratch);
    p->log_sum[j] = g.log_sum;
    return loss;
}

/* -- messages ------------------------------------------------------------------------------------------------------ */

/* Sets v of the slots from `first` on to the paper's scores: those in the lists, 0 if a block did not list the
 * class. */
static void keep_found(const xsmi_search *s, const scratch_arrays *p, const xsm_search_block *block, uint64_t example,
                       uint32_t first)
{
    memset(p->v + (size_t)first * s->blocks, 0, (size_t)(p->slot_count - first) * s->blocks * sizeof *p->v);
    for (uint32_t j = 0; j < s->blocks; j++) {
        list found = list_of(p, block, example, j);
        for (uint32_t i = 0; i < found.count; i++) {
            uint32_t at = *slot_of(p, found.classes[i]);
            if (at != NONE && at >= first) {
                p->v[(size_t)at * s->blocks + j] = found.scores[i];
            }
        }
    }
}

/* Computes v of the slots from `first` on. */
static void complete(const xsmi_search *s, const scratch_arrays *p, const xsm_search_block *block, uint64_t example,
                     uint32_t first)
{
    uint32_t count = p->slot_count - first;
    if (count == 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        p->fresh[i] = p->slots[first + i].class;
    }
    if (s->found_only && first > 0) {
        keep_found(s, p, block, example, first);
    } else {
        block->score(block, example, p->fresh, count, p->v + (size_t)first * s->blocks);
    }
    for (uint32_t i = first; i < p->slot_count; i++) {
        p->slots[i].known = true;
    }
}

/* Makes a round of Algorithm 2: steps 4 to 7. */
static void pass_messages(const xsmi_search *s, scratch_arrays *p, const xsm_search_block *block, uint64_t example,
                          uint32_t round)
{
    uint32_t before = p->slot_count;
    for (uint32_t i = 0; i < before; i++) {
        p->slots[i].active = false;
    }
    for (uint32_t j = 0; j < s->blocks; j++) {
        size_t count;
        (void)compute_block(s, p, block, example, j, &count);
        for (size_t i = 0; i < count; i++) {
            if (fabs(p->g[i]) > s->threshold) {
                p->slots[need_slot(p, p->of[i])].active = true;
            }
        }
    }
    complete(s, p, block, example, before);
    double eta = 2.0 / (round + 2.0);
    for (uint32_t i = 0; i < p->slot_count; i++) {
        float *v = p->v + (size_t)i * s->blocks;
        double z = 0;
        for (uint32_t j = 0; j < s->blocks; j++) {
            z += (double)v[j];
        }
        z /= s->blocks;
        for (uint32_t j = 0; p->slots[i].active && j < s->blocks; j++) {
            v[j] = (float)((double)v[j] + eta * (z - (double)v[j]));
        }
    }
}

/* Adds the slots of the labels, the first ones. */
static void add_labels(const xsmi_search *s, scratch_arrays *p, const xsm_search_block *block, uint64_t example)
{
    const xsm_example *of = &block->examples[example];
    start_slots(p);
    for (uint64_t i = 0; i < of->label_count; i++) {
        p->slots[need_slot(p, of->labels[i])].label = true;
    }
    complete(s, p, block, example, 0);
}

static void compute_example(const xsmi_search *s, scratch_arrays *p, const xsm_search_block *block, uint64_t example)
{
    add_labels(s, p, block, example);
    for (uint32_t j = 0; p->scores && j < s->blocks; j++) {
        const size_t first = (size_t)j * block->candidates;
        memcpy(p->scores + first, block->found_score + example * s->blocks * block->candidates + first,
               p->length[j] * sizeof *p->scores);
    }
    find_all_best(s, p, block, example);
    for (uint32_t round = 1; round <= s->rounds; round++) {
        pass_messages(s, p, block, example, round);
    }
    double loss = 0, share = 1.0 / s->blocks;
    for (uint32_t j = 0; j < s->blocks; j++) {
        size_t count;
        loss += share * compute_block(s, p, block, example, j, &count);
        for (size_t i = 0; i < count; i++) {
            if (p->g[i] != 0) {
                p->slots[need_slot(p, p->of[i])].coefficient += share * p->g[i];
            }
        }
    }
    block->losses[example] = loss;
    uint32_t *classes = block->classes + example * block->width, length = 0;
    float *coefficients = block->coefficients + example * block->width;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        double c = p->slots[i].coefficient;
        if (c != 0 && (p->slots[i].label || !(fabs(c) <= s->least))) {
            classes[length] = p->slots[i].class;
            coefficients[length++] = (float)c;
        }
    }
    block->lengths[example] = length;
}

/* -- adaptive retrieval -------------------------------------------------------------------------------------------- */

/* Classes of the first portion of a list; each further one is as long as the list. */
#define FIRST_PORTION 64

/* Returns log Z of block j if only the known classes existed. */
static double known_log_sum(const xsmi_search *s, const scratch_arrays *p, uint32_t j)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        most = XSMI_MAX(most, (double)p->v[(size_t)i * s->blocks + j]);
    }
    for (uint32_t i = 0; i < p->slot_count; i++) {
        sum += exp((double)p->v[(size_t)i * s->blocks + j] - most);
    }
    return most + log(sum);
}

/* Returns the number of classes that are neither known nor among those of block j's list that count. */
static uint32_t count_others(const xsmi_search *s, const scratch_arrays *p, const uint32_t *classes, uint32_t length)
{
    uint32_t others = s->classes - length;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        others -= p->slots[i].known;
    }
    for (uint32_t i = 0; i < length; i++) {
        others += is_known(p, classes[i]); /* counted twice */
    }
    return others;
}

/* Lets more classes of block j's list count until the others are few and low enough beside Z, of which log_sum is the
 * part that counts so far. Returns whether the list has become longer. */
static bool extend(const xsmi_search *s, const scratch_arrays *p, const xsm_search_block *block, uint64_t example,
                   uint32_t j, double log_sum)
{
    const uint64_t at = example * block->blocks + j;
    const uint32_t *classes = block->found + at * block->candidates, before = p->length[j];
    const float *scores = block->found_score + at * block->candidates;
    uint32_t length = before, others = count_others(s, p, classes, length);
    double top = log_sum, sum = 1; /* Z = sum e^top */
    double last = length > 0 ? (double)scores[length - 1] : INFINITY;
    if (!(fabs(log_sum) < INFINITY)) {
        return false; /* the caller detects and reports it */
    }
    while (others > 0 && !(others * exp(last - top) <= s->error * sum)) {
        if (length == block->found_length[at] && block->next(block, example, j, XSMI_MAX(length, FIRST_PORTION)) == 0) {
            break;
        }
        last = (double)scores[length];
        if (!(fabs(last) < INFINITY)) {
            length++;
            break;
        }
        if (last > top) {
            sum *= exp(top - last);
            top = last;
        }
        if (!is_known(p, classes[length++])) {
            sum += exp(last - top);
            others--;
        }
    }
    p->length[j] = length;
    return length > before;
}

/* Computes an example with lists that grow. Messages between blocks change Z; if the lists no longer suffice then, the
 * example is computed again with longer ones. */
static void retrieve_example(const xsmi_search *s, scratch_arrays *p, const xsm_search_block *block, uint64_t example)
{
    add_labels(s, p, block, example);
    for (uint32_t j = 0; j < s->blocks; j++) {
        p->length[j] = 0;
        (void)extend(s, p, block, example, j, known_log_sum(s, p, j));
    }
    bool longer = true;
    while (longer) {
        compute_example(s, p, block, example);
        longer = false;
        for (uint32_t j = 0; s->rounds > 0 && j < s->blocks; j++) {
            longer |= extend(s, p, block, example, j, p->log_sum[j]);
        }
    }
}

void xsmi_search_found(void *state, const xsm_search_block *block)
{
    const xsmi_search *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        xsmi_arena arena = {block->scratch, 0};
        scratch_arrays p = divide_scratch(s, &arena);
        if (s->error > 0) {
            retrieve_example(s, &p, block, i);
        } else {
            compute_example(s, &p, block, i);
        }
    }
}

/* -- before the search --------------------------------------------------------------------------------------------- */

uint64_t xsmi_search_width(const void *state)
{
    const xsmi_search *s = state;
    return XSMI_MIN(slot_most(s), s->classes);
}

void xsmi_search_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                        uint32_t *lengths)
{
    const xsmi_search *s = state;
    xsmi_select_negatives(s->kernels, &(xsmi_negative_lists){s->seed, s->classes, s->candidates, xsmi_search_width(s),
                                                             examples, count, classes, lengths});
}

void xsmi_search_gradient(void *state, const xsm_score_block *block)
{
    const xsmi_search *s = state;
    xsmi_arena arena = {block->scratch, 0};
    scratch_arrays p = divide_scratch(s, &arena);
    for (uint64_t i = 0; i < block->count; i++) {
        const float *scores = block->scores + i * block->width;
        float *coefficients = block->coefficients + i * block->width;
        size_t labels = (size_t)block->examples[i].label_count, count = block->lengths[i];
        for (size_t k = 0; k < count; k++) {
            p.z[k] = (double)scores[k];
        }
        xsmi_loss_scores z = {p.z, p.z + labels, labels, count - labels, 0};
        xsmi_loss_gradient g = {p.g, p.g + labels, 0, 0};
        block->losses[i] = s->loss->gradient(&z, s->mu, &g, p.scratch);
        for (size_t k = 0; k < count; k++) {
            coefficients[k] = (float)p.g[k];
        }
    }
}

/* -- binding ------------------------------------------------------------------------------------------------------- */

/* Refuses options without which `error` cannot work, and those that have no meaning with it. */
static xsm_status check_error(const xsmi_search *s, const xsmi_search_options *o, const char *estimator, xsm_error *err)
{
    if (!(o->error > 0)) {
        return o->most == 0 ? XSM_OK
                            : xsmi_fail(err, XSM_ERROR_ARGUMENT,
                                        "estimator '%s': 'most' limits the lists of 'error', which is 0; without it "
                                        "lists have as many classes as 'candidates' says",
                                        estimator);
    }
    if (!s->loss->has_log_sum) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "estimator '%s': 'error' is one of the sum of all e^z, which loss '%s' does not have; accepted "
            "are cross-entropy and nca",
            estimator, s->loss->name);
    }
    if (o->missing == XSMI_MISSING_ZERO) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "estimator '%s': with 'error' classes that are not listed are neglected: missing=drop, or auto", estimator);
    }
    return XSM_OK;
}

xsm_status xsmi_search_bind(xsmi_search *s, const xsmi_search_options *o, const xsm_problem *problem,
                            const char *estimator, xsm_error *err)
{
    const int64_t asked = XSMI_MAX(o->candidates, o->most);
    if (asked > (int64_t)problem->classes) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "estimator '%s': %lld candidates asked for, but there are %u classes",
                         estimator, (long long)asked, problem->classes);
    }
    uint32_t few = XSMI_MIN(problem->classes, 100), part = problem->classes / 100;
    *s = (xsmi_search){
        .kernels = xsmi_context_kernels(problem->context),
        .loss = xsmi_losses[o->loss],
        .seed = problem->seed,
        .mu = o->mu,
        .least = o->least,
        .error = o->error,
        .classes = problem->classes,
        .blocks = 1,
        .candidates = o->candidates ? (uint32_t)o->candidates
                      : part > few  ? part
                                    : few,
        .most_labels = (uint32_t)problem->most_labels,
        .missing_zero = o->missing == XSMI_MISSING_ZERO,
    };
    if (o->missing == XSMI_MISSING_AUTO) {
        s->missing_zero = s->loss->sums_all && !(o->error > 0);
    }
    s->longest = s->candidates;
    if (o->error > 0) {
        s->longest = o->most ? (uint32_t)o->most : problem->classes;
    }
    return check_error(s, o, estimator, err);
}

xsm_status xsmi_search_check(const xsmi_search *s, const char *estimator, xsm_error *err)
{
    /* Slots are numbered in 32 bits. */
    const uint32_t longest = XSMI_MAX(s->candidates, s->longest);
    if ((uint64_t)s->blocks * longest + s->most_labels > UINT32_MAX / 4 || xsmi_search_scratch(s) == SIZE_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT,
                         "estimator '%s': %u blocks of %u candidates are more than can be addressed%s", estimator,
                         s->blocks, longest, s->error > 0 ? "; 'most' limits them" : "");
    }
    return XSM_OK;
}

void xsmi_search_plan(const xsmi_search *s, const xsmi_search_options *o, xsm_search_plan *plan)
{
    plan->blocks = s->blocks;
    plan->candidates = s->candidates;
    plan->most = s->error > 0 ? s->longest : 0;
    plan->startup = o->startup < 0 ? XSM_SEARCH_STARTUP_AUTO : (uint64_t)o->startup;
}
