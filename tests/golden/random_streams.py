#!/usr/bin/env python3
"""Golden values of lib/base/random.c, from the papers alone: writes random_streams.h to standard output.

With a file as argument, compares instead: golden values that no longer follow from this script are a failure.
Philox4x32-10: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011. Bounded numbers: D. Lemire,
Fast random integer generation in an interval, 2019. Samples without replacement: R. Floyd in J. Bentley, Programming
pearls: a sample of brilliance, CACM 1987. Permutation: Fisher and Yates.
"""
from golden import finish

WORD = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & WORD, (first >> 32) ^ c[3] ^ k[1], first & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return c


class Stream:
    def __init__(self, seed, purpose, position):
        self.words = self.generate(seed, purpose, position)

    @staticmethod
    def generate(seed, purpose, position):
        block = 0
        while True:
            yield from philox([block, purpose, position & WORD, position >> 32], [seed & WORD, seed >> 32])
            block += 1

    def next(self):
        return next(self.words)

    def next64(self):
        return self.next() << 32 | self.next()

    def below(self, n):
        bits, draw = (32, self.next) if n < 2**32 else (64, self.next64)
        while True:
            product = draw() * n
            if product % 2**bits >= 2**bits % n:  # else one of the 2^bits mod n inputs too many
                return product >> bits

    def uniform(self):
        return (self.next64() >> 11) / 2**53

    def others(self, n, excluded, m):
        """A list in the order in which the library gives it: sorted above 32 draws."""
        if m == n - 1:
            return [k for k in range(n) if k != excluded]
        chosen = []
        for j in range(n - 1 - m, n - 1):
            t = self.below(j + 1)
            chosen.append(j if t in chosen else t)
        if m > 32:
            chosen.sort()
        return [k + (k >= excluded) for k in chosen]

    def permute(self, n):
        order = list(range(n))
        for i in range(n, 1, -1):
            j = self.below(i)
            order[i - 1], order[j] = order[j], order[i - 1]
        return order


STREAMS = [(0, 0, 0), (1, 2, 3), (0x0123456789ABCDEF, 4, 0xFEDCBA9876543210)]


def c_list(values, suffix=""):
    return "{" + ", ".join(f"{value}{suffix}" for value in values) + "}"


def lines():
    yield "/* Written by random_streams.py; change that, not this. */"
    yield "/* clang-format off */"
    yield "static const struct { uint64_t seed; uint32_t purpose; uint64_t position; uint32_t words[10]; } golden_words[] = {"
    for name in STREAMS:
        stream = Stream(*name)
        yield "    {%dULL, %d, %dULL, %s}," % (*name, c_list([stream.next() for _ in range(10)], "u"))
    yield "};"
    yield "static const struct { uint64_t n; uint64_t values[8]; } golden_below[] = { /* stream 1, 2, 3 */"
    for n in (1, 2, 3, 10, 1000003, 2**31 + 1, 3 * 2**30, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**62, 2**63 + 1, 2**64 - 1):
        stream = Stream(1, 2, 3)
        yield "    {%dULL, %s}," % (n, c_list([stream.below(n) for _ in range(8)], "ULL"))
    yield "};"
    stream = Stream(1, 2, 3)
    yield "static const double golden_uniform[6] = " + c_list([stream.uniform().hex() for _ in range(6)]) + ";"
    yield "static const struct { uint32_t n, excluded, m; uint32_t classes[40]; } golden_others[] = {"
    for n, excluded, m in ((2, 0, 1), (10, 9, 1), (10, 4, 5), (1000000, 77, 6), (40, 0, 32), (40, 20, 33), (100, 99, 40),
                           (12, 5, 11)):
        stream = Stream(5, 2, n)
        yield "    {%d, %d, %d, %s}," % (n, excluded, m, c_list(stream.others(n, excluded, m)))
    yield "};"
    yield "static const uint64_t golden_permutation[12] = " + c_list(Stream(9, 1, 0).permute(12)) + ";"


finish(lines())
