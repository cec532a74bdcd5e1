"""Naive float64 NumPy versions of every formula, for tests to compare fast code with.

Written to be read beside docs/mathematics.md ("maths" in the docstrings) and the paper's
appendix, not to be fast. Shapes: X (n, d),
y (n,), Z (m, d), U (p, d), nu and xi (d,), alpha and beta scalars, C (n, n) dense, and blocks a
list of integer index arrays that partition the rows. "A.k" in a docstring is the paper's
appendix: A.2 the bound, A.3 Omega, Psi and Upsilon, A.4 the gradients of the bound, A.5 those of
Omega, Psi and Upsilon, A.6 the predictive moments. Nothing here imports mosaicgp or jax.

Inverses are explicit, so compare tightly only where Sigma is well conditioned: beyond a condition
number of 1e8 (crowded Z in one dimension with a tiny jitter) rounding here shows.
"""

import itertools
import math

import numpy as np

LOG_2PI = math.log(2.0 * math.pi)


# ---------------------------------------------------------------- kernels and the prior of s


def se(A, B, lam, variance):
    """SE-ARD kernel variance exp(-||lam (a - b)||^2 / 2), entry by entry (maths, Notation)."""
    out = np.zeros((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            out[i, j] = variance * math.exp(-0.5 * np.sum((lam * (a - b)) ** 2))
    return out


def cross_kernel(X, Z, lam, sigma_f):
    """K_XZ = cov[f_x, s_z] = sigma_f exp(-||lam x - z||^2 / 2) (paper section 3, zeta = 1)."""
    return sigma_f * se(lam * X, Z, np.ones(X.shape[1]), 1.0)


def prior_cov(Z, jitter=0.0):
    """Sigma = k(Z, Z) + jitter I, unit amplitude and length-scales (maths, Notation)."""
    return se(Z, Z, np.ones(Z.shape[1]), 1.0) + jitter * np.eye(len(Z))


# ---------------------------------------------------------------- expectations over q(theta)


def quadrature_theta(nu, xi, alpha, beta, order, sigma_order=None):
    """Gauss-Hermite nodes (lams, sigma_fs, weights) of q(theta) (maths)."""
    orders = [order] * len(nu) + [sigma_order or order]
    rules = [np.polynomial.hermite.hermgauss(o) for o in orders]
    unit = np.array(list(itertools.product(*[t for t, _ in rules])))
    weights = np.array(list(itertools.product(*[w / math.sqrt(math.pi) for _, w in rules])))
    theta = np.append(nu, alpha) + np.sqrt(2.0 * np.append(xi, beta)) * unit
    return theta[:, :-1], theta[:, -1], np.prod(weights, axis=1)


def expect(f, nodes):
    """E_q(theta)[f(lam, sigma_f)] over the nodes of quadrature_theta (maths, Notation)."""
    return sum(w * f(lam, sigma_f) for lam, sigma_f, w in zip(*nodes, strict=True))


def omega(Z, X, nu, xi, alpha):
    """Omega = E[K_ZX], (m, n) (maths, Closed forms; A.3)."""
    z, x = Z[:, None, :], X[None, :, :]
    a = 1.0 + xi * x**2
    return alpha * np.prod(a**-0.5 * np.exp(-((x * nu - z) ** 2) / (2.0 * a)), axis=-1)


def upsilon(X, nu, xi, alpha, beta):
    """Upsilon = E[K_XX], (n, n) (maths, Closed forms; A.3)."""
    delta2 = (X[:, None, :] - X[None, :, :]) ** 2
    a = 1.0 + xi * delta2
    product = np.prod(a**-0.5 * np.exp(-(nu**2) * delta2 / (2.0 * a)), axis=-1)
    return (alpha**2 + beta) * product


def psi_pair(z, x, x2, z2, nu, xi, alpha, beta):
    """E[k(z, x) k(x2, z2)], the arguments (..., d) broadcast (maths, Closed forms; A.3)."""
    a = 1.0 + xi * (x**2 + x2**2)
    square = xi * (z2 * x - z * x2) ** 2 + (x * nu - z) ** 2 + (x2 * nu - z2) ** 2
    return (alpha**2 + beta) * np.prod(a**-0.5 * np.exp(-square / (2.0 * a)), axis=-1)


def psi(Z, X, C_inv, nu, xi, alpha, beta):
    """Psi = E[K_ZX C^-1 K_XZ] for a dense C^-1, (m, m) (maths, Closed forms; A.3)."""
    out = np.zeros((len(Z), len(Z)))
    for i, j in np.argwhere(C_inv != 0.0):
        pair = psi_pair(Z[:, None, :], X[i], X[j], Z[None, :, :], nu, xi, alpha, beta)
        out += C_inv[i, j] * pair
    return out


def mehler_term(Z, X, C_inv, nu, xi, alpha, beta, multi_index):
    """One term xi^j / j! (d^j Omega) C^-1 (d^j Omega)^T of Psi (maths, Mehler)."""
    derivative = np.ones((len(Z), len(X)))
    scale = alpha**2 + beta  # Omega at unit amplitude, so that alpha = 0 is no exception
    for k, j in enumerate(multi_index):
        x = X[None, :, k]
        s = np.sqrt(1.0 + xi[k] * x**2)
        u = (nu[k] * x - Z[:, None, k]) / s
        hermite = np.polynomial.hermite_e.HermiteE.basis(j)(u)
        derivative = derivative * (-x / s) ** j * hermite * np.exp(-(u**2) / 2.0) / s
        scale = scale * xi[k] ** j / math.factorial(j)
    return scale * derivative @ C_inv @ derivative.T


# ---------------------------------------------------------------- noise


def noise_residual(A, B, U, eps_variance, eps_lam, jitter=0.0):
    """R(A, B) = K^e_AB - K^e_AU K^e_UU^-1 K^e_UB (maths, One family)."""
    K_UU = se(U, U, eps_lam, eps_variance) + jitter * eps_variance * np.eye(len(U))
    K_AU, K_UB = se(A, U, eps_lam, eps_variance), se(U, B, eps_lam, eps_variance)
    return se(A, B, eps_lam, eps_variance) - K_AU @ np.linalg.solve(K_UU, K_UB)


def noise_covariance(kind, X, blocks, U, noise_variance, eps_variance, eps_lam, jitter=0.0):
    """C of the five noise structures, dense (maths, One family; paper section 4)."""
    C = noise_variance * np.eye(len(X))
    if kind == "dtc":
        return C
    R = noise_residual(X, X, U, eps_variance, eps_lam, jitter)
    if kind in ("fitc", "fic"):
        return C + np.diag(np.diag(R))
    if kind in ("pitc", "pic"):
        for rows in blocks:
            C[np.ix_(rows, rows)] += R[np.ix_(rows, rows)]
        return C
    raise ValueError(f"unknown kind {kind!r}")


def noise_cross(X_new, block_new, X, block_of_X, U, eps_variance, eps_lam, jitter=0.0):
    """cov(eps*, eps) of pitc and pic, 0 across blocks and no sigma^2 (maths, Prediction)."""
    R = noise_residual(X_new, X, U, eps_variance, eps_lam, jitter)
    return np.where(np.asarray(block_new)[:, None] == np.asarray(block_of_X)[None, :], R, 0.0)


# ---------------------------------------------------------------- the bound


def gaussian_kl(m1, S1, m2, S2):
    """KL(N(m1, S1) || N(m2, S2)) (maths, The bound)."""
    gap = m2 - m1
    logdets = np.linalg.slogdet(S2)[1] - np.linalg.slogdet(S1)[1]
    quadratic = gap @ np.linalg.solve(S2, gap) + np.trace(np.linalg.solve(S2, S1))
    return 0.5 * (quadratic - len(m1) + logdets)


def theta_kl(nu, xi, alpha, beta, prior=(0.0, 1.0)):
    """KL(q(theta) || p(theta)), N(mu0, v0) on every lambda_k and sigma_f (maths, The bound)."""
    mean, variance = np.append(nu, alpha), np.diag(np.append(xi, beta))
    return gaussian_kl(mean, variance, np.full(len(mean), prior[0]), prior[1] * np.eye(len(mean)))


def noise_log_density(y, C):
    """First line of L, -(n log 2 pi + log|C| + y^T C^-1 y) / 2 (maths, The bound)."""
    return -0.5 * (len(y) * LOG_2PI + np.linalg.slogdet(C)[1] + y @ np.linalg.solve(C, y))


def data_term(X, y, C, Z, q_mean, q_cov, nu, xi, alpha, beta, jitter=0.0):
    """L without its KLs: the expected log likelihood of these rows (maths, The bound)."""
    C_inv, Sigma_inv = np.linalg.inv(C), np.linalg.inv(prior_cov(Z, jitter))
    Omega, Upsilon = omega(Z, X, nu, xi, alpha), upsilon(X, nu, xi, alpha, beta)
    Psi = psi(Z, X, C_inv, nu, xi, alpha, beta)
    return (
        noise_log_density(y, C)
        + q_mean @ Sigma_inv @ Omega @ C_inv @ y
        - 0.5 * q_mean @ Sigma_inv @ Psi @ Sigma_inv @ q_mean
        - 0.5 * np.trace(q_cov @ Sigma_inv @ Psi @ Sigma_inv)
        - 0.5 * np.trace(C_inv @ Upsilon)
        + 0.5 * np.trace(Sigma_inv @ Psi)
    )


def bound(
    X, y, C, Z, q_mean, q_cov, nu, xi, alpha, beta, prior=(0.0, 1.0), jitter=0.0, point=False
):
    """L with every constant; point sets xi = beta = 0 and drops KL(q(theta)) (maths)."""
    if point:
        xi, beta = np.zeros_like(xi), 0.0
    value = data_term(X, y, C, Z, q_mean, q_cov, nu, xi, alpha, beta, jitter)
    value -= gaussian_kl(q_mean, q_cov, np.zeros(len(Z)), prior_cov(Z, jitter))
    return value if point else value - theta_kl(nu, xi, alpha, beta, prior)


def block_bounds(X, y, C, blocks, Z, q_mean, q_cov, nu, xi, alpha, beta, jitter=0.0):
    """[L_1, ..., L_B], without the KLs (maths, Blocks; paper Corollary 1)."""
    q = (q_mean, q_cov, nu, xi, alpha, beta)
    return [data_term(X[r], y[r], C[np.ix_(r, r)], Z, *q, jitter) for r in blocks]


def optimal_q(X, y, C, Z, nu, xi, alpha, beta, jitter=0.0):
    """(m*, S*), the optimum in q(s) (maths, Optimum; paper Theorem 1)."""
    C_inv, Sigma = np.linalg.inv(C), prior_cov(Z, jitter)
    Psi = psi(Z, X, C_inv, nu, xi, alpha, beta)
    gain = Sigma @ np.linalg.inv(Sigma + Psi)
    return gain @ omega(Z, X, nu, xi, alpha) @ C_inv @ y, gain @ Sigma


def collapsed_bound(X, y, C, Z, nu, xi, alpha, beta, prior=(0.0, 1.0), jitter=0.0, point=False):
    """L at the optimal q(s) (maths, Optimum; paper eq. TitsiasL(q))."""
    if point:
        xi, beta = np.zeros_like(xi), 0.0
    C_inv, Sigma = np.linalg.inv(C), prior_cov(Z, jitter)
    Psi = psi(Z, X, C_inv, nu, xi, alpha, beta)
    Oy = omega(Z, X, nu, xi, alpha) @ C_inv @ y
    value = noise_log_density(y, C) + 0.5 * (
        Oy @ np.linalg.solve(Sigma + Psi, Oy)
        - np.trace(C_inv @ upsilon(X, nu, xi, alpha, beta))
        + np.trace(np.linalg.solve(Sigma, Psi))
        + np.linalg.slogdet(Sigma)[1]
        - np.linalg.slogdet(Sigma + Psi)[1]
    )
    return value if point else value - theta_kl(nu, xi, alpha, beta, prior)


# ---------------------------------------------------------------- the appendix's gradients


def d_omega(Z, X, nu, xi, alpha):
    """Derivatives of Omega in nu and xi (d, m, n), alpha and beta (m, n) (A.5)."""
    z, x = Z[:, None, :], X[None, :, :]
    a = 1.0 + xi * x**2
    unit = omega(Z, X, nu, xi, 1.0)
    by_nu = (-nu * x**2 + z * x) / a
    by_xi = -(x**2) / (2.0 * a) + x**2 * (x * nu - z) ** 2 / (2.0 * a**2)
    return {
        "nu": alpha * unit * np.moveaxis(by_nu, -1, 0),
        "xi": alpha * unit * np.moveaxis(by_xi, -1, 0),
        "alpha": unit,
        "beta": np.zeros_like(unit),
    }


def d_psi(Z, X, C_inv, nu, xi, alpha, beta):
    """Derivatives of Psi in nu and xi (d, m, m), alpha and beta (m, m) (A.5)."""
    m, d = Z.shape
    z, z2 = Z[:, None, :], Z[None, :, :]
    by_nu, by_xi, total = np.zeros((d, m, m)), np.zeros((d, m, m)), np.zeros((m, m))
    for i, j in np.argwhere(C_inv != 0.0):
        r = X[i] ** 2 + X[j] ** 2
        a = 1.0 + xi * r
        t = z * X[i] + z2 * X[j] - nu * r
        unit = C_inv[i, j] * psi_pair(z, X[i], X[j], z2, nu, xi, 1.0, 0.0)
        by_nu += unit * np.moveaxis(t / a, -1, 0)
        by_xi += unit * np.moveaxis(-r / (2.0 * a) + t**2 / (2.0 * a**2), -1, 0)
        total += unit
    scale = alpha**2 + beta
    return {"nu": scale * by_nu, "xi": scale * by_xi, "alpha": 2.0 * alpha * total, "beta": total}


def d_upsilon(X, nu, xi, alpha, beta):
    """Derivatives of Upsilon in nu and xi (d, n, n), alpha and beta (n, n) (A.5)."""
    delta2 = (X[:, None, :] - X[None, :, :]) ** 2
    a = 1.0 + xi * delta2
    unit = upsilon(X, nu, xi, 1.0, 0.0)
    by_nu = -nu * delta2 / a
    by_xi = ((nu**2 - xi) * delta2**2 - delta2) / (2.0 * a**2)
    return {
        "nu": (alpha**2 + beta) * unit * np.moveaxis(by_nu, -1, 0),
        "xi": (alpha**2 + beta) * unit * np.moveaxis(by_xi, -1, 0),
        "alpha": 2.0 * alpha * unit,
        "beta": unit,
    }


def data_gradients(X, y, C, Z, q_mean, q_cov, nu, xi, alpha, beta, jitter=0.0):
    """Gradients of data_term, the paper's dL_s of one block when given its rows (A.4)."""
    C_inv, Sigma_inv = np.linalg.inv(C), np.linalg.inv(prior_cov(Z, jitter))
    a, Cy = Sigma_inv @ q_mean, C_inv @ y
    dO = d_omega(Z, X, nu, xi, alpha)
    dP = d_psi(Z, X, C_inv, nu, xi, alpha, beta)
    dU = d_upsilon(X, nu, xi, alpha, beta)
    Psi = psi(Z, X, C_inv, nu, xi, alpha, beta)

    def chain(dOmega, dPsi, dUpsilon):
        return (
            a @ dOmega @ Cy
            - 0.5 * a @ dPsi @ a
            - 0.5 * np.trace(q_cov @ Sigma_inv @ dPsi @ Sigma_inv)
            - 0.5 * np.trace(C_inv @ dUpsilon)
            + 0.5 * np.trace(Sigma_inv @ dPsi)
        )

    grads = {k: chain(dO[k], dP[k], dU[k]) for k in ("alpha", "beta")}
    for k in ("nu", "xi"):
        grads[k] = np.array([chain(*parts) for parts in zip(dO[k], dP[k], dU[k], strict=True)])
    grads["q_mean"] = Sigma_inv @ omega(Z, X, nu, xi, alpha) @ Cy - Sigma_inv @ Psi @ a
    grads["q_cov"] = -0.5 * Sigma_inv @ Psi @ Sigma_inv
    return grads


def kl_gradients(Z, q_mean, q_cov, nu, xi, alpha, beta, prior=(0.0, 1.0), jitter=0.0):
    """Gradients of KL(q(s)) + KL(q(theta)), prior N(mu0, v0) (A.4, eq. zoo)."""
    Sigma_inv, (mu0, v0) = np.linalg.inv(prior_cov(Z, jitter)), prior
    return {
        "q_mean": Sigma_inv @ q_mean,
        "q_cov": 0.5 * Sigma_inv - 0.5 * np.linalg.inv(q_cov),
        "nu": (nu - mu0) / v0,
        "xi": 0.5 / v0 - 0.5 / xi,
        "alpha": (alpha - mu0) / v0,
        "beta": 0.5 / v0 - 0.5 / beta,
    }


def bound_gradients(X, y, C, Z, q_mean, q_cov, nu, xi, alpha, beta, prior=(0.0, 1.0), jitter=0.0):
    """Gradients of bound; q_cov is the symmetric matrix dL/dS (A.4, eq. zoo with every block)."""
    q = (q_mean, q_cov, nu, xi, alpha, beta)
    data = data_gradients(X, y, C, Z, *q, jitter)
    kl = kl_gradients(Z, *q, prior, jitter)
    return {k: data[k] - kl[k] for k in data}


# ---------------------------------------------------------------- given theta


def block_given_theta(X, y, C, Z, q_mean, q_cov, lam, sigma_f, jitter=0.0):
    """L_b and its gradients in K, K_bb, C, lam, sigma_f, given theta (maths, Cheap gradients)."""
    C_inv, Sigma = np.linalg.inv(C), prior_cov(Z, jitter)
    Sigma_inv = np.linalg.inv(Sigma)
    K, K_bb = cross_kernel(X, Z, lam, sigma_f), se(X, X, lam, sigma_f**2)
    a = Sigma_inv @ q_mean
    A = Sigma_inv @ (np.outer(q_mean, q_mean) + q_cov - Sigma) @ Sigma_inv
    T = np.outer(y, y) - np.outer(y, K @ a) - np.outer(K @ a, y) + K @ A @ K.T + K_bb
    value = -0.5 * (len(y) * LOG_2PI + np.linalg.slogdet(C)[1] + np.trace(C_inv @ T))
    by_K, by_K_bb = C_inv @ (np.outer(y, a) - K @ A), -0.5 * C_inv
    by_lam = np.zeros(len(lam))
    for j in range(len(lam)):
        dK = K * X[:, None, j] * (Z[None, :, j] - lam[j] * X[:, None, j])
        dK_bb = -K_bb * lam[j] * (X[:, None, j] - X[None, :, j]) ** 2
        by_lam[j] = np.sum(by_K * dK) + np.sum(by_K_bb * dK_bb)
    return value, {
        "K": by_K,
        "K_bb": by_K_bb,
        "C": -0.5 * (C_inv - C_inv @ T @ C_inv),
        "lam": by_lam,
        "sigma_f": np.sum(by_K * K) / sigma_f + 2.0 * np.sum(by_K_bb * K_bb) / sigma_f,
    }


# ---------------------------------------------------------------- natural gradient


def block_statistics(X_b, y_b, C_b, Z, nu, xi, alpha, beta):
    """(Psi_s, Omega_s C_s^-1 y_s) of one block, not whitened (maths, Natural gradient)."""
    C_inv = np.linalg.inv(C_b)
    return psi(Z, X_b, C_inv, nu, xi, alpha, beta), omega(Z, X_b, nu, xi, alpha) @ C_inv @ y_b


def natural_step(P, Pm, block_stats, n_blocks, L, rho):
    """New (P, Pm) of q(v), s = L v, from the drawn blocks' stats (maths, Natural gradient)."""
    L_inv, scale = np.linalg.inv(L), n_blocks / len(block_stats)
    P_target = np.eye(len(P)) + scale * sum(L_inv @ Psi @ L_inv.T for Psi, _ in block_stats)
    Pm_target = scale * sum(L_inv @ Oy for _, Oy in block_stats)
    return (1.0 - rho) * P + rho * P_target, (1.0 - rho) * Pm + rho * Pm_target


def q_from_natural(P, Pm, L):
    """(m, S) of q(s) from the natural parameters of q(v), s = L v (maths, Natural gradient)."""
    cov = np.linalg.inv(P)
    return L @ cov @ Pm, L @ cov @ L.T


# ---------------------------------------------------------------- predictions


def predict_given_s(X_new, Z, q_mean, q_cov, nu, xi, alpha, beta, jitter=0.0):
    """Mean and joint covariance of f* for dtc, fitc and pitc (A.6, VBPITC ... VBDTC)."""
    Sigma_inv = np.linalg.inv(prior_cov(Z, jitter))
    a = Sigma_inv @ q_mean
    A = Sigma_inv @ q_cov @ Sigma_inv - Sigma_inv + np.outer(a, a)
    mean = omega(Z, X_new, nu, xi, alpha).T @ a
    cov = upsilon(X_new, nu, xi, alpha, beta) - np.outer(mean, mean)
    for i, x in enumerate(X_new):
        for j, x2 in enumerate(X_new):
            pair = psi_pair(Z[:, None, :], x, x2, Z[None, :, :], nu, xi, alpha, beta)
            cov[i, j] += np.sum(A * pair)
    return mean, cov


def pic_given_theta(X_new, X_b, y_b, Z, q_mean, q_cov, lam, sigma_f, C_bb, C_sb, C_ss, jitter=0.0):
    """Mean, cov of f* (C_sb = C_ss = 0) or y* given theta and the block (A.6 VBPIC; item 4)."""
    m = len(Z)
    K_Zb = cross_kernel(X_b, Z, lam, sigma_f).T
    K_bb = se(X_b, X_b, lam, sigma_f**2)
    J = np.linalg.inv(np.block([[prior_cov(Z, jitter), K_Zb], [K_Zb.T, K_bb + C_bb]]))
    K_sb = se(X_new, X_b, lam, sigma_f**2) + C_sb
    cross = np.hstack([cross_kernel(X_new, Z, lam, sigma_f), K_sb])  # cov of target with (s, y_b)
    gain = cross @ J
    H = gain[:, :m]
    prior = se(X_new, X_new, lam, sigma_f**2) + C_ss
    return H @ q_mean + gain[:, m:] @ y_b, prior - gain @ cross.T + H @ q_cov @ H.T


def mix_moments(weights, means, covs):
    """Mean and covariance of a mixture: law of total variance over theta (maths, Prediction)."""
    mean = sum(w * mu for w, mu in zip(weights, means, strict=True))
    second = sum(w * (S + np.outer(mu, mu)) for w, mu, S in zip(weights, means, covs, strict=True))
    return mean, second - np.outer(mean, mean)


# ---------------------------------------------------------------- dense classical models


def condition(K_yy, K_sy, K_ss, y):
    """(mean, cov given y, log N(y | 0, K_yy)) of a joint Gaussian (paper section 2.1)."""
    mean = K_sy @ np.linalg.solve(K_yy, y)
    cov = K_ss - K_sy @ np.linalg.solve(K_yy, K_sy.T)
    return mean, cov, noise_log_density(y, K_yy)


def full_gp(X, y, X_new, lam, sigma_f, noise_variance):
    """(mean, cov of f*, log evidence) of the exact GP (paper section 2.1 with C = sigma^2 I)."""
    K_yy = se(X, X, lam, sigma_f**2) + noise_variance * np.eye(len(X))
    K_sy, K_ss = se(X_new, X, lam, sigma_f**2), se(X_new, X_new, lam, sigma_f**2)
    return condition(K_yy, K_sy, K_ss, y)


def nystrom(A, B, U_x, lam, sigma_f, jitter=0.0):
    """Q_AB = K_AU K_UU^-1 K_UB, inducing inputs U_x in the space of x (paper section 2.2)."""
    return se(A, B, lam, sigma_f**2) - noise_residual(A, B, U_x, sigma_f**2, lam, jitter)


def pitc_dense(X, y, X_new, blocks, U_x, lam, sigma_f, noise_variance, jitter=0.0):
    """(mean, cov of f*, log evidence) of PITC: Q + blkdiag(K - Q) + sigma^2 I (maths)."""
    C = noise_covariance("pitc", X, blocks, U_x, noise_variance, sigma_f**2, lam, jitter)
    K_sy = nystrom(X_new, X, U_x, lam, sigma_f, jitter)
    K_yy = nystrom(X, X, U_x, lam, sigma_f, jitter) + C
    return condition(K_yy, K_sy, se(X_new, X_new, lam, sigma_f**2), y)


def fitc_dense(X, y, X_new, U_x, lam, sigma_f, noise_variance, jitter=0.0):
    """(mean, cov of f*, log evidence) of FITC: PITC with a block for every row (maths)."""
    blocks = [np.array([i]) for i in range(len(X))]
    return pitc_dense(X, y, X_new, blocks, U_x, lam, sigma_f, noise_variance, jitter)


def pic_dense(X, y, block_of_X, X_new, block_new, U_x, lam, sigma_f, noise_variance, jitter=0.0):
    """(mean, cov of f*, log evidence) of Snelson's PIC: K within a block, Q across (maths)."""

    def kernel(A, ids_A, B, ids_B):
        same = np.asarray(ids_A)[:, None] == np.asarray(ids_B)[None, :]
        K, Q = se(A, B, lam, sigma_f**2), nystrom(A, B, U_x, lam, sigma_f, jitter)
        return np.where(same, K, Q)

    K_yy = kernel(X, block_of_X, X, block_of_X) + noise_variance * np.eye(len(X))
    K_sy, K_ss = kernel(X_new, block_new, X, block_of_X), kernel(X_new, block_new, X_new, block_new)
    return condition(K_yy, K_sy, K_ss, y)
