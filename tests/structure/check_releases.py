#!/usr/bin/env python3
"""Programs and libraries of different releases: check_releases.py WHAT SOURCE-ROOT LIBRARY CC [CC-ARGUMENT...] -- CXX...

newer    programs of a release to come, whose structs are all longer, run with today's LIBRARY as an older one: what it does
         not know is refused by status if it is used, and else does not matter
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
            build_and_run(today + [HERE / "newer.c"], work / "include", library, compilers, work,
                          ["-DOF_A_LATER_RELEASE"])
        else:
            later = work / "later"
            later.mkdir()
            for name in ["lib", "doc", "include"]:
                (shutil.copytree if name != "include" else lambda a, b: shutil.move(work / name, b))(root / name, later / name)
            for name in ["meson.build", "meson_options.txt", "CHANGELOG.md", "LICENSE", "README.md"]:
                shutil.copy(root / name, later)
            (later / "tests/structure").mkdir(parents=True)
            shutil.copy(HERE / "abi.py", later / "tests/structure")  # lib/meson.build describes the interface by it
            run(["meson", "setup", later / "build", later, "-Dtests=false", "-Dexamples=false", "-Dtools=false",
                 "-Dbuildtype=plain", "-Doptimization=0"], env=dict(os.environ, CC=" ".join(compilers["CC"])))
            run(["ninja", "-C", later / "build"])
            built = next((later / "build/lib").glob("libxsoftmax.so"))
            build_and_run(today + [HERE / "newer.c"], root / "include", library, compilers, work,
                          ["-DWITH_A_LATER_LIBRARY"], built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
