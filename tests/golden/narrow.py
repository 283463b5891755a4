#!/usr/bin/python3
"""Golden conversions of weights to fewer bits, from the definitions in exact fractions. Run as: narrow.py >
narrow_golden.h; with that file as argument it is compared.

bfloat16 has 8 bits of precision and float32's exponents: the nearest, of two the one whose last bit is 0. int8: the
factor is the float32 nearest to max |w| / 127 (of subnormals, the least with 127 factor >= max |w|), and a number is the
whole number nearest to w / factor, of two the even.
"""
import math
import struct
from fractions import Fraction

from golden import finish


def nearest(x, precision, least):
    """The multiple of a power of two that is nearest to x, a fraction, with so many bits, ties to even; least is the
    exponent of the smallest subnormal."""
    if x == 0:
        return Fraction(0)
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    return round(x / unit) * unit  # Python rounds ties to even


def float32(x):
    return float(nearest(x, 24, -149))


def as_float(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits16(bits):
    """The bits of the bfloat16 nearest to the float with these bits."""
    x = float(nearest(Fraction(as_float(bits)), 8, -133))
    return struct.unpack("<I", struct.pack("<f", x))[0] >> 16 if x else (bits >> 31) << 15


patterns = [0, 1 << 31, 1, 0x7FFF, 0x8000, 0x8001, 0x18000, 0x80008000, 0x7FFFFF, 0x800000, 0x80800001,
            0x3F800000, 0x3F807FFF, 0x3F808000, 0x3F808001, 0x3F818000, 0x3F817FFF, 0x3FFF8000, 0xBFFFFFFF,
            0x7F7F7FFF, 0xFF7F7FFF]
state = 1
while len(patterns) < 80:
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    pattern = state >> 32
    if pattern >> 23 & 255 < 254:
        patterns.append(pattern)

WIDTH = 24
rows = [[float32(Fraction((37 * i * (j + 3)) % 255 - 127, 2 ** (i % 7) * 127)) for j in range(WIDTH)] for i in range(8)]
# Ties: halves of a factor that is a power of two.
rows.append([127.0] + [float(k) - 60.5 for k in range(WIDTH - 1)])
rows.append([-254.0] + [2 * k - 41.0 for k in range(WIDTH - 1)])
rows.append([0.0] * WIDTH)
rows.append([-0.0, math.ldexp(1, -149)] + [0.0] * (WIDTH - 2))  # the factor is the least subnormal
rows.append([math.ldexp(k, -149) for k in range(80, 80 + WIDTH)])  # 1 for a largest of 103
rows.append([math.ldexp(k - 12, -149 + 4) * 13 for k in range(WIDTH)])
rows.append([as_float(0x7F7FFFFF), -as_float(0x7F7FFFFF)] + [1e30 * k for k in range(WIDTH - 2)])
rows[-1] = [float32(Fraction(x)) for x in rows[-1]]


def lines():
    yield "/* Written by narrow.py: do not edit. */\n/* clang-format off */"
    yield "static const uint32_t bfloat16_golden[][2] = {"
    for bits in patterns:
        yield f"    {{{bits}u, {bits16(bits)}u}},"
    yield f"}};\n#define ROW_WIDTH {WIDTH}"
    yield "static const struct {\n    float weights[ROW_WIDTH], factor;\n    int8_t numbers[ROW_WIDTH];\n} int8_golden[] = {"
    for row in rows:
        most = max(abs(Fraction(w)) for w in row)
        factor = float32(most / 127)
        if factor < math.ldexp(1, -126) and 127 * Fraction(factor) < most:
            factor += math.ldexp(1, -149)
        numbers = [max(-127, min(127, round(Fraction(w) / Fraction(factor)))) if factor else 0 for w in row]
        yield "    {{" + ", ".join(w.hex() + "f" for w in row) + "}, " + factor.hex() + "f,"
        yield "     {" + ", ".join(str(n) for n in numbers) + "}},"
    yield "};"


finish(lines())
