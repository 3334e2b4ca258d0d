# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The kernels of one instruction set: a thin shell over the C headers beside this file.

One source, one module per instruction set (blocks__x86_64, blocks__x86_64_v3, ...). A function
checks its arrays, takes their addresses and strides, and hands over without the GIL; drive.h cuts,
threads and computes. There is no state. Formats, roundings and kernels are named by their position
in FORMATS, ROUNDINGS and table().

Arrays are NumPy's, in native byte order; 16-bit formats are told by `storage`, not by their dtype.
What a user can do wrong is checked, and worded, by lsbench.providers.kernels; the checks here
keep memory safe.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

cimport numpy as cnp

cnp.import_array()

cdef extern from "block.h" nogil:
    ctypedef enum ls_format:
        LS_FP32
    ctypedef enum ls_rounding:
        LS_RNE
    const int LS_FORMATS
    const int LS_ROUNDINGS
    ctypedef struct ls_store:
        ls_rounding rounding
        int ftz
        uint64_t seed
    ctypedef void ls_block(
        const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store
    )

cdef extern from "convert.h" nogil:
    size_t ls_itemsize(ls_format form)
    double ls_to_double(uint32_t bits, ls_format form)
    uint16_t ls_float_to_fp16(float value)
    uint16_t ls_float_to_bf16(float value)

cdef extern from "rounding.h" nogil:
    uint32_t ls_sr_draw(uint64_t seed, uint64_t index)
    double ls_quantise(double value, ls_format form)
    void ls_store_as(ls_format form, const double *value, void *y, size_t n, uint64_t index,
                     const ls_store *store)

cdef extern from "formulas.h" nogil:
    double ls_exp(double x)

cdef extern from "exact.h" nogil:
    double ls_exact_quotient(double g, double x)
    double ls_line_quotient_one(double g, double x)
    int ls_above(double g, double b, double x)

cdef extern from "quotient.h" nogil:
    float ls_quotient_one(float g, float x)

cdef extern from "tiles.h" nogil:
    enum:
        LS_MAX_DIMS
        LS_TENSORS
    ctypedef struct ls_views:
        int ndim
        int64_t shape[8]
        int64_t strides[3][8]
        char *base[3]
    ctypedef struct ls_job:
        ls_block *block
        size_t itemsize
        ls_store store
        int64_t block_size
        int threads

cdef extern from "roof.h" nogil:
    ls_block ls_roof_16, ls_roof_32

cdef extern from "compute.h" nogil:
    ctypedef struct ls_kernel:
        const char *name
        const char *formula
        const char *guarantee
        double max_ulp[3][3]
        double x_max[3]
        ls_block *block[3][3]
    # Linked from the library of this instruction set, which the C interface shares.
    const ls_kernel *LS_KERNELS "LS_COMPUTE.kernels"
    const int LS_KERNEL_COUNT "LS_COMPUTE.count"
    void ls_drive "LS_COMPUTE.drive"(const ls_views *views, const ls_job *job)

cdef extern from "environment.h" nogil:
    int ls_get_flush()
    int ls_set_flush(int flags)
    int ls_get_direction()
    int ls_set_direction(int direction)

cdef extern from "clock.h" nogil:
    int64_t ls_now()


FORMATS = ("fp32", "fp16", "bf16")
"""Names of formats (arithmetic and storage) in the order of their numbers."""
ROUNDINGS = ("rne", "rna", "rtz", "rup", "rdn", "rto", "sr")
"""Names of rounding modes in the order of their numbers."""


def table():
    """The kernels, one dict per row of table.h; a kernel's number is its position."""
    cdef int k, a, s
    rows = []
    for k in range(LS_KERNEL_COUNT):
        supported = tuple(
            tuple(LS_KERNELS[k].block[a][s] != NULL for s in range(LS_FORMATS))
            for a in range(LS_FORMATS)
        )
        rows.append({
            "name": LS_KERNELS[k].name.decode("ascii"),
            "formula": LS_KERNELS[k].formula.decode("ascii"),
            "guarantee": LS_KERNELS[k].guarantee.decode("ascii"),
            "supported": supported,
            "max_ulp": tuple(
                tuple(LS_KERNELS[k].max_ulp[a][s] for s in range(LS_FORMATS))
                for a in range(LS_FORMATS)
            ),
            "x_max": tuple(LS_KERNELS[k].x_max[a] for a in range(LS_FORMATS)),
        })
    return tuple(rows)


