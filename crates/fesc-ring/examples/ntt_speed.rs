//! Microseconds per transform.
use fesc_ring::{cpu::Path, modulus::Modulus, ntt::Ntt, primes::ntt_primes};
use std::time::Instant;
fn best(mut f: impl FnMut()) -> f64 {
    let mut b = f64::MAX;
    for _ in 0..2000 {
        let t = Instant::now();
        f();
        b = b.min(t.elapsed().as_secs_f64());
    }
    b * 1e6
}
fn main() {
    for log in [11, 12, 13, 15, 16] {
        let n = 1usize << log;
        let p = ntt_primes(50, n, 1).unwrap()[0];
        let plan = Ntt::new(Modulus::new(p).unwrap(), n).unwrap();
        let a: Vec<u64> = (0..n as u64).map(|i| i.wrapping_mul(0x9E3779B97F4A7C15) % p).collect();
        let mut want = a.clone();
        plan.forward_with(Path::Portable, &mut want);
        let mut got = a.clone();
        plan.forward_with(Path::Avx512, &mut got);
        assert!(want == got, "forward {n}");
        plan.inverse_with(Path::Portable, &mut want);
        assert!(want == a);
        plan.inverse_with(Path::Avx512, &mut got);
        assert!(got == a, "inverse {n}");
        let mut buf = vec![0u64; n + 8];
        let off = buf.as_ptr().align_offset(64);
        let b = &mut buf[off..off + n];
        b.copy_from_slice(&a);
        let f = best(|| plan.forward_with(Path::Avx512, b));
        let i = best(|| plan.inverse_with(Path::Avx512, b));
        let fp = best(|| plan.forward_with(Path::Portable, b));
        let ip = best(|| plan.inverse_with(Path::Portable, b));
        let t = tfhe_ntt::prime64::Plan::try_new(n, p).unwrap();
        let tf = best(|| t.fwd(b));
        let ti = best(|| t.inv(b));
        println!("{n:6} ifma {f:.2}/{i:.2} portable {fp:.2}/{ip:.2} tfhe {tf:.2}/{ti:.2}");
    }
}
