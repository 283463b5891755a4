#!/usr/bin/env python3
"""Tries the gates of the ABI: abi_mutations.py [WORD...]   only what has a WORD in its description

Each broken interface below is made in a copy of headers and symbol map, and must be refused by name, by `abi.py check` or by
check-abi.sh; each allowed growth must pass both. With $XSM_TEST_FULL or a WORD all are, otherwise each fourth, with
$XSM_TEST_BRIEF each sixteenth. They compare with the interface of today, not with the stored one, so that growth since then
is no matter. Ends with 77 where there is no abigail.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def command(*words):
    result = subprocess.run(words, text=True, capture_output=True)
    return result.returncode, result.stdout + result.stderr


class Tree:
    """A copy of the interface, its headers without comments."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(ROOT / "include", folder / "include")
        (folder / "lib").mkdir()
        shutil.copy(ROOT / "lib/xsoftmax.map", folder / "lib")
        for header in (folder / "include").rglob("*.h"):
            header.write_text(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S))

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
    def change(tree):
        tree.edit(rf"^XSM_API [^;]*\b{name}\([^;]*;", "")
        tree.edit(rf"^ *{name};\n", "", "lib/xsoftmax.map")
    return change


def move(name, old, new):
    """A function from one version node to another."""
    def change(tree):
        tree.edit(rf"^{old} \{{\n    global:\n(?:.*\n)*? *{name};\n", lambda m: m.group().replace(f"        {name};\n", ""),
                  "lib/xsoftmax.map")
        tree.edit(rf"^{new} \{{\n    global:\n", lambda m: m.group() + f"        {name};\n", "lib/xsoftmax.map")
    return change


def add_function(declaration):
    def change(tree):
        tree.edit(r"^XSM_API uint32_t xsm_model_feature_count\([^;]*;",
                  lambda match: match.group() + "\nXSM_API " + declaration + ";")
        name = re.search(r"(xsm_\w+)\(", declaration).group(1)
        tree.edit(r"^XSOFTMAX_0 \{\n    global:\n", f"XSOFTMAX_0 {{\n    global:\n        {name};\n", "lib/xsoftmax.map")
    return change


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
    path = tree.folder / "include/xsoftmax/error.h"
    text, count = re.subn(r"\bX\((\w+), (\d+),", r"X(\2, \1,", path.read_text())
    if count < 20:
        raise LookupError(f"{count} statuses")
    path.write_text(text.replace("XSM_STATUS_ENTRY_(name, number, text)", "XSM_STATUS_ENTRY_(number, name, text)"))


def grow_cpp(tree):
    """Another class, in another namespace."""
    tree.edit(r"#define XSM_VERSION_MINOR \d+", "#define XSM_VERSION_MINOR 99")
    tree.edit(r"^( *)std::size_t size_ = 0;\n", lambda match: match.group() + "    double later_ = 0;\n", "include/*.hpp")


def grow_load_options(start):
    return lambda tree: (tree.members("xsm_load_options", last("double later")),
                         tree.edit(r"sizeof\(xsm_load_options\), 0, 0", f"sizeof(xsm_load_options), 0, 0, {start}"))


