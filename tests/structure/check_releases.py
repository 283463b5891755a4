#!/usr/bin/env python3
"""Programs and libraries of different releases: check_releases.py WHAT SOURCE-ROOT LIBRARY CC [CC-ARGUMENT...] -- CXX...

newer    programs of a release to come, whose structs are all longer, run with today's LIBRARY as an older one: what it does
         not know is refused by status if it is used, and else does not matter; one that calls a function which is missing
         is not started, though it binds names only when it calls them
library  programs of today run with the library of a release to come, built here from today's sources and longer structs
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["tests/structure/consumer.c", "tests/structure/consumer.cpp", "examples/quickstart.c", "examples/host_loop.c",
            "examples/cpp_host.cpp"]


def run(command, **keywords):
    result = subprocess.run(list(map(str, command)), text=True, capture_output=True, **keywords)
    if result.returncode != 0:
        print("failed:", *command)
        print((result.stdout + result.stderr)[-4000:])
        sys.exit(1)
    return result.stdout


def build_and_run(sources, include, library, compilers, work, define=(), run_with=None):
    """Builds programs with a folder of headers and a library, and runs them, perhaps with another library."""
    for source in sources:
        name = "CXX" if source.suffix == ".cpp" else "CC"
        program = work / (source.name + ".exe")
        standard = "-std=c++17" if name == "CXX" else "-std=c11"
        run(compilers[name] + [standard, "-O1", *define, "-I", include, "-o", program, source, library, "-lm", "-pthread"])
        where = (run_with or library).parent
        run([program], cwd=work, env=dict(os.environ, LD_LIBRARY_PATH=str(where)))
        print(f"{source.name}: runs")


def grown(include, target):
    """Copies headers whose structs with a size all have one more member."""
    shutil.copytree(include, target)
    structs = []
    for header in target.rglob("*.h"):
        text, count = re.subn(r"((?:typedef )?struct (xsm_\w+) \{\n    size_t size;.*?\n)\}",
                              lambda match: (structs.append(match.group(2))
                                             or match.group(1) + "    double of_a_later_release;\n}"),
                              header.read_text(), flags=re.S)
        # Functions in headers set each member; a later release's set its members, too.
        header.write_text(text.replace("    xsm_batch batch;\n", "    xsm_batch batch = {0};\n"))
    if len(structs) < 40:
        sys.exit(f"only {len(structs)} structs have a size: {structs}")
    return structs


def lazy(root, library, compilers, work):
    """A program that calls a function of the next minor release, linked with a library of names alone that has it."""
    later = work / "lazy"
    shutil.copytree(root / "include", later / "include")
    header = later / "include/xsoftmax/version.h"
    minor = int(re.search(r"^#define XSM_VERSION_MINOR (\d+)", header.read_text(), flags=re.M).group(1)) + 1
    header.write_text(re.sub(r"^(#define XSM_VERSION_MINOR) \d+", rf"\1 {minor}", header.read_text(), flags=re.M).replace(
        "XSM_API uint32_t xsm_version(void);", "XSM_API uint32_t xsm_version(void);\nXSM_API uint32_t xsm_later(void);"))
    today = (root / "include/xsoftmax/version.h").read_text()
    version = ".".join(re.findall(r"^#define XSM_VERSION_(?:MAJOR|MINOR) (\d+)", today, flags=re.M))
    (later / "CHANGELOG.md").write_text(f"## [{version}.0] - 2001-02-03\n")
    abi = [sys.executable, root / "lib/abi.py"]
    (later / "symbols.txt").write_text(run([*abi, "symbols", later / "include", *compilers["CC"]]))
    (later / "later.map").write_text(run([*abi, "map", later / "symbols.txt", later / "include", root / "lib/xsoftmax.map",
                                          later / "CHANGELOG.md", ""]))
    if f"XSOFTMAX_{version}".encode() not in library.read_bytes():
        print("lazy: skipped, as the library has no version nodes")
        return
    names = re.findall(r"^\s+(xsm_\w+);", (later / "later.map").read_text(), flags=re.M)
    (later / "names.c").write_text("".join(f"int {name}(void);\nint {name}(void) {{ return 0; }}\n" for name in names))
    (later / "main.c").write_text("#include <stdio.h>\n#include <xsoftmax/version.h>\nint main(int count, char **words)\n{\n"
                                  "    puts(\"started\");\n    return count > 9 && words ? (int)xsm_later() : 0;\n}\n")
    run(compilers["CC"] + ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,libxsoftmax.so.{version.split('.')[0]}",
                           f"-Wl,--version-script={later / 'later.map'}", "-o", later / "libxsoftmax.so", later / "names.c"])
    run(compilers["CC"] + ["-I", later / "include", "-Wl,-z,lazy", "-o", later / "main", later / "main.c",
                           later / "libxsoftmax.so"])
    result = subprocess.run([later / "main"], text=True, capture_output=True,
                            env=dict(os.environ, LD_LIBRARY_PATH=str(library.parent)))
    node = f"XSOFTMAX_{version.split('.')[0]}.{minor}"
    if result.returncode == 0 or "started" in result.stdout or node not in result.stderr:
        print(f"a program that calls a function of {node} is started with the library of {version}:")
        print(result.stdout + result.stderr)
        sys.exit(1)
    print(f"lazy: not started, as there is no {node}")


def main():
    what, root, library = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
    middle = sys.argv.index("--")
    compilers = {"CC": sys.argv[4:middle], "CXX": sys.argv[middle + 1:]}
    today = [root / place for place in PROGRAMS]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        structs = grown(root / "include", work / "include")
        print(f"{len(structs)} structs have another member")
        if what == "newer":
            lazy(root, library, compilers, work)
            build_and_run(today + [HERE / "newer.c"], work / "include", library, compilers, work,
                          ["-DOF_A_LATER_RELEASE"])
        else:
            later = work / "later"
            later.mkdir()
            for name in ["lib", "doc", "include"]:
                (shutil.copytree if name != "include" else lambda a, b: shutil.move(work / name, b))(root / name, later / name)
            for name in ["meson.build", "meson_options.txt", "CHANGELOG.md", "LICENSE", "NOTICE", "README.md"]:
                shutil.copy(root / name, later)
            run(["meson", "setup", later / "build", later, "-Dtests=false", "-Dexamples=false", "-Dtools=false",
                 "-Dbuildtype=plain", "-Doptimization=0"], env=dict(os.environ, CC=" ".join(compilers["CC"]), CXX="false"))
            run(["ninja", "-C", later / "build"])
            built = next((later / "build/lib").glob("libxsoftmax.so"))
            build_and_run(today + [HERE / "newer.c"], root / "include", library, compilers, work,
                          ["-DWITH_A_LATER_LIBRARY"], built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
