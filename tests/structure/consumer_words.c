/*
 * A program with libxsoftmax-words: a text becomes vectors.
 */
#include <stdio.h>

#include <xsoftmax-words.h>

int main(void)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    xsm_corpus *corpus = NULL;
    xsm_model *input = NULL, *output = NULL;
    xsm_skipgram *trainer = NULL;
    FILE *text = fopen("words.txt", "w");
    if (!text) {
        return 1;
    }
    for (int i = 0; i < 50; i++) {
        fputs("the quick brown fox jumps over the lazy dog\n", text);
    }
    options.min_count = 1;
    if (fclose(text) != 0 || xsm_corpus_open(NULL, "words.txt", &options, &corpus, &err) ||
        xsm_word_model_new(NULL, corpus, 4, 0.25, 1, &input, &err) ||
        xsm_word_model_new(NULL, corpus, 4, 0, 1, &output, &err) ||
        xsm_skipgram_new(NULL, corpus, input, output, NULL, NULL, &trainer, &err) || xsm_skipgram_run(trainer, &err) ||
        xsm_word_model_write(input, "words.vec", &err) || remove("words.vec") != 0 || remove("words.txt") != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("libxsoftmax-words, %u words\n", (unsigned)xsm_model_class_count(input));
    xsm_skipgram_free(trainer);
    xsm_model_free(output);
    xsm_model_free(input);
    xsm_corpus_free(corpus);
    return 0;
}
