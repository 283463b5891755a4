/* One JSON object, written as it goes. */
#include "cli.h"

static void start(cli_json *json, const char *key)
{
    if (json->comma) {
        fputc(',', json->out);
    }
    if (key) {
        fprintf(json->out, "\"%s\":", key);
    }
    json->comma = 1;
}

void cli_json_open(cli_json *json, const char *key)
{
    start(json, key);
    fputc('{', json->out);
    json->comma = 0;
}

void cli_json_close(cli_json *json)
{
    fputc('}', json->out);
    json->comma = 1;
}

void cli_json_open_list(cli_json *json, const char *key)
{
    start(json, key);
    fputc('[', json->out);
    json->comma = 0;
}

void cli_json_close_list(cli_json *json)
{
    fputc(']', json->out);
    json->comma = 1;
}

void cli_json_text(cli_json *json, const char *key, const char *value)
{
    if (!value) {
        cli_json_null(json, key);
        return;
    }
    start(json, key);
    fputc('"', json->out);
    for (const char *c = value; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fputc('\\', json->out);
            fputc(*c, json->out);
        } else if ((unsigned char)*c < 32) {
            fprintf(json->out, "\\u%04x", (unsigned)*c);
        } else {
            fputc(*c, json->out);
        }
    }
    fputc('"', json->out);
}

void cli_json_whole(cli_json *json, const char *key, uint64_t value)
{
    start(json, key);
    fprintf(json->out, "%llu", (unsigned long long)value);
}

void cli_json_null(cli_json *json, const char *key)
{
    start(json, key);
    fputs("null", json->out);
}

void cli_json_real(cli_json *json, const char *key, double value)
{
    cli_buffer buffer;
    cli_real(value, &buffer);
    start(json, key);
    fputs(buffer.text[0] ? buffer.text : "null", json->out);
}

void cli_json_ranks(cli_json *json, const char *key, const double *values, uint32_t count)
{
    static const uint32_t at[] = {1, 3, 5};
    cli_json_open(json, key);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        char name[2] = {(char)('0' + at[i]), '\0'};
        if (count >= at[i]) {
            cli_json_real(json, name, values[at[i] - 1]);
        } else {
            cli_json_null(json, name);
        }
    }
    cli_json_close(json);
}

void cli_json_metrics(cli_json *json, const char *key, const xsm_metrics *metrics, int ranking)
{
    cli_json_open(json, key);
    if (metrics) {
        cli_json_real(json, "log_loss", metrics->log_loss);
        cli_json_real(json, "error", metrics->error);
    } else {
        cli_json_null(json, "log_loss");
        cli_json_null(json, "error");
    }
    if (ranking) {
        uint32_t known = metrics ? metrics->precision_max : 0;
        cli_json_ranks(json, "precision", metrics ? metrics->precision : NULL, known);
        cli_json_ranks(json, "ndcg", metrics ? metrics->ndcg : NULL, known);
        cli_json_ranks(json, "psp", metrics ? metrics->psp : NULL, known);
        cli_json_ranks(json, "psndcg", metrics ? metrics->psndcg : NULL, known);
    }
    cli_json_close(json);
}
