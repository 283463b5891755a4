#!/usr/bin/env python3
"""What is in the built libraries: check_library.py CHECK SOURCE-ROOT SHARED-LIBRARY,... STATIC-LIBRARY,... [--no-versions]

The libraries are libxsoftmax and, behind commas, those of the tiers words and mpi in symbols.txt: libxsoftmax-words,
libxsoftmax-mpi.

exported  what a shared library exports is in symbols.txt, with its version node, and that is what its headers
          declare; its soname has the ABI number of version.h, and its file the version; with --no-versions after the files, of a
          build without a symbol map, the names alone
complete  a shared library exports all that symbols.txt lists
names     every global name in the static libraries starts with xsm, so that a static link cannot clash
state     no object has writable static data: the library has no global state
calls     no object calls what a library must not (own memory, printing, ending the process, the environment, ...)
floors    no object uses what an object of a higher floor defines, and no file includes a higher floor's header; only the model
          and the fit of label trees use ranks/, and the model alone knows its part
defaults  each number that comments say a member stands for (lib/base/defaults.h) is taken from there
circles   no files use each other in a circle, but for those in the list CIRCLES
"""
import os
import pathlib
import re
import subprocess
import sys

SKIP = 77

# Lowest first; floors on one line do not use each other.
FLOORS = [["kernels"], ["base"], ["math"], ["data"], ["read"], ["ranks"], ["model"], ["labels"], ["index", "loss"], ["sampler"],
          ["gradient"], ["estimator"], ["methods"], ["optimizer"], ["predict"], ["train"], ["auto"], ["check"],
          ["words", "mpi"]]

# Who alone uses a floor: others call what processes do together by model/together.h.
USERS = {"ranks": {"ranks", "model", "labels"}}

# The tiers of symbols.txt that are libraries of their own.
OWN = ["words", "mpi"]

# Files that use each other, each with the reason why. A circle that is mended leaves this list.
CIRCLES = {}

# Who may call what the others may not. The default allocator stands on the C library's.
FORBIDDEN = {
    "memory that the host's allocator does not see": {
        "names": "malloc calloc realloc reallocarray free posix_memalign aligned_alloc memalign valloc strdup strndup "
                 "asprintf vasprintf qsort qsort_r getline getdelim open_memstream fopen fdopen opendir scandir",
        "except": {"base/context.c": {"posix_memalign", "free"}},
    },
    "printing": {"names": "printf vprintf fprintf vfprintf puts fputs putchar fputc fwrite perror dprintf syslog"},
    "ending the process": {"names": "abort exit _exit _Exit quick_exit raise kill atexit on_exit"},
    "state of the whole process": {
        "names": "signal sigaction sigprocmask setlocale uselocale getenv secure_getenv setenv putenv unsetenv "
                 "openblas_set_num_threads umask chdir "
                 "fork vfork system popen",
        "except": {"base/error.c": {"uselocale"}},  # of this thread, for the length of one print
    },
    "state shared between threads": {
        "names": "rand srand random srandom drand48 lrand48 strtok strerror localtime gmtime asctime ctime tmpnam "
                 "readdir localeconv",
    },
}


