#!/usr/bin/python3
"""Model files written and read by NumPy alone, as a second opinion on lib/model/model_save.c and model_load.c.

    model_file.py write FOLDER      makes the golden files of this folder
    model_file.py compare FOLDER    fails unless they are what it would make
    model_file.py read FILE         checks a file and prints its contents, a line a tensor

read() is all that another program needs to get at a model's weights.
"""
import json
import os
import sys

import numpy as np

DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8, "U32": np.uint32}


def read(path):
    raw = open(path, "rb").read()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = np.frombuffer(raw[8 + length + begin:8 + length + end], DTYPES[entry["dtype"]])
        tensors[name] = data.reshape(entry["shape"])
    return metadata, tensors


# -- XXH3-64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) ------------------------------------------------------------

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
M = 2**64 - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def word(data, at, size=8):
    return int.from_bytes(data[at:at + size], "little")


def fold(a, b):
    product = (a & M) * (b & M)
    return (product & M) ^ product >> 64


def avalanche(h):
    h = (h & M ^ (h & M) >> 37) * 0x165667919E3779F9 & M
    return h ^ h >> 32


def avalanche_short(h):
    h = (h & M ^ (h & M) >> 33) * P64_2 & M
    h = (h ^ h >> 29) * P64_3 & M
    return h ^ h >> 32


def swap(number, size):
    return int.from_bytes(number.to_bytes(size, "little"), "big")


def up_to_16(data, seed):
    n = len(data)
    if n > 8:
        low = word(data, 0) ^ ((word(SECRET, 24) ^ word(SECRET, 32)) + seed) & M
        high = word(data, n - 8) ^ ((word(SECRET, 40) ^ word(SECRET, 48)) - seed) & M
        return avalanche(n + swap(low, 8) + high + fold(low, high))
    if n > 3:
        seed ^= swap(seed & 0xFFFFFFFF, 4) << 32
        h = word(data, n - 4, 4) + (word(data, 0, 4) << 32) ^ ((word(SECRET, 8) ^ word(SECRET, 16)) - seed) & M
        h ^= (h << 49 | h >> 15) & M ^ (h << 24 | h >> 40) & M
        h = h * 0x9FB21C651E98DF25 & M
        h = (h ^ (h >> 35) + n) * 0x9FB21C651E98DF25 & M
        return h ^ h >> 28
    if n > 0:
        h = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche_short(h ^ (word(SECRET, 0, 4) ^ word(SECRET, 4, 4)) + seed)
    return avalanche_short(seed ^ word(SECRET, 56) ^ word(SECRET, 64))


