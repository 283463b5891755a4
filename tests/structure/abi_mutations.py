#!/usr/bin/env python3
"""Tries the gate of the ABI: abi_mutations.py [WORD...]   only what has a WORD in its description

Small headers that have something of each kind (made/) are broken, each time in one way, which `abi.py check` must refuse by
name; and grow, which it must let pass. Then renew-abi.sh, with a release behind it, must take growth alone.
"""
import contextlib
import io
import multiprocessing
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "lib"))
import abi

COMPILER = ["gcc"]


class Tree:
    """A copy of the small headers, without comments but for what a member is at 0."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(HERE / "made", folder / "include")
        shutil.copy(ROOT / "include/xsoftmax/version.h", folder / "include/xsoftmax")
        for header in (folder / "include").rglob("*.h"):
            header.write_text(re.sub(r"/\*(?!\*< 0 = ).*?\*/", "", header.read_text(), flags=re.S))

    def edit(self, pattern, change, where="include/**/*.h"):
        """Replaces what one file has once; `change` is text or a function of the match."""
        found = [(path, re.search(pattern, path.read_text(), flags=re.M)) for path in sorted(self.folder.glob(where))]
        found = [(path, match) for path, match in found if match]
        if len(found) != 1:
            raise LookupError(f"{len(found)} files have /{pattern}/")
        path, match = found[0]
        text = path.read_text()
        path.write_text(text[:match.start()] + (change if isinstance(change, str) else change(match)) + text[match.end():])

    def members(self, struct, change):
        """change() gets the declarations of a struct as a list, by which it is replaced."""
        def replace(match):
            parts = [part.strip() for part in match.group(2).split(";")][:-1]
            change(parts)
            return match.group(1) + "".join(f"    {part};\n" for part in parts) + "}"
        self.edit(rf"((?:typedef )?struct {struct} \{{)([^}}]*)\}}", replace)

    def arguments(self, function, change):
        def replace(match):
            parts = [part.strip() for part in match.group(2).split(",")]
            change(parts)
            return match.group(1) + ", ".join(parts) + ");"
        self.edit(rf"(^XSM_API [^;()]*\b{function}\()([^()]*)\);", replace)


def at(parts, name):
    found = [i for i, part in enumerate(parts) if re.search(rf"\b{name}$|\(\*{name}\)|\b{name}\[", part)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} declarations of {name}")
    return found[0]


def swap(a, b):
    def change(parts):
        i, j = at(parts, a), at(parts, b)
        parts[i], parts[j] = parts[j], parts[i]
    return change


def remove(name):
    return lambda parts: parts.pop(at(parts, name))


def after(name, text):
    return lambda parts: parts.insert(at(parts, name) + 1, text)


def last(*texts):
    return lambda parts: parts.extend(texts)


def retype(name, old, new):
    def change(parts):
        i = at(parts, name)
        if old not in parts[i]:
            raise LookupError(f"no {old} in '{parts[i]}'")
        parts[i] = parts[i].replace(old, new, 1)
    return change


def both(*changes):
    return lambda parts: [change(parts) for change in changes]


def member(struct, change):
    return lambda tree: tree.members(struct, change)


def argument(function, change):
    return lambda tree: tree.arguments(function, change)


def edit(pattern, change, *where):
    return lambda tree: tree.edit(pattern, change, *where)


def drop(name):
    return edit(rf"^XSM_API [^;]*\b{name}\([^;]*;", "")


def add_function(declaration):
    return edit(r"^XSM_API uint32_t xsm_model_classes\([^;]*;", lambda match: match.group() + "\nXSM_API " + declaration + ";")


def rename(old, new):
    """Another name for a header below xsoftmax/, also where it is included."""
    def change(tree):
        include = tree.folder / "include"
        (include / "xsoftmax" / old).rename(include / "xsoftmax" / new)
        for header in include.rglob("*.h*"):
            header.write_text(header.read_text().replace(f"<xsoftmax/{old}>", f"<xsoftmax/{new}>"))
    return change


def only_if(condition, struct, name):
    """A member that programs have or lack by a condition."""
    return member(struct, lambda parts: parts.__setitem__(
        at(parts, name), f"\n#{condition}\n    {parts[at(parts, name)]};\n#endif\n    uint32_t behind"))


def by_language(pattern, change):
    """A declaration that is another one for C++."""
    return edit(pattern, lambda match: f"#ifdef __cplusplus\n{change(match.group())}\n#else\n{match.group()}\n#endif")


def swap_columns(tree):
    path = tree.folder / "include/xsoftmax/kinds.h"
    text, count = re.subn(r"\bX\((\w+), (\d+),", r"X(\2, \1,", path.read_text())
    if count < 3:
        raise LookupError(f"{count} statuses")
    path.write_text(text.replace("XSM_STATUS_ENTRY_(name, number, text)", "XSM_STATUS_ENTRY_(number, name, text)"))


def grow_cpp(tree):
    """Another class, in another namespace."""
    tree.edit(r"#define XSM_VERSION_MINOR \d+", "#define XSM_VERSION_MINOR 99")
    tree.edit(r"^( *)std::size_t size_ = 0;\n", lambda match: match.group() + "    double later_ = 0;\n", "include/*.hpp")


def grow_options(start):
    return lambda tree: (tree.members("xsm_options", last("double later")),
                         tree.edit(r"sizeof\(xsm_options\), NULL, NULL, \{0\}, 0, 0",
                                   f"sizeof(xsm_options), NULL, NULL, {{0}}, 0, 0, {start}"))


CLASSES = r"^XSM_API uint32_t xsm_model_classes\([^;]*;"

# Description, the name that the refusal must say, the change.
BROKEN = [
    ("members of two pointer types swapped", "xsm_batch", member("xsm_batch", swap("values", "ids"))),
    ("members of one type swapped", "xsm_batch", member("xsm_batch", swap("labels", "ids"))),
    ("two members swapped and one added at the end", "xsm_batch",
     member("xsm_batch", both(swap("labels", "ids"), last("double later")))),
    ("a member removed", "xsm_batch", member("xsm_batch", remove("labels"))),
    ("the last member removed", "xsm_table_ops", member("xsm_table_ops", remove("rest"))),
    ("a member of another sign", "xsm_options", member("xsm_options", retype("epochs", "uint", "int"))),
    ("a wider member", "xsm_options", member("xsm_options", retype("epochs", "uint32_t", "uint64_t"))),
    ("a member inserted in a struct", "xsm_options", member("xsm_options", after("allocator", "void *between"))),
    ("a member inserted before the size", "xsm_options",
     member("xsm_options", lambda parts: parts.insert(0, "uint64_t before"))),
    ("a longer array within a struct", "xsm_options", member("xsm_options", retype("shape", "[4]", "[8]"))),
    ("a longer array at the end", "xsm_error", member("xsm_error", retype("message", "60", "92"))),
    ("a struct without a size has grown", "xsm_allocator", member("xsm_allocator", last("void *later"))),
    ("an element of arrays has grown", "xsm_pair", member("xsm_pair", last("double later"))),
    ("const removed from a member", "xsm_batch", member("xsm_batch", retype("labels", "const ", ""))),
    ("a slot inserted in a table", "xsm_table_ops",
     member("xsm_table_ops", after("gradient", "void (*between)(void *state)"))),
    ("two slots of one type swapped", "xsm_table_ops", member("xsm_table_ops", swap("bound", "rest"))),
    ("a slot removed", "xsm_table_ops", member("xsm_table_ops", remove("bound"))),
    ("a slot with another argument", "xsm_table_ops", member("xsm_table_ops", retype("gradient", "uint32_t", "uint64_t"))),
    ("a callback with another argument", "xsm_log_function",
     edit(r"(\*xsm_log_function\)\(void \*user, )int32_t", lambda match: match.group(1) + "int64_t")),
    ("a callback with another result", "xsm_allocator", member("xsm_allocator", retype("run", "int32_t", "void"))),
    ("a slot's arguments of one type swapped", "xsm_allocator",
     member("xsm_allocator", retype("allocate", "size_t size, size_t alignment", "size_t alignment, size_t size"))),
    ("a slot's arguments of one type swapped and renamed", "xsm_allocator",
     member("xsm_allocator", retype("allocate", "size_t size, size_t alignment", "size_t boundary, size_t size"))),
    ("a slot's argument of another width with 32 bits", "xsm_allocator",
     member("xsm_allocator", retype("run", "size_t count", "uint64_t count"))),
    ("a member of another width with 32 bits", "xsm_batch", member("xsm_batch", retype("stride", "size_t", "uint64_t"))),
    ("an aligned struct", "xsm_batch",
     edit(r"typedef struct xsm_batch \{", "typedef struct __attribute__((aligned(16))) xsm_batch {")),
    ("a packed struct", "xsm_allocator",
     edit(r"typedef struct xsm_allocator \{", "typedef struct __attribute__((packed)) xsm_allocator {")),
    ("a starting value", "XSM_BATCH_INIT", edit(r"(sizeof\(xsm_batch\)[^}]*?), 1,", lambda m: m.group(1) + ", 0,")),
    ("a starting value gone", "XSM_OPTIONS_INIT", edit(r"#define XSM_OPTIONS_INIT\b(?:[^\n]*\\\n)+[^\n]*\n", "")),
    ("a later member that starts at its default", "XSM_OPTIONS_INIT", grow_options("XSM_DEFAULT")),
    ("a later member that starts at a number", "XSM_OPTIONS_INIT", grow_options("1")),
    ("what stands for a default, as a double", "XSM_DEFAULT", edit(r"define XSM_DEFAULT \(-1\)", "define XSM_DEFAULT (-1.5)")),
    ("whether a member is there", "XSM_HAS",
     edit(r"#define XSM_HAS\(pointer, member\)[^\n]*\\\n[^\n]*", "#define XSM_HAS(pointer, member) 1")),
    ("an inline function", "xsm_batch_of", edit(r"batch\.first = first;", "batch.first = 0;")),
    ("an inline function's arguments swapped", "xsm_batch_of",
     edit(r"xsm_batch_of\(const uint32_t \*ids, uint64_t first, uint64_t count\)",
          "xsm_batch_of(const uint32_t *ids, uint64_t count, uint64_t first)")),
    ("enumerators renumbered", "XSM_LOG_INFO", edit(r"XSM_LOG_INFO = 1", "XSM_LOG_INFO = 4")),
    ("an enumerator removed", "XSM_LOG_DEBUG", edit(r",\s*XSM_LOG_DEBUG = 2", "")),
    ("a bit of another value", "XSM_FLAG_MULTI", edit(r"XSM_FLAG_MULTI = 4", "XSM_FLAG_MULTI = 64")),
    ("a status of another number", "XSM_ERROR_SHAPE", edit(r"X\(XSM_ERROR_SHAPE, 2", "X(XSM_ERROR_SHAPE, 27")),
    ("a constant of another value", "XSM_ROWS", edit(r"define XSM_ROWS 32", "define XSM_ROWS 64")),
    ("the status type is wider", "xsm_status", edit(r"typedef int32_t xsm_status;", "typedef int64_t xsm_status;")),
    ("a function gone", "xsm_model_classes", drop("xsm_model_classes")),
    ("a wider argument", "xsm_model_new", argument("xsm_model_new", retype("classes", "uint32_t", "uint64_t"))),
    ("an argument of another width with 32 bits", "xsm_model_get",
     argument("xsm_model_get", retype("count", "uint64_t", "size_t"))),
    ("a pointer to numbers of another width with 32 bits", "xsm_model_get",
     argument("xsm_model_get", retype("rows", "uint64_t", "size_t"))),
    ("a result of another width with 32 bits", "xsm_model_get",
     edit(r"XSM_API size_t xsm_model_get\(", "XSM_API uint64_t xsm_model_get(")),
    ("an argument added", "xsm_model_save", argument("xsm_model_save", last("uint32_t later"))),
    ("an argument removed", "xsm_model_get", argument("xsm_model_get", remove("count"))),
    ("arguments of two types swapped", "xsm_model_save", argument("xsm_model_save", swap("path", "err"))),
    ("arguments of one type swapped", "xsm_model_new", argument("xsm_model_new", swap("features", "classes"))),
    ("arguments of one type swapped and renamed", "xsm_model_new",
     argument("xsm_model_new", both(swap("features", "classes"), retype("features", "features", "dimension")))),
    ("const removed from an argument", "xsm_model_get", argument("xsm_model_get", retype("model", "const ", ""))),
    ("another result", "xsm_model_classes",
     edit(r"XSM_API uint32_t xsm_model_classes\(", "XSM_API uint64_t xsm_model_classes(")),
    ("no result", "xsm_model_save", edit(r"XSM_API xsm_status xsm_model_save\(", "XSM_API void xsm_model_save(")),
    ("a header of another name", "xsoftmax/calls.h", rename("calls.h", "functions.h")),
    ("a header of ext/ of another name", "xsoftmax/ext/table.h", rename("ext/table.h", "ext/tables.h")),
    ("a header with another guard", "xsoftmax/calls.h",
     edit(r"#ifndef XSOFTMAX_CALLS_H\n#define XSOFTMAX_CALLS_H", "#ifndef XSOFTMAX_ROWS_H\n#define XSOFTMAX_ROWS_H")),
    ("a flag with the bit of another", "XSM_FLAG_LATER", edit(r"XSM_FLAG_MULTI = 4", "XSM_FLAG_MULTI = 4, XSM_FLAG_LATER = 2")),
    ("a flag with two bits", "XSM_FLAG_LATER", edit(r"XSM_FLAG_MULTI = 4", "XSM_FLAG_MULTI = 4, XSM_FLAG_LATER = 96")),
    ("a status with the number of another", "XSM_ERROR_LATER",
     edit(r"X\(XSM_ERROR_SHAPE", "X(XSM_ERROR_LATER, 1, \"later\") X(XSM_ERROR_SHAPE")),
    ("columns of the statuses swapped", "XSM_STATUS_LIST", swap_columns),
    ("a status with another column", "XSM_STATUS_LIST",
     lambda tree: (tree.edit(r"XSM_STATUS_ENTRY_\(name, number, text\)", "XSM_STATUS_ENTRY_(name, number, ...)"),
                   tree.edit(r"X\(XSM_ERROR_SHAPE", 'X(XSM_ERROR_LATER, 97, "later", 1) X(XSM_ERROR_SHAPE'))),
    ("a struct that may grow, in another", "xsm_table_ops", member("xsm_table_ops", last("struct xsm_batch held"))),
    ("an array of a struct that may grow", "xsm_table_ops", member("xsm_table_ops", last("struct xsm_batch held[4]"))),
    ("a struct that may grow, as an argument", "xsm_later", add_function("void xsm_later(xsm_batch batch)")),
    ("a struct of ext/ without a number, in a call of the core", "xsm_later", lambda tree: (
        add_function("void xsm_later(const struct xsm_slot *slot)")(tree),
        tree.edit(r"^typedef struct xsm_table_ops \{", lambda m: "typedef struct xsm_slot { size_t size; } xsm_slot;\n" +
                  m.group()))),
    ("the number of the release by another formula", "XSM_VERSION",
     edit(r"XSM_VERSION_MAJOR \* 10000", "XSM_VERSION_MAJOR * 100000")),
    ("a documented default", "xsm_search_options", edit(r"0 = 5", "0 = 6")),
    ("a documented default gone", "xsm_search_options", edit(r"/\*\*< 0 = 5. \*/", "")),
    ("the ABI number of ext", "XSM_EXT_ABI_VERSION", edit(r"define XSM_EXT_ABI_VERSION 1", "define XSM_EXT_ABI_VERSION 2")),
    ("arguments in registers", "xsoftmax/calls.h",
     edit(CLASSES, lambda match: "__attribute__((regparm(3))) " + match.group())),
    ("arguments in registers on i386 alone", "xsoftmax/calls.h",
     edit(CLASSES, lambda match: match.group()[:-1] + "\n#ifdef __i386__\n__attribute__((regparm(3)))\n#endif\n;")),
    ("arguments in registers, of every function", "XSM_API",
     edit(r'visibility\("default"\)', 'visibility("default"), regparm(3)')),
    ("members of a C++ class swapped", "v0_1",
     edit(r"^( *T \*data_ = nullptr;\n)( *std::size_t size_ = 0;\n)", lambda m: m.group(2) + m.group(1), "include/*.hpp")),
    ("a reserved member of another type", "xsm_options",
     member("xsm_options", retype("reserved", "uint32_t reserved", "int32_t later"))),
    ("a reserved member wider, with a name", "xsm_batch",
     member("xsm_batch", retype("reserved", "int32_t reserved", "int64_t later"))),
    ("a reserved member gone from its place", "xsm_batch", member("xsm_batch", lambda parts: (
        parts.pop(at(parts, "reserved")), parts.append("int32_t later")))),
    ("a member of another name", "xsm_batch", member("xsm_batch", retype("length", "length", "width"))),
    ("a member that some programs have", "xsoftmax/kinds.h", only_if("ifdef XSM_EXPERIMENTAL", "xsm_options", "epochs")),
    ("a member that C++ does not have", "xsoftmax/kinds.h", only_if("ifndef __cplusplus", "xsm_options", "epochs")),
    ("a function that some programs have", "xsoftmax/calls.h",
     edit(CLASSES, lambda m: "#ifdef XSM_EXPERIMENTAL\n" + m.group() + "\n#endif")),
    ("a function of another type in C++", "xsoftmax/calls.h",
     by_language(CLASSES, lambda text: text.replace("uint32_t", "uint64_t"))),
    ("a constant of another value in C++", "xsoftmax/kinds.h",
     by_language(r"^#define XSM_ROWS 32", lambda text: "#define XSM_ROWS 1024")),
    ("an enumerator of another value on some machines", "XSM_LOG_DEBUG",
     edit(r"XSM_LOG_DEBUG = 2", "XSM_LOG_DEBUG = (sizeof(void *) == 8 ? 2 : 4)")),
    ("functions with C++'s names in C++", "xsoftmax/calls.h",
     edit(r'#ifdef __cplusplus\nextern "C" \{\n#endif\n', "", "include/xsoftmax/calls.h")),
    ("a function behind the end of extern \"C\"", "xsm_model_classes", lambda tree: (
        tree.edit(CLASSES, ""), tree.edit(r"\n#endif\s*\Z", "\nXSM_API uint32_t xsm_model_classes(const xsm_model *model);\n"
                                          "#endif\n", "include/xsoftmax/calls.h"))),
    ("a header that another includes no longer", "xsoftmax/calls.h",
     edit(r"#include <xsoftmax/calls.h>\n", "", "include/xsoftmax.h")),
    ("a header of the core that only some programs include", "xsoftmax.h", lambda tree: (
        tree.edit(r"#include <xsoftmax/calls.h>\n", "", "include/xsoftmax.h"),
        tree.edit(r"#ifdef XSM_EXPERIMENTAL\n", lambda m: m.group() + "#include <xsoftmax/calls.h>\n", "include/xsoftmax.h"))),
    ("an experimental header that every program includes", "xsoftmax.h",
     edit(r"#ifdef XSM_EXPERIMENTAL\n((?:#include .*\n)+)#endif\n", lambda m: m.group(1), "include/xsoftmax.h")),
    ("an experimental header that no program has to ask for", "xsoftmax/tune.h",
     edit(r"#ifndef XSM_EXPERIMENTAL\n#error.*\n#endif\n", "", "include/xsoftmax/tune.h")),
    ("a function in another header", "xsm_model_classes", lambda tree: (
        tree.edit(CLASSES, "", "include/xsoftmax/calls.h"),
        tree.edit(r"^XSM_API xsm_status xsm_table_add\(", lambda m: "XSM_API uint32_t xsm_model_classes(const xsm_model *model);"
                  "\n" + m.group(), "include/xsoftmax/ext/table.h"))),
    ("long numbers at the end of a struct, which align it", "xsm_batch", member("xsm_batch", last("long double later"))),
    ("a pointer of the core to an experimental struct", "xsm_options",
     member("xsm_options", retype("comm", "const ", ""))),
    ("bits of a member", "xsm_options", member("xsm_options", retype("epochs", "epochs", "epochs : 31"))),
]

ALLOWED = [
    ("a member at the end of options", member("xsm_options", last("double later"))),
    ("a member at the end of options, with a starting value", grow_options("0")),
    ("members at the end of a struct that others point to", member("xsm_batch", last("double later", "const void *latest"))),
    ("a slot at the end of a table", member("xsm_table_ops", last("void (*later)(void *state)"))),
    ("an enumerator at the end", edit(r"XSM_LOG_DEBUG = 2", "XSM_LOG_DEBUG = 2, XSM_LOG_LATER = 3")),
    ("a status", edit(r"X\(XSM_ERROR_SHAPE", "X(XSM_ERROR_LATER, 97, \"later\") X(XSM_ERROR_SHAPE")),
    ("a function", add_function("xsm_status xsm_later(const struct xsm_model *model, double value)")),
    ("a struct, and a function with it", lambda tree: (
        tree.edit(r"^typedef struct xsm_batch \{", "typedef struct xsm_later { size_t size; double value; } xsm_later;\n"
                  "typedef struct xsm_batch {"), add_function("void xsm_later_fill(struct xsm_later *later)")(tree))),
    ("a flag with a bit of its own", edit(r"XSM_FLAG_MULTI = 4", "XSM_FLAG_MULTI = 4, XSM_FLAG_LATER = 1024")),
    ("a name for a reserved member", member("xsm_batch", retype("reserved", "reserved", "later"))),
    ("a name for a reserved member at the end, and another member",
     member("xsm_options", both(retype("reserved", "reserved", "later"), last("double latest")))),
    ("a comment of the C++ header", edit(r"^template", "// of rows\ntemplate", "include/*.hpp")),
    ("a class of C++ in another namespace", grow_cpp),
    ("a header that another includes by way of a third",
     edit(r"#include <xsoftmax/kinds.h>\n", "", "include/xsoftmax.h")),
    ("a struct in a header that the old one includes", lambda tree: (
        tree.edit(r"^typedef struct xsm_pair \{[^}]*\} xsm_pair;\n", "", "include/xsoftmax/kinds.h"),
        tree.edit(r"^#include <xsoftmax/version.h>\n", lambda m: m.group() + "#include <xsoftmax/pair.h>\n",
                  "include/xsoftmax/kinds.h"),
        (tree.folder / "include/xsoftmax/pair.h").write_text(
            "#ifndef XSOFTMAX_PAIR_H\n#define XSOFTMAX_PAIR_H\n#include <stdint.h>\n"
            "typedef struct xsm_pair { uint32_t id; float value; } xsm_pair;\n#endif\n"))),
    ("an experimental function gone", drop("xsm_tune")),
    ("an experimental function with another argument", argument("xsm_tune", last("uint32_t later"))),
    ("members of an experimental struct swapped", member("xsm_tune_options", swap("seed", "rate"))),
    ("members of an experimental struct that the core points to swapped", member("xsm_comm", swap("rank", "ranks"))),
    ("an experimental constant of another value", edit(r"define XSM_TRIALS_MAX \d+", "define XSM_TRIALS_MAX 16")),
    ("a new header", lambda tree: (tree.folder / "include/xsoftmax/ext/later.h").write_text(
        "#ifndef XSOFTMAX_LATER_H\n#define XSOFTMAX_LATER_H\n#include <xsoftmax/version.h>\n#ifdef __cplusplus\n"
        'extern "C" {\n#endif\nXSM_API uint32_t xsm_later(void);\n#ifdef __cplusplus\n}\n#endif\n#endif\n')),
    ("a deprecated function", edit(r"^XSM_API uint32_t xsm_model_classes",
                                   'XSM_API XSM_DEPRECATED("since 1.1; by xsm_model_get()") uint32_t xsm_model_classes')),
    ("an argument of another name", argument("xsm_model_save", retype("path", "path", "file"))),
]


def attempt(number):
    """What the gate says to a change, or None where it lets it pass."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        tree = Tree(pathlib.Path(folder))
        (BROKEN + ALLOWED)[number][-1](tree)
        include = tree.folder / "include"
        result = abi.compiled(COMPILER, include, abi.includes(include), "-fsyntax-only", "-w")
        if result.returncode != 0:
            raise LookupError("a change that is no C:\n" + result.stderr)
        try:
            passed = abi.check(BASE / "pins.inc", include, COMPILER) == 0
        except SystemExit:
            passed = False
        return None if passed else said.getvalue()


