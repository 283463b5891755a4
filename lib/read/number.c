/*
 * Decimal to binary. Numbers of at most 19 digits that fit a double exactly, with a power of ten that does too, take
 * one multiplication or division (Clinger 1990); the result is a correctly rounded double, and rounding it once more to
 * float32 is wrong only if it lies exactly between two floats. Such numbers, and all others, are decided by comparing
 * the decimal with the midpoint between two neighbouring floats in integers of any length.
 */
#include "read/number.h"

#include <stddef.h>
#include <string.h>

typedef struct decimal {
    uint64_t digits;       /* the first 19 significant digits */
    int64_t exponent;      /* value = digits * 10^exponent, and a little more when cut */
    bool negative, cut;    /* cut: digits other than zero follow the 19 */
    const char *first;     /* first character after the sign */
    const char *last;      /* end of the digits, before the exponent part */
    int64_t exponent_part; /* the number after the e */
} decimal;

/* Exponents beyond this count as infinite: no text in memory has enough digits to compensate for them. */
#define EXPONENT_MAX INT64_C(100000000000000000)

const double xsmi_powers_of_ten[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_word(const char *p, const char *word)
{
    for (; *word; p++, word++) {
        if ((*p | 0x20) != *word) {
            return false;
        }
    }
    return true;
}

/* Counts again if there were more digits than fit: takes the first 19 after leading zeros. */
static void cut_digits(decimal *d)
{
    uint64_t digits = 0;
    int64_t exponent = d->exponent_part;
    int used = 0;
    bool after_point = false;
    d->cut = false;
    for (const char *p = d->first; p < d->last; p++) {
        if (*p == '.') {
            after_point = true;
            continue;
        }
        if (used == 19) {
            d->cut |= *p != '0';
            exponent += after_point ? 0 : 1;
            continue;
        }
        digits = digits * 10 + (unsigned char)(*p - '0');
        used += digits != 0;
        exponent -= after_point ? 1 : 0;
    }
    d->digits = digits;
    d->exponent = exponent;
}

static int scan(const char *p, const char **end, decimal *d)
{
    d->negative = *p == '-';
    p += *p == '-' || *p == '+';
    d->first = p;
    uint64_t digits = 0;
    unsigned c;
    while ((c = (unsigned)((unsigned char)*p - '0')) <= 9) {
        digits = digits * 10 + c;
        p++;
    }
    int64_t count = p - d->first;
    int64_t exponent = 0;
    if (*p == '.') {
        const char *fraction = ++p;
        while ((c = (unsigned)((unsigned char)*p - '0')) <= 9) {
            digits = digits * 10 + c;
            p++;
        }
        exponent = fraction - p;
        count -= exponent;
    }
    if (count == 0) {
        return is_word(d->first, "nan") || is_word(d->first, "inf") ? XSMI_NUMBER_NOT_FINITE : XSMI_NUMBER_NONE;
    }
    d->last = p;
    d->exponent_part = 0;
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        bool down = *q == '-';
        q += *q == '-' || *q == '+';
        if (xsmi_is_digit(*q)) { /* otherwise the number ends before the e, which the reader refuses */
            int64_t part = 0;
            for (; xsmi_is_digit(*q); q++) {
                part = part < EXPONENT_MAX ? part * 10 + (*q - '0') : part;
            }
            d->exponent_part = down ? -part : part;
            p = q;
        }
    }
    d->digits = digits;
    d->exponent = exponent + d->exponent_part;
    d->cut = false;
    if (count > 19) {
        cut_digits(d);
    }
    *end = p;
    return XSMI_NUMBER_OK;
}

/* -- the slow way ---------------------------------------------------------------------------------------------------
 * A midpoint of two floats has at most 113 significant digits, so 128 digits of the decimal and whether anything
 * follows decide every comparison. The numbers stay below 10^128 * 2^150 and 2^130 * 10^175: 712 bits. */

#define LIMBS 32
#define DIGITS_KEPT 128

typedef struct big {
    uint32_t limb[LIMBS];
} big;

