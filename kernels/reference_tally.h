/* Counting what the certified reference finds: sums, histogram, extremes and kinds of fault.
 *
 * Everything is exact and independent of order: errors enter the sums as integers in 2^-30 ulp
 * (ulp^2), extremes prefer the lower position among equals. The rules are those of lsbench/tally.py
 * and of count() in lsbench/reference.py, which the tests hold against this file.
 *
 * A block is counted in two passes. Vectors count the regular elements: decided, all finite, g not
 * 0, an error below 2^8 ulp, no zero but a right one, no subnormal input with a wrong result. The
 * others, few in most results, go one by one.
 */
#ifndef LSBENCH_REFERENCE_TALLY_H
#define LSBENCH_REFERENCE_TALLY_H

#include <math.h>

#include "reference.h"

#define LS_TALLY_UNIT_BITS 30
#define LS_TALLY_BIN_BITS 12
/* No error exceeds 2^278: 2^128 for a computed infinity over the least ulp, 2^-149, and as much again. */
#define LS_TALLY_BINS (279 << LS_TALLY_BIN_BITS)
/* Adding this to a double below 2^21 leaves its nearest multiple of 2^-30 in the low bits. */
#define LS_TALLY_UNITS 0x1.8p22
#define LS_TALLY_REGULAR 256.0

/* An integer in base 2^32, lowest limb first; limbs may be negative or large until ls_wide_carry. */
#define LS_WIDE_LIMBS 24
typedef struct {
    int64_t limb[LS_WIDE_LIMBS];
} ls_wide;

typedef struct {
    int present;
    uint64_t position, g, x, computed;
    double error; /* NaN where none is defined */
} ls_entry;

typedef struct {
    uint64_t elements, misrounded;
    double max_ulp;
} ls_binade;

typedef struct {
    uint64_t elements, measured, misrounded, nonfinite, nan_lost, zero_sign, flushed, spurious_zero,
        daz;
} ls_counts;

typedef struct {
    ls_ref_claim claim;
    ls_counts counts;
    ls_wide signed_sum, magnitude_sum, square_sum;
    ls_entry worst, worst_kept, first_nonfinite;
    uint64_t *histogram;    /* LS_TALLY_BINS and one more, for what a block leaves out */
    ls_binade *by_x, *by_g; /* a row per sign and exponent field, or NULL */
} ls_tally;

static inline void ls_wide_add_units(ls_wide *sum, int64_t units) {
    sum->limb[0] += units & 0xffffffff;
    sum->limb[1] += units >> 32;
}

static void ls_wide_add(ls_wide *sum, double value) {
    if (fabs(value) < 0x1p21) {
        ls_wide_add_units(sum, (int64_t)rint(value * 0x1p30));
        return;
    }
    int exponent;
    int64_t significand = (int64_t)(frexp(fabs(value), &exponent) * 0x1p53);
    int shift = exponent - 53 + LS_TALLY_UNIT_BITS;
    if (shift < 0) { /* below 2^23 a bit or two fall off: round them to nearest even */
        significand = (int64_t)rint(fabs(value) * 0x1p30);
        shift = 0;
    }
    int64_t sign = value < 0 ? -1 : 1;
    unsigned __int128 placed = (unsigned __int128)significand << (shift % 32);
    int64_t *limb = sum->limb + shift / 32;
    limb[0] += sign * (int64_t)(placed & 0xffffffff);
    limb[1] += sign * (int64_t)(placed >> 32 & 0xffffffff);
    limb[2] += sign * (int64_t)(placed >> 64);
}

/* Bring every limb but the last into [0, 2^32): needed once in 2^30 additions. */
static void ls_wide_carry(ls_wide *sum) {
    for (int i = 0; i + 1 < LS_WIDE_LIMBS; i++) {
        sum->limb[i + 1] += sum->limb[i] >> 32;
        sum->limb[i] &= 0xffffffff;
    }
}

static inline uint64_t ls_tally_bin(double size) {
    return (ls_ref_bits(size + 1.0) >> (52 - LS_TALLY_BIN_BITS)) - (1023ull << LS_TALLY_BIN_BITS);
}

