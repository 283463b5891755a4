/* One JSON object, written member by member. */
#include "cli.h"

#include <math.h>

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

void cli_json_class(cli_json *json, const char *key, const xsm_class_map *map, uint32_t class)
{
    if (map->names) {
        cli_json_text(json, key, map->names[class]);
        return;
    }
    start(json, key);
    cli_write_class(json->out, map, class);
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
    cli_json_open(json, key);
    for (size_t i = 0; i < CLI_MEASURE_RANKS; i++) {
        const uint32_t at = cli_measure_ranks[i];
        char name[12];
        snprintf(name, sizeof name, "%u", at);
        if (count >= at) {
            cli_json_real(json, name, values[at - 1]);
        } else {
            cli_json_null(json, name);
        }
    }
    cli_json_close(json);
}

void cli_json_metrics(cli_json *json, const char *key, const xsm_metrics *metrics, size_t measures)
{
    cli_json_open(json, key);
    if (metrics) {
        cli_json_real(json, "log_loss", metrics->log_loss);
        cli_json_real(json, "error", metrics->error);
        cli_json_whole(json, "rows", metrics->rows);
    } else {
        cli_json_null(json, "log_loss");
        cli_json_null(json, "error");
        cli_json_null(json, "rows");
    }
    if (measures > 0) {
        for (size_t i = 0; i < measures; i++) {
            cli_json_ranks(json, cli_measures[i].key, metrics ? cli_measure_values(metrics, i) : NULL,
                           metrics ? metrics->top : 0);
        }
        cli_json_real(json, "calibration_error", metrics ? metrics->calibration_error : (double)NAN);
    }
    cli_json_close(json);
}
