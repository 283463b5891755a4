#!/usr/bin/env python3
"""Pages of the guide are short, and their examples in C compile: check_guide.py SOURCE-ROOT COMPILER...

A page has at most 1,200 words: what stands between white space and has a letter or a digit, in tables and code as well.
An example is a block marked `c`. One that defines functions is a file; any other is the body of a function, in which the
names below mean what they say.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT = 1200
HEAD = "#define XSM_EXPERIMENTAL\n#include <stdio.h>\n#include <xsoftmax.h>\n#include <xsoftmax-words.h>\n"
NAMES = """
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/ext/storage.h>
#include <xsoftmax/ext/tensors.h>
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
void example(void);
"""


def words(text):
    return sum(1 for word in text.split() if re.search(r"\w", word))


def program(block):
    """The block as a file: as it is, or as the body of a function."""
    whole = re.search(r"^(static|struct|int main)\b", block, re.M)
    if whole:
        return ("" if "#include <xsoftmax.h>" in block else HEAD) + block
    return HEAD + NAMES + "void example(void)\n{\n" + block + "}\n"


def check(page, name, command, folder):
    text = page.read_text(encoding="utf-8")
    if words(text) > LIMIT:
        yield f"{name}: {words(text)} words, at most {LIMIT}"
    for number, block in enumerate(re.findall(r"^```c\n(.*?)^```", text, re.M | re.S), 1):
        source = folder / f"{page.stem}_{number}.c"
        source.write_text(program(block), encoding="utf-8")
        result = subprocess.run(command + [str(source)], text=True, capture_output=True)
        if result.returncode != 0:
            yield f"{name}, example {number}:\n{result.stderr}"


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    command = compiler + ["-std=c11", "-fsyntax-only", "-Wall", "-Wno-unused", "-Werror", "-I", str(root / "include")]
    pages = sorted((root / "doc/guide").glob("*.md"))
    if not pages:
        print("no pages in doc/guide")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        bad = [line for page in pages for line in check(page, page.relative_to(root), command, pathlib.Path(folder))]
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
