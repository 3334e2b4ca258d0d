# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The certified reference of one instruction set: a shell over reference.h and reference_tally.h.

One module per instruction set (reference__x86_64, reference__x86_64_v3, ...), all of the same bits.
An Account counts whole arrays without the GIL; one thread at a time may use one account. Formats
and roundings are named by their position in FORMATS and ROUNDINGS.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.math cimport isnan

cdef extern from "block.h" nogil:
    ctypedef enum ls_format:
        LS_FP32
    ctypedef enum ls_rounding:
        LS_RNE

cdef extern from "reference.h" nogil:
    ctypedef struct ls_ref_claim:
        ls_format format
        ls_rounding mode
        int ftz
        uint64_t seed
    ctypedef struct ls_ref_block:
        pass
    enum:
        LS_REF_BLOCK
    ctypedef struct ls_ref_format:
        int bits
    const ls_ref_format **ls_ref_formats
    void ls_ref_fill(ls_ref_block *b, const void *g, const void *x, const void *computed, size_t at,
                     size_t n, uint64_t index, const ls_ref_claim *claim)

cdef extern from "reference_tally.h" nogil:
    enum:
        LS_TALLY_BINS
        LS_WIDE_LIMBS
    ctypedef struct ls_wide:
        int64_t *limb
    ctypedef struct ls_entry:
        int present
        uint64_t position, g, x, computed
        double error
    ctypedef struct ls_binade:
        uint64_t elements, misrounded
        double max_ulp
    ctypedef struct ls_counts:
        uint64_t elements, measured, misrounded, nonfinite, nan_lost, zero_sign
        uint64_t flushed, spurious_zero, daz
    ctypedef struct ls_tally:
        ls_ref_claim claim
        ls_counts counts
        ls_wide signed_sum, magnitude_sum, square_sum
        ls_entry worst, worst_kept, first_nonfinite
        uint64_t *histogram
        ls_binade *by_x
        ls_binade *by_g
    ctypedef struct ls_truth:
        uint64_t correct
        double error
        int decided
    ls_truth ls_truth_of(const ls_ref_block *b, size_t i, ls_ref_format f)
    size_t ls_tally_add(ls_tally *t, const void *g, const void *x, const void *computed, size_t n,
                        uint64_t position, uint64_t index, uint32_t *undecided)

FORMATS = ("fp32", "fp16", "bf16")
ROUNDINGS = ("rne", "rna", "rtz", "rup", "rdn", "rto", "sr")

ctypedef fused bits_t:
    uint16_t
    uint32_t

cdef enum:
    ROWS = 512  # a sign and at most eight bits of exponent


cdef object whole(const ls_wide *total):
    value = 0
    cdef int i
    for i in range(LS_WIDE_LIMBS):
        value += int(total.limb[i]) << (32 * i)
    return value


cdef object entry(const ls_entry *held):
    if not held.present:
        return None
    error = None if isnan(held.error) else held.error
    return held.position, held.g, held.x, held.computed, error


cdef list rows(const ls_binade *table):
    cdef int i
    if table == NULL:
        return []
    return [
        (i, table[i].elements, table[i].misrounded, table[i].max_ulp)
        for i in range(ROWS) if table[i].elements
    ]


