/* Facts about objects as values, for tests that look at one of them; of no object they are those of the starting value.
 */
#ifndef XSM_TEST_INFOS_H
#define XSM_TEST_INFOS_H

#include <stddef.h>

#define XSM_EXPERIMENTAL
#include <xsoftmax/experimental.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>
#include <xsoftmax/sampler.h>

#define TEST_INFO(kind, start)                                                                                         \
    static inline xsm_##kind##_info test_##kind##_info(const xsm_##kind *object)                                       \
    {                                                                                                                  \
        xsm_##kind##_info info = start;                                                                                \
        (void)xsm_##kind##_get_info(object, &info, NULL);                                                              \
        return info;                                                                                                   \
    }

TEST_INFO(context, XSM_CONTEXT_INFO_INIT)
TEST_INFO(model, XSM_MODEL_INFO_INIT)
TEST_INFO(estimator, XSM_ESTIMATOR_INFO_INIT)
TEST_INFO(sampler, XSM_SAMPLER_INFO_INIT)
TEST_INFO(index, XSM_INDEX_INFO_INIT)
TEST_INFO(optimizer, XSM_OPTIMIZER_INFO_INIT)
TEST_INFO(predictor, XSM_PREDICTOR_INFO_INIT)

/* [K] rows with each class. */
static inline const uint64_t *test_class_counts(const xsm_dataset *dataset)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    (void)xsm_dataset_get_class_map(dataset, &map, NULL);
    return map.counts;
}

/* Key number `index` of the metadata, NULL past the last. */
static inline const char *test_metadata_key(const xsm_model *model, size_t index)
{
    const xsm_model_info info = test_model_info(model);
    return index < info.metadata_count ? info.metadata_keys[index] : NULL;
}

#endif