static void ls_entry_worse(ls_entry *worst, ls_entry candidate) {
    double size = fabs(candidate.error), held = fabs(worst->error);
    if (!worst->present || size > held || (size == held && candidate.position < worst->position)) {
        *worst = candidate;
    }
}

static ls_entry ls_entry_at(const ls_ref_block *b, size_t i, uint64_t position, double error) {
    ls_entry entry = {1, position + i, b->g[i], b->x[i], b->computed[i], error};
    return entry;
}

static void ls_binade_add(ls_binade *rows, uint64_t row, uint64_t elements, uint64_t misrounded,
                          double max_ulp) {
    if (rows) {
        rows[row].elements += elements;
        rows[row].misrounded += misrounded;
        rows[row].max_ulp = max_ulp > rows[row].max_ulp ? max_ulp : rows[row].max_ulp;
    }
}

/* What a correctly rounded result is stored as: itself, or with ftz a zero of its sign. */
static inline uint64_t ls_tally_stored(uint64_t correct, int ftz, ls_ref_format f) {
    uint64_t sign = correct & ls_ref_sign_bit(f);
    return ftz && (correct ^ sign) < ls_ref_least_normal(f) ? sign : correct;
}

/* The limit where it needs no arithmetic: 1 and the pattern, or 0. The table of special values. */
static int ls_tally_special(uint64_t g, uint64_t x, ls_ref_format f, uint64_t *limit) {
    const uint64_t sign_bit = ls_ref_sign_bit(f), infinity = ls_ref_infinity(f),
                   nan = infinity + (infinity & -infinity) / 2;
    uint64_t g_size = g & ~sign_bit, x_size = x & ~sign_bit;
    if (g_size > infinity || x_size > infinity) {
        *limit = nan;
    } else if (x_size == infinity) {
        *limit = x & sign_bit ? g : g_size == infinity ? nan : g & sign_bit;
    } else if (g_size == infinity || g_size == 0) {
        *limit = g;
    } else {
        return 0;
    }
    return 1;
}

static double ls_tally_value(uint64_t bits, ls_ref_format f) {
    double size = ls_ref_value((ls_vu){} + (bits & ~ls_ref_sign_bit(f)), f)[0];
    return bits & ls_ref_sign_bit(f) ? -size : size;
}

/* (computed - limit)/ulp(limit), limit a value of the format. */
static double ls_tally_error_of_special(uint64_t computed, uint64_t limit, ls_ref_format f) {
    double y = ls_tally_value(limit, f), least = ls_ref_power(f.emin);
    int exponent;
    frexp(fabs(y) < least ? least : y, &exponent);
    return (ls_tally_value(computed, f) - y) * ls_ref_power(f.p - exponent);
}

/* What is held true of one element of a judged block. */
typedef struct {
    uint64_t correct; /* before a declared flush */
    double error;     /* NaN where none is defined */
    int decided;
} ls_truth;

static ls_truth ls_truth_of(const ls_ref_block *b, size_t i, ls_ref_format f) {
    const uint64_t infinity = ls_ref_infinity(f), size_mask = ~ls_ref_sign_bit(f);
    ls_truth truth = {b->correct[i], b->error[i], 1};
    if (ls_tally_special(b->g[i], b->x[i], f, &truth.correct)) {
        truth.error = ls_tally_error_of_special(b->computed[i], truth.correct, f);
    } else {
        truth.decided = b->decided[i] != 0;
    }
    if ((b->computed[i] & size_mask) > infinity || (truth.correct & size_mask) >= infinity) {
        truth.error = (double)NAN;
    }
    return truth;
}

/* Whether a pattern is a subnormal number: neither zero nor normal. */
static inline int ls_is_subnormal(uint64_t bits, ls_ref_format f) {
    return (bits & ~ls_ref_sign_bit(f)) - 1 < ls_ref_least_normal(f) - 1;
}

