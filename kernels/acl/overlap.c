/* Shared addresses as a bounded linear equation: exact, with a limit on the work.
 *
 * Two views meet where a_1 x_1 + ... + a_n x_n = b has a solution with 0 <= x_i <= u_i: the x_i are
 * indices (those of the second view counted from its end, so that every coefficient is positive)
 * and the bytes inside an element. The search takes the largest coefficient first; what the others
 * can reach bounds its values, two or three of them for the strides that tensors have, and their
 * greatest common divisor rules out the rest. Strides made to be hard exhaust LS_WORK and stay
 * undecided.
 */
#include "overlap.h"

#define LS_WORK 200000
/* Two views of 8 dimensions, and the bytes of an element. */
#define LS_TERMS 18

typedef struct {
    int64_t factor, most;
    int64_t reach, divisor; /* of this term and all after it */
} ls_term;

typedef struct {
    ls_term terms[LS_TERMS + 1];
    int count;
    int64_t target;
} ls_equation;

static int64_t divisor_of(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Add a term, largest factor first; terms of one factor are one term. */
static void add_term(ls_equation *equation, int64_t factor, int64_t most) {
    if (factor == 0 || most == 0)
        return;
    int at = equation->count;
    while (at > 0 && equation->terms[at - 1].factor < factor)
        at--;
    if (at > 0 && equation->terms[at - 1].factor == factor) {
        equation->terms[at - 1].most += most;
        return;
    }
    for (int i = equation->count++; i > at; i--)
        equation->terms[i] = equation->terms[i - 1];
    equation->terms[at] = (ls_term){.factor = factor, .most = most};
}

/* A solution exists (1), does not (0), or is not known for want of work (-1). */
static int solve(const ls_term *term, int count, int64_t target, int *work) {
    if (target < 0 || target > term->reach)
        return 0;
    if (count == 0)
        return 1; /* the reach of nothing is 0 */
    if (target % term->divisor != 0)
        return 0;
    const int64_t left = target - term[1].reach;
    const int64_t low = left > 0 ? (left + term->factor - 1) / term->factor : 0;
    int64_t high = target / term->factor;
    if (high > term->most)
        high = term->most;
    for (int64_t x = high; x >= low; x--) {
        if (--*work < 0)
            return -1;
        const int found = solve(term + 1, count - 1, target - x * term->factor, work);
        if (found != 0)
            return found;
    }
    return 0;
}

static ls_meeting decide(ls_equation *equation) {
    int work = LS_WORK;
    ls_term *terms = equation->terms;
    terms[equation->count] = (ls_term){.factor = 0};
    for (int i = equation->count - 1; i >= 0; i--) {
        terms[i].reach = terms[i + 1].reach + terms[i].factor * terms[i].most;
        terms[i].divisor = divisor_of(terms[i].factor, terms[i + 1].divisor);
    }
    const int found = solve(terms, equation->count, equation->target, &work);
    return found > 0 ? LS_MEETING : found == 0 ? LS_APART : LS_UNDECIDED;
}

static int is_same(const ls_tensor *a, const ls_tensor *b, int64_t itemsize) {
    if (a->data + a->offset * itemsize != b->data + b->offset * itemsize)
        return 0;
    for (uint64_t d = 0; d < a->ndim; d++)
        if (a->shape[d] > 1 && a->strides[d] != b->strides[d])
            return 0;
    return 1;
}

ls_meeting ls_tensors_meet(const ls_tensor *a, const ls_tensor *b, int64_t itemsize) {
    int64_t a_first, a_last, b_first, b_last;
    if (is_same(a, b, itemsize))
        return LS_SAME;
    if (!ls_tensor_extent(a, &a_first, &a_last) || !ls_tensor_extent(b, &b_first, &b_last))
        return LS_UNDECIDED;
    const uintptr_t a_start = (uintptr_t)(a->data + a_first * itemsize);
    const uintptr_t b_start = (uintptr_t)(b->data + b_first * itemsize);
    const uintptr_t a_end = (uintptr_t)(a->data + (a_last + 1) * itemsize);
    const uintptr_t b_end = (uintptr_t)(b->data + (b_last + 1) * itemsize);
    if (a_end <= b_start || b_end <= a_start)
        return LS_APART;
    /* a_start + i strides + p = b_end - 1 - (j strides counted back) - q. */
    ls_equation equation = {.target = (int64_t)(b_end - 1 - a_start)};
    for (uint64_t d = 0; d < a->ndim; d++) {
        add_term(&equation, ls_tensor_step(a, d) * itemsize, a->shape[d] - 1);
        add_term(&equation, ls_tensor_step(b, d) * itemsize, b->shape[d] - 1);
    }
    add_term(&equation, 1, 2 * (itemsize - 1));
    return decide(&equation);
}

ls_meeting ls_tensor_meets_itself(const ls_tensor *tensor) {
    int order[LS_MOST_DIMS], count = 0;
    for (uint64_t d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] <= 1)
            continue;
        if (tensor->strides[d] == 0)
            return LS_MEETING;
        int at = count++;
        for (; at > 0 && tensor->strides[order[at - 1]] < tensor->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = (int)d;
    }
    /* The difference of two indices, its first part that is not zero made positive: 1 + x there,
     * and from -u to u after it. */
    ls_meeting worst = LS_APART;
    for (int first = 0; first < count && worst != LS_MEETING; first++) {
        const int64_t stride = tensor->strides[order[first]];
        ls_equation equation = {.target = -stride};
        for (int i = first; i < count; i++) {
            const int64_t most = tensor->shape[order[i]] - 1, factor = tensor->strides[order[i]];
            add_term(&equation, factor, i == first ? most - 1 : 2 * most);
            if (i > first)
                equation.target += factor * most;
        }
        const ls_meeting found = decide(&equation);
        if (found != LS_APART)
            worst = found;
    }
    return worst;
}