# Description, the name that the refusal must say, the change.
BROKEN = [
    ("members of two pointer types swapped", "xsm_batch", member("xsm_batch", swap("labels", "ids"))),
    ("members of one type swapped", "xsm_class_map", member("xsm_class_map", swap("classes", "features"))),
    ("two members swapped and one added at the end", "xsm_batch",
     member("xsm_batch", both(swap("labels", "ids"), last("double later")))),
    ("a member removed", "xsm_dataset_info", member("xsm_dataset_info", remove("unlabelled"))),
    ("the last member removed", "xsm_row", member("xsm_row", remove("label_count"))),
    ("a member of another sign", "xsm_trainer_options", member("xsm_trainer_options", retype("epochs", "uint", "int"))),
    ("a wider member", "xsm_predictor_options", member("xsm_predictor_options", retype("top", "uint32_t", "uint64_t"))),
    ("a member inserted in a struct", "xsm_context_options",
     member("xsm_context_options", after("allocator", "void *between"))),
    ("a member inserted before the size", "xsm_read_options",
     member("xsm_read_options", lambda parts: parts.insert(0, "uint64_t before"))),
    ("a longer array within a struct", "xsm_array", member("xsm_array", retype("shape", "[4]", "[8]"))),
    ("a longer array at the end", "xsm_error", member("xsm_error", retype("message", "480", "512"))),
    ("a struct without a size has grown", "xsm_allocator", member("xsm_allocator", last("void *later"))),
    ("an element of arrays has grown", "xsm_example", member("xsm_example", last("double later"))),
    ("const removed from a member", "xsm_labels", member("xsm_labels", retype("labels", "const ", ""))),
    ("a slot inserted in a table", "xsm_estimator_ops",
     member("xsm_estimator_ops", after("gradient", "void (*between)(void *state)"))),
    ("two slots of one type swapped", "xsm_estimator_ops", member("xsm_estimator_ops", swap("row_bound", "sift"))),
    ("a slot removed", "xsm_index_ops", member("xsm_index_ops", remove("info"))),
    ("a slot with another argument", "xsm_sampler_ops",
     member("xsm_sampler_ops", retype("log_probability", "uint32_t", "uint64_t"))),
    ("a callback with another argument", "xsm_log_function",
     edit(r"(\*xsm_log_function\)\(void \*user, )int32_t", lambda match: match.group(1) + "int64_t")),
    ("a callback with another result", "xsm_runner", member("xsm_runner", retype("run", "int32_t", "void"))),
    ("a slot's arguments of one type swapped", "xsm_allocator",
     member("xsm_allocator", retype("allocate", "size_t size, size_t alignment", "size_t alignment, size_t size"))),
    ("a slot's arguments of one type swapped and renamed", "xsm_allocator",
     member("xsm_allocator", retype("release", "size_t size, size_t alignment", "size_t boundary, size_t size"))),
    ("a slot's argument of another width with 32 bits", "xsm_runner",
     member("xsm_runner", retype("run", "size_t count", "uint64_t count"))),
    ("a member of another width with 32 bits", "xsm_batch", member("xsm_batch", retype("stride", "size_t", "uint64_t"))),
    ("an aligned struct", "xsm_batch",
     edit(r"typedef struct xsm_batch \{", "typedef struct __attribute__((aligned(16))) xsm_batch {")),
    ("a packed struct", "xsm_allocator",
     edit(r"typedef struct xsm_allocator \{", "typedef struct __attribute__((packed)) xsm_allocator {")),
    ("a starting value", "XSM_GRADIENT_VIEW_INIT",
     edit(r"(sizeof\(xsm_gradient_view\)[^}]*?), 1,", lambda m: m.group(1) + ", 0,")),
    ("a starting value gone", "XSM_ROW_INIT", edit(r"#define XSM_ROW_INIT\b(?:[^\n]*\\\n)+[^\n]*\n", "")),
    ("a later member that starts at its default", "XSM_LOAD_OPTIONS_INIT", grow_load_options("XSM_DEFAULT")),
    ("a later member that starts at a number", "XSM_LOAD_OPTIONS_INIT", grow_load_options("1")),
    ("what stands for a default, as a double", "XSM_DEFAULT", edit(r"define XSM_DEFAULT \(-1\)", "define XSM_DEFAULT (-1.5)")),
    ("whether a member is there", "XSM_HAS",
     edit(r"#define XSM_HAS\(pointer, member\)[^\n]*\\\n[^\n]*", "#define XSM_HAS(pointer, member) 1")),
    ("an inline function", "xsm_batch_range", edit(r"batch\.first = first;", "batch.first = 0;")),
    ("an inline function's arguments swapped", "xsm_batch_range",
     edit(r"xsm_batch_range\(const xsm_dataset \*dataset, uint64_t first, uint64_t count\)",
          "xsm_batch_range(const xsm_dataset *dataset, uint64_t count, uint64_t first)")),
    ("enumerators renumbered", "XSM_LOG_INFO", edit(r"XSM_LOG_INFO = 2", "XSM_LOG_INFO = 4")),
    ("an enumerator removed", "XSM_LOG_DEBUG", edit(r",\s*XSM_LOG_DEBUG = 3", "")),
    ("a bit of another value", "XSM_ESTIMATOR_MULTI_LABEL",
     edit(r"XSM_ESTIMATOR_MULTI_LABEL = 4", "XSM_ESTIMATOR_MULTI_LABEL = 64")),
    ("a status of another number", "XSM_ERROR_SHAPE", edit(r"X\(XSM_ERROR_SHAPE, 17", "X(XSM_ERROR_SHAPE, 27")),
    ("a constant of another value", "XSM_SAMPLER_ROWS", edit(r"define XSM_SAMPLER_ROWS 32", "define XSM_SAMPLER_ROWS 64")),
    ("the status type is wider", "xsm_status", edit(r"typedef int32_t xsm_status;", "typedef int64_t xsm_status;")),
    ("a function gone", "xsm_model_feature_count", drop("xsm_model_feature_count")),
    ("a function not exported", "xsm_model_feature_count", edit(r"^ *xsm_model_feature_count;\n", "", "lib/xsoftmax.map")),
    ("another version node", "XSOFTMAX_0", edit(r"^XSOFTMAX_0 ", "XSOFTMAX_0_1 ", "lib/xsoftmax.map")),
    ("a symbol in the node of another tier", "xsm_prefetch", move("xsm_prefetch", "XSOFTMAX_EXT_1", "XSOFTMAX_0")),
    ("a symbol in the node of a tier that promises less", "xsm_struct_init",
     move("xsm_struct_init", "XSOFTMAX_0", "XSOFTMAX_EXT_1")),
    ("a core symbol in the experimental node", "xsm_trainer_run",
     move("xsm_trainer_run", "XSOFTMAX_0", "XSOFTMAX_EXPERIMENTAL")),
    ("the node of ext renumbered", "XSOFTMAX_EXT_1", edit(r"^XSOFTMAX_EXT_1 ", "XSOFTMAX_EXT_2 ", "lib/xsoftmax.map")),
    ("the ABI number of ext", "XSM_EXT_ABI_VERSION", edit(r"define XSM_EXT_ABI_VERSION 1", "define XSM_EXT_ABI_VERSION 2")),
    ("a wider argument", "xsm_model_new_linear", argument("xsm_model_new_linear", retype("classes", "uint32_t", "uint64_t"))),
    ("an argument of another width with 32 bits", "xsm_dataset_select",
     argument("xsm_dataset_select", retype("count", "uint64_t", "size_t"))),
    ("a pointer to numbers of another width with 32 bits", "xsm_dataset_select",
     argument("xsm_dataset_select", retype("rows", "uint64_t", "size_t"))),
    ("a result of another width with 32 bits", "xsm_estimator_get",
     edit(r"XSM_API size_t xsm_estimator_get\(", "XSM_API uint64_t xsm_estimator_get(")),
    ("a struct that is longer with 32 bits alone", "xsm_index_search",
     member("xsm_index_search", retype("stride", "size_t", "uint64_t"))),
    ("an argument added", "xsm_model_save", argument("xsm_model_save", last("uint32_t later"))),
    ("an argument removed", "xsm_dataset_shuffle", argument("xsm_dataset_shuffle", remove("seed"))),
    ("arguments of two types swapped", "xsm_trainer_new", argument("xsm_trainer_new", swap("estimator", "optimizer"))),
    ("arguments of one type swapped", "xsm_model_new_linear",
     argument("xsm_model_new_linear", swap("features", "classes"))),
    ("arguments of one type swapped and renamed", "xsm_model_new_linear",
     argument("xsm_model_new_linear", both(swap("features", "classes"), retype("features", "features", "dimension")))),
    ("const removed from an argument", "xsm_dataset_get_info",
     argument("xsm_dataset_get_info", retype("dataset", "const ", ""))),
    ("another result", "xsm_model_class_count",
     edit(r"XSM_API uint32_t xsm_model_class_count\(", "XSM_API uint64_t xsm_model_class_count(")),
    ("a header of another name", "xsoftmax/dtype.h", rename("dtype.h", "number.h")),
    ("a header of ext/ of another name", "xsoftmax/ext/pairs.h", rename("ext/pairs.h", "ext/couples.h")),
    ("a header with another guard", "xsoftmax/batch.h",
     edit(r"#ifndef XSOFTMAX_BATCH_H\n#define XSOFTMAX_BATCH_H", "#ifndef XSOFTMAX_ROWS_H\n#define XSOFTMAX_ROWS_H")),
    ("a flag with the bit of another", "XSM_ESTIMATOR_LATER",
     edit(r"XSM_ESTIMATOR_MULTI_LABEL = 4", "XSM_ESTIMATOR_MULTI_LABEL = 4, XSM_ESTIMATOR_LATER = 32")),
    ("a flag with two bits", "XSM_ESTIMATOR_LATER",
     edit(r"XSM_ESTIMATOR_MULTI_LABEL = 4", "XSM_ESTIMATOR_MULTI_LABEL = 4, XSM_ESTIMATOR_LATER = 96")),
    ("a status with the number of another", "XSM_ERROR_LATER",
     edit(r"X\(XSM_ERROR_SHAPE", "X(XSM_ERROR_LATER, 25, \"later\") X(XSM_ERROR_SHAPE")),
    ("columns of the statuses swapped", "XSM_STATUS_LIST", swap_columns),
    ("a status with another column", "XSM_STATUS_LIST",
     lambda tree: (tree.edit(r"XSM_STATUS_ENTRY_\(name, number, text\)", "XSM_STATUS_ENTRY_(name, number, ...)"),
                   tree.edit(r"X\(XSM_ERROR_SHAPE", 'X(XSM_ERROR_LATER, 97, "later", 1) X(XSM_ERROR_SHAPE'))),
    ("a struct that may grow, in another", "xsm_draw", member("xsm_draw", last("struct xsm_batch held"))),
    ("an array of a struct that may grow", "xsm_draw", member("xsm_draw", last("struct xsm_batch held[4]"))),
    ("a struct that may grow, as an argument", "xsm_later", add_function("void xsm_later(xsm_batch batch)")),
    ("the number of the release by another formula", "XSM_VERSION",
     edit(r"XSM_VERSION_MAJOR \* 10000", "XSM_VERSION_MAJOR * 100000")),
    ("arguments in registers", "xsoftmax/model.h",
     edit(r"^XSM_API uint32_t xsm_model_feature_count\(",
          "__attribute__((regparm(3))) XSM_API uint32_t xsm_model_feature_count(")),
    ("arguments in registers on i386 alone", "xsoftmax/model.h",
     edit(r"^(XSM_API uint32_t xsm_model_feature_count\([^;]*);",
          lambda match: match.group(1) + "\n#ifdef __i386__\n__attribute__((regparm(3)))\n#endif\n;")),
    ("arguments in registers, of every function", "XSM_API",
     edit(r'visibility\("default"\)', 'visibility("default"), regparm(3)')),
    ("members of a C++ class swapped", "v0_1",
     edit(r"^( *T \*data_ = nullptr;\n)( *std::size_t size_ = 0;\n)", lambda m: m.group(2) + m.group(1), "include/*.hpp")),
    ("members of a C++ class that the header keeps to itself, swapped", "v0_1",
     edit(r"^( *std::mutex mutex_;\n)( *std::exception_ptr thrown_;\n)", lambda m: m.group(2) + m.group(1), "include/*.hpp")),
    ("a reserved member of another type", "xsm_evaluate_options",
     member("xsm_evaluate_options", retype("reserved", "uint32_t reserved", "int32_t later"))),
    ("a reserved member wider, with a name", "xsm_class_map",
     member("xsm_class_map", retype("reserved", "int32_t reserved", "int64_t later"))),
    ("a reserved member gone from its place", "xsm_class_map", member("xsm_class_map", lambda parts: (
        parts.pop(at(parts, "reserved")), parts.append("int32_t later")))),
    ("a member of another name", "xsm_draw_plan", member("xsm_draw_plan", retype("count", "count", "draws"))),
    ("a member that some programs have", "xsoftmax/context.h",
     only_if("ifdef XSM_EXPERIMENTAL", "xsm_context_options", "cpu_disable")),
    ("a member that C++ does not have", "xsoftmax/batch.h", only_if("ifndef __cplusplus", "xsm_batch", "first")),
    ("a function that some programs have", "xsoftmax/model.h",
     edit(r"^XSM_API uint32_t xsm_model_feature_count\([^;]*;", lambda m: "#ifdef XSM_EXPERIMENTAL\n" + m.group() + "\n#endif")),
    ("a function of another type in C++", "xsoftmax/model.h",
     by_language(r"^XSM_API uint32_t xsm_model_feature_count\([^;]*;", lambda text: text.replace("uint32_t", "uint64_t"))),
    ("a constant of another value in C++", "xsoftmax/metrics.h",
     by_language(r"^#define XSM_TOP_MAX 65536", lambda text: "#define XSM_TOP_MAX 1024")),
    ("an enumerator of another value on some machines", "XSM_DTYPE_INT8",
     edit(r"XSM_DTYPE_INT8 = 3", "XSM_DTYPE_INT8 = (sizeof(void *) == 8 ? 3 : 4)")),
    ("functions with C++'s names in C++", "xsoftmax/predict.h",
     edit(r'#ifdef __cplusplus\nextern "C" \{\n#endif\n(?=(?:.*\n)*.*xsm_predictor_new\()', "", "include/xsoftmax/predict.h")),
    ("a function behind the end of extern \"C\"", "xsm_model_feature_count", lambda tree: (
        tree.edit(r"^XSM_API uint32_t xsm_model_feature_count\([^;]*;", "", "include/xsoftmax/model.h"),
        tree.edit(r"\n#endif\s*\Z", "\nXSM_API uint32_t xsm_model_feature_count(const xsm_model *model);\n#endif\n",
                  "include/xsoftmax/model.h"))),
    ("a header that another includes no longer", "xsoftmax/label_tree.h",
     edit(r"#include <xsoftmax/label_tree.h>\n", "", "include/xsoftmax.h")),
    ("a header of the core that only some programs include", "xsoftmax.h", lambda tree: (
        tree.edit(r"#include <xsoftmax/label_tree.h>\n", "", "include/xsoftmax.h"),
        tree.edit(r"#ifdef XSM_EXPERIMENTAL\n", lambda m: m.group() + "#include <xsoftmax/label_tree.h>\n",
                  "include/xsoftmax.h"))),
    ("an experimental header that every program includes", "xsoftmax.h",
     edit(r"#ifdef XSM_EXPERIMENTAL\n((?:#include .*\n)+)#endif\n", lambda m: m.group(1), "include/xsoftmax.h")),
    ("an experimental header that no program has to ask for", "xsoftmax/tune.h",
     edit(r"#ifndef XSM_EXPERIMENTAL\n#error.*\n#endif\n", "", "include/xsoftmax/tune.h")),
    ("a function in another header", "xsm_status_name", lambda tree: (
        tree.edit(r"^XSM_API const char \*xsm_status_name\([^;]*;\n", "", "include/xsoftmax/error.h"),
        tree.edit(r"^XSM_API void xsm_context_free\(", lambda m: "XSM_API const char *xsm_status_name(xsm_status status);\n" +
                  m.group(), "include/xsoftmax/context.h"))),
    ("long numbers at the end of a struct, which align it", "xsm_batch", member("xsm_batch", last("long double later"))),
    ("a pointer of the core to an experimental struct", "xsm_context_options",
     member("xsm_context_options", retype("comm", "const ", ""))),
    ("bits of a member", "xsm_model_options", member("xsm_model_options", retype("bias", "bias", "bias : 31"))),
    ("no result", "xsm_model_save", edit(r"XSM_API xsm_status xsm_model_save\(", "XSM_API void xsm_model_save(")),
]