cdef int set_views(
    ls_views *views, cnp.ndarray g, cnp.ndarray x, cnp.ndarray y, cnp.npy_intp itemsize
) except -1:
    """Take addresses and strides; refuse what would make the driver leave the arrays."""
    cdef int ndim = y.ndim, d
    if ndim > LS_MAX_DIMS or g.ndim != ndim or x.ndim != ndim:
        raise ValueError(f"expected three arrays of equal rank, 8 at most, "
                         f"found {g.ndim}, {x.ndim}, {ndim}")
    if g.itemsize != itemsize or x.itemsize != itemsize or y.itemsize != itemsize:
        raise ValueError(f"expected elements of {itemsize} bytes, "
                         f"found {g.itemsize}, {x.itemsize}, {y.itemsize}")
    if not cnp.PyArray_ISWRITEABLE(y):
        raise ValueError("the output is read-only")
    views.ndim = ndim
    for d in range(ndim):
        if g.shape[d] != y.shape[d] or x.shape[d] != y.shape[d]:
            raise ValueError("expected three arrays of one shape")
        views.shape[d] = y.shape[d]
        views.strides[0][d] = g.strides[d]
        views.strides[1][d] = x.strides[d]
        views.strides[2][d] = y.strides[d]
    views.base[0] = <char *>cnp.PyArray_DATA(g)
    views.base[1] = <char *>cnp.PyArray_DATA(x)
    views.base[2] = <char *>cnp.PyArray_DATA(y)
    return 0


cdef int set_job(
    ls_job *job, int kernel, int arithmetic, int storage, int rounding, bint ftz, uint64_t seed,
    int64_t block, int threads
) except -1:
    """Look a kernel up and say how it is to run."""
    if not (0 <= kernel < LS_KERNEL_COUNT and 0 <= arithmetic < LS_FORMATS
            and 0 <= storage < LS_FORMATS and 0 <= rounding < LS_ROUNDINGS):
        raise ValueError("no such kernel, arithmetic, storage or rounding")
    job.block = LS_KERNELS[kernel].block[arithmetic][storage]
    if job.block == NULL:
        raise ValueError("the kernel has no such arithmetic and storage")
    job.itemsize = ls_itemsize(<ls_format>storage)
    job.store.rounding = <ls_rounding>rounding
    job.store.ftz = ftz
    job.store.seed = seed
    job.block_size = block
    job.threads = threads if threads > 1 else 1
    return 0


def run(int kernel, int arithmetic, int storage, int rounding, bint ftz, uint64_t seed,
        cnp.ndarray g, cnp.ndarray x, cnp.ndarray y, int64_t block, int threads):
    """Compute y from g and x: arrays of one shape, any strides; block 0 is the driver's choice.

    y has no two elements at one address and is the very view g or x, or overlaps neither: the
    caller has checked that.
    """
    cdef ls_views views
    cdef ls_job job
    set_job(&job, kernel, arithmetic, storage, rounding, ftz, seed, block, threads)
    set_views(&views, g, x, y, job.itemsize)
    with nogil:
        ls_drive(&views, &job)


cdef int64_t timed(const ls_views *views, const ls_job *job, int64_t loops) noexcept nogil:
    """Nanoseconds that `loops` runs take."""
    cdef int64_t start = ls_now(), _loop
    for _loop in range(loops):
        ls_drive(views, job)
    return ls_now() - start


def time_run(int kernel, int arithmetic, int storage, int rounding, bint ftz, uint64_t seed,
             cnp.ndarray g, cnp.ndarray x, cnp.ndarray y, int64_t block, int threads,
             int64_t loops):
    """Nanoseconds that `loops` such runs take, measured in compiled code."""
    cdef ls_views views
    cdef ls_job job
    cdef int64_t elapsed
    set_job(&job, kernel, arithmetic, storage, rounding, ftz, seed, block, threads)
    set_views(&views, g, x, y, job.itemsize)
    with nogil:
        elapsed = timed(&views, &job, loops)
    return elapsed


def roof(cnp.ndarray g, cnp.ndarray x, cnp.ndarray y, int64_t block, int threads, int64_t loops):
    """Nanoseconds that `loops` runs of the bandwidth roof take: y = g ^ x, bit by bit."""
    cdef ls_views views
    cdef ls_job job
    cdef int64_t elapsed
    set_views(&views, g, x, y, y.itemsize)
    if y.itemsize != 4 and y.itemsize != 2:
        raise ValueError(f"expected elements of 2 or 4 bytes, found {y.itemsize}")
    job.block = ls_roof_32 if y.itemsize == 4 else ls_roof_16
    job.itemsize = y.itemsize
    job.store.rounding = LS_RNE
    job.store.ftz = 0
    job.store.seed = 0
    job.block_size = block
    job.threads = threads if threads > 1 else 1
    with nogil:
        elapsed = timed(&views, &job, loops)
    return elapsed


def time_empty(int64_t loops):
    """Nanoseconds that `loops` runs over an empty tensor take: the cost of a call."""
    cdef ls_views views
    cdef ls_job job
    cdef int64_t elapsed
    set_job(&job, 0, LS_FP32, LS_FP32, LS_RNE, False, 0, 0, 1)
    views.ndim = 1
    views.shape[0] = 0
    with nogil:
        elapsed = timed(&views, &job, loops)
    return elapsed


