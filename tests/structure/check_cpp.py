#!/usr/bin/env python3
"""xsoftmax.hpp and the C interface: check_cpp.py WHAT SOURCE-ROOT LIBRARY CXX...

calls     every function that xsoftmax.h includes has a C++ form, or a reason below why not; every starting value there
          is one of init(); functions of ext/ are called only in members whose comments name their header, and a program that
          calls no such member needs none of them
guide     the C++ of the guide's page compiles
releases  shared libraries that were compiled with the headers of different releases, and without exceptions, are parts
          of one process
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

from check_releases import run

HERE = pathlib.Path(__file__).resolve().parent

# Functions of xsoftmax.h that have no C++ form.
WITHOUT = {
    "xsm_version": "a number of the library's, without an object or an error",
    "xsm_version_string": "a text of the library's, without an object or an error",
    "xsm_abi_version": "a number of the library's, without an object or an error",
    "xsm_status_name": "a text of the library's, without an object or an error",
}


def tiers():
    found = {}
    for line in (HERE / "symbols.txt").read_text().splitlines():
        if line.startswith("# "):
            names = found.setdefault(line[2:], [])
        else:
            names.append(line)
    return found


def without_comments(text):
    """The same number of characters: comments are spaces."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.S)


def check_calls(root, compiler):
    bad = []
    tier = tiers()
    include = root / "include"
    header = (include / "xsoftmax.hpp").read_text()
    code = without_comments(header)
    called = set(re.findall(r"\bxsm_\w+\b", code))
    main = (include / "xsoftmax.h").read_text().split("#ifdef XSM_EXPERIMENTAL")[0]
    core = [include / name for name in re.findall(r"^#include <(xsoftmax/\w+\.h)>", main, flags=re.M)]
    declared = {name for path in core for name in re.findall(r"^XSM_API\b[^;]*?\b(xsm_\w+)\(", without_comments(path.read_text()),
                                                             flags=re.M)}
    for name in sorted(declared):
        if (name in called) == (name in WITHOUT):
            bad.append(f"{name} has a C++ form; it is also in WITHOUT" if name in called else
                       f"{name} of xsoftmax.h has no C++ form, and no reason in WITHOUT of check_cpp.py")
    inline = [name for path in core for name in re.findall(r"^static inline [^;{}]*?\b(xsm_\w+)\(", path.read_text(), flags=re.M)]
    bad += [f"{name}(), a function of a header, has no C++ form" for name in inline if name not in called]
    bad += [f"{name} of WITHOUT is no function of xsoftmax.h" for name in WITHOUT if name not in declared]
    bad += [f"{name} is called, which is {kind}" for kind in ("experimental", "words", "mpi") for name in tier[kind]
            if name in called]

    # Starting values.
    values = [name for path in core for name in re.findall(r"^#define (XSM_\w+_INIT)\b", path.read_text(), flags=re.M)]
    bad += [f"init() does not know {name}" for name in values if not re.search(rf"XSOFTMAX_INITIAL\(xsm_\w+, {name}\)", code)]

    # Functions of ext/ by their headers.
    where = {}
    for path in sorted((include / "xsoftmax/ext").glob("*.h")):
        for name in re.findall(r"\b(xsm_\w+)\(", without_comments(path.read_text())):
            where.setdefault(name, f"ext/{path.name}")
    uses = 0
    for match in re.finditer(r"\bxsm_\w+\b", code):
        if match.group() in tier["ext"]:
            uses += 1
            before = header[:match.start()]
            comment = re.sub(r"\s*\*\s*", " ", before[before.rindex("/**"):before.rindex("*/")])
            if f"({where[match.group()]})" not in comment:
                bad.append(f"{match.group()} is called where the comment does not say ({where[match.group()]}):\n{comment}")

    # What a program needs that calls none of them.
    with tempfile.TemporaryDirectory() as folder:
        built = pathlib.Path(folder) / "host.o"
        run(compiler + ["-std=c++17", "-O0", "-c", "-I", include, "-o", built, root / "examples/cpp_host.cpp"])
        needed = [name for name in re.findall(r"\bU (xsm_\w+)", run(["nm", "-u", built]))]
        bad += [f"cpp_host.cpp needs {name}, which is not core" for name in needed if name not in tier["core"]]
    if len(declared) < 90 or len(values) < 40 or len(inline) < 4 or uses < 1 or len(needed) < 20:
        bad.append(f"too little was found: {len(declared)} functions, {len(values)} starting values, {uses} calls of "
                   f"ext/, {len(needed)} functions that the host needs")
    print(f"{len(declared) - len(WITHOUT)} of {len(declared)} functions of xsoftmax.h and {uses} calls of ext/ in C++")
    return bad