ALLOWED = [
    ("a member at the end of options", member("xsm_trainer_options", last("double later"))),
    ("a member at the end of options, with a starting value", grow_load_options("0")),
    ("a member at the end of an option", member("xsm_option", last("const char *unit"))),
    ("members at the end of a struct that others point to", member("xsm_batch", last("double later", "const void *latest"))),
    ("a slot at the end of a table", member("xsm_estimator_ops", last("void (*later)(void *state)"))),
    ("a member at the end of what tables are given", member("xsm_score_block", last("const double *later"))),
    ("an enumerator at the end", edit(r"XSM_LOG_DEBUG = 3", "XSM_LOG_DEBUG = 3, XSM_LOG_LATER = 4")),
    ("a status", edit(r"X\(XSM_ERROR_SHAPE", "X(XSM_ERROR_LATER, 97, \"later\") X(XSM_ERROR_SHAPE")),
    ("a function", add_function("xsm_status xsm_later(const struct xsm_model *model, double value)")),
    ("a struct, and a function with it", lambda tree: (
        tree.edit(r"^typedef struct xsm_row \{", "typedef struct xsm_later { size_t size; double value; } xsm_later;\n"
                  "typedef struct xsm_row {"), add_function("void xsm_later_fill(struct xsm_later *later)")(tree))),
    ("a flag with a bit of its own", edit(r"XSM_ESTIMATOR_MULTI_LABEL = 4",
                                          "XSM_ESTIMATOR_MULTI_LABEL = 4, XSM_ESTIMATOR_LATER = 1024")),
    ("a name for a reserved member", member("xsm_class_map", retype("reserved", "reserved", "later"))),
    ("a name for a reserved member at the end, and another member",
     member("xsm_evaluate_options", both(retype("reserved", "reserved", "later"), last("double latest")))),
    ("a name for one of two reserved members", member("xsm_embedding_options", retype("reserved", "reserved", "later"))),
    ("a comment of the C++ header", edit(r"^class cstring$", "class cstring // of a call", "include/*.hpp")),
    ("a class of C++ in another namespace", grow_cpp),
    ("a header that another includes by way of a third", lambda tree: (
        tree.edit(r"#include <xsoftmax/dtype.h>\n", "", "include/xsoftmax/batch.h"))),
    ("a struct in a header that the old one includes", lambda tree: (
        tree.edit(r"^typedef struct xsm_class_list \{[^}]*\} xsm_class_list;\n", "", "include/xsoftmax/option.h"),
        tree.edit(r"^typedef struct xsm_error \{", lambda m: "typedef struct xsm_class_list { const uint32_t *classes; "
                  "uint32_t count; uint32_t reserved; } xsm_class_list;\n" + m.group(), "include/xsoftmax/error.h"))),
    ("an experimental function gone", drop("xsm_tuning_get_trial")),
    ("an experimental function with another argument", argument("xsm_choose", last("uint32_t later"))),
    ("members of an experimental struct swapped", member("xsm_choose_options", lambda parts: parts.insert(1, parts.pop()))),
    ("members of an experimental struct that the core points to swapped", member("xsm_comm", swap("rank", "ranks"))),
    ("an experimental constant of another value", edit(r"define XSM_RANKS_MAX \d+", "define XSM_RANKS_MAX 16")),
    ("a new header", lambda tree: (
        (tree.folder / "include/xsoftmax/ext/later.h").write_text(
            "#ifndef XSOFTMAX_LATER_H\n#define XSOFTMAX_LATER_H\n#include <xsoftmax/version.h>\n#ifdef __cplusplus\n"
            'extern "C" {\n#endif\nXSM_API uint32_t xsm_later(void);\n#ifdef __cplusplus\n}\n#endif\n#endif\n'),
        tree.edit(r"^XSOFTMAX_EXT_1 \{\n    global:\n", lambda m: m.group() + "        xsm_later;\n", "lib/xsoftmax.map"))),
    ("an argument of another name", argument("xsm_model_save", retype("path", "path", "file"))),
]


