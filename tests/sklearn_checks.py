"""Run scikit-learn's estimator checks for an approximation or a rival: `sklearn_checks.py NAME`.

A process of its own, because the array API check needs SCIPY_ARRAY_API set before SciPy is
imported. Prints every check that did not pass; exits with their number.
"""

import os
import sys

os.environ["SCIPY_ARRAY_API"] = "1"
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

from sklearn.utils.estimator_checks import check_estimator

from mosaicgp import SparseGPRegressor
from mosaicgp.rivals import VSSGPR, FullGP, RobustBCM

# Short fits: one check asks for a fit good enough to explain half the variance, no more.
RIVALS = {
    "FullGP": FullGP(max_iter=20),
    "RobustBCM": RobustBCM(expert_size=60, max_iter=30),
    "VSSGPR": VSSGPR(n_features=20, batch_size=64, max_iter=100, learning_rate=0.05),
}


def main(name: str) -> int:
    estimator = RIVALS.get(name) or SparseGPRegressor(name)
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    bad = [result for result in results if result["status"] != "passed"]
    for result in bad:
        print(result["check_name"], result["status"], result["exception"])
    print(f"{len(results)} checks, {len(bad)} not passed")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