def run(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def tool(name):
    return os.environ.get(name.upper(), name)


def floor_level(floor):
    for level, floors in enumerate(FLOORS):
        if floor in floors:
            return level
    sys.exit(f"lib/{floor} is not in this script's list of floors")


def members(root, archive):
    """(source file as floor/name.c, nm type, symbol) of every symbol in the static library."""
    sources = {}
    for path in (root / "lib").glob("*/*.c"):
        sources[path.parent.name + "_" + path.name] = sources[path.name] = path.relative_to(root / "lib").as_posix()
    rows, source = [], None
    for line in run(tool("nm"), *archive.split(",")).splitlines():
        match = re.fullmatch(r"(?:\S*/)?([^/\s]+)\.o:", line)  # with its folder in an archive that is not installed
        if match:
            source = sources.get(match.group(1))
            if source is None:
                sys.exit(f"{match.group(1)}: no such file in lib/")
            continue
        match = re.fullmatch(r"[0-9a-f ]*([A-Za-z]) (\S+)", line)
        if match:
            rows.append((source, match.group(1), match.group(2)))
    if not rows:
        sys.exit("the static libraries have no symbols")
    return rows


def tier_of(library):
    """The tier that is this library's alone, or "" for libxsoftmax."""
    match = re.search(r"libxsoftmax-(\w+)\.", pathlib.Path(library).name)
    return match.group(1) if match else ""


def declared(root, tier):
    names = set()
    for header in (root / "include").rglob("*.h"):
        if next((own for own in OWN if own in (header.parent.name, header.stem)), "") != tier:
            continue
        text = re.sub(r"/\*.*?\*/|\bXSM_DEPRECATED\(\"[^\"]*\"\)", "", header.read_text(), flags=re.S)
        names |= set(re.findall(r"^XSM_API\b[^;{]*?\b(xsm_\w+)\s*\(", text, flags=re.M))
    return names


def versioned(name):
    return name.split("@")[0] if "--no-versions" in sys.argv[5:] else name


def listed(root, tier):
    """Names with their version nodes: symbols.txt has the tier of each, the library's map the node of each."""
    nodes, node = {}, None
    for line in (root / "lib" / (f"{tier}/xsoftmax-{tier}.map" if tier else "xsoftmax.map")).read_text().splitlines():
        match = re.match(r"(\S+) \{|\s+(xsm_\w+);", line)
        if match and match.group(1):
            node = match.group(1)
        elif match:
            nodes[match.group(2)] = node
    tiers = re.findall(r"^# (\w+)\n((?:\w+\n)*)", (root / "tests/structure/symbols.txt").read_text(), flags=re.M)
    names = [name for own, text in tiers if (own if own in OWN else "") == tier for name in text.split()]
    if sorted(names) != sorted(nodes):
        sys.exit("symbols.txt and the symbol map have different names: " + " ".join(set(names) ^ set(nodes)))
    return {versioned(f"{name}@{nodes[name]}") for name in names}


def exported(shared):
    rows = [line.split()[-2:] for line in
            run(tool("nm"), "-D", "--defined-only", "--with-symbol-versions", shared).splitlines()]
    return {name.replace("@@", "@") for kind, name in rows if kind != "A"}  # A: the version nodes themselves


def check_exported(root, shared, archive):
    bad = []
    version = re.findall(r"^#define XSM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (root / "include/xsoftmax/version.h").read_text(),
                         flags=re.M)
    for library in shared.split(","):
        tier = tier_of(library)
        name = "libxsoftmax" + ("-" + tier if tier else "") + ".so."
        soname = re.findall(r"\(SONAME\).*\[(.*)\]", run(tool("readelf"), "-d", library))
        if soname != [name + version[0]] or pathlib.Path(library).resolve().name != name + ".".join(version):
            bad.append(f"{library} has the soname {' '.join(soname)}; version.h says {name}{version[0]} for {'.'.join(version)}")
        bare = {name.split("@")[0] for name in listed(root, tier)}
        bad += [f"{name} is exported and not in symbols.txt" for name in exported(library) - listed(root, tier)]
        bad += [f"{name} is in symbols.txt and in no public header" for name in bare - declared(root, tier)]
        bad += [f"{name} is in a public header and not in symbols.txt" for name in declared(root, tier) - bare]
    return bad


def check_complete(root, shared, archive):
    return [f"{name} is in symbols.txt and not exported"
            for library in shared.split(",") for name in listed(root, tier_of(library)) - exported(library)]


def check_names(root, shared, archive):
    return [f"{source}: global name {name}" for source, kind, name in members(root, archive)
            if kind.isupper() and kind not in "UN" and not name.startswith(("xsm", "__x86."))]  # i386's place in memory


def check_state(root, shared, archive):
    bad = []
    for line in run(tool("size"), "-A", *archive.split(",")).splitlines():
        words = line.split()
        if len(words) > 1 and words[0].endswith(".o"):
            member = words[0]
        elif len(words) == 3 and re.match(r"\.(data|bss|tdata|tbss)(\.|$)", words[0]) and int(words[1]) > 0:
            if not words[0].startswith(".data.rel.ro"):
                bad.append(f"{member}: {words[1]} bytes of writable static data in {words[0]}")
    return bad


def check_calls(root, shared, archive):
    bad = []
    for source, kind, name in members(root, archive):
        if kind != "U":
            continue
        name = re.sub(r"^__(\w+)_chk$", r"\1", name)  # _FORTIFY_SOURCE
        for reason, rule in FORBIDDEN.items():
            if name in rule["names"].split() and name not in rule.get("except", {}).get(source, ()):
                bad.append(f"{source} calls {name}(): {reason}")
    return bad


def is_above(other, floor):
    return other != floor and floor_level(other) >= floor_level(floor) or floor not in USERS.get(other, {floor})


def check_floors(root, shared, archive):
    bad = []
    rows = members(root, archive)
    home = {name: source.split("/")[0] for source, kind, name in rows if kind.isupper() and kind != "U"}
    for source, kind, name in rows:
        floor = source.split("/")[0]
        if kind == "U" and name in home and is_above(home[name], floor):
            bad.append(f"{source} uses {name} of {home[name]}")
    for path in sorted((root / "lib").glob("*/*.[ch]")):
        floor, text = path.parent.name, path.read_text()
        if floor != "model" and re.search(r"->part\.(own|first|end)\b", text):
            bad.append(f"{floor}/{path.name} reads the part of a divided model; xsmi_model_mine() is of any")
        for included in re.findall(r'^#\s*include\s+"([^"]+)"', text, flags=re.M):
            other = included.split("/")[0]
            if "/" not in included:
                bad.append(f"{floor}/{path.name} includes \"{included}\"; internal headers are named from lib/")
            elif is_above(other, floor):
                bad.append(f"{floor}/{path.name} includes {included}")
    return bad


def file_graph(rows):
    """For each file, the files that it uses, each with the symbols. Only names of the library count: compilers add
    their own, which several objects define."""
    home = {name: source for source, kind, name in rows
            if kind.isupper() and kind not in "UN" and name.startswith("xsm")}
    graph = {source: {} for source, kind, name in rows}
    for source, kind, name in rows:
        if kind == "U" and home.get(name, source) != source:
            graph[source].setdefault(home[name], set()).add(name)
    return graph


def reachable(graph, start):
    """The files that `start` uses, directly or through others."""
    found, left = set(), [start]
    while left:
        for other in graph[left.pop()]:
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def check_circles(root, shared, archive):
    graph = file_graph(members(root, archive))
    uses = {source: reachable(graph, source) for source in graph}
    circles = {frozenset(other for other in uses[source] if source in uses[other])
               for source in graph if source in uses[source]}
    known = {frozenset(files.split()) for files in CIRCLES}
    bad = [f"{' '.join(sorted(files))}: no circle any more; remove it from CIRCLES" for files in known - circles]
    for files in circles - known:
        bad += [f"circle of {len(files)} files: {source} uses {' '.join(sorted(names))} of {other}"
                for source in files for other, names in graph[source].items() if other in files]
    return bad


# Public functions that return a status, as lib/ defines them, up to the first line.
STATUS_FUNCTION = re.compile(r"^ *xsm_status (xsm_[a-z0-9_#]+)\([^;{}]*\)\s*\\?\n *\{[ \\]*\n(.*)$", re.MULTILINE)


# ... that all processes make together: their beginning.
TOGETHER = re.compile(r"^xsm_status (xsm_\w+)\([^;{}]*\)\n\{\n((?:(?!^\}).*\n)*?.*\bXSMI_(?:COLLECTIVE|TOGETHER)\()",
                      re.MULTILINE)
# What may precede: what finds the group.
BEFORE = re.compile(r' *XSMI_ENTER\(err\);\n( *XSMI_NEED\(err, \{\w+, "[\w ]*"\}\);\n)?( *[\w *]+ = NULL;\n)?[^;]*')


def check_entries(root, shared, archive):
    """Each begins with XSMI_ENTER(err): it enters the environment, and clears the caller's error. What processes call together
    reads its arguments within that call, and tests/train/test_divided_arguments.c tries it."""
    functions = [(source, name, line.strip(" \\"))
                 for source in sorted((root / "lib").rglob("*.[ch]"))
                 for name, line in STATUS_FUNCTION.findall(source.read_text())]
    if len(functions) < 90:
        return [f"only {len(functions)} functions found: has their form changed?"]
    bad = [f"{source.relative_to(root)}: {name}() does not begin with XSMI_ENTER(err) (lib/base/entry.h)"
           for source, name, line in functions if line != "XSMI_ENTER(err);"]
    together = [(name, before) for source in sorted((root / "lib").rglob("*.c"))
                for name, before in TOGETHER.findall(source.read_text())]
    tried = (root / "tests/train/test_divided_arguments.c").read_text()
    bad += [f"{name}() checks something before XSMI_COLLECTIVE() (lib/ranks/comm.h)" for name, before in together
            if not BEFORE.fullmatch(before)]
    bad += [f"test_divided_arguments.c does not try {name}()" for name, before in together if f"{name}(" not in tried]
    return bad + ([f"only {len(together)} functions of all processes found"] if len(together) < 25 else [])


def check_defaults(root, shared, archive):
    code = "".join(path.read_text() for path in sorted((root / "lib").rglob("*.[ch]")))
    names = re.findall(r"^#define XSMI_DEFAULT_(xsm_\w+) [^\n]", (root / "lib/base/defaults.h").read_text(), flags=re.M)
    used = {f"{struct}_{member}" for struct, member in re.findall(r"\bXSMI_DEFAULT(?:_TEXT)?\((xsm_\w+), (\w+)\)", code)}
    few = [f"only {len(names)} numbers are in lib/base/defaults.h"] if len(names) < 40 else []
    return few + [f"XSMI_DEFAULT_{name}: a comment says so, and lib/ takes it from elsewhere" for name in names
                  if name not in used]


def main():
    check = {"exported": check_exported, "complete": check_complete, "names": check_names, "state": check_state,
             "calls": check_calls, "floors": check_floors, "circles": check_circles,
             "entries": check_entries, "defaults": check_defaults}[sys.argv[1]]
    try:
        bad = check(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    except FileNotFoundError as missing:
        if missing.filename in (tool("nm"), tool("size"), tool("readelf")):
            print(f"skipped: there is no {missing.filename}")
            return SKIP
        raise
    for line in sorted(set(bad)):
        print(line)
    print(f"{sys.argv[1]}: {len(set(bad))} defects")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
