#!/usr/bin/env python3
"""Prints the known answers of tests/sample.rs, from openssl's AES and the formulas of the sampler documentation.

Run: python3 crates/fesc-ring/tests/vectors/sampler_kat.py   (needs openssl and mpmath)
"""
import subprocess
from mpmath import mp, mpf, exp, floor

mp.prec = 400
blocks = b"".join(i.to_bytes(16, "little") for i in range(64))
stream = subprocess.run(
    ["openssl", "enc", "-aes-128-ecb", "-nopad", "-K", "00" * 16], input=blocks, capture_output=True, check=True
).stdout
words = [int.from_bytes(stream[i : i + 8], "little") for i in range(0, len(stream), 8)]


def is_prime(n):
    return all(n == b or n % b and any([pow(b, (n - 1) >> s, n) == n - 1 for s in range(1, ((n - 1) & (1 - n)).bit_length())]
               + [pow(b, (n - 1) // ((n - 1) & (1 - n)), n) == 1]) for b in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))


p = next(n for n in range((1 << 50) // 4096 * 4096 + 1, 1 << 49, -4096) if n < 1 << 50 and is_prime(n))
rho = lambda k: exp(-mpf(25 * k * k) / 512)
total = rho(0) + 2 * sum(rho(k) for k in range(1, 400))
table = [int(floor(2**126 * (rho(0) + 2 * sum(rho(i) for i in range(1, k + 1))) / total + mpf(1) / 2)) for k in range(42)]


def gaussian(a, b):
    u = (a >> 1) << 63 | b >> 1
    k = sum(t <= u for t in table)
    return -k if a & 1 else k


ones = lambda x: bin(x).count("1")
eta = (1 << 21) - 1
print("u", [w & (2**50 - 1) for w in words if w & (2**50 - 1) < p][:4])
print("t", [(w >> 2 * i & 3) - 1 for w in words for i in range(32) if w >> 2 * i & 3 != 3][:16])
print("b", [ones(w & eta) - ones(w >> 21 & eta) for w in words[:8]])
print("g", [gaussian(words[2 * i], words[2 * i + 1]) for i in range(16)])