def up_to_240(data, seed):
    n = len(data)

    def mix(at, secret):
        return fold(word(data, at) ^ (word(SECRET, secret) + seed) & M,
                    word(data, at + 8) ^ (word(SECRET, secret + 8) - seed) & M)

    if n <= 128:
        pairs = (n - 1) // 32 + 1
        return avalanche(n * P64_1 + sum(mix(16 * i, 32 * i) + mix(n - 16 * (i + 1), 32 * i + 16) for i in range(pairs)))
    h = avalanche(n * P64_1 + sum(mix(16 * i, 16 * i) for i in range(8)))
    return avalanche(h + sum(mix(16 * i, 16 * (i - 8) + 3) for i in range(8, n // 16)) + mix(n - 16, 119))


def xxh3(data, seed=0):
    if len(data) <= 240:
        return (up_to_16 if len(data) <= 16 else up_to_240)(data, seed)
    secret_of = b"".join((word(SECRET, i) + (-seed if i % 16 else seed) & M).to_bytes(8, "little") for i in range(0, 192, 8))
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def stripe(at, secret):
        for i in range(8):
            value = word(data, at + 8 * i)
            key = value ^ word(secret_of, secret + 8 * i)
            acc[i ^ 1] = (acc[i ^ 1] + value) & M
            acc[i] = (acc[i] + (key & 0xFFFFFFFF) * (key >> 32)) & M

    blocks = (len(data) - 1) // 1024
    for block in range(blocks):
        for n in range(16):
            stripe(1024 * block + 64 * n, 8 * n)
        for i in range(8):
            acc[i] = ((acc[i] ^ acc[i] >> 47 ^ word(secret_of, 128 + 8 * i)) * P32_1) & M
    for n in range((len(data) - 1 - 1024 * blocks) // 64):
        stripe(1024 * blocks + 64 * n, 8 * n)
    stripe(len(data) - 64, 121)
    return avalanche(len(data) * P64_1 + sum(
        fold(acc[2 * i] ^ word(secret_of, 11 + 16 * i), acc[2 * i + 1] ^ word(secret_of, 19 + 16 * i)) for i in range(4)))


def checksum(metadata, tensors):
    """lib/base/safetensors.h; tensors are {name: (dtype, shape, bytes)}"""
    total = 0
    for key, value in metadata.items():
        if key not in ("checksum", "format"):
            total += xxh3(value.encode(), xxh3(key.encode()))
    for name, (dtype, shape, raw) in tensors.items():
        shape_bytes = b"".join(n.to_bytes(8, "little") for n in shape)
        total += xxh3(raw, xxh3(shape_bytes, xxh3(dtype.encode(), xxh3(name.encode()))))
    return f"{total & M:016x}"


def raw_contents(path):
    """metadata, and {name: (dtype, shape, bytes)} in the order of the file"""
    raw = open(path, "rb").read()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = raw[8 + length:]
    return metadata, {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
                      for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"])}


def checksum_ok(path):
    metadata, tensors = raw_contents(path)
    return checksum(metadata, tensors) == metadata["checksum"]


def rewrite(source, to, way):
    """saves a file as another program would, or with one change that is damage, or of a later release"""
    metadata, tensors = raw_contents(source)
    names, entries = list(tensors), {}
    longest = max(names, key=lambda name: len(tensors[name][2]))
    if way == "same":
        names.sort(key=lambda name: (len(tensors[name][2]) % 8 == 0, name), reverse=True)
        names = [name for name in names if tensors[name][0] == "U8"] + [n for n in names if tensors[n][0] != "U8"]
        metadata = dict(sorted(metadata.items(), reverse=True), format="pt")
    elif way == "tensor":  # of a later release
        names.append("later")
        tensors["later"] = "U8", [5], b"later"
        metadata["checksum"] = checksum(metadata, tensors)
    elif way == "option":  # a checkpoint of a release whose estimators had no ridge
        del metadata["checkpoint.estimator.ridge"]
        metadata["checksum"] = checksum(metadata, tensors)
    elif way == "flip":
        dtype, shape, raw = tensors[longest]
        tensors[longest] = dtype, shape, raw[:-1] + bytes([raw[-1] ^ 1])
    elif way == "value":
        metadata["library"] += "."
    elif way == "entry":
        metadata["another"] = ""
    elif way == "rename":
        tensors["other"] = tensors.pop(longest)
        names[names.index(longest)] = "other"
    elif way == "shape":
        dtype, shape, raw = tensors[longest]
        tensors[longest] = dtype, [1] + shape, raw
    elif way == "swap":
        a, b = [(n, m) for n in names for m in names if n < m and tensors[n][:2] == tensors[m][:2]
                and tensors[n][2] != tensors[m][2]][0]
        tensors[a], tensors[b] = tensors[b], tensors[a]
    else:
        sys.exit(f"rewrite {way}?")
    place = 0
    for name in names:
        dtype, shape, raw = tensors[name]
        entries[name] = {"shape": shape, "data_offsets": [place, place + len(raw)], "dtype": dtype}
        place += len(raw)
    header = dict(sorted(entries.items(), reverse=True), __metadata__=metadata)
    text = json.dumps(header, indent=1).encode() + b"   "
    with open(to, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(tensors[name][2] for name in names))


# -- golden files --------------------------------------------------------------------------------------------------------


def contents(tensors, metadata, checked):
    names = {value: key for key, value in DTYPES.items()}
    header, place, data = {}, 0, b""
    for name, value in tensors.items():
        raw = value.tobytes()
        header[name] = {"dtype": names[value.dtype.type], "shape": list(value.shape),
                        "data_offsets": [place, place + len(raw)]}
        place += len(raw)
        data += raw
    if checked:
        metadata = dict(metadata, format_version="1", library="numpy")
        raws = {name: (names[t.dtype.type], list(t.shape), t.tobytes()) for name, t in tensors.items()}
        metadata["checksum"] = checksum(metadata, raws)
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def golden():
    weight = (np.arange(5 * 3, dtype=np.float32).reshape(5, 3) - 7) / 4
    bias = np.arange(5, dtype=np.float32) / 8
    full = {
        "labels": np.array([-3, 0, 1, 7, 2**40], np.int64),
        "weight": weight,
        "bias": bias,
        "idf": np.array([1, 1.5, 2], np.float32),
        "label_names": np.frombuffer("ant\nbée\n\nd \n犬\n".encode(), np.uint8),
    }
    metadata = {"transform": "truncate=3,tfidf", "input_features": "4", "estimator": "implicit",
                "note": 'quoted "checksum":"0123456789abcdef", é'}
    yield "numpy_full.safetensors", contents(full, metadata, True)
    yield "numpy_plain.safetensors", contents({"weight": weight, "bias": bias}, {"format": "pt"}, False)
    yield "numpy_bare.safetensors", contents({"weight": weight}, {}, False)
    yield "numpy_products.safetensors", contents({"weight": weight, "products": np.array([[0, 1]], np.uint32)},
                                                 {"transform": "unit,products=2", "input_features": "2"}, False)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        for name, whole in golden():
            with open(os.path.join(sys.argv[2], name), "wb") as file:
                file.write(whole)
    elif sys.argv[1] == "compare":
        for name, whole in golden():
            with open(os.path.join(sys.argv[2], name), "rb") as file:
                if file.read() != whole:
                    sys.exit(f"{name} differs from what this script writes")
    else:
        metadata, tensors = read(sys.argv[2])
        print("checksum", "good" if checksum_ok(sys.argv[2]) else "bad")
        for key in sorted(metadata):
            if key not in ("checksum", "library"):
                print(key, metadata[key])
        for name in sorted(tensors):
            t = tensors[name]
            print(name, t.dtype, *t.shape, ":", *t.reshape(-1).tolist())
