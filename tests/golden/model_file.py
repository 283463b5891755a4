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

DTYPES = {"F32": np.float32, "I64": np.int64, "U8": np.uint8, "U32": np.uint32}


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


# -- XXH3-64 of more than 240 bytes with seed 0 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) ---------------------------

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
M = 2**64 - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def word(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def xxh3(data):
    assert len(data) > 240
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def stripe(at, secret):
        for i in range(8):
            value = word(data, at + 8 * i)
            key = value ^ word(SECRET, secret + 8 * i)
            acc[i ^ 1] = (acc[i ^ 1] + value) & M
            acc[i] = (acc[i] + (key & 0xFFFFFFFF) * (key >> 32)) & M

    blocks = (len(data) - 1) // 1024
    for block in range(blocks):
        for n in range(16):
            stripe(1024 * block + 64 * n, 8 * n)
        for i in range(8):
            acc[i] = ((acc[i] ^ acc[i] >> 47 ^ word(SECRET, 128 + 8 * i)) * P32_1) & M
    for n in range((len(data) - 1 - 1024 * blocks) // 64):
        stripe(1024 * blocks + 64 * n, 8 * n)
    stripe(len(data) - 64, 121)
    result = len(data) * P64_1 & M
    for i in range(4):
        product = (acc[2 * i] ^ word(SECRET, 11 + 16 * i)) * (acc[2 * i + 1] ^ word(SECRET, 19 + 16 * i))
        result = (result + ((product & M) ^ product >> 64)) & M
    result ^= result >> 37
    result = result * 0x165667919E3779F9 & M
    return result ^ result >> 32


def checksum_ok(path, metadata):
    raw = open(path, "rb").read()
    digits = metadata["checksum"].encode()
    assert raw.count(digits) == 1
    return xxh3(raw.replace(digits, b"0" * 16)) == int(digits, 16)


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
        metadata = dict(metadata, format_version="1", checksum="0" * 16, library="numpy")
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    whole = len(text).to_bytes(8, "little") + text + data
    if checked:
        whole = whole.replace(b"0" * 16, b"%016x" % xxh3(whole))
    return whole


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
        print("checksum", "good" if checksum_ok(sys.argv[2], metadata) else "bad")
        for key in sorted(metadata):
            if key not in ("checksum", "library"):
                print(key, metadata[key])
        for name in sorted(tensors):
            t = tensors[name]
            print(name, t.dtype, *t.shape, ":", *t.reshape(-1).tolist())
