#!/usr/bin/env python3
"""What the public headers promise to compiled programs, read from the headers themselves:

abi.py pins INCLUDE FIRST COMPILER...      prints pins.inc: sizes, offsets, types, values, prototypes (64-bit machine).
                                           FIRST is the pins.inc whose smallest sizes are kept, or - for none
abi.py first INCLUDE FIRST COMPILER...     prints lib/base/first.h; FIRST is that of before, or - for none
abi.py defaults INCLUDE COMPILER...        prints lib/base/defaults.h: what comments say of a member at 0 or XSM_DEFAULT
abi.py check PINS INCLUDE COMPILER...      fails unless programs that were built by these pins still run, on i386, too
abi.py symbols INCLUDE COMPILER...         prints symbols.txt
abi.py map SYMBOLS INCLUDE MAP CHANGELOG [words|mpi]
                                           prints the version script: names of MAP, that of before, keep their nodes once
                                           CHANGELOG has a release with a date; new ones get the node of the present release
abi.py starts INCLUDE COMPILER...          prints lib/base/starts.inc: how each struct with a size starts
abi.py json INCLUDE COMPILER...            prints xsoftmax-abi.json, as it is on the machine that the compiler compiles for
"""
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# Tier by header, the most specific first; and how the version nodes of each tier begin in the map of its library. {} is the
# ABI number, of the macro of version.h; the minor release that added the functions follows, or the present one in tiers
# without a number.
TIERS = [("experimental", r"xsoftmax/(choose|tune|(ext/)?experimental|ext/comm)\.h"), ("ext", r"xsoftmax/ext/"),
         ("words", r"xsoftmax/words/"), ("mpi", r"xsoftmax/mpi\.h"), ("core", r"")]
ORDER = ["core", "ext", "experimental", "words", "mpi"]
NODES = {"core": ("XSOFTMAX_{}.", "XSM_VERSION_MAJOR"), "ext": ("XSOFTMAX_EXT_{}_", "XSM_EXT_ABI_VERSION"),
         "experimental": ("XSOFTMAX_EXPERIMENTAL_", None), "words": ("XSOFTMAX_WORDS_{}.", "XSM_VERSION_MAJOR"),
         "mpi": ("XSOFTMAX_MPI_EXPERIMENTAL_", None)}
# Headers of tiers without a number, which may change with any release.
UNPROMISED = "|".join(pattern for tier, pattern in TIERS if NODES[tier][1] is None)
LIBRARIES = {"words": "xsoftmax-words", "mpi": "xsoftmax-mpi"}  # of tiers; the others are libxsoftmax's
PINS = pathlib.Path(__file__).resolve().parents[1] / "tests/structure/abi/pins.inc"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DXSM_EXPERIMENTAL"]


def headers(include):
    return sorted(path.relative_to(include).as_posix() for path in include.rglob("*.h"))


def includes(include):
    return "".join(f"#include <{name}>\n" for name in headers(include))


def fail(text):
    print(text)
    sys.exit(1)


def compiled(compiler, include, source, *options):
    """Output of the compiler for a source that includes what it needs; the error's text where there is one."""
    command = compiler + FLAGS + ["-I", str(include), "-x", "c", *options, "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True)


def tidy(text):
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s*([(),*\[\]])\s*", lambda match: {"*": " *", ",": ", "}.get(match.group(1), match.group(1)),
                  text).replace("* *", "**").replace("(*", " (*").replace("( *", " (*")


