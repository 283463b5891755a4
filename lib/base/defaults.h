/* The defaults that comments of the public headers name ("0 = 10"), for the code that sets them. Written by
 * tests/structure/renew-abi.sh. */
#ifndef XSMI_DEFAULTS_H
#define XSMI_DEFAULTS_H

#define XSMI_DEFAULT(type, member) XSMI_DEFAULT_##type##_##member
#define XSMI_TEXT_(number) #number
#define XSMI_TEXT(number) XSMI_TEXT_(number)
/* As the text of an option. */
#define XSMI_DEFAULT_TEXT(type, member) XSMI_TEXT(XSMI_DEFAULT_##type##_##member)

#define XSMI_DEFAULT_xsm_class_metrics_options_threshold 0.5
#define XSMI_DEFAULT_xsm_class_weights_propensity_a 0.55
#define XSMI_DEFAULT_xsm_class_weights_propensity_b 1.5
#define XSMI_DEFAULT_xsm_corpus_options_max_distinct 16777216
#define XSMI_DEFAULT_xsm_corpus_options_min_count 5
#define XSMI_DEFAULT_xsm_csr_rows_index_bits 32
#define XSMI_DEFAULT_xsm_csr_rows_offset_bits 64
#define XSMI_DEFAULT_xsm_estimator_check_options_classes 20
#define XSMI_DEFAULT_xsm_estimator_check_options_eta 0.1
#define XSMI_DEFAULT_xsm_estimator_check_options_features 5
#define XSMI_DEFAULT_xsm_estimator_check_options_tolerance 1e-3
#define XSMI_DEFAULT_xsm_evaluate_options_beam 10
#define XSMI_DEFAULT_xsm_evaluate_options_propensity_a 0.55
#define XSMI_DEFAULT_xsm_evaluate_options_propensity_b 1.5
#define XSMI_DEFAULT_xsm_fit_options_evaluate_top 10
#define XSMI_DEFAULT_xsm_fit_options_iterations 1000
#define XSMI_DEFAULT_xsm_fit_options_memory 10
#define XSMI_DEFAULT_xsm_fit_options_tolerance 1e-6
#define XSMI_DEFAULT_xsm_index_check_options_recall 0.9
#define XSMI_DEFAULT_xsm_index_check_options_rows 2000
#define XSMI_DEFAULT_xsm_index_check_options_tolerance 1e-5
#define XSMI_DEFAULT_xsm_index_check_options_width 16
#define XSMI_DEFAULT_xsm_label_tree_options_arity 16
#define XSMI_DEFAULT_xsm_label_tree_options_checkpoint_every 300
#define XSMI_DEFAULT_xsm_label_tree_options_cost 1
#define XSMI_DEFAULT_xsm_label_tree_options_epsilon 0.1
#define XSMI_DEFAULT_xsm_label_tree_options_iterations 100
#define XSMI_DEFAULT_xsm_label_tree_options_leaf 100
#define XSMI_DEFAULT_xsm_label_tree_options_rounds 20
#define XSMI_DEFAULT_xsm_label_tree_options_threshold 0.1
#define XSMI_DEFAULT_xsm_label_tree_options_trees 1
#define XSMI_DEFAULT_xsm_labels_offset_bits 64
#define XSMI_DEFAULT_xsm_optimizer_check_options_classes 40
#define XSMI_DEFAULT_xsm_optimizer_check_options_eta 0.1
#define XSMI_DEFAULT_xsm_optimizer_check_options_features 300
#define XSMI_DEFAULT_xsm_predictor_options_beam 10
#define XSMI_DEFAULT_xsm_predictor_options_candidates 100
#define XSMI_DEFAULT_xsm_predictor_options_top 5
#define XSMI_DEFAULT_xsm_sampler_check_options_classes 50
#define XSMI_DEFAULT_xsm_sampler_check_options_draws 40000
#define XSMI_DEFAULT_xsm_sampler_check_options_false_alarm 1e-6
#define XSMI_DEFAULT_xsm_sampler_check_options_features 6
#define XSMI_DEFAULT_xsm_sampler_check_options_tolerance 1e-4
#define XSMI_DEFAULT_xsm_skipgram_fit_options_eta 0.5
#define XSMI_DEFAULT_xsm_skipgram_fit_options_iterations 10
#define XSMI_DEFAULT_xsm_skipgram_fit_options_memory (UINT32_C(1) << 30)
#define XSMI_DEFAULT_xsm_skipgram_options_epochs 5
#define XSMI_DEFAULT_xsm_skipgram_options_eta 0.05
#define XSMI_DEFAULT_xsm_skipgram_options_negatives 5
#define XSMI_DEFAULT_xsm_skipgram_options_power 0.75
#define XSMI_DEFAULT_xsm_skipgram_options_subsample 1e-4
#define XSMI_DEFAULT_xsm_skipgram_options_window 5
#define XSMI_DEFAULT_xsm_stream_options_batch 256
#define XSMI_DEFAULT_xsm_stream_options_labels 1
#define XSMI_DEFAULT_xsm_text_options_buckets (UINT32_C(1) << 18)
#define XSMI_DEFAULT_xsm_text_options_min_chars 1
#define XSMI_DEFAULT_xsm_text_options_min_count 1
#define XSMI_DEFAULT_xsm_text_options_word_ngrams 1
#define XSMI_DEFAULT_xsm_trainer_options_batch 1
#define XSMI_DEFAULT_xsm_trainer_options_epochs 10
#define XSMI_DEFAULT_xsm_trainer_options_eta 1
#define XSMI_DEFAULT_xsm_trainer_options_evaluate_top 10
#define XSMI_DEFAULT_xsm_trainer_options_factor 0.9

#endif