/* What is stored if subnormal inputs are read as zeros; `stored` where there are none. */
static uint64_t ls_tally_daz(const ls_tally *t, const ls_ref_block *b, size_t i, ls_ref_format f,
                             uint64_t stored) {
    const uint64_t sign_bit = ls_ref_sign_bit(f);
    uint64_t limit;
    if (ls_is_subnormal(b->g[i],
                        f)) { /* a NaN beside it is no number that could be computed right */
        return (b->x[i] & ~sign_bit) > ls_ref_infinity(f) ? stored : b->g[i] & sign_bit;
    }
    if (!ls_is_subnormal(b->x[i], f) || ls_tally_special(b->g[i], b->x[i], f, &limit)) {
        return stored;
    }
    ls_ref_block one = {.g = {b->g[i]}, .x = {b->x[i] & sign_bit}, .threshold = {b->threshold[i]}};
    ls_ref_judges[t->claim.format][t->claim.mode](&one, 1);
    return ls_tally_stored(one.correct[0], t->claim.ftz, f);
}

/* Count one element; returns 0, and counts nothing, if it is undecided. */
static int ls_tally_one(ls_tally *t, const ls_ref_block *b, size_t i, uint64_t position,
                        ls_ref_format f) {
    const uint64_t sign_bit = ls_ref_sign_bit(f), infinity = ls_ref_infinity(f);
    uint64_t g = b->g[i], x = b->x[i], computed = b->computed[i], size = computed & ~sign_bit;
    ls_truth truth = ls_truth_of(b, i, f);
    if (!truth.decided) {
        return 0;
    }
    uint64_t stored = ls_tally_stored(truth.correct, t->claim.ftz, f), wanted = stored & ~sign_bit;
    int wrong = computed != stored && !(wanted > infinity && size > infinity);
    int finite = size < infinity && wanted < infinity, measured = !isnan(truth.error);
    int lost = finite && size == 0 && wanted != 0;
    double magnitude = measured ? fabs(truth.error) : 0.0;
    ls_entry entry = ls_entry_at(b, i, position, truth.error);
    t->counts.elements++;
    t->counts.measured += (uint64_t)measured;
    t->counts.misrounded += (uint64_t)wrong;
    t->counts.nonfinite += (uint64_t)(wrong && !finite);
    t->counts.nan_lost += (uint64_t)(wrong && wanted > infinity);
    t->counts.zero_sign += (uint64_t)(finite && size == 0 && ((computed ^ stored) & sign_bit) != 0);
    t->counts.flushed += (uint64_t)lost;
    t->counts.spurious_zero += (uint64_t)(lost && wanted >= ls_ref_least_normal(f));
    t->counts.daz += (uint64_t)(wrong && computed == ls_tally_daz(t, b, i, f, stored));
    if (wrong && !finite &&
        (!t->first_nonfinite.present || entry.position < t->first_nonfinite.position)) {
        t->first_nonfinite = entry;
    }
    if (measured) {
        ls_wide_add(&t->signed_sum, truth.error);
        ls_wide_add(&t->magnitude_sum, magnitude);
        ls_wide_add(&t->square_sum, magnitude * magnitude);
        t->histogram[ls_tally_bin(magnitude)]++;
        ls_entry_worse(&t->worst, entry);
        if (!(size == 0 && ls_is_subnormal(truth.correct, f))) {
            ls_entry_worse(&t->worst_kept, entry);
        }
    }
    ls_binade_add(t->by_x, x >> (f.p - 1), 1, (uint64_t)wrong, magnitude);
    ls_binade_add(t->by_g, g >> (f.p - 1), 1, (uint64_t)wrong, magnitude);
    return 1;
}

/* What one pass over a block's vectors finds of its regular elements. */
typedef struct {
    uint64_t wrong[LS_REF_BLOCK], irregular[LS_REF_BLOCK], bin[LS_REF_BLOCK]; /* first: aligned */
    int64_t signed_sum, magnitude_sum, square_sum, regular, misrounded;
    double max_ulp;
    int one_row; /* all x share sign and exponent, and so do all g */
} __attribute__((aligned(64))) ls_block_sums;

LS_REF_INLINE int64_t ls_across(ls_vi lanes) {
    int64_t sum = 0;
    for (int i = 0; i < LS_REF_LANES; i++) {
        sum += lanes[i];
    }
    return sum;
}

/* A double below 2^21 in 2^-30, to nearest even. */
LS_REF_INLINE ls_vi ls_units(ls_vd value) {
    return (ls_vi)(value + LS_TALLY_UNITS) - (int64_t)ls_ref_bits(LS_TALLY_UNITS);
}