def convert(const double[::1] values, uint32_t[::1] bits, int form, int rounding, bint ftz,
            uint64_t seed, uint64_t first_index):
    """Round doubles once to patterns of a format; element i is at position first_index + i."""
    cdef ls_store store
    cdef uint16_t narrow[256]
    cdef Py_ssize_t start, count, i, n = values.shape[0]
    if bits.shape[0] != n or not (0 <= form < LS_FORMATS and 0 <= rounding < LS_ROUNDINGS):
        raise ValueError("expected as many patterns as values, a format and a rounding")
    store.rounding = <ls_rounding>rounding
    store.ftz = ftz
    store.seed = seed
    with nogil:
        if form == LS_FP32:
            if n > 0:
                ls_store_as(LS_FP32, &values[0], &bits[0], n, first_index, &store)
        else:
            for start in range(0, n, 256):
                count = min(<Py_ssize_t>256, n - start)
                ls_store_as(<ls_format>form, &values[start], narrow, count,
                            first_index + <uint64_t>start, &store)
                for i in range(count):
                    bits[start + i] = narrow[i]


def widen(const uint32_t[::1] bits, double[::1] values, int form):
    """The exact values of patterns of a format."""
    cdef Py_ssize_t i, n = bits.shape[0]
    if values.shape[0] != n or not 0 <= form < LS_FORMATS:
        raise ValueError("expected as many values as patterns, and a format")
    with nogil:
        for i in range(n):
            values[i] = ls_to_double(bits[i], <ls_format>form)


def narrow(const float[::1] values, uint16_t[::1] bits, int form):
    """Round floats to nearest even to fp16 or bf16 by the short way that kernels take."""
    cdef Py_ssize_t i, n = bits.shape[0]
    if values.shape[0] != n or not 0 < form < LS_FORMATS:
        raise ValueError("expected as many patterns as values, and a 16-bit format")
    with nogil:
        for i in range(n):
            bits[i] = ls_float_to_fp16(values[i]) if form == 1 else ls_float_to_bf16(values[i])


def quantise(const double[::1] values, double[::1] rounded, int form):
    """Round doubles to nearest even to values of a format, as emulated arithmetic does."""
    cdef Py_ssize_t i, n = values.shape[0]
    if rounded.shape[0] != n or not 0 <= form < LS_FORMATS:
        raise ValueError("expected as many results as values, and a format")
    with nogil:
        for i in range(n):
            rounded[i] = ls_quantise(values[i], <ls_format>form)


def exponential(const double[::1] x, double[::1] result):
    """e^x as the formulas compute it, before it is rounded to their arithmetic."""
    cdef Py_ssize_t i, n = x.shape[0]
    if result.shape[0] != n:
        raise ValueError("expected as many results as arguments")
    with nogil:
        for i in range(n):
            result[i] = ls_exp(x[i])


def draw(uint64_t seed, uint64_t index):
    """The 24-bit draw of stochastic rounding at a row-major position."""
    return ls_sr_draw(seed, index)


def floating_point_state():
    """(flush flags, direction) of the calling thread.

    Flags: 1 FTZ, 2 DAZ, -1 unknown. Direction: 0 to nearest, 1 down, 2 up, 3 toward zero.
    """
    return ls_get_flush(), ls_get_direction()


def set_floating_point_state(int flags, int direction):
    """Set flush flags and direction of the calling thread, as another library might have."""
    if not (ls_set_direction(direction) and ls_set_flush(flags)):
        raise ValueError(f"cannot set flags {flags} and direction {direction} here")


def quotient(const double[::1] g, const double[::1] x, double[::1] result, int tier):
    """g / (1 + e^x) unrounded: by a line of floats (0) or doubles (1), or the second tier (2)."""
    cdef Py_ssize_t i, n = x.shape[0]
    if g.shape[0] != n or result.shape[0] != n:
        raise ValueError("expected as many results as arguments")
    with nogil:
        for i in range(n):
            if tier == 0:
                result[i] = ls_quotient_one(<float>g[i], <float>x[i])
            elif tier == 1:
                result[i] = ls_line_quotient_one(g[i], x[i])
            else:
                result[i] = ls_exact_quotient(g[i], x[i])


def above(double g, double boundary, double x):
    """Whether g / (1 + e^x) exceeds a boundary, decided by integers; 0 < boundary < g, x != 0."""
    cdef int found
    if not (0 < boundary < g and x != 0 and -256 <= x <= 256):
        raise ValueError("expected 0 < boundary < g, x != 0 and abs(x) <= 256")
    with nogil:
        found = ls_above(g, boundary, x)
    return found == 1