def gates(tree, base):
    """What the gates say that refuse it, by their names."""
    said = {}
    for name, words in [("pins", (sys.executable, HERE / "abi.py", "check", base / "pins.inc", tree.folder / "include", "gcc")),
                        ("abidiff", ("sh", HERE / "check-abi.sh", "--root", tree.folder, "--baseline", base / "base.abi"))]:
        status, output = command(*words)
        if status != 0:
            said[name] = output
    return said


def attempt(change, base):
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(pathlib.Path(folder))
        change(tree)
        everything = "".join(f"#include <{path.relative_to(tree.folder / 'include')}>\n"
                             for path in sorted((tree.folder / "include").rglob("*.h")))
        result = subprocess.run(["gcc", "-std=c11", "-DXSM_EXPERIMENTAL", "-fsyntax-only", "-w", "-I", tree.folder / "include",
                                 "-x", "c", "-"], input=everything, text=True, capture_output=True)
        if result.returncode != 0:
            raise LookupError("a change that is no C:\n" + result.stderr)
        return gates(tree, base)


def released():
    """Whether renew-abi.sh, once the changelog has a date, takes growth alone and leaves what it has of the release."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for part in ["include", "lib", "examples", "tests/structure"]:
            shutil.copytree(ROOT / part, root / part)
        (root / "CHANGELOG.md").write_text(re.sub(r"^(## \[.*\] - )unreleased", r"\g<1>2001-02-03",
                                                  (ROOT / "CHANGELOG.md").read_text(), count=1, flags=re.M))
        header, renew = root / "include/xsoftmax/context.h", ("sh", root / "tests/structure/renew-abi.sh")
        read = lambda: {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        as_it_was = header.read_text()
        header.write_text(as_it_was.replace("size_t size, size_t alignment", "size_t alignment, size_t size", 1))
        before = read()
        if command(*renew)[0] == 0 or read() != before:
            return "renew-abi.sh took another interface after a release"
        header.write_text(as_it_was)
        classes = root / "include/xsoftmax.hpp"
        code = classes.read_text()
        classes.write_text(code.replace("std::size_t size_ = 0;", "std::size_t size_ = 1;", 1))
        before = read()
        if classes.read_text() == code or command(*renew)[0] == 0 or read() != before:
            return "renew-abi.sh took another class of C++ after a release"
        classes.write_text(code)
        header.write_text(as_it_was.replace("XSM_LOG_DEBUG = 3", "XSM_LOG_DEBUG = 3, XSM_LOG_LATER = 4"))
        metrics = root / "include/xsoftmax/metrics.h"
        metrics.write_text(re.sub(r"reserved;([^;]*\} xsm_evaluate_options;)", r"later;\1", metrics.read_text()))
        before = read()
        status, output = command(*renew)
        after = read()
        changed = {str(path.relative_to(root)) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        if status != 0 or "tests/structure/abi/pins.inc" not in changed or any("/old/" in path for path in changed):
            return f"renew-abi.sh did not take growth after a release as it should:\n{output}{changed}"
        if "XSMI_LAST_xsm_evaluate_options later\n" not in (root / "lib/base/first.h").read_text():
            return "first.h has the old name of a reserved member"
    return None


def main():
    if not shutil.which("abidw"):
        print("skipped: there is no abidw (Debian: abigail-tools)")
        return 77
    chosen = lambda text: not sys.argv[1:] or any(word in text for word in sys.argv[1:])
    every = 1 if sys.argv[1:] or "XSM_TEST_FULL" in os.environ else 16 if "XSM_TEST_BRIEF" in os.environ else 4
    broken = [entry for entry in BROKEN if chosen(entry[0])][::every]
    allowed = [entry for entry in ALLOWED if chosen(entry[0])][::every]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        base = pathlib.Path(folder)
        status, output = command(sys.executable, HERE / "abi.py", "pins", ROOT / "include", "-", "gcc")
        (base / "pins.inc").write_text(output)
        (base / "pins-i386.inc").write_text(command(sys.executable, HERE / "abi.py", "i386", ROOT / "include", "gcc")[1])
        status = status or command("sh", HERE / "check-abi.sh", "--write", "--baseline", base / "base.abi")[0]
        if status != 0:
            print("the interface of today cannot be described:\n" + output)
            return 1
        results = list(pool.map(lambda entry: attempt(entry[-1], base), broken + allowed))
    caught = passed = 0
    for (text, name, _), said in zip(broken, results):
        by = [gate for gate, output in said.items() if re.search(rf"\b{name}\b", output)]
        caught += bool(by)
        print(f"{'caught by ' + ' and '.join(by) if by else 'NOT CAUGHT':28} {text} ({name})")
        if not by:
            print("".join(said.values()))
    for (text, _), said in zip(allowed, results[len(broken):]):
        passed += not said
        print(f"{'passed' if not said else 'REFUSED by ' + ' and '.join(said):28} {text}")
        print("".join(said.values()), end="")
    wrong = None if sys.argv[1:] else released()
    print(wrong or "after a release: growth alone")
    print(f"{caught} of {len(broken)} broken ABIs caught, {passed} of {len(allowed)} allowed changes passed")
    return 0 if caught == len(broken) and passed == len(allowed) and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
