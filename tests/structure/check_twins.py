#!/usr/bin/env python3
"""Languages that cannot compile the headers have all that macros and functions of the headers do:
check_twins.py INCLUDE-DIRECTORY LIBRARY COMPILER...

A program that is made from the headers here compares every struct's XSM_..._INIT with what xsm_struct_init() writes. A
function of a header has an exported twin, and a macro with parameters is one of those whose twins are named below.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import abi

# What does the same for a host without macros.
MACROS = {"XSM_HAS": "xsoftmax-abi.json", "XSM_STATUS_LIST": "xsm_status_name", "XSM_STATUS_ENTRY_": "xsm_status_name",
          "XSM_DEPRECATED": "xsoftmax-abi.json"}

PROGRAM = """
#include <stdio.h>
#include <string.h>
%(includes)s
static int bad, compared;
static void compare(const char *name, const void *macro, size_t size)
{
    unsigned char twin[4096];
    xsm_error err = XSM_ERROR_INIT;
    memset(twin, 0xA5, sizeof twin);
    if (size + 8 > sizeof twin || xsm_struct_init(name, twin, size, &err) != XSM_OK) {
        printf("xsm_struct_init(\\"%%s\\"): %%s\\n", name, err.message);
        bad++;
    } else if (memcmp(twin, macro, size) != 0) {
        printf("xsm_struct_init(\\"%%s\\") writes something else than the header has\\n", name);
        bad++;
    } else if (twin[size] != 0xA5) {
        printf("xsm_struct_init(\\"%%s\\") writes beyond the struct\\n", name);
        bad++;
    }
    compared++;
}

int main(void)
{
%(comparisons)s
    printf("%%d structs compared\\n", compared);
    return bad != 0;
}
"""


def main():
    include, library, compiler = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:]
    api = abi.Interface(include, compiler)
    bad = []
    for name in api.inline:
        twin = re.sub(r"^(xsm_[a-z]+)_", r"\1_set_", name)
        if twin not in api.functions:
            bad.append(f"{name}() is in a header only, and {twin}() is not exported")
    for name, parameters in api.macros.items():
        if parameters and MACROS.get(name) not in [*api.functions, "xsoftmax-abi.json"]:
            bad.append(f"{name}{parameters} has no twin that is known here")
    lines = []
    # Read from the text itself, so that none is left out that abi.py does not see.
    text = "".join(path.read_text() for path in sorted(include.rglob("*.h")))
    structs = re.findall(r"^(?:typedef )?struct (xsm_\w+) \{\n    size_t size;", text, flags=re.M)
    macros = set(re.findall(r"^#define (XSM_\w+_INIT)\b", text, flags=re.M))
    for name in structs:
        macro = name.upper() + "_INIT"
        value = macro if macro in macros else "{.size = sizeof(" + name + ")}"
        lines.append(f'    {{ static const {name} value = {value}; compare("{name}", &value, sizeof value); }}')
        macros.discard(macro)
    bad += [f"{macro} belongs to no struct with a size" for macro in macros]
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "twins.c", pathlib.Path(folder) / "twins"
        source.write_text(PROGRAM % {"includes": abi.includes(include), "comparisons": "\n".join(lines)})
        result = subprocess.run(compiler + abi.FLAGS + ["-I", str(include), str(source), "-o", str(program),
                                                        str(library.resolve())], text=True, capture_output=True)
        if result.returncode != 0:
            print(result.stderr)
            return 1
        run = subprocess.run([program], text=True, env=dict(os.environ, LD_LIBRARY_PATH=str(library.resolve().parent)))
    print("\n".join(bad + [f"{len(structs)} structs, {len(api.inline)} functions of headers, {len(bad)} without twins"]))
    return 1 if bad or run.returncode or len(structs) < 40 or len(api.inline) < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
