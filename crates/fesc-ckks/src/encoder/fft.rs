//! Stands in until `fesc_ring::fft` is there.
#![allow(missing_docs)]
pub struct Fft {
    n: usize,
    rot: Vec<usize>,
    ksi: Vec<(f64, f64)>,
}

impl Fft {
    pub fn new(n: usize) -> Self {
        let m = 4 * n;
        let mut rot = vec![1; n];
        for i in 1..n {
            rot[i] = rot[i - 1] * 5 % m;
        }
        let ksi = (0..=m).map(|i| (2.0 * std::f64::consts::PI * i as f64 / m as f64).sin_cos()).map(|(s, c)| (c, s));
        Self { n, rot, ksi: ksi.collect() }
    }

    fn reverse(&self, re: &mut [f64], im: &mut [f64]) {
        let bits = self.n.trailing_zeros();
        for i in 0..self.n {
            let j = if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
            if i < j {
                re.swap(i, j);
                im.swap(i, j);
            }
        }
    }

    pub fn forward(&self, re: &mut [f64], im: &mut [f64]) {
        self.reverse(re, im);
        let mut len = 2;
        while len <= self.n {
            let (h, q) = (len / 2, len * 4);
            for i in (0..self.n).step_by(len) {
                for j in 0..h {
                    let (c, s) = self.ksi[self.rot[j] % q * (4 * self.n / q)];
                    let (a, b) = (i + j, i + j + h);
                    let (x, y) = (re[b] * c - im[b] * s, re[b] * s + im[b] * c);
                    (re[b], im[b]) = (re[a] - x, im[a] - y);
                    (re[a], im[a]) = (re[a] + x, im[a] + y);
                }
            }
            len *= 2;
        }
    }

    pub fn inverse(&self, re: &mut [f64], im: &mut [f64]) {
        let mut len = self.n;
        while len >= 2 {
            let (h, q) = (len / 2, len * 4);
            for i in (0..self.n).step_by(len) {
                for j in 0..h {
                    let (c, s) = self.ksi[self.rot[j] % q * (4 * self.n / q)];
                    let (a, b) = (i + j, i + j + h);
                    let (x, y) = (re[a] - re[b], im[a] - im[b]);
                    (re[a], im[a]) = (re[a] + re[b], im[a] + im[b]);
                    (re[b], im[b]) = (x * c + y * s, y * c - x * s);
                }
            }
            len /= 2;
        }
        self.reverse(re, im);
        let f = 1.0 / self.n as f64;
        re.iter_mut().chain(im).for_each(|x| *x *= f);
    }
}