def split(text, separator):
    """Parts between separators that stand in no bracket."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [part.strip() for part in parts + [part] if part.strip()]


def declarator(text):
    """Name and type of `type name`, of `type name[n]` and of `type (*name)(arguments)`."""
    match = re.fullmatch(r"(.*?)\(\s*\*\s*(\w+)\s*\)\s*(\(.*\))", text, flags=re.S)
    if match:
        return match.group(2), tidy(match.group(1)) + " (*)" + tidy(match.group(3)).strip()
    match = re.fullmatch(r"(.*?[\s*])(\w+)\s*((?:\[[^]]*\])*)", text, flags=re.S)
    if not match or len(split(text, ",")) != 1:
        fail(f"cannot read the declaration '{text}'")
    return match.group(2), tidy(match.group(1)) + match.group(3)


def conditions(header, text):
    """A header says the same to every program: it has no conditions but its guard, `extern "C"` around all functions, XSM_API and
    XSM_DEPRECATED, and what needs XSM_EXPERIMENTAL. Yields what else there is."""
    experimental = re.search(UNPROMISED, header)
    allowed = [r'#ifdef __cplusplus\nextern "C" \{\n#endif\n', r"#ifdef __cplusplus\n\}\n#endif\n"]
    if experimental:
        allowed.append(r"#ifndef XSM_EXPERIMENTAL\n#error [^\n]*\n#endif\n")
    elif header == "xsoftmax.h":
        allowed.append(rf"#ifdef XSM_EXPERIMENTAL\n(?:#include <(?:{UNPROMISED})>\n)+#endif\n")
    elif header == "xsoftmax/version.h":
        allowed += [rf"#if defined\(__GNUC__\)\n#define {macro} [^\n]*\n#else\n#define {macro}\n#endif\n"
                    for macro in ("XSM_API", r"XSM_DEPRECATED\(text\)")]
    lines = re.sub(r"[ \t]*\n\s*", "\n", re.sub(r"^[ \t]*#[ \t]*", "#", text, flags=re.M)).strip() + "\n"
    lines = re.sub(r"^#ifndef (\w+)\n#define \1\n", "", lines)
    lines = re.sub(r"#endif\n$", "", lines)
    left = re.sub("|".join(allowed[2:]), "", lines) if allowed[2:] else lines
    if experimental and left == lines:
        yield "can be included without XSM_EXPERIMENTAL"
    if header == "xsoftmax.h" and left == lines:
        yield "does not ask for XSM_EXPERIMENTAL"
    inside = False
    for part in re.split(f"({'|'.join(allowed[:2])})", left):
        if re.fullmatch("|".join(allowed[:2]), part):
            inside = "extern" in part
            continue
        if not inside:
            yield from (f'{name}() stands outside of extern "C"'
                        for name in re.findall(r"^XSM_API\b[^;]*?\b(xsm_\w+)\(", part, flags=re.M))
        yield from (f"a condition, by which programs would see different interfaces: {line}"
                    for line in re.findall(r"^#(?:if|elif|undef)(?!.*_$).*", part, flags=re.M))


class Interface:
    """All that the headers declare, in their order: functions, structs, other types, enumerators, constants."""

    def __init__(self, include, compiler):
        self.functions, self.structs, self.types, self.values, self.opaque, self.inline = {}, {}, {}, [], [], []
        self.macros = {}  # by name: parameters, or None
        self.texts = {}  # what a program compiles in: macros but lists and switches, and inline functions
        self.lists = {}  # by macro: the kinds of the columns of each entry
        self.enums = []  # names of each
        self.guards = {}  # by header
        self.declared = {}  # by header: the names that a program finds when it includes it alone
        self.includes = {}  # by header: those that it includes itself
        self.strange = []  # what other programs would read as another interface
        self.places = {}  # the headers of structs and other types
        self.attributes = []  # of declarations, but XSM_API
        self.defaults = {}  # by (struct, member): what stands for a number, and the number
        result = compiled(compiler, include, includes(include), "-E")
        if result.returncode != 0:
            fail(result.stderr)
        own, text, at = None, {}, []
        for line in result.stdout.splitlines():
            match = re.match(r'# \d+ "([^"]*)"', line)
            if match:
                path = pathlib.Path(match.group(1))
                own = path.relative_to(include).as_posix() if include in path.parents else None
            elif own:
                text.setdefault(own, []).append(line)
        for header in text:
            for statement in split("\n".join(text[header]).replace('extern "C" {', ""), ";"):
                self.read(header, re.sub(r"\s+", " ", statement).strip())
        for name in headers(include):
            raw = re.sub(r"/\*.*?\*/", " ", re.sub(r"\\\n", " ", (include / name).read_text()), flags=re.S)
            for macro, arguments, body in re.findall(r"^# *define (XSM_\w+)(\([^)]*\))? +(\S.*)", raw, flags=re.M):
                if arguments != "(X)" and not re.match(r"XSM_(VERSION_.*|STATUS_ENTRY_|EXPERIMENTAL.*)$", macro):
                    self.texts[macro] = " ".join((arguments + " " + body).split())
                elif arguments == "(X)":
                    entries = re.findall(r"\bX\(([^()]*)\)", re.sub(r'"[^"]*"', '""', body))
                    self.lists[macro] = [tuple("text" if column == '""' else "name" if re.match(r"[A-Z]", column) else "number"
                                               for column in split(entry, ",")) for entry in entries]
            guard = re.match(r"\s*#ifndef (\w+)\n#define \1\n", raw)
            self.guards[name] = guard.group(1) if guard else "none"
            self.read_defaults((include / name).read_text())
            self.includes[name] = [other for other in re.findall(r"^# *include <([^>]+)>", raw, flags=re.M)
                                   if (include / other).is_file()]
            self.strange += [f"{name}: {said}" for said in conditions(name, raw)]
            self.attributes += [(name, " ".join(line.split())) for line in raw.splitlines()
                                if not re.match(r"#define XSM_(?:API|DEPRECATED)\b", line) and
                                re.search(r"__attribute|__declspec|regparm|cdecl|stdcall|fastcall|_Pragma|# *pragma", line)]
            for match in re.finditer(r"^static inline ([^;{}]*?\b(\w+)\([^;{}]*\))\s*(\{.*?^\})", raw, flags=re.M | re.S):
                self.texts[match.group(2)] = " ".join((match.group(1) + " " + match.group(3)).split())
            for line in re.sub(r"\\\n", " ", (include / name).read_text()).splitlines():
                match = re.match(r"# *define (XSM_\w+)(\([^)]*\))?", line)
                if match:
                    self.macros[match.group(1)] = match.group(2)
                    if not match.group(1).endswith("_"):
                        self.declare(name, match.group(1))
                match = re.match(r"#define (XSM_\w+) +(.+)", line)
                if match and not re.search(r"_INIT$|^XSM_(API|VERSION.*|STATUS_ENTRY_|EXPERIMENTAL.*)$", match.group(1)):
                    self.values.append(match.group(1))
                    self.check_value(match.group(1), re.sub(r"/\*.*", "", match.group(2)))

    def read_defaults(self, text):
        """Members whose comments say "0 = 10" or "#XSM_DEFAULT = 0.1", beside them or before."""
        for struct, body in re.findall(r"^(?:typedef )?struct (xsm_\w+) \{(.*?)^\}", text, flags=re.M | re.S):
            before, member = "", None
            for part in re.findall(r"/\*\*.*?\*/|[^;/]+;", body, flags=re.S):
                if part.startswith("/**") and not part.startswith("/**<"):
                    before = part
                    continue
                if not part.startswith("/**<"):
                    member, part, before = declarator(part.strip(" \n;"))[0], before, ""
                said = re.sub(r"\s*\n[ *]*", " ", part)
                number = r"\d+(?:\.\d+)?(?:e-?\d+|\^\d+)?"
                for stands, number in re.findall(rf"(?<!\()(?:\b|#)(0|XSM_DEFAULT) = ({number})(?![\w(])", said):
                    self.defaults[struct, member] = (stands, number)
                if re.search(r"\bdefault \d", said):
                    self.strange.append(f"{struct}.{member}: 'default N', which is not compared with the code; '0 = N' is")

    def declare(self, header, *names):
        self.declared.setdefault(header, []).extend(names)

    def check_value(self, name, text):
        """A number must not depend on machine, compiler or language."""
        if re.search(r"\b(?:sizeof|_?[aA]lignof)\b|\?|\b_|\b(?:SIZE|U?INTPTR|PTRDIFF|U?LONG|U?INT|CHAR|WCHAR)_M", text):
            self.strange.append(f"{name} is {text.strip()}, which depends on the machine")

    def found_from(self, header):
        """The headers that a program gets with one, and all their names. Not every program gets the experimental ones."""
        headers, names = [header], []
        for each in headers:
            names += self.declared.get(each, [])
            headers += [other for other in self.includes.get(each, []) if other not in headers and
                        (header != "xsoftmax.h" or not re.search(UNPROMISED, other))]
        return set(headers), set(names)

    def read(self, header, text):
        # What stands before a statement without a semicolon: static inline functions.
        while text.startswith("static inline"):
            self.inline.append(re.search(r"(\w+)\(", text).group(1))
            self.declare(header, self.inline[-1])
            depth, start = 0, text.index("{")
            for at in range(start, len(text)):
                depth += (text[at] == "{") - (text[at] == "}")
                if depth == 0:
                    break
            text = text[at + 1:].strip()
        visible = '__attribute__((visibility("default")))'
        text = re.sub(r' ?__attribute__\(\(deprecated\("[^"]*"\)\)\)', "", text, count=1)
        if "__attribute__" in text.replace(visible, "", 1):
            fail(f"{header}: an attribute besides that of XSM_API: {text}")
        if text.startswith(visible):
            match = re.fullmatch(r"(.*?[\s*])(xsm_\w+)\s*(\(.*\))", text[len(visible):].strip())
            if not match:
                fail(f"{header}: cannot read the function '{text}'")
            self.functions[match.group(2)] = (tidy(match.group(1)), tidy(match.group(3)), header)
            self.declare(header, match.group(2))
        elif re.match(r"enum\b", text):
            entries = [re.match(r"(\w+)(.*)", entry).groups() for entry in split(re.search(r"\{(.*)\}", text).group(1), ",")]
            self.enums.append([name for name, _ in entries])
            self.values += self.enums[-1]
            self.declare(header, *self.enums[-1])
            for name, number in entries:
                self.check_value(name, number.lstrip(" ="))
        elif re.match(r"(typedef )?struct \w+ \{", text):
            name = re.search(r"struct (\w+)", text).group(1)
            members = split(text[text.index("{") + 1:text.rindex("}")], ";")
            self.structs[name] = [declarator(member) for member in members]
            self.places[name] = header
            self.declare(header, name)
        elif re.match(r"typedef struct \w+ \w+$", text):
            self.opaque.append(text.split()[-1])
            self.declare(header, self.opaque[-1])
        elif text.startswith("typedef "):
            name, kind = declarator(text[len("typedef "):])
            self.types[name] = kind
            self.places[name] = header
            self.declare(header, name)
        elif text:
            fail(f"{header}: cannot read '{text}'")

    def sized(self):
        """Structs that may grow at their end."""
        return [name for name, members in self.structs.items() if members[0] == ("size", "size_t")]

    def starts(self):
        """The macro that starts each struct with a size, or None. Every such macro belongs to a struct."""
        macros = {macro: "xsm_" + macro[len("XSM_"):-len("_INIT")].lower()
                  for macro in self.macros if macro.endswith("_INIT")}
        strange = [macro for macro, name in macros.items() if name not in self.sized()]
        if strange:
            fail(f"{', '.join(strange)}: of no struct with a size")
        return {name: next((macro for macro in macros if macros[macro] == name), None) for name in self.sized()}

    def tier(self, name):
        """Of a function, a struct or another type."""
        header = self.functions[name][2] if name in self.functions else self.places[name]
        return next(tier for tier, pattern in TIERS if re.search(pattern, header))

    def unnumbered(self):
        """What of the core reaches a struct of another tier that carries no number to be refused by:
        (name, struct). Who fills an experimental struct has said so, XSM_EXPERIMENTAL, and is built for one release."""
        texts = {name: result + arguments for name, (result, arguments, header) in self.functions.items()}
        texts.update({name: " ".join(kind for member, kind in members) for name, members in self.structs.items()})
        texts.update(self.types)
        return [(name, other) for name, text in texts.items() if self.tier(name) == "core"
                for other in sorted(set(re.findall(r"\bxsm_\w+", text)) & set(self.structs))
                if self.tier(other) not in ("core", "experimental") and "abi" not in dict(self.structs[other])]


def namespace(include):
    """The inline namespace of xsoftmax.hpp, which its release names."""
    return "v" + "_".join(re.findall(r"^#define XSM_VERSION_(?:MAJOR|MINOR) (\d+)", (include / "xsoftmax/version.h").read_text(),
                                     flags=re.M))


def cpp(include):
    """The namespace of xsoftmax.hpp, and a sum of its code without comments and blanks."""
    code = (include / "xsoftmax.hpp").read_text()
    code = re.sub(r'("(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*', lambda match: match.group(1) or " ", code, flags=re.S)
    return namespace(include), hashlib.sha256(" ".join(re.findall(r"\w+|[^\w\s]", code)).encode()).hexdigest()


def pins(include, first, compiler):
    """What each header promises, in a section of its own. Numbers come from a program that this machine runs."""
    api = Interface(include, compiler)
    classes = dict(re.findall(r'^CPP\((\w+), "(\w+)"\)', first.read_text(), flags=re.M)) if first else {}
    classes.update([cpp(include)])
    kept = dict(re.findall(r"^(?:GROWS|FIXED)\((\w+), (\d+)", first.read_text(), flags=re.M)) if first else {}
    lines = []

    def put(text):
        lines.append(f"puts({json.dumps(text)});")

    for header, guard in api.guards.items():
        if re.search(UNPROMISED, header):
            continue
        put(f"HEADER({header}, {guard})")
        for other in api.includes[header]:
            put(f"    INCLUDES({header}, {other})")
        for name in dict.fromkeys(sorted(api.declared.get(header, []))):
            known = len(lines)
            if name in api.lists:
                put(f"LIST({name}, {', '.join(api.lists[name][0])})")
            if name in api.structs and api.places[name] == header:
                members = api.structs[name]
                lines.append(f'printf("%s({name}, %zu, %zu)\\n", "{"GROWS" if name in api.sized() else "FIXED"}", '
                             f'(size_t){kept.get(name) or f"sizeof({name})"}, sizeof({name}));')
                for member, kind in members:
                    if (name, member) in api.defaults:
                        put(f"    DEFAULT({name}, {member}, {', '.join(api.defaults[name, member])})")
                    lines.append(f'printf("    MEMBER({name}, {member}, %zu, %zu, %s)\\n", offsetof({name}, {member}), '
                                 f'sizeof((({name} *)0)->{member}), "{kind}");')
                # Bytes without a name could not be told from members later.
                lines.append("if (" + " + ".join(f"sizeof((({name} *)0)->{member})" for member, kind in members)
                             + f' != sizeof({name})) {{ fprintf(stderr, "{name} has bytes without a name\\n"); return 1; }}')
            if name in api.types:
                put(f"TYPE({name}, {api.types[name]})")
            if name in api.values:
                lines.append(f'printf("VALUE({name}, %lldLL)\\n", (long long)({name}));')
            if name in api.functions:
                put("FUNCTION({}, {}, {})".format(api.functions[name][0], name, api.functions[name][1]))
            if name in api.texts:
                put(f"COPIED({name}, {json.dumps(api.texts[name])})")
            if len(lines) == known:
                put(f"DECLARES({name})")
    for name, code in classes.items():
        put(f"CPP({name}, {json.dumps(code)})")
    source = ("#include <stdio.h>\n" + includes(include) + "int main(void)\n{\n    " + "\n    ".join(lines)
              + "\n    return 0;\n}\n")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "pins"
        result = compiled(compiler, include, source, "-w", "-o", str(program))
        if result.returncode != 0:
            fail(result.stderr)
        print("/*\n * What programs were compiled with, on 64-bit machines; written by renew-abi.sh. Compiled by abi.py check.\n"
              " * HEADER(header, its guard), and what a program finds that includes it:\n"
              " * INCLUDES(header, other header), DECLARES(name), TYPE(name, type), VALUE(name, number),\n"
              " * FIXED and GROWS(struct, smallest size accepted, size), MEMBER(struct, member, offset, size, type),\n"
              " * DEFAULT(struct, member, what stands for a number, the number), FUNCTION(result, name, arguments),\n"
              " * COPIED(macro or inline function, text), LIST(macro, columns of its entries);\n"
              " * then CPP(namespace of xsoftmax.hpp, sum of the header's code).\n */")
        sys.stdout.flush()
        if subprocess.run([program]).returncode != 0:
            sys.exit(1)


class Pinned:
    """The types and structs of pins, and the names of each header."""

    def __init__(self, text):
        self.types = dict(re.findall(r"^TYPE\((\w+), (.*)\)$", text, flags=re.M))
        self.fixed = set(re.findall(r"^FIXED\((\w+)", text, flags=re.M))
        self.structs = {name: [] for name in re.findall(r"^(?:GROWS|FIXED)\((\w+)", text, flags=re.M)}
        for name, member, kind in re.findall(r"^ +MEMBER\((\w+), (\w+), \d+, \d+, (.*)\)$", text, flags=re.M):
            self.structs[name].append((member, kind))
        self.declared, header = {}, None
        for kind, name, other in re.findall(r"^([A-Z]+)\(([^(),]+)(?:, (xsm_\w+), \()?", text, flags=re.M):
            if kind == "HEADER":
                header = self.declared.setdefault(name, [])
            elif kind != "CPP":
                header.append(other if kind == "FUNCTION" else name)


# Sizes on i386, where nothing is aligned to more than 4 bytes.
SIZES_I386 = {"size_t": 4, "int32_t": 4, "uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8, "double": 8, "char": 1}


def size_i386(api, kind):
    array = re.fullmatch(r"(.*?)\[(\d+)\]", kind)
    if array:
        each = size_i386(api, array.group(1))
        return each and each * int(array.group(2))
    if "*" in kind:
        return 4
    name = kind.replace("const ", "").replace("struct ", "").strip()
    if name in api.types:
        return size_i386(api, api.types[name])
    if name in api.structs:
        return sum(size_i386(api, part) for _, part in api.structs[name])
    return SIZES_I386.get(name)


def layouts_i386(api):
    """For each struct its size and its members' (offset, size): as all sizes are multiples of the largest alignment, they
    follow one another."""
    found = {}
    for name, members in api.structs.items():
        at, places = 0, {}
        for member, kind in members:
            places[member] = (at, size_i386(api, kind))
            if places[member][1] is None:
                fail(f"{name}.{member} is {kind}, of no size that is known on i386")
            at += places[member][1]
        if at % 4 != 0 or any(offset % 4 != 0 for offset, size in places.values()):
            fail(f"{name} has bytes without a name on i386")
        found[name] = (at, places)
    return found


def broken_i386(pinned, now):
    """What programs on i386 would not find where it was."""
    bad, old, new = [], layouts_i386(pinned), layouts_i386(now)
    for name, (size, places) in old.items():
        there, found = new.get(name, (0, {}))
        if there < size or (name in pinned.fixed and there != size):
            bad.append(f"{name} has {there} bytes on i386, not {size}")
        for member, (offset, bytes_) in places.items():
            if found.get(member) != (offset, bytes_):
                is_at, wide = found.get(member, (0, 0))
                bad.append(f"{name}.{member} is at {is_at} with {wide} bytes on i386, not at {offset} with {bytes_}" if wide else
                           f"{name}.{member} is gone")
        bad += [f"{name}.{member} is new, and not at the end on i386" for member, (offset, _) in found.items()
                if member not in places and offset < size]
    return bad


def checks_i386(pinned):
    """The same as assertions, with which the compiler of that machine shows that its layouts are these."""
    source = "#ifdef __i386__\n"
    for name, (size, places) in layouts_i386(pinned).items():
        source += f'_Static_assert(sizeof({name}) {"==" if name in pinned.fixed else ">="} {size}, "{name} has another size");\n'
        for member, (offset, bytes_) in places.items():
            source += (f"_Static_assert(offsetof({name}, {member}) == {offset} && sizeof((({name} *)0)->{member}) == {bytes_}, "
                       f'"{name}.{member} has moved");\n')
    return source + "#endif\n"


CHECKS = r"""
#define SAME(a, b) __builtin_types_compatible_p(a, b)
#define WIDE (sizeof(void *) == 8)
#define FIXED(name, first, bytes) _Static_assert(!WIDE || sizeof(name) == (bytes), #name " has another size");
#define GROWS(name, first, bytes) _Static_assert(!WIDE || sizeof(name) >= (bytes), #name " has become smaller"); \
    _Static_assert(offsetof(name, size) == 0, #name " does not begin with its size");
#define MEMBER(name, member, offset, bytes, ...) \
    _Static_assert(!WIDE || offsetof(name, member) == (offset), #name "." #member " has moved"); \
    _Static_assert(!WIDE || sizeof(((name *)0)->member) == (bytes), #name "." #member " has another size"); \
    _Static_assert(SAME(__typeof__(((name *)0)->member), __VA_ARGS__), #name "." #member " has another type");
#define HEADER(...)
#define INCLUDES(...)
#define DECLARES(...)
#define CPP(...)
#define LIST(...)
#define DEFAULT(...)
#define TYPE(name, ...) _Static_assert(SAME(name, __VA_ARGS__), #name " is another type");
#define VALUE(name, number) _Static_assert((long long)(name) == (number), #name " has another value");
#define COPIED(...)
#define FUNCTION(result, name, ...) _Static_assert(SAME(__typeof__(name), result __VA_ARGS__), #name " has another type");
"""


def parameters(arguments):
    """Names and types of (arguments)."""
    return [declarator(part) if re.search(r"\w$", part) else ("", part)
            for part in split(arguments[1:-1], ",") if part not in ("void", "...")]


def changed_arguments(old, new):
    """What types do not show when programs are compiled on one machine: that arguments of one type changed places, which
    their names tell, with or without new names; and types that are spelled otherwise, such as those that are one on machines
    of 64 bits alone."""
    if len(old) != len(new):
        return None
    for (name, kind), (other, now) in zip(old, new):
        if kind != now and "(*)" not in kind + now:
            return f"the argument {name} is {now}, not {kind}"
        if name != other and [other_kind for _, other_kind in old].count(kind) > 1:
            return "arguments of one type in another order, or with other names: " + \
                   f"{', '.join(name for name, _ in new)} instead of {', '.join(name for name, _ in old)}"
    return None


def arguments_of(kind):
    """Those of a pointer to a function, or none."""
    match = re.fullmatch(r".*? ?\(\*\) ?(\(.*\))", kind)
    return parameters(match.group(1)) if match else []


def broken_words(text, now):
    """What the pins' text says and types, sizes and numbers do not."""
    bad = []
    members = {(name, member): kind for name, declared in now.structs.items() for member, kind in declared}
    for name, member, kind in re.findall(r"^ +MEMBER\((\w+), (\w+), \d+, \d+, (.*)\)$", text, flags=re.M):
        other = members.get((name, member), kind)
        said = changed_arguments(arguments_of(kind), arguments_of(other))
        if not said and not arguments_of(kind) and kind != other:
            said = f"{other}, not {kind}"
        bad += [f"{name}.{member}: {said}"] * bool(said)
    for name, kind in re.findall(r"^TYPE\((\w+), (.*)\)$", text, flags=re.M):
        said = changed_arguments(arguments_of(kind), arguments_of(now.types.get(name, kind)))
        bad += [f"{name}: {said}"] * bool(said)
    for result, name, arguments in re.findall(r"^FUNCTION\(([^()]*?), (xsm_\w+), (\(.*\))\)$", text, flags=re.M):
        if name in now.functions:
            if now.functions[name][0] != result:
                bad.append(f"{name}() returns {now.functions[name][0]}, not {result}")
            said = changed_arguments(parameters(arguments), parameters(now.functions[name][1]))
            bad += [f"{name}(): {said}"] * bool(said)
    for name, member, stands, number in re.findall(r"^ +DEFAULT\((\w+), (\w+), (\w+), (.*)\)$", text, flags=re.M):
        now_stands, now_number = now.defaults.get((name, member), ("nothing", "known"))
        if (now_stands, now_number) != (stands, number):
            bad.append(f"{name}.{member}: {now_stands} = {now_number}, not {stands} = {number}")
    for name, old in re.findall(r"^COPIED\((\w+), (.*)\)$", text, flags=re.M):
        old, new = json.loads(old), now.texts.get(name)
        # What starts a struct grows with it, by zeros: an older library refuses anything else that it does not know.
        grown = name.endswith("_INIT") and new and new.startswith(old.rstrip(" }")) and new.endswith("}")
        more = new[len(old.rstrip(" }")):].strip("{}, ").split(",") if grown else []
        others = [start.strip() for start in more if start.strip(" {}") not in ("", "0", "NULL")]
        if others:
            bad.append(f"{name} starts a new member at {', '.join(others)}, not at 0: programs that leave it alone would fail "
                       "on older libraries")
        elif new != old and not grown:
            bad.append(f"{name} is gone" if new is None else f"{name} has another text: {new} instead of {old}")
    return bad


def broken_headers(text, now, include):
    """Headers that are gone, tables whose columns changed places, classes that changed within their namespace."""
    bad, declared = [], Pinned(text).declared
    for name, guard in re.findall(r"^HEADER\(([^,]+), (\w+)\)$", text, flags=re.M):
        if name not in now.guards:
            bad.append(f"{name} is gone")
        elif now.guards[name] != guard:
            bad.append(f"{name} has the guard {now.guards[name]}, not {guard}")
        else:
            headers, names = now.found_from(name)
            bad += [f"{name} includes {other} no longer" for other in
                    re.findall(rf"^ +INCLUDES\({re.escape(name)}, (.*)\)$", text, flags=re.M)
                    if other not in headers.union(now.includes[name])]
            bad += [f"{name} declares {other} no longer" for other in declared[name] if other not in names]
    for name, columns in re.findall(r"^LIST\((\w+), (.*)\)$", text, flags=re.M):
        if name not in now.lists:
            bad.append(f"{name} is gone")
        bad += [f"{name} has an entry of {', '.join(entry)}, not of {columns}" for entry in now.lists.get(name, [])
                if ", ".join(entry) != columns]
    release, code = cpp(include)
    if dict(re.findall(r'^CPP\((\w+), "(\w+)"\)$', text, flags=re.M)).get(release, code) != code:
        bad.append(f"xsoftmax.hpp has changed within its namespace {release}: libraries of one process that were compiled with "
                   "one and the other would take their classes for the same (raise XSM_VERSION_MINOR)")
    return bad


def broken_rules(text, now, include, compiler):
    """What no release may do: numbers used twice within an enumeration, structs that cannot grow, other calls."""
    bad = [f"{header}: an attribute that changes calls or layouts: {line}" for header, line in now.attributes] + now.strange
    pinned = {name: int(number) for name, number in re.findall(r"^VALUE\((\w+), (-?\d+)LL\)$", text, flags=re.M)}
    names = [name for names in now.enums for name in names]
    values = dict(zip(names, numbers(include, compiler, names)))
    for names in now.enums:
        by = {}
        for name in names:
            if values[name] in by:
                bad.append(f"{name} has the number of {by[values[name]]}")
            by.setdefault(values[name], name)
        old = [pinned[name] for name in names if pinned.get(name)]
        if len(old) >= 3 and all(value > 0 and value & (value - 1) == 0 for value in old):
            bad += [f"{name} is no bit of its own among the flags of {names[0]}" for name in names
                    if values[name] and (values[name] < 0 or values[name] & (values[name] - 1))]

    # A struct that may grow is not part of anything whose size it would change.
    sized = set(now.sized())

    def by_value(kind):
        return "*" not in kind and re.sub(r"\b(?:const|struct)\b|\[.*", "", kind).strip() in sized

    bad += [f"{name}.{member} holds {kind}, which may grow, by value" for name, members in now.structs.items()
            for member, kind in members if by_value(kind)]
    bad += [f"{name} is {kind}, which may grow, by value" for name, kind in now.types.items() if by_value(kind)]
    bad += [f"{name}() passes {kind}, which may grow, by value" for name, (result, arguments, _) in now.functions.items()
            for kind in [result] + [kind for _, kind in parameters(arguments)] if by_value(kind)]
    bad += [f"{name} of the core reaches {struct} of {now.places[struct]}, which is not of the core and has no member abi"
            for name, struct in now.unnumbered()]
    return bad


def with_new_names(text, now):
    """The pins with the names that reserved members have now. Where they are, and of what type, stays pinned."""
    struct, place, lines = None, 0, []
    known = set(re.findall(r"^ +MEMBER\((\w+), (\w+)", text, flags=re.M))
    for line in text.split("\n"):
        match = re.match(r"( +MEMBER\((\w+), )(\w+)(,.*)", line)
        if match:
            place = place + 1 if match.group(2) == struct else 0
            struct, name = match.group(2), match.group(3)
            members = [member for member, _ in now.structs.get(struct, [])]
            if name.startswith("reserved") and name not in members and place < len(members) and \
                    (struct, members[place]) not in known:
                line = match.group(1) + members[place] + match.group(4)
        lines.append(line)
    return "\n".join(lines)


def check(path, include, compiler):
    """Compiles the pins as assertions, and compares their words."""
    now = Interface(include, compiler)
    text = with_new_names(path.read_text(), now)
    source = includes(include) + CHECKS + f'#line 1 "{path.name}"\n' + text
    bad = re.findall(r"error: (.*)", compiled(compiler, include, source, "-fsyntax-only", "-w",
                                              *("-fmax-errors=0",) * ("clang" not in " ".join(compiler))).stderr)
    bad += broken_words(text, now) + broken_headers(text, now, include) + broken_rules(text, now, include, compiler)
    pinned = Pinned(text)
    bad += broken_i386(pinned, now)
    bad += re.findall(r"error: (.*)", compiled(compiler, include, includes(include) + checks_i386(pinned), "-fsyntax-only",
                                               "-w").stderr)
    sizes = dict(re.findall(r"^GROWS\((\w+), \d+, (\d+)\)", text, flags=re.M))
    # A member that is new lies behind the old ones, not in a hole between them.
    new = [(name, member) for name in sizes if name in now.structs for member, kind in now.structs[name]
           if member not in dict(pinned.structs[name])]
    source = includes(include) + "".join(
        f'_Static_assert(sizeof(void *) != 8 || offsetof({name}, {member}) >= {sizes[name]}, '
        f'"{name}.{member} is new, and not at the end");\n' for name, member in new)
    # Nor are structs aligned or packed otherwise than their members are.
    for name in re.findall(r"^(?:GROWS|FIXED)\((\w+)", text, flags=re.M):
        declared = "".join(f" __typeof__((({name} *)0)->{member}) {member};" for member in
                           re.findall(rf"^ +MEMBER\({name}, (\w+)", text, flags=re.M))
        source += f'_Static_assert(_Alignof({name}) == _Alignof(union {{{declared} }}), "{name} has another alignment");\n'
    bad += re.findall(r"error: (.*)", compiled(compiler, include, source, "-fsyntax-only", "-w").stderr)
    for line in bad:
        print(line)
    print(f"{len(re.findall('^ *[A-Z]+[(]', text, flags=re.M))} pins, {len(bad)} broken")
    return 1 if bad else 0


def first(include, old, compiler):
    """The last member that each struct with a size had first; what is known stays."""
    api = Interface(include, compiler)
    known = dict(re.findall(r"XSMI_LAST_(\w+) (\w+)", old.read_text())) if old else {}
    if old:
        # A reserved member may have another name since.
        before = re.findall(r"^ +MEMBER\((\w+), (\w+)", PINS.read_text(), flags=re.M)
        after = re.findall(r"^ +MEMBER\((\w+), (\w+)", with_new_names(PINS.read_text(), api), flags=re.M)
        known.update({struct: name for (struct, was), (_, name) in zip(before, after) if known.get(struct) == was})
    print("/* The last member that each struct with a size had in the first release which has the struct. Written by\n"
          " * tests/structure/renew-abi.sh. */\n#ifndef XSMI_FIRST_H\n#define XSMI_FIRST_H\n")
    for name in sorted(api.sized()):
        members = dict(api.structs[name])
        print(f"#define XSMI_LAST_{name} {known[name] if known.get(name) in members else list(members)[-1]}")
    print("\n#endif")


def defaults(include, compiler):
    print("/* The defaults that comments of the public headers name (\"0 = 10\"), for the code that sets them. Written by\n"
          " * tests/structure/renew-abi.sh. */\n#ifndef XSMI_DEFAULTS_H\n#define XSMI_DEFAULTS_H\n\n"
          "#define XSMI_DEFAULT(type, member) XSMI_DEFAULT_##type##_##member\n"
          "#define XSMI_TEXT_(number) #number\n#define XSMI_TEXT(number) XSMI_TEXT_(number)\n"
          "/* As the text of an option. */\n"
          "#define XSMI_DEFAULT_TEXT(type, member) XSMI_TEXT(XSMI_DEFAULT_##type##_##member)\n")
    for (name, member), (_, number) in sorted(Interface(include, compiler).defaults.items()):
        print(f"#define XSMI_DEFAULT_{name}_{member} " + re.sub(r"(\d+)\^(\d+)", r"(UINT32_C(1) << \2)", number))
    print("\n#endif")


def symbols(include, compiler):
    api = Interface(include, compiler)
    for tier in ORDER:
        print(f"# {tier}")
        for name in sorted(name for name in api.functions if api.tier(name) == tier):
            print(name)


def starts(include, compiler):
    print("/* How each struct with a size starts: START(struct, value). Written by tests/structure/renew-abi.sh. */")
    for name, macro in sorted(Interface(include, compiler).starts().items()):
        print(f"START({name}, {macro or '{.size = sizeof(' + name + ')}'})")


# Numbers as digits in an object file: the compiler may be one for another machine, whose programs do not run here.
DIGITS = 20
NUMBERS = """
#define SIZE(n) ((n) < 0 ? 0ULL - (unsigned long long)(long long)(n) : (unsigned long long)(n))
#define DIGIT(n, power) (char)('0' + SIZE(n) / power % 10),
#define NUMBER(n) (n) < 0 ? '-' : '+', """ + "".join(
    f"DIGIT(n, 1{'0' * place}ULL) " for place in reversed(range(DIGITS))) + """
const char numbers[] = {'X', 'S', 'M', '-', 'A', 'B', 'I', ':',
"""


def numbers(include, compiler, expressions):
    """The values of whole-number constants of the headers."""
    source = ("#include <stddef.h>\n" + includes(include) + NUMBERS
              + "".join(f"NUMBER({expression})\n" for expression in expressions) + "0};\n")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "numbers.o"
        result = compiled(compiler, include, source, "-w", "-fno-lto", "-c", "-o", str(path))
        if result.returncode != 0:
            fail(result.stderr)
        content = path.read_bytes()
    start = content.index(b"XSM-ABI:") + len(b"XSM-ABI:")
    return [int(content[start + i * (DIGITS + 1):start + (i + 1) * (DIGITS + 1)]) for i in range(len(expressions))]


def described(kind):
    """A type for the JSON: {"type": "uint32_t"}, {"type": "uint64_t", "count": 4}, or {"function": ...}."""
    match = re.fullmatch(r"(.*?) ?\(\*\)(\(.*\))", kind)
    if match:
        return {"function": {"result": match.group(1), "arguments": listed(match.group(2))}}
    match = re.fullmatch(r"(.*?)\[(\d+)\]", kind)
    return {"type": match.group(1), "count": int(match.group(2))} if match else {"type": kind.replace("struct ", "")}


def listed(arguments):
    return [{"name": name, **described(kind)}
            for name, kind in (declarator(part) for part in split(arguments[1:-1], ",") if part != "void")]


def description(include, compiler):
    api = Interface(include, compiler)
    asked = ["sizeof(void *)"] + list(api.values) + ["XSM_VERSION_MAJOR", "XSM_VERSION_MINOR", "XSM_VERSION_PATCH"]
    for name, members in api.structs.items():
        asked.append(f"sizeof({name})")
        for member, kind in members:
            asked += [f"offsetof({name}, {member})", f"sizeof((({name} *)0)->{member})"]
    known = dict(zip(asked, numbers(include, compiler, asked)))
    structs = {name: {"size": known[f"sizeof({name})"], "grows": name in api.sized(),
                      "members": [{"name": member, "offset": known[f"offsetof({name}, {member})"],
                                   "size": known[f"sizeof((({name} *)0)->{member})"], **described(kind)}
                                  for member, kind in members]}
               for name, members in api.structs.items()}
    functions = {name: {"tier": api.tier(name), "library": LIBRARIES.get(api.tier(name), "xsoftmax"),
                        "result": result, "arguments": listed(arguments)}
                 for name, (result, arguments, header) in sorted(api.functions.items())}
    whole = {"version": ".".join(str(known[f"XSM_VERSION_{part}"]) for part in ("MAJOR", "MINOR", "PATCH")),
             "pointer": known["sizeof(void *)"], "opaque": sorted(set(api.opaque) - set(api.structs)),
             "values": {name: known[name] for name in api.values},
             "types": {name: described(kind) for name, kind in api.types.items()}, "structs": structs,
             "functions": functions}
    # An entry a line.
    print("{\n" + ",\n".join(
        json.dumps(part) + ": " + (json.dumps(content) if part in ("version", "pointer", "opaque") else "{\n" + ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content.items()) + "\n}")
        for part, content in whole.items()) + "\n}")


def version_map(path, include, before, changelog, own=""):
    """Of libxsoftmax, or of the library of a tier."""
    version = (include / "xsoftmax/version.h").read_text()
    number = lambda macro: re.search(rf"^#define {macro} (\d+)", version, flags=re.M).group(1)
    major, minor = number("XSM_VERSION_MAJOR"), number("XSM_VERSION_MINOR")
    dates = re.findall(r"^## \[(\d+)\.(\d+)\.[0-9]+\] - [0-9]", changelog.read_text(), flags=re.M)
    kept, node = {}, None
    for line in before.read_text().split("\n") if dates and before.is_file() else []:
        match = re.match(r"(\S+) \{|\s+(xsm_\w+);", line)
        if match and match.group(1):
            node = match.group(1)
        elif match:
            kept[match.group(2)] = node
    nodes, tier = {}, None
    for line in path.read_text().split("\n"):
        if line.startswith("# "):
            tier = line[2:]
        elif line and (tier if tier in LIBRARIES else "") == own:
            begin, macro = NODES[tier]
            begin = begin.format(number(macro)) if macro else begin
            name = begin + (minor if begin.endswith(".") else f"{major}.{minor}")
            if macro and kept.get(line, "").startswith(begin):
                name = kept[line]
            elif (major, minor) in dates and line not in kept:
                fail(f"{line}() is new, and {major}.{minor} has been released: raise the version in meson.build, whose node "
                     "keeps programs that call it from starting with an older library")
            order = tuple(int(part) for part in re.findall(r"\d+", name))
            nodes.setdefault((ORDER.index(tier), order, name), []).append(line)
    print("/* Written by tests/structure/renew-abi.sh from symbols.txt. A name, once released, keeps its node. */")
    last = {}
    for place, ((tier, _, name), names) in enumerate(sorted(nodes.items())):
        print(name + " {\n    global:\n" + "".join(f"        {each};\n" for each in sorted(names))
              + ("    local:\n        *;\n" if place == 0 else "") + "}" + (" " + last[tier] if tier in last else "") + ";")
        last[tier] = name


def main():
    command, place, rest = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    if command in ("pins", "first"):
        {"pins": pins, "first": first}[command](place.resolve(), pathlib.Path(rest[0]) if rest[0] != "-" else None, rest[1:])
    elif command == "check":
        return check(place, pathlib.Path(rest[0]).resolve(), rest[1:])
    elif command == "map":
        version_map(place, *map(pathlib.Path, rest[:3]), *rest[3:])
    else:
        {"defaults": defaults, "symbols": symbols, "starts": starts,
         "json": description}[command](place.resolve(), rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
