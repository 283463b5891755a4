#!/usr/bin/env python3
"""Examples in C in pages of the guide compile: check_guide.py SOURCE-ROOT COMPILER...

An example is a block marked `c`. One that defines functions is a file; any other is the body of a function, in which the
names below mean what they say.
"""
import pathlib
import re
import subprocess
import sys

HEAD = "#define XSM_EXPERIMENTAL\n#include <stdio.h>\n#include <xsoftmax.h>\n#include <xsoftmax-words.h>\n"
NAMES = """
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/buffer.h>
#include <xsoftmax/search.h>
#include <xsoftmax/tensors.h>
extern xsm_error err;
extern xsm_context *context;
extern xsm_dataset *train, *test, *rows;
extern xsm_model *model;
extern xsm_estimator *estimator;
extern xsm_optimizer *optimizer;
extern xsm_gradient *gradient;
extern xsm_trainer *trainer;
extern xsm_trainer_options options;
extern xsm_tuning *tuning;
extern xsm_tuning_info info;
extern xsm_corpus *corpus;
extern xsm_model *input, *output;
extern const xsm_estimator_ops my_estimator;
extern const xsm_optimizer_ops my_optimizer;
extern const xsm_sampler_ops my_sampler;
extern double eta;
extern uint32_t features, classes;
extern uint64_t n, steps, users;
extern uint64_t *offsets, *row_numbers, *ids;
extern uint32_t *index, *labels;
extern float *values, *hidden, *d_hidden;
extern size_t stride;
"""


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    command = compiler + ["-std=c11", "-fsyntax-only", "-Wall", "-Wno-unused", "-Werror", "-I", str(root / "include"),
                          "-x", "c", "-"]
    # Bodies of functions are one file, as the headers take longest.
    files, bodies = [], HEAD + NAMES
    for page in sorted((root / "doc/guide").glob("*.md")):
        for number, block in enumerate(re.findall(r"^```c\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S), 1):
            name = f"{page.stem}_{number}"
            block = f'#line 1 "{page.relative_to(root)}, example {number}"\n{block}'
            if re.search(r"^(static|struct|int main)\b", block, re.M):
                files.append(("" if "#include <xsoftmax.h>" in block else HEAD) + block)
            else:
                bodies += f"void {name}(void);\nvoid {name}(void)\n{{\n{block}}}\n"
    said = [result.stderr for result in (subprocess.run(command, input=file, text=True, capture_output=True)
                                         for file in [bodies, *files]) if result.returncode != 0]
    print("\n".join(said + [f"{len(files)} programs and {bodies.count('#line')} bodies of functions"]))
    return 1 if said or len(files) < 5 or bodies.count("#line") < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
