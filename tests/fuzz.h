/* For fuzz targets that are built without a fuzzer: replays files as inputs. */
#ifndef XSM_FUZZ_H
#define XSM_FUZZ_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline int fuzz_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    static uint8_t data[1 << 20];
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, size);
}

/* The files of each folder that is named. Returns how many there were; -1 when one of them failed. */
static inline int fuzz_folders(int argc, char **argv)
{
    int failures = 0;
    int count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) {
            perror(argv[i]);
            return -1;
        }
        for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            if (entry->d_name[0] != '.') {
                size_t size = strlen(argv[i]) + strlen(entry->d_name) + 2;
                char *path = malloc(size);
                if (!path) {
                    closedir(folder);
                    return -1;
                }
                snprintf(path, size, "%s/%s", argv[i], entry->d_name);
                failures += fuzz_file(path);
                count++;
                free(path);
            }
        }
        closedir(folder);
    }
    return failures ? -1 : count;
}

#endif