cdef class Account:
    """The running count of one claim: a format, a rounding, whether it flushes, a seed.

    ``binades`` asks for rows of counts per sign and exponent of x and of g. Raises MemoryError
    where 9 MiB of histogram cannot be had.
    """

    cdef ls_tally tally

    def __cinit__(self, int form, int mode, bint ftz, uint64_t seed, bint binades):
        if not (0 <= form < len(FORMATS) and 0 <= mode < len(ROUNDINGS)):
            raise ValueError(f"no format {form} or rounding {mode}")
        self.tally.claim.format = <ls_format>form
        self.tally.claim.mode = <ls_rounding>mode
        self.tally.claim.ftz = ftz
        self.tally.claim.seed = seed
        self.tally.histogram = <uint64_t *>calloc(LS_TALLY_BINS + 1, sizeof(uint64_t))
        if self.tally.histogram == NULL:
            raise MemoryError("no memory for a histogram of errors")
        if binades:
            self.tally.by_x = <ls_binade *>calloc(ROWS, sizeof(ls_binade))
            self.tally.by_g = <ls_binade *>calloc(ROWS, sizeof(ls_binade))
            if self.tally.by_x == NULL or self.tally.by_g == NULL:
                raise MemoryError("no memory for tables of binades")

    def __dealloc__(self):
        free(self.tally.histogram)
        free(self.tally.by_x)
        free(self.tally.by_g)

    def add(self, const bits_t[::1] g, const bits_t[::1] x, const bits_t[::1] computed,
            uint64_t position, uint64_t index, uint32_t[::1] undecided):
        """Count elements from ``position`` on; stochastic rounding counts them from ``index``.

        Offsets of elements that are not decided, and not counted, go to the front of
        ``undecided``; returns how many they are.
        """
        cdef size_t n = g.shape[0], left
        self._check(sizeof(bits_t), n, x.shape[0], computed.shape[0], undecided.shape[0])
        if n == 0:
            return 0
        with nogil:
            left = ls_tally_add(&self.tally, &g[0], &x[0], &computed[0], n, position, index,
                                &undecided[0])
        return left

    def judge(self, const bits_t[::1] g, const bits_t[::1] x, const bits_t[::1] computed,
              uint64_t index, uint32_t[::1] correct, double[::1] error, uint32_t[::1] decided):
        """What :meth:`add` holds of each element, counting nothing.

        Fills the correctly rounded pattern (before a declared flush), the error (NaN where none is
        defined) and whether they are decided.
        """
        cdef size_t n = g.shape[0], at = 0, size, i
        cdef ls_ref_block block
        cdef ls_truth truth
        cdef const ls_ref_format *form = ls_ref_formats[<int>self.tally.claim.format]
        self._check(sizeof(bits_t), n, x.shape[0], computed.shape[0],
                    min(correct.shape[0], error.shape[0], decided.shape[0]))
        if n == 0:
            return
        with nogil:
            while at < n:
                size = min(n - at, <size_t>LS_REF_BLOCK)
                ls_ref_fill(&block, &g[0], &x[0], &computed[0], at, size, index + at,
                            &self.tally.claim)
                for i in range(size):
                    truth = ls_truth_of(&block, i, form[0])
                    correct[at + i] = <uint32_t>truth.correct
                    error[at + i] = truth.error
                    decided[at + i] = <uint32_t>truth.decided
                at += size

    def export(self):
        """Counts, sums, histogram, entries and rows as plain Python objects."""
        cdef int i
        counts = self.tally.counts
        return {
            "counts": counts,
            "sums": (whole(&self.tally.signed_sum), whole(&self.tally.magnitude_sum),
                     whole(&self.tally.square_sum)),
            "histogram": {
                i: self.tally.histogram[i]
                for i in range(LS_TALLY_BINS) if self.tally.histogram[i]
            },
            "worst": entry(&self.tally.worst),
            "worst_kept": entry(&self.tally.worst_kept),
            "nonfinite": entry(&self.tally.first_nonfinite),
            "by_x": rows(self.tally.by_x),
            "by_g": rows(self.tally.by_g),
        }

    cdef int _check(self, size_t itemsize, size_t n, size_t x, size_t computed,
                    size_t out) except -1:
        cdef size_t wanted = 4 if self.tally.claim.format == LS_FP32 else 2
        if itemsize != wanted:
            raise ValueError(f"patterns of {itemsize} bytes: expected {wanted}")
        if x != n or computed != n or out < n:
            raise ValueError(f"arrays of {n}, {x}, {computed} and {out} elements do not fit")
        return 0