LS_REF_INLINE void ls_sum_block(ls_block_sums *s, const ls_ref_block *b, size_t n, ls_ref_format f,
                                int ftz) {
    const int64_t sign_bit = (int64_t)ls_ref_sign_bit(f), infinity = (int64_t)ls_ref_infinity(f);
    const int64_t normal = (int64_t)ls_ref_least_normal(f);
    ls_vi signed_sum = {}, magnitude_sum = {}, square_sum = {}, irregulars = {}, wrongs = {},
          largest = {}, rows = {};
    for (size_t i = 0; i < n; i += LS_REF_LANES) {
        ls_vi g = *(const ls_vi *)(b->g + i), x = *(const ls_vi *)(b->x + i),
              c = *(const ls_vi *)(b->computed + i);
        ls_vi correct = *(const ls_vi *)(b->correct + i),
              decided = *(const ls_vi *)(b->decided + i);
        ls_vd error = *(const ls_vd *)(b->error + i);
        ls_vi g_size = g & ~sign_bit, x_size = x & ~sign_bit, c_size = c & ~sign_bit,
              size = correct & ~sign_bit;
        ls_vi stored = ftz ? correct & (sign_bit | ~(size < normal)) : correct;
        ls_vd magnitude = (ls_vd)((ls_vi)error & INT64_MAX);
        ls_vi wrong = c != stored;
        ls_vi irregular =
            (g_size == 0) | (g_size >= infinity) | (x_size >= infinity) | (c_size >= infinity);
        irregular |= ~decided | (magnitude >= LS_TALLY_REGULAR);
        irregular |= (c_size == 0) & (wrong | (size != 0));
        irregular |= wrong & ((g_size < normal) | (x_size < normal));
        error = (ls_vd)((ls_vi)error & ~irregular);
        magnitude = (ls_vd)((ls_vi)magnitude & ~irregular);
        signed_sum += ls_units(error);
        magnitude_sum += ls_units(magnitude);
        square_sum += ls_units(magnitude * magnitude);
        irregulars += irregular;
        wrongs += wrong & ~irregular;
        ls_vi above = (ls_vi)magnitude > largest;
        largest = ((ls_vi)magnitude & above) | (largest & ~above);
        rows |= ((x ^ (int64_t)b->x[0]) | (g ^ (int64_t)b->g[0]));
        ls_vi bin = (ls_vi)((ls_vu)(magnitude + 1.0) >> (52 - LS_TALLY_BIN_BITS)) -
                    (1023ll << LS_TALLY_BIN_BITS);
        *(ls_vi *)(s->bin + i) = (bin & ~irregular) | (irregular & LS_TALLY_BINS);
        *(ls_vi *)(s->wrong + i) = wrong;
        *(ls_vi *)(s->irregular + i) = irregular;
    }
    size_t lanes = (n + LS_REF_LANES - 1) / LS_REF_LANES * LS_REF_LANES;
    s->signed_sum = ls_across(signed_sum);
    s->magnitude_sum = ls_across(magnitude_sum);
    s->square_sum = ls_across(square_sum);
    s->regular =
        (int64_t)lanes + ls_across(irregulars); /* beyond n, g = 0 makes a lane irregular */
    s->misrounded = -ls_across(wrongs);
    uint64_t row_bits = 0;
    int64_t top = 0;
    for (int i = 0; i < LS_REF_LANES; i++) {
        top = largest[i] > top ? largest[i] : top;
        row_bits |= (uint64_t)rows[i];
    }
    memcpy(&s->max_ulp, &top, sizeof top);
    s->one_row = n == lanes && row_bits >> (f.p - 1) == 0;
}

