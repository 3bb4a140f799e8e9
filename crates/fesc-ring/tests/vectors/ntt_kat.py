#!/usr/bin/env python3
"""Prints the known answers of tests/ntt.rs: transforms straight from the definition.

Run: python3 crates/fesc-ring/tests/vectors/ntt_kat.py
"""


def transform(p, n, a):
    psi = next(x for x in (pow(g, (p - 1) // (2 * n), p) for g in range(2, p)) if pow(x, n, p) == p - 1)
    bits = n.bit_length() - 1
    brv = lambda i: int(f"{i:0{bits}b}"[::-1], 2)
    return psi, [sum(c * pow(psi, (2 * brv(i) + 1) * j, p) for j, c in enumerate(a)) % p for i in range(n)]


print(transform(97, 8, [1, 2, 3, 4, 5, 6, 7, 8]))
# The largest 50-bit prime that is 1 mod 512 (N = 256), coefficients p - 1 - k^3: first and last values, and a weighted sum of all.
p = 1125899906826241
psi, v = transform(p, 256, [(p - 1 - k**3) % p for k in range(256)])
print(psi, v[:3], v[-3:], sum((i + 1) * x for i, x in enumerate(v)) % p)
