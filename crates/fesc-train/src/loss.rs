//! Objectives: cross-entropy with label smoothing, and distillation.
//!
//! `lambda CE + (1 - lambda) T^2 KL(teacher || student)`, both softmaxes of the KL at temperature T (paper: T
//! 2, lambda 0.5); the task alone is lambda 1. Cross-entropy is against `(1 - e) onehot + e / classes`.

use candle_core::{D, Device, Result, Tensor};

/// `log softmax` of every row, from elementary operations.
pub fn log_softmax(logits: &Tensor) -> Result<Tensor> {
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
    shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)
}

/// What a student has to match.
#[derive(Debug, Clone, Copy)]
pub struct Teaching<'a> {
    /// The teacher's logits, one row per document.
    pub logits: &'a Tensor,
    /// T.
    pub temperature: f64,
    /// Weight of the cross-entropy.
    pub lambda: f64,
}

/// The sum of the documents' losses.
pub fn total(logits: &Tensor, labels: &[usize], smoothing: f64, teaching: Option<Teaching<'_>>) -> Result<Tensor> {
    let classes = logits.dim(D::Minus1)?;
    let mut target = vec![(smoothing / classes as f64) as f32; labels.len() * classes];
    for (row, &label) in target.chunks_exact_mut(classes).zip(labels) {
        let Some(entry) = row.get_mut(label) else {
            return Err(candle_core::Error::Msg(format!("label {label} of {classes} classes")));
        };
        *entry += 1.0 - smoothing as f32;
    }
    let target = Tensor::from_vec(target, (labels.len(), classes), &Device::Cpu)?;
    let task = (target * log_softmax(logits)?)?.sum_all()?.neg()?;
    let Some(Teaching { logits: teacher, temperature, lambda }) = teaching else { return Ok(task) };
    let teacher = log_softmax(&(teacher / temperature)?)?.detach();
    let student = log_softmax(&(logits / temperature)?)?;
    let kl = (teacher.exp()? * (teacher - student)?)?.sum_all()?;
    (task * lambda)? + (kl * ((1.0 - lambda) * temperature * temperature))?
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ops::testing::random;

    fn softmax(row: &[f32], t: f64) -> Vec<f64> {
        let e: Vec<f64> = row.iter().map(|v| (f64::from(*v) / t).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.iter().map(|v| v / sum).collect()
    }

    #[test]
    fn is_the_formula() {
        let (student, teacher) = (random(1, &[3, 4]), random(2, &[3, 4]));
        let (s, t) = (student.to_vec2::<f32>().unwrap(), teacher.to_vec2::<f32>().unwrap());
        let labels = [2, 0, 3];
        let (mut ce, mut kl) = (0.0, 0.0);
        for i in 0..3 {
            let p = softmax(&s[i], 1.0);
            for (k, p) in p.iter().enumerate() {
                let target = 0.1 / 4.0 + if k == labels[i] { 0.9 } else { 0.0 };
                ce -= target * p.ln();
            }
            let (p, q) = (softmax(&t[i], 2.0), softmax(&s[i], 2.0));
            kl += p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum::<f64>();
        }
        let found: f32 = total(&student, &labels, 0.1, None).unwrap().to_scalar().unwrap();
        assert!((f64::from(found) - ce).abs() < 1e-5);
        let teaching = Teaching { logits: &teacher, temperature: 2.0, lambda: 0.5 };
        let found: f32 = total(&student, &labels, 0.1, Some(teaching)).unwrap().to_scalar().unwrap();
        assert!((f64::from(found) - 0.5 * ce - 0.5 * 4.0 * kl).abs() < 1e-5);
        assert!(total(&student, &[0, 1, 4], 0.0, None).is_err());
    }
}
