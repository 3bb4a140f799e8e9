//! Sums, plaintext and constant factors, levels: no transform and no key.
//!
//! A constant `a + b i` is the polynomial `A + B X^(N/2)`, `A` and `B` rounded at the constant's scale,
//! because `X^(N/2)` is `i` in every slot. Transformed it has two values: with `I = psi^(N/2)`, slot `k` is
//! at `psi^(2 brv(k) + 1)`, and `X^(N/2)` is `I` there if `brv(k)` is even, that is in the first half of the
//! slots, and `-I` in the second half. So a product by any complex constant is two products by a number.

use fesc_ring::modulus::{Modulus, Shoup};
use num_complex::Complex64;

use crate::poly::Poly;
use crate::{Ciphertext, CkksError, Plaintext, Result};

use super::{Evaluator, check_levels, check_scales};

/// Integers below this are exact in the conversion to 128 bits.
const WIDEST_BITS: f64 = 126.0;

/// A constant as integers.
#[derive(Clone, Copy)]
struct Constant {
    re: i128,
    im: i128,
}

impl Constant {
    /// Its two values modulo a prime, where `i` is a root of -1.
    fn residues(self, m: Modulus, i: u64) -> [u64; 2] {
        let reduce = |x: i128| x.rem_euclid(i128::from(m.value())) as u64;
        let (re, im) = (reduce(self.re), m.mul(reduce(self.im), i));
        [m.add(re, im), m.sub(re, im)]
    }
}