def renewed(root):
    result = subprocess.run(["sh", root / "tests/structure/renew-abi.sh"], text=True, capture_output=True)
    return result.returncode, result.stdout + result.stderr


def released(root):
    """Whether renew-abi.sh, once the changelog has a date, takes growth alone and leaves what it has of the release."""
    Tree(root)
    for place in ("lib/base", "lib/words", "lib/mpi", "tests/structure/abi"):
        (root / place).mkdir(parents=True)
    for name in ("lib/abi.py", "tests/structure/renew-abi.sh"):
        shutil.copy(ROOT / name, root / name)
    read = lambda: {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    version = ".".join(re.findall(r"^#define XSM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                                  (root / "include/xsoftmax/version.h").read_text(), flags=re.M))
    meson = root / "meson.build"
    meson.write_text(f"  version: '{version}',\n")
    changelog, header, classes = root / "CHANGELOG.md", root / "include/xsoftmax/kinds.h", root / "include/xsoftmax.hpp"
    changelog.write_text(f"## [{version}] - unreleased\n")
    status, output = renewed(root)
    if status != 0:
        return "renew-abi.sh refuses before a release:\n" + output
    changelog.write_text(f"## [{version}] - 2001-02-03\n")
    for path, old, new in [(header, "size_t size, size_t alignment", "size_t alignment, size_t size"),
                           (classes, "size_t size_ = 0;", "size_t size_ = 1;")]:
        as_it_was = path.read_text()
        path.write_text(as_it_was.replace(old, new, 1))
        before = read()
        if path.read_text() == as_it_was or renewed(root)[0] == 0 or read() != before:
            return f"renew-abi.sh took another {path.name} after a release"
        path.write_text(as_it_was)
    grown = header.read_text().replace("XSM_LOG_DEBUG = 2", "XSM_LOG_DEBUG = 2, XSM_LOG_LATER = 3")
    header.write_text(re.sub(r"reserved;([^;]*\} xsm_options;)", r"later;\1", grown))
    before = read()
    status, output = renewed(root)
    after = read()
    changed = {str(path.relative_to(root)) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if status != 0 or "tests/structure/abi/pins.inc" not in changed:
        return f"renew-abi.sh did not take growth after a release as it should:\n{output}{changed}"
    if "XSMI_LAST_xsm_options later\n" not in (root / "lib/base/first.h").read_text():
        return "first.h has the old name of a reserved member"

    # A function that comes later has a node that an older library lacks; those that are there keep theirs.
    calls = root / "include/xsoftmax/calls.h"
    calls.write_text(calls.read_text().replace("XSM_API uint32_t xsm_model_classes", "XSM_API uint32_t xsm_later(void);\n"
                                               "XSM_API uint32_t xsm_model_classes"))
    status, output = renewed(root)
    if status == 0 or "xsm_later() is new" not in output:
        return "renew-abi.sh put a function into a release that has a date:\n" + output
    major, minor, patch = version.split(".")
    later = f"{major}.{int(minor) + 1}"
    meson.write_text(f"  version: '{later}.0',\n")
    before = (root / "lib/xsoftmax.map").read_text()
    status, output = renewed(root)
    after = (root / "lib/xsoftmax.map").read_text()
    added = f"XSOFTMAX_{later} {{\n    global:\n        xsm_later;\n}} XSOFTMAX_{major}.{minor};\n"
    named = after.replace(added, "").replace(f"XSOFTMAX_EXPERIMENTAL_{later}", f"XSOFTMAX_EXPERIMENTAL_{major}.{minor}")
    if status != 0 or added not in after or named != before:
        return f"a function of {later} is not in a node of its own:\n{output}{after}"
    return None


def main():
    global BASE
    chosen = lambda entry: not sys.argv[1:] or any(word in entry[0] for word in sys.argv[1:])
    entries = BROKEN + ALLOWED
    numbers = [number for number, entry in enumerate(entries) if chosen(entry)]
    caught = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        BASE = pathlib.Path(folder)
        include = Tree(BASE).folder / "include"
        result = subprocess.run([sys.executable, ROOT / "lib/abi.py", "pins", include, "-", *COMPILER], text=True,
                                capture_output=True)
        if result.returncode != 0:
            print(f"the small headers cannot be described:\n{result.stdout}{result.stderr}")
            return 1
        (BASE / "pins.inc").write_text(result.stdout)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answers = pool.map(attempt, numbers, chunksize=4)
    for number, said in zip(numbers, answers):
        text = entries[number][0]
        if number >= len(BROKEN):
            passed += said is None
            print(f"{'passed' if said is None else 'REFUSED':12} {text}\n{said or ''}", end="")
            continue
        name = entries[number][1]
        found = bool(said) and re.search(rf"\b{name}\b", said) is not None
        caught += found
        print(f"{'caught' if found else 'NOT CAUGHT':12} {text} ({name})\n{'' if found else said or ''}", end="")
    with tempfile.TemporaryDirectory() as folder:
        wrong = None if sys.argv[1:] else released(pathlib.Path(folder))
    print(wrong or "after a release: growth alone")
    broken = sum(number < len(BROKEN) for number in numbers)
    print(f"{caught} of {broken} broken ABIs caught, {passed} of {len(numbers) - broken} allowed changes passed")
    return 0 if caught == broken and passed == len(numbers) - broken and numbers and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
