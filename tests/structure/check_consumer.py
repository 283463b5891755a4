#!/usr/bin/env python3
"""A program outside the tree, built with nothing but pkg-config, and then by CMake, and run:

check_consumer.py SOURCE-ROOT --build DIRECTORY --meson MESON... | --prefix PREFIX

With --build the build is installed to a temporary folder first (as `meson install --destdir` does it for packagers);
with --prefix it was installed to its own prefix already. C and C++ programs, against the shared library, against the
static one, and as wholly static programs where the compiler has static system libraries; which of the libraries there
are depends on the build's default_library; the hosts in examples/, too. CC, CXX and PKG_CONFIG may name other tools.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
PROGRAMS = [("consumer.c", "CC", "cc", "-std=c11", "xsoftmax"), ("consumer.cpp", "CXX", "c++", "-std=c++17", "xsoftmax"),
            ("consumer_words.c", "CC", "cc", "-std=c11", "xsoftmax-words"),
            ("consumer_mpi.c", "CC", "cc", "-std=c11", "xsoftmax-mpi"),
            ("../../examples/cpp_host.cpp", "CXX", "c++", "-std=c++17", "xsoftmax"),
            ("../../examples/host_network.c", "CC", "cc", "-std=c11", "xsoftmax")]
HOSTS = ["cpp_host.cpp", "host_network.c", "ctypes_host.py"]


def run(command, **keywords):
    result = subprocess.run(command, text=True, capture_output=True, **keywords)
    if result.returncode != 0:
        print("failed:", shlex.join(map(str, command)))
        print(result.stdout + result.stderr)
        sys.exit(1)
    return result.stdout


def links_statically(compiler, work):
    command = compiler + ["-static", "-x", "c", "-o", str(work / "probe"), "-"]
    return subprocess.run(command, input="int main(void) { return 0; }\n", text=True,
                          capture_output=True).returncode == 0


def check_cmake(root, work, library, module_words):
    """find_package() of what is there, and not of what is not."""
    if not shutil.which("cmake"):
        print("skipped: there is no cmake")
        return SKIP
    (work / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.13)
project(consumer C)
set(where PATHS "{library}/cmake/xsoftmax" NO_DEFAULT_PATH)
find_package(xsoftmax 9 QUIET ${{where}})
if(xsoftmax_FOUND)
    message(FATAL_ERROR "release 9 was found")
endif()
find_package(xsoftmax QUIET COMPONENTS speech ${{where}})
if(xsoftmax_FOUND)
    message(FATAL_ERROR "a component that does not exist was found")
endif()
find_package(xsoftmax 0.1 REQUIRED COMPONENTS core {"words" if module_words else ""} ${{where}})
add_executable(consumer "{root}/tests/structure/consumer.c")
target_link_libraries(consumer xsoftmax::xsoftmax)
if(TARGET xsoftmax::words)
    add_executable(consumer_words "{root}/tests/structure/consumer_words.c")
    target_link_libraries(consumer_words xsoftmax::words)
endif()
""")
    build = work / "cmake"
    clean = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    run(["cmake", "-S", work, "-B", build], env=clean)
    run(["cmake", "--build", build], env=clean)
    for program in ["consumer"] + (["consumer_words"] if module_words else []):
        print(f"{program} by CMake:", run([build / program], env=clean, cwd=work).strip())
    return 0


def main():
    root, mode, place, meson = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[5:]
    pkg_config = os.environ.get("PKG_CONFIG", "pkg-config")
    if not shutil.which(pkg_config):
        print("skipped: there is no pkg-config")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        target = place
        if mode == "--build":
            target = work / "installed"
            run(meson + ["install", "-C", str(place), "--no-rebuild", "--quiet", "--destdir", str(target)])
        found = list(target.rglob("xsoftmax.pc"))
        if len(found) != 1:
            print(f"{len(found)} files xsoftmax.pc were installed below {target}")
            return 1
        query = [pkg_config]
        if mode == "--build":
            prefix = run([pkg_config, "--variable=prefix", str(found[0])]).strip()
            query.append(f"--define-variable=prefix={target}{prefix}")
        environment = dict(os.environ, PKG_CONFIG_PATH=str(found[0].parent))
        described = json.loads(pathlib.Path(run(query + ["--variable=abi", "xsoftmax"], env=environment).strip()).read_text())
        version = run(query + ["--modversion", "xsoftmax"], env=environment).strip()
        if described["version"] != version:
            print(f"xsoftmax.pc is of release {version}, xsoftmax-abi.json of {described['version']}")
            return 1
        library = found[0].parent.parent
        alone = work / "static"  # the linker prefers a shared library: here it finds none
        alone.mkdir()
        kinds = []
        if list(library.glob("libxsoftmax.so*")):
            kinds.append("shared")
        if (library / "libxsoftmax.a").exists():
            for archive in library.glob("libxsoftmax*.a"):
                shutil.copy(archive, alone)
            kinds += ["static", "wholly static"]
        if not kinds:
            print(f"no library was installed in {library}")
            return 1
        for source, variable, default, standard, module in PROGRAMS:
            if not (found[0].parent / f"{module}.pc").exists():
                print(f"{source}: left out, there is no {module}.pc")
                continue
            compiler = shlex.split(os.environ.get(variable, default))
            warnings = [standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror"] + ["-pthread"] * (variable == "CXX")
            unit = work / f"{pathlib.Path(source).name}.o"
            # MPIs are shared libraries in most systems.
            for kind in kinds if module != "xsoftmax-mpi" else [kind for kind in kinds if kind == "shared"]:
                flags = run(query + [module, "--cflags", "--libs"] + (["--static"] if kind != "shared" else []),
                            env=environment).split()
                # The other prefix counts for what was installed there alone.
                for other in run(query + [module, "--print-requires"], env=environment).splitlines():
                    if not other.startswith("xsoftmax"):
                        flags += run([pkg_config, other.split()[0], "--cflags", "--libs"]).split()
                if kind != "shared":
                    flags = [f"-L{alone}"] + flags
                if kind == "wholly static":
                    flags.append("-static")
                    if not links_statically(compiler, work):
                        print(f"{source}, {kind}: left out, {compiler[0]} has no static C library")
                        continue
                program = work / f"{pathlib.Path(source).name}-{kind.replace(' ', '-')}"
                if not unit.exists():
                    run(compiler + warnings + ["-Wno-unused-command-line-argument", "-c", "-o", str(unit),
                                               str(root / "tests/structure" / source)] + flags)
                run(compiler + warnings + ["-o", str(program), str(unit)] + flags + ["-lm"])
                clean = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
                if kind == "shared":
                    clean["LD_LIBRARY_PATH"] = str(library)
                print(f"{source}, {kind}:", run([program, work / "host.safetensors"], env=clean, cwd=work).strip())
        if "shared" in kinds:
            python_host = root / "examples/ctypes_host.py"
            description = run(query + ["--variable=abi", "xsoftmax"], env=environment).strip()
            print("ctypes_host.py:", run([sys.executable, python_host, library / "libxsoftmax.so", description]).strip())
        print("lines of the hosts:", ", ".join(
            f"{name} {len((root / 'examples' / name).read_text().splitlines())}" for name in HOSTS))
        return check_cmake(root, work, library, (found[0].parent / "xsoftmax-words.pc").exists())


if __name__ == "__main__":
    sys.exit(main())