impl Evaluator {
    /// `a + b`.
    ///
    /// # Errors
    /// A level, scale or set that differs.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.check_sum(a, b)?;
        Ok(self.combine(a, b, |i, x, y, out| self.params.prime(i).add(x, y, out)))
    }

    /// `a += b`.
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<()> {
        self.check_sum(a, b)?;
        self.update(a, b, |i, x, y| self.params.prime(i).add_assign(x, y));
        Ok(())
    }

    /// `a - b`.
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.check_sum(a, b)?;
        Ok(self.combine(a, b, |i, x, y, out| self.params.prime(i).sub(x, y, out)))
    }

    /// `a -= b`.
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn sub_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<()> {
        self.check_sum(a, b)?;
        self.update(a, b, |i, x, y| self.params.prime(i).sub_assign(x, y));
        Ok(())
    }

    /// `-a`.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`] for a ciphertext of another set.
    pub fn negate(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.check_mine(&a.params, a.owner)?;
        Ok(self.combine(a, a, |i, x, _, out| self.params.prime(i).neg(x, out)))
    }

    /// `a = -a`.
    ///
    /// # Errors
    /// As [`Evaluator::negate`].
    pub fn negate_assign(&self, a: &mut Ciphertext) -> Result<()> {
        *a = self.negate(a)?;
        Ok(())
    }

    /// `a + m`.
    ///
    /// # Errors
    /// A level, scale or set that differs.
    pub fn add_plain(&self, a: &Ciphertext, m: &Plaintext) -> Result<Ciphertext> {
        let mut out = a.clone();
        self.add_plain_assign(&mut out, m)?;
        Ok(out)
    }

    /// `a += m`.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`].
    pub fn add_plain_assign(&self, a: &mut Ciphertext, m: &Plaintext) -> Result<()> {
        self.check_plain(a, m)?;
        check_scales(a.scale, m.scale)?;
        a.c0.for_each_limb(|i, limb| self.params.prime(i).add_assign(limb, m.poly.limb(i)));
        Ok(())
    }

    /// `a - m`.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`].
    pub fn sub_plain(&self, a: &Ciphertext, m: &Plaintext) -> Result<Ciphertext> {
        let mut out = a.clone();
        self.sub_plain_assign(&mut out, m)?;
        Ok(out)
    }

    /// `a -= m`.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`].
    pub fn sub_plain_assign(&self, a: &mut Ciphertext, m: &Plaintext) -> Result<()> {
        self.check_plain(a, m)?;
        check_scales(a.scale, m.scale)?;
        a.c0.for_each_limb(|i, limb| self.params.prime(i).sub_assign(limb, m.poly.limb(i)));
        Ok(())
    }

    /// `a m`, slot by slot. The scale is the product of the scales.
    ///
    /// # Errors
    /// A level or set that differs; [`CkksError::Scale`] if the product of the scales does not fit the level.
    pub fn multiply_plain(&self, a: &Ciphertext, m: &Plaintext) -> Result<Ciphertext> {
        self.check_plain(a, m)?;
        let scale = a.scale * m.scale;
        self.params.check_scale(a.level, scale)?;
        let mut out = self.combine(a, a, |i, x, _, out| self.params.prime(i).mul(x, m.poly.limb(i), out));
        out.scale = scale;
        Ok(out)
    }

    /// `a *= m`.
    ///
    /// # Errors
    /// As [`Evaluator::multiply_plain`].
    pub fn multiply_plain_assign(&self, a: &mut Ciphertext, m: &Plaintext) -> Result<()> {
        self.check_plain(a, m)?;
        let scale = a.scale * m.scale;
        self.params.check_scale(a.level, scale)?;
        Poly::for_each_limb_of_two(&mut a.c0, &mut a.c1, |i, x, y| {
            self.params.ntt(i).mul_assign(x, m.poly.limb(i));
            self.params.ntt(i).mul_assign(y, m.poly.limb(i));
        });
        a.scale = scale;
        Ok(())
    }

    /// All slots times `constant`, which is rounded at `scale`; the result's scale is larger by that factor.
    /// With the scale of the level's last prime, a rescaling brings back the scale of `a` exactly.
    ///
    /// # Errors
    /// [`CkksError::Scale`], [`CkksError::NotFinite`] or [`CkksError::TooLarge`] for what does not fit the
    /// level, [`CkksError::ParamsMismatch`].
    pub fn multiply_constant(&self, a: &Ciphertext, constant: Complex64, scale: f64) -> Result<Ciphertext> {
        let mut out = a.clone();
        self.multiply_constant_assign(&mut out, constant, scale)?;
        Ok(out)
    }

    /// `a *= constant`.
    ///
    /// # Errors
    /// As [`Evaluator::multiply_constant`].
    pub fn multiply_constant_assign(&self, a: &mut Ciphertext, constant: Complex64, scale: f64) -> Result<()> {
        self.check_mine(&a.params, a.owner)?;
        self.params.check_scale(a.level, scale)?;
        self.params.check_scale(a.level, a.scale * scale)?;
        let constant = self.round(constant, a.level, scale)?;
        let half = self.params.slots();
        Poly::for_each_limb_of_two(&mut a.c0, &mut a.c1, |i, x, y| {
            let m = self.params.modulus(i);
            let [first, second] = constant.residues(m, self.root_of_minus_one(i)).map(|r| m.shoup(r));
            for limb in [x, y] {
                let (head, tail) = limb.split_at_mut(half);
                self.scale_part(i, first, head);
                self.scale_part(i, second, tail);
            }
        });
        a.scale *= scale;
        Ok(())
    }

    /// All slots times `i`: exact, at the same scale and level.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`] for a ciphertext of another set.
    pub fn multiply_by_i(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.multiply_constant(a, Complex64::I, 1.0)
    }

    /// `a *= i`.
    ///
    /// # Errors
    /// As [`Evaluator::multiply_by_i`].
    pub fn multiply_by_i_assign(&self, a: &mut Ciphertext) -> Result<()> {
        self.multiply_constant_assign(a, Complex64::I, 1.0)
    }

    /// `constant` added to all slots, rounded at the scale of `a`.
    ///
    /// # Errors
    /// [`CkksError::NotFinite`] or [`CkksError::TooLarge`] for what does not fit the level,
    /// [`CkksError::ParamsMismatch`].
    pub fn add_constant(&self, a: &Ciphertext, constant: Complex64) -> Result<Ciphertext> {
        let mut out = a.clone();
        self.add_constant_assign(&mut out, constant)?;
        Ok(out)
    }

    /// `a += constant`.
    ///
    /// # Errors
    /// As [`Evaluator::add_constant`].
    pub fn add_constant_assign(&self, a: &mut Ciphertext, constant: Complex64) -> Result<()> {
        self.check_mine(&a.params, a.owner)?;
        let constant = self.round(constant, a.level, a.scale)?;
        let half = self.params.slots();
        a.c0.for_each_limb(|i, limb| {
            let m = self.params.modulus(i);
            let residues = constant.residues(m, self.root_of_minus_one(i));
            for (part, r) in limb.chunks_exact_mut(half).zip(residues) {
                part.iter_mut().for_each(|x| *x = m.add(*x, r));
            }
        });
        Ok(())
    }

    /// The same value modulo fewer primes. The scale stays.
    ///
    /// # Errors
    /// [`CkksError::Level`] for a level above that of `a`, [`CkksError::Scale`] if the scale does not fit
    /// there, [`CkksError::ParamsMismatch`].
    pub fn drop_to_level(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext> {
        self.check_drop(a, level, a.scale)?;
        let [mut c0, mut c1] = self.pair(level + 1);
        Poly::for_each_limb_of_two(&mut c0, &mut c1, |i, x, y| {
            x.copy_from_slice(a.c0.limb(i));
            y.copy_from_slice(a.c1.limb(i));
        });
        Ok(self.ciphertext(level, a.scale, [c0, c1]))
    }

    /// [`Evaluator::drop_to_level`], with the scale written down as `scale`, from which that of `a` may
    /// differ by rounding only (`2^-40` of itself). For what leaves a server: what its header says then
    /// follows from a plan and not from what was computed.
    ///
    /// # Errors
    /// Those of [`Evaluator::check_drop`].
    pub fn drop_to(&self, a: &Ciphertext, level: usize, scale: f64) -> Result<Ciphertext> {
        self.check_drop(a, level, scale)?;
        let mut dropped = self.drop_to_level(a, level)?;
        dropped.scale = scale;
        Ok(dropped)
    }

    /// Whether [`Evaluator::drop_to`] would take this.
    ///
    /// # Errors
    /// As [`Evaluator::drop_to_level`], and [`CkksError::ScaleMismatch`].
    pub fn check_drop(&self, a: &Ciphertext, level: usize, scale: f64) -> Result<()> {
        self.check_mine(&a.params, a.owner)?;
        if level > a.level {
            return Err(CkksError::Level { level, max: a.level });
        }
        check_scales(a.scale, scale)?;
        self.params.check_scale(level, scale)
    }

    fn check_sum(&self, a: &Ciphertext, b: &Ciphertext) -> Result<()> {
        self.check_pair((&a.params, a.owner, a.level), (&b.params, b.owner, b.level))?;
        check_scales(a.scale, b.scale)
    }

    fn check_plain(&self, a: &Ciphertext, m: &Plaintext) -> Result<()> {
        self.check_mine(&a.params, a.owner)?;
        self.params.check_same(&m.params)?;
        check_levels(a.level, m.level)
    }

    /// A new ciphertext from two, limb by limb, with level and scale of the first.
    fn combine(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        work: impl Fn(usize, &[u64], &[u64], &mut [u64]) + Sync + Send,
    ) -> Ciphertext {
        let [mut c0, mut c1] = self.pair(a.level + 1);
        Poly::for_each_limb_of_two(&mut c0, &mut c1, |i, x, y| {
            work(i, a.c0.limb(i), b.c0.limb(i), x);
            work(i, a.c1.limb(i), b.c1.limb(i), y);
        });
        self.ciphertext(a.level, a.scale, [c0, c1])
    }

    /// The first of two changed, limb by limb.
    fn update(&self, a: &mut Ciphertext, b: &Ciphertext, work: impl Fn(usize, &mut [u64], &[u64]) + Sync + Send) {
        Poly::for_each_limb_of_two(&mut a.c0, &mut a.c1, |i, x, y| {
            work(i, x, b.c0.limb(i));
            work(i, y, b.c1.limb(i));
        });
    }

    /// A constant as integers that fit the level.
    fn round(&self, constant: Complex64, level: usize, scale: f64) -> Result<Constant> {
        if !constant.is_finite() {
            return Err(CkksError::NotFinite { index: 0 });
        }
        let max = (self.params.log_q(level)? - 1.0).min(WIDEST_BITS);
        let [re, im] = [constant.re, constant.im].map(|x| (x * scale).round_ties_even());
        let bits = re.abs().max(im.abs()).log2();
        if bits >= max {
            return Err(CkksError::TooLarge { bits, level, max });
        }
        Ok(Constant { re: re as i128, im: im as i128 })
    }

    /// `psi^(N/2)` modulo prime `i`, which is `i` in every slot.
    fn root_of_minus_one(&self, i: usize) -> u64 {
        let ntt = self.params.ntt(i);
        ntt.modulus().pow(ntt.root(), self.params.slots() as u64)
    }

    /// `limb *= factor`; nothing for the factor 1.
    fn scale_part(&self, i: usize, factor: Shoup, limb: &mut [u64]) {
        if factor.value != 1 {
            self.params.prime(i).scale_assign(factor, limb);
        }
    }
}
