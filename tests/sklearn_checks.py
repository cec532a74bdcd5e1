"""Run scikit-learn's estimator checks for one approximation: `sklearn_checks.py NAME`.

A process of its own, because the array API check needs SCIPY_ARRAY_API set before SciPy is
imported. Prints every check that did not pass; exits with their number.
"""

import os
import sys

os.environ["SCIPY_ARRAY_API"] = "1"
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

from sklearn.utils.estimator_checks import check_estimator

from mosaicgp import SparseGPRegressor


def main(approximation: str) -> int:
    results = check_estimator(SparseGPRegressor(approximation), on_skip=None, on_fail=None)
    bad = [result for result in results if result["status"] != "passed"]
    for result in bad:
        print(result["check_name"], result["status"], result["exception"])
    print(f"{len(results)} checks, {len(bad)} not passed")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