/* Let the first regular element with the block's largest error stand for the worst, if it is. */
static void ls_tally_worst(ls_tally *t, const ls_block_sums *s, const ls_ref_block *b,
                           uint64_t position) {
    const double held = fabs(t->worst.error), kept = fabs(t->worst_kept.error);
    int beats = !t->worst.present || s->max_ulp > held ||
                (s->max_ulp == held && position < t->worst.position);
    beats |= !t->worst_kept.present || s->max_ulp > kept ||
             (s->max_ulp == kept && position < t->worst_kept.position);
    if (!beats || s->regular == 0) {
        return;
    }
    size_t i = 0;
    while (s->irregular[i] || fabs(b->error[i]) != s->max_ulp) {
        i++;
    }
    ls_entry entry = ls_entry_at(b, i, position, b->error[i]);
    ls_entry_worse(&t->worst, entry);
    ls_entry_worse(&t->worst_kept, entry);
}

static void ls_tally_rows(ls_tally *t, const ls_block_sums *s, const ls_ref_block *b, size_t n,
                          ls_ref_format f) {
    if (s->one_row) {
        uint64_t regular = (uint64_t)s->regular, misrounded = (uint64_t)s->misrounded;
        ls_binade_add(t->by_x, b->x[0] >> (f.p - 1), regular, misrounded, s->max_ulp);
        ls_binade_add(t->by_g, b->g[0] >> (f.p - 1), regular, misrounded, s->max_ulp);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!s->irregular[i]) {
            ls_binade_add(t->by_x, b->x[i] >> (f.p - 1), 1, s->wrong[i] & 1, fabs(b->error[i]));
            ls_binade_add(t->by_g, b->g[i] >> (f.p - 1), 1, s->wrong[i] & 1, fabs(b->error[i]));
        }
    }
}

/* Count one block that ls_ref_fill has judged; offsets of undecided elements go to `undecided`, and
 * their number is returned. */
LS_REF_INLINE size_t ls_tally_block(ls_tally *t, const ls_ref_block *b, size_t n, uint64_t position,
                                    uint32_t *undecided, ls_ref_format f) {
    ls_block_sums s;
    size_t left = 0;
    if (t->claim.ftz) {
        ls_sum_block(&s, b, n, f, 1);
    } else {
        ls_sum_block(&s, b, n, f, 0);
    }
    t->counts.elements += (uint64_t)s.regular;
    t->counts.measured += (uint64_t)s.regular;
    t->counts.misrounded += (uint64_t)s.misrounded;
    ls_wide_add_units(&t->signed_sum, s.signed_sum);
    ls_wide_add_units(&t->magnitude_sum, s.magnitude_sum);
    ls_wide_add_units(&t->square_sum, s.square_sum);
    for (size_t i = 0; i < n; i++) {
        t->histogram[s.bin[i]]++;
    }
    ls_tally_worst(t, &s, b, position);
    if (t->by_x) {
        ls_tally_rows(t, &s, b, n, f);
    }
    if ((size_t)s.regular == n) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (s.irregular[i] && !ls_tally_one(t, b, i, position, f)) {
            undecided[left++] = (uint32_t)i;
        }
    }
    return left;
}

/* Judge and count n elements, patterns of the claim's format. `position` is the place of the first
 * in the whole, `index` what stochastic rounding counts for it. `undecided` has room for n offsets;
 * how many it got is returned. */
static size_t ls_tally_add(ls_tally *t, const void *g, const void *x, const void *computed,
                           size_t n, uint64_t position, uint64_t index, uint32_t *undecided) {
    ls_ref_block block;
    size_t left = 0;
    for (size_t at = 0; at < n; at += LS_REF_BLOCK) {
        size_t size = n - at < LS_REF_BLOCK ? n - at : LS_REF_BLOCK, more;
        uint32_t *found = undecided + left;
        ls_ref_fill(&block, g, x, computed, at, size, index + at, &t->claim);
        switch (t->claim.format) {
        case LS_FP32:
            more = ls_tally_block(t, &block, size, position + at, found, ls_ref_fp32);
            break;
        case LS_FP16:
            more = ls_tally_block(t, &block, size, position + at, found, ls_ref_fp16);
            break;
        default:
            more = ls_tally_block(t, &block, size, position + at, found, ls_ref_bf16);
        }
        for (size_t i = 0; i < more; i++) {
            found[i] += (uint32_t)at;
        }
        left += more;
    }
    ls_wide_carry(&t->signed_sum);
    ls_wide_carry(&t->magnitude_sum);
    ls_wide_carry(&t->square_sum);
    return left;
}

#endif
