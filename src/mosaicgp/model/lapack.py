"""Factors, inverses and congruences of NumPy matrices, for work that runs beside other threads.

XLA has no product for triangular or symmetric matrices, and takes long to compile what surrounds a
factorisation. SciPy's wrappers of LAPACK hold the interpreter's lock while they compute; the same
routines, called through the pointers that SciPy exports for Cython, do not, and neither does
``np.matmul``. Matrices are stored row by row. Products of large ones go panel by panel, which
leaves out what is zero or known by symmetry.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack

Matrix = NDArray[np.floating[Any]]

# Largest panel, and the size up to which LAPACK inverts a triangle faster than its halves.
PANEL = 100

# LAPACK stores column by column, so that the lower triangle here is the upper one there.
UPPER, NOT_UNIT = b"U", b"N"


class NotPositive(ArithmeticError):
    """A matrix that should be positive definite is not, or is not finite."""


_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@cache
def _routine(name: str, n_arguments: int) -> Callable[..., None]:
    capsule = cython_lapack.__pyx_capi__[name]
    pointer = _pointer_of(capsule, _name_of(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(pointer)


def _overwrite(name: str, A: Matrix, *options: bytes) -> None:
    """Call a routine on a matrix, or on a block of one, whose rows are contiguous."""
    n, stride, info = (ctypes.c_int(k) for k in (len(A), A.strides[0] // A.itemsize, 0))
    routine = _routine(("d" if A.itemsize == 8 else "s") + name, len(options) + 4)
    routine(*options, ctypes.byref(n), A.ctypes.data, ctypes.byref(stride), ctypes.byref(info))
    if info.value != 0:
        raise NotPositive(f"LAPACK's {name} stopped at row {info.value} of {len(A)}")


@cache
def _above_diagonal(n: int) -> NDArray[np.bool_]:
    return ~np.tri(n, dtype=bool)


@cache
def panels(n: int) -> tuple[tuple[int, int], ...]:
    """Rows 0..n cut into equal panels, as pairs (first, end)."""
    cuts = np.linspace(0, n, -(-n // PANEL) + 1).astype(int).tolist()
    return tuple(pairwise(cuts))


def cholesky(A: Matrix) -> Matrix:
    """Lower factor of a symmetric matrix (n, n), zeros above its diagonal."""
    L = A.copy()
    _overwrite("potrf", L, UPPER)
    if not np.isfinite(np.sum(np.diagonal(L))):  # LAPACK lets NaN pass
        raise NotPositive("the matrix to be factored is not finite")
    for a, b in panels(len(L)):
        L[a:b, b:] = 0.0
        np.copyto(L[a:b, a:b], 0.0, where=_above_diagonal(b - a))
    return L


def invert_lower(L: Matrix) -> None:
    """Overwrite a lower triangular matrix (n, n) by its inverse."""
    n = len(L)
    if n <= PANEL:
        _overwrite("trtri", L, UPPER, NOT_UNIT)
        return
    h = n // 2
    first, corner, second = L[:h, :h], L[h:, :h], L[h:, h:]
    invert_lower(first)
    invert_lower(second)
    np.negative(second @ (corner @ first), out=corner)


def inverse(L: Matrix) -> Matrix:
    """L⁻¹ of a lower triangular matrix (n, n)."""
    L = L.copy()
    invert_lower(L)
    return L


def log_det(L: Matrix) -> float:
    """log|LLᵀ| of a lower factor (n, n)."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))


def gram_of_lower(L: Matrix) -> Matrix:
    """LᵀL of a lower triangular matrix (n, n)."""
    A = L.copy()
    _overwrite("lauum", A, UPPER)
    return _mirrored(A)


def outer_congruence(L: Matrix, A: Matrix) -> Matrix:
    """L A Lᵀ of a lower triangular L and a symmetric A (n, n)."""
    found, cuts = np.empty_like(A), panels(len(A))
    for k, (a, b) in enumerate(cuts):
        half = L[a:b, :b] @ A[:b, :b]
        for c, d in cuts[: k + 1]:
            found[a:b, c:d] = half[:, :d] @ L[c:d, :d].T
            found[c:d, a:b] = found[a:b, c:d].T
    return found


def inner_congruence(L: Matrix, A: Matrix) -> Matrix:
    """Lᵀ A L of a lower triangular L and a symmetric A (n, n)."""
    found, cuts = np.empty_like(A), panels(len(A))
    for k, (a, b) in enumerate(cuts):
        half = A[a:, a:] @ L[a:, a:b]
        for c, d in cuts[k:]:
            found[c:d, a:b] = L[c:, c:d].T @ half[c - a :]
            found[a:b, c:d] = found[c:d, a:b].T
    return found


def mirrored_product(A: Matrix, B: Matrix) -> Matrix:
    """The symmetric matrix (n, n) with the lower triangle of AB."""
    found = np.empty((len(A), len(A)), A.dtype)
    for a, b in panels(len(A)):
        np.matmul(A[a:b], B[:, :b], out=found[a:b, :b])
    return _mirrored(found)


def _mirrored(A: Matrix) -> Matrix:
    """A, its lower triangle copied to the upper one."""
    for a, b in panels(len(A)):
        diagonal = A[a:b, a:b]
        np.copyto(diagonal, diagonal.T.copy(), where=_above_diagonal(b - a))
        A[:a, a:b] = A[a:b, :a].T
    return A