static void big_multiply_add(big *b, uint32_t factor, uint32_t term)
{
    uint64_t carry = term;
    for (size_t i = 0; i < LIMBS; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void big_power_of_ten(big *b, int64_t n)
{
    for (; n >= 9; n -= 9) {
        big_multiply_add(b, 1000000000, 0);
    }
    for (; n > 0; n--) {
        big_multiply_add(b, 10, 0);
    }
}

static void big_shift(big *b, int n)
{
    for (; n >= 31; n -= 31) {
        big_multiply_add(b, UINT32_C(1) << 31, 0);
    }
    big_multiply_add(b, UINT32_C(1) << n, 0);
}

typedef struct big_decimal {
    big digits;
    int64_t exponent;
    bool more; /* non-zero digits follow those kept */
} big_decimal;

/* Returns -1, 0 or 1: the decimal is below, at or above the midpoint of the floats with bits `b` and `b + 1`. */
static int compare_midpoint(const big_decimal *x, uint32_t b)
{
    uint32_t biased = b >> 23;
    uint32_t mantissa = (b & 0x7FFFFF) | (biased ? 0x800000 : 0);
    int shift = (int)(biased ? biased : 1) - 127 - 23 - 1;
    big left = x->digits;
    big right = {{mantissa * 2 + 1}};
    big_power_of_ten(x->exponent > 0 ? &left : &right, x->exponent > 0 ? x->exponent : -x->exponent);
    big_shift(shift > 0 ? &right : &left, shift > 0 ? shift : -shift);
    for (size_t i = LIMBS; i-- > 0;) {
        if (left.limb[i] != right.limb[i]) {
            return left.limb[i] < right.limb[i] ? -1 : 1;
        }
    }
    return x->more ? 1 : 0;
}

static int round_exactly(const decimal *d, float *value)
{
    /* Numbers of 10^39 and above, or 10^-47 and below, round to infinity or 0. `digits` itself has up to 20 places. */
    int64_t places = 0;
    for (uint64_t rest = d->digits; rest; rest /= 10) {
        places++;
    }
    if (d->digits == 0 || d->exponent + places < -46) {
        *value = 0;
        return XSMI_NUMBER_OK;
    }
    if (d->exponent + places > 40) {
        return XSMI_NUMBER_TOO_LARGE;
    }
    big_decimal x = {{{0}}, d->exponent_part, false};
    int kept = 0;
    bool after_point = false;
    for (const char *p = d->first; p < d->last; p++) {
        if (*p == '.') {
            after_point = true;
        } else if (kept == DIGITS_KEPT) {
            x.more |= *p != '0';
            x.exponent += after_point ? 0 : 1;
        } else {
            big_multiply_add(&x.digits, 10, (uint32_t)(*p - '0'));
            kept += kept > 0 || *p != '0';
            x.exponent -= after_point ? 1 : 0;
        }
    }
    double near = (double)d->digits;
    int64_t e = d->exponent;
    for (; e > 22; e -= 22) {
        near *= 1e22;
    }
    for (; e < -22; e += 22) {
        near /= 1e22;
    }
    near = e < 0 ? near / xsmi_powers_of_ten[-e] : near * xsmi_powers_of_ten[e];
    float guess = near >= 0x1.fffffep127 ? 0x1.fffffep127f : (float)near;
    uint32_t b;
    memcpy(&b, &guess, sizeof b);
    for (; b < 0x7F800000; b++) {
        int c = compare_midpoint(&x, b);
        if (c < 0 || (c == 0 && (b & 1) == 0)) {
            break;
        }
    }
    for (; b > 0; b--) {
        int c = compare_midpoint(&x, b - 1);
        if (c > 0 || (c == 0 && (b & 1) == 0)) {
            break;
        }
    }
    if (b >= 0x7F800000) {
        return XSMI_NUMBER_TOO_LARGE;
    }
    memcpy(value, &b, sizeof *value);
    return XSMI_NUMBER_OK;
}

int xsmi_parse_float(const char *text, const char **end, float *value)
{
    decimal d;
    const char *after;
    int result = scan(text, &after, &d);
    if (result != XSMI_NUMBER_OK) {
        return result;
    }
    float v = 0;
    bool done = false;
    if (!d.cut && d.digits <= (UINT64_C(1) << 53) && d.exponent >= -22 && d.exponent <= 22) {
        double operand = (double)d.digits;
        double x =
            d.exponent < 0 ? operand / xsmi_powers_of_ten[-d.exponent] : operand * xsmi_powers_of_ten[d.exponent];
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        /* The double is not half-way between two floats, and is within the normal ones. */
        if (x == 0 || ((bits & 0x1FFFFFFF) != 0x10000000 && x >= 0x1p-125 && x < 0x1p127)) {
            v = (float)x;
            done = true;
        }
    }
    if (!done) {
        result = round_exactly(&d, &v);
        if (result != XSMI_NUMBER_OK) {
            return result;
        }
    }
    *value = d.negative ? -v : v;
    *end = after;
    return XSMI_NUMBER_OK;
}

double xsmi_rough_double(const char *text)
{
    decimal d;
    const char *end;
    while (*text == ' ' || *text == '\t') {
        text++;
    }
    if (scan(text, &end, &d) != XSMI_NUMBER_OK || d.digits == 0) {
        return 0;
    }
    double x = (double)d.digits;
    int64_t up = d.exponent > 400 ? 400 : d.exponent, down = d.exponent < -400 ? 400 : -d.exponent;
    for (; up > 0; up -= 22) {
        x *= xsmi_powers_of_ten[up < 22 ? up : 22];
    }
    for (; down > 0; down -= 22) {
        x /= xsmi_powers_of_ten[down < 22 ? down : 22];
    }
    return d.negative ? -x : x;
}

int xsmi_parse_integer(const char *text, const char **end, int64_t *value)
{
    decimal d;
    const char *after;
    int result = scan(text, &after, &d);
    if (result != XSMI_NUMBER_OK) {
        return result;
    }
    if (d.cut) {
        return d.exponent > 0 ? XSMI_NUMBER_TOO_LARGE : XSMI_NUMBER_FRACTION;
    }
    uint64_t n = d.digits;
    for (; n != 0 && d.exponent < 0; d.exponent++) {
        if (n % 10 != 0) {
            return XSMI_NUMBER_FRACTION;
        }
        n /= 10;
    }
    for (; n != 0 && d.exponent > 0; d.exponent--) {
        if (n > UINT64_MAX / 10) {
            return XSMI_NUMBER_TOO_LARGE;
        }
        n *= 10;
    }
    if (n > (uint64_t)INT64_MAX + (d.negative ? 1 : 0)) {
        return XSMI_NUMBER_TOO_LARGE;
    }
    *value = !d.negative ? (int64_t)n : n == 0 ? 0 : -(int64_t)(n - 1) - 1;
    *end = after;
    return XSMI_NUMBER_OK;
}

size_t xsmi_count_integers(const char *text, size_t length)
{
    size_t count = 0;
    bool inside = false;
    for (size_t i = 0; i < length; i++) {
        if (!xsmi_is_digit(text[i]) && text[i] != ' ' && text[i] != '\t') {
            return 0;
        }
        count += xsmi_is_digit(text[i]) && !inside;
        inside = xsmi_is_digit(text[i]);
    }
    return count;
}