def later(include, target):
    """Copies headers as a release to come may have them: another number, and classes with other members."""
    shutil.copytree(include, target)
    version = target / "xsoftmax/version.h"
    text, count = re.subn(r"(#define XSM_VERSION_MINOR )\d+", r"\g<1>99", version.read_text())
    version.write_text(text)
    cpp = target / "xsoftmax.hpp"
    text, more = re.subn(r"    T \*object_ = nullptr;", "    double of_a_later_release_ = 1;\n    T *object_ = nullptr;",
                         cpp.read_text())
    text, calls = re.subn(r"    call \*outer_;",
                          "    call *outer_;\n    [[maybe_unused]] double of_a_later_release_[8] = {};", text)
    cpp.write_text(text)
    if (count, more, calls) != (1, 1, 1):
        sys.exit("the headers cannot be made later ones")
    return target


# What the page's pieces speak of.
NAMES = """
#include <cstdio>
#include <memory>
#include <vector>
#include <xsoftmax.hpp>
struct pool {
    void run(xsoftmax::job job, std::size_t count);
};
"""
PIECE = """
void piece_%d(pool &threads, const xsoftmax::dataset &train, const xsoftmax::dataset &test, xsoftmax::model &model,
              std::pmr::memory_resource &resource, const xsoftmax::context &context)
{
    (void)threads, (void)train, (void)test, (void)model, (void)resource, (void)context;
    {
%s
    }
}
"""


def check_guide(root, compiler):
    """Compiles all pieces at once, as the header takes longest: programs as they are, before what other pieces speak of."""
    pieces = re.findall(r"^```cpp\n(.*?)^```", (root / "doc/guide/cpp.md").read_text(), flags=re.M | re.S)
    programs = [piece for piece in pieces if "int main(" in piece]
    others = [piece for piece in pieces if piece not in programs]
    source = "".join(programs) + NAMES + "".join(PIECE % (i, piece) for i, piece in enumerate(others))
    run(compiler + ["-std=c++17", "-Wall", "-Wextra", "-Wno-unused", "-Werror", "-fsyntax-only", "-I", root / "include",
                    "-x", "c++", "-"], input=source)
    print(f"{len(pieces)} pieces of C++")
    return [] if len(pieces) >= 4 else ["the page has no C++"]


def check_releases(root, library, compiler):
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        headers = {"later": (later(root / "include", work / "later"), []), "today": (root / "include", []),
                   "plain": (root / "include", ["-fno-exceptions"])}
        link = ["-L", library.parent, "-lxsoftmax", "-Wl,-rpath," + str(library.parent)]
        symbols = {}
        for name, (include, options) in headers.items():
            built = work / f"lib{name}.so"
            run(compiler + ["-std=c++17", "-O0", "-g0", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *options,
                            f"-DPART=part_{name}", "-I", include, "-o", built, HERE / "release_part.cpp", *link, "-pthread"])
            symbols[name] = {line.split()[-1] for line in run(["nm", "-D", "--defined-only", built]).splitlines()
                             if "8xsoftmax" in line}
            if len(symbols[name]) < 50:
                bad.append(f"{name} has {len(symbols[name])} names of the header only")
        names = list(headers)
        for i, one in enumerate(names):
            for other in names[:i]:
                shared = symbols[one] & symbols[other]
                if shared:
                    bad.append(f"{one} and {other} share {len(shared)} names, such as {sorted(shared)[0]}")
        if bad:
            return bad
        main = work / "main.cpp"
        main.write_text("".join(f'extern "C" int part_{name}(int (*inner)(int));\n' for name in names) +
                        "int main()\n{\n    const auto nothing = [](int number) { return number; };\n    int failures = 0;\n" +
                        "".join(f"    failures += part_{one}(nothing) != 0;\n" for one in names) +
                        "".join(f"    failures += part_{one}([](int number) {{ return number + part_{other}(nullptr); }}) != 0;\n"
                                for one in names for other in names if one != other) +
                        "    return failures;\n}\n")
        run(compiler + ["-std=c++17", "-o", work / "main", main] + [work / f"lib{name}.so" for name in names] +
            ["-Wl,-rpath," + str(work), *link])
        run([work / "main"], cwd=work, env=dict(os.environ, LD_LIBRARY_PATH=str(library.parent)))
        print(f"{len(names)} libraries in one process: {', '.join(names)}")
    return bad


def main():
    what, root, library, compiler = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4:]
    bad = (check_calls(root, compiler) if what == "calls" else check_guide(root, compiler) if what == "guide" else
           check_releases(root, library, compiler))
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
