//! The algebraic attack, run on small instances of the real code.

use fesc_ring::block::LocalCode;

use super::support::prg;

/// A linear form over at most 127 unknowns; bit 127 is the constant.
type Form = u128;
const CONSTANT: u32 = 127;

/// Regular LPN with the product's code: the noise as linear forms of the secret, block after block, and the
/// secret.
fn instance(k: usize, t: usize, block: usize) -> (Vec<Form>, u128) {
    let mut g = prg(40);
    let secret = g.next_u128() & ((1 << k) - 1);
    let unit: Vec<u128> = (0..k).map(|j| 1 << j).collect();
    let mut rows = vec![0u128; t * block];
    LocalCode::new(g.next_u128(), k as u32).xor_rows(0, &unit, &mut rows);
    for samples in rows.chunks_mut(block) {
        let noisy = g.next_u64() as usize % block;
        for (i, row) in samples.iter_mut().enumerate() {
            // e = b ^ <row, s>, with b the public sample.
            let b = (*row & secret).count_ones() as u128 & 1 ^ u128::from(i == noisy);
            *row |= b << CONSTANT;
        }
    }
    (rows, secret)
}

/// Gaussian elimination over the monomials of degree one and two in `k` unknowns.
struct System {
    k: usize,
    pivots: Vec<Option<Vec<u64>>>,
}

impl System {
    fn new(k: usize) -> Self {
        Self { k, pivots: vec![None; k + k * (k - 1) / 2] }
    }

    /// Quadratic monomials first, so that what is left at the end is linear; the constant last.
    fn column(&self, i: usize, j: usize) -> usize {
        let (i, j) = (i.min(j), i.max(j));
        let pairs = self.k * (self.k - 1) / 2;
        if i == j { pairs + i } else { j * (j - 1) / 2 + i }
    }

    /// Adds the equation `a b = 0`.
    fn add_product(&mut self, a: Form, b: Form) {
        let mut row = vec![0u64; self.pivots.len() / 64 + 1];
        let mut flip = |c: usize| row[c / 64] ^= 1 << (c % 64);
        let bits = |f: Form| (0..self.k).filter(move |i| f >> i & 1 == 1);
        for i in bits(a) {
            bits(b).for_each(|j| flip(self.column(i, j)));
            if b >> CONSTANT & 1 == 1 {
                flip(self.column(i, i));
            }
        }
        if a >> CONSTANT & 1 == 1 {
            bits(b).for_each(|j| flip(self.column(j, j)));
            if b >> CONSTANT & 1 == 1 {
                flip(self.pivots.len());
            }
        }
        for c in 0..self.pivots.len() {
            if row[c / 64] >> (c % 64) & 1 == 0 {
                continue;
            }
            match &self.pivots[c] {
                Some(p) => row.iter_mut().zip(p).for_each(|(r, p)| *r ^= p),
                None => {
                    self.pivots[c] = Some(row);
                    return;
                }
            }
        }
    }

    fn unresolved(&self) -> usize {
        self.pivots.iter().filter(|p| p.is_none()).count()
    }

    /// The unknowns, if the linear part is solved: by back substitution from the last column.
    fn solve(&self) -> Option<u128> {
        let first = self.k * (self.k - 1) / 2;
        let (mut solution, last) = (0u128, self.pivots.len());
        for c in (first..last).rev() {
            let row = self.pivots[c].as_ref()?;
            let at = |c: usize| row[c / 64] >> (c % 64) & 1;
            let known = (c + 1..last).filter(|&d| at(d) == 1 && solution >> (d - first) & 1 == 1).count() as u64;
            solution |= u128::from((known ^ at(last)) & 1) << (c - first);
        }
        Some(solution)
    }
}

/// All degree-two consequences that the estimate counts: products within blocks, and the parity equations
/// with every unknown.
fn linearise(k: usize, t: usize, block: usize) -> (System, u128) {
    let (noise, secret) = instance(k, t, block);
    let mut system = System::new(k);
    for samples in noise.chunks(block) {
        let parity = samples.iter().fold(1 << CONSTANT, |a, b| a ^ b);
        system.add_product(parity, 1 << CONSTANT);
        (0..k).for_each(|i| system.add_product(parity, 1 << i));
        for (i, a) in samples.iter().enumerate() {
            samples[..i].iter().for_each(|b| system.add_product(*a, *b));
        }
    }
    (system, secret)
}

/// `t C(B - 1, 2)` equations exceed `C(k - t, 2)` monomials: the secret falls out, as it would for the old
/// b11 of emp-ot.
///
/// Rows have even weight, so a secret and its complement give the same samples: one unknown is free, its
/// value does not matter, and the attacker sets it.
#[test]
fn many_samples_per_unknown_give_the_secret() {
    let (k, t, block) = (60, 12, 32);
    let (mut system, secret) = linearise(k, t, block);
    assert_eq!(system.unresolved(), k - t, "only the monomials with the free unknown are open");
    let free = 1 | (secret & 1) << CONSTANT;
    system.add_product(free, 1 << CONSTANT);
    (0..k).for_each(|i| system.add_product(free, 1 << i));
    assert_eq!(system.unresolved(), 0);
    assert_eq!(system.solve(), Some(secret));
}

/// With fewer samples per unknown exactly as many monomials stay open as the estimate's series says: the
/// 10-local code behaves like a generic one.
#[test]
fn few_samples_leave_what_the_series_predicts() {
    for (k, t, block) in [(120usize, 12usize, 16usize), (100, 5, 32), (90, 20, 8)] {
        let (system, _) = linearise(k, t, block);
        let (left, pairs) = (k - t, |x: usize| x * (x - 1) / 2);
        assert_eq!(system.unresolved(), left + pairs(left) - t * pairs(block - 1), "k = {k}, t = {t}, block {block}");
        assert_eq!(system.solve(), None);
    }
}
