//! From logits to a class and probabilities, and how good predictions are: a confusion matrix, accuracy and
//! macro-F1.
//!
//! Accuracy is the share of right predictions. F1 of a class is 2 TP / (2 TP + FP + FN), macro-F1 its mean
//! over the classes that occur, as a truth or as a prediction. A class that occurs in neither has no F1 and
//! is left out; one that is only ever predicted counts with 0. This is the default of scikit-learn.

use serde::Serialize;

use crate::{ModelError, Result};

/// Counts of (true class, predicted class).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Confusion {
    /// One row per true class, one column per predicted class.
    rows: Vec<Vec<u64>>,
}

impl Confusion {
    /// No prediction yet.
    pub fn new(classes: usize) -> Self {
        Self { rows: vec![vec![0; classes]; classes] }
    }

    /// Counts one prediction.
    pub fn add(&mut self, truth: usize, predicted: usize) -> Result<()> {
        let classes = self.rows.len();
        let label = if truth < classes { predicted } else { truth };
        match self.rows.get_mut(truth).and_then(|row| row.get_mut(predicted)) {
            Some(count) => *count += 1,
            None => return Err(ModelError::Label { label, classes }),
        }
        Ok(())
    }

    /// One row per true class, one column per predicted class.
    pub fn rows(&self) -> &[Vec<u64>] {
        &self.rows
    }

    /// Predictions counted.
    pub fn total(&self) -> u64 {
        self.rows.iter().flatten().sum()
    }

    /// True positives of a class, and those that are it or are taken for it, counted once for each.
    fn class(&self, class: usize) -> (u64, u64) {
        let (mut right, mut both) = (0, 0);
        for (truth, row) in self.rows.iter().enumerate() {
            for (predicted, count) in row.iter().enumerate() {
                both += count * (u64::from(truth == class) + u64::from(predicted == class));
                right += if truth == class && predicted == class { *count } else { 0 };
            }
        }
        (right, both)
    }

    /// The share of right predictions; `None` without a prediction.
    pub fn accuracy(&self) -> Option<f64> {
        let right: u64 = self.rows.iter().enumerate().filter_map(|(i, row)| row.get(i)).sum();
        Some(right as f64 / self.total() as f64).filter(|share| share.is_finite())
    }

    /// F1 of a class; `None` where it does not occur.
    pub fn f1(&self, class: usize) -> Option<f64> {
        let (right, both) = self.class(class);
        (both > 0).then(|| 2.0 * right as f64 / both as f64)
    }

    /// The mean of F1 over the classes that occur; `None` without a prediction.
    pub fn macro_f1(&self) -> Option<f64> {
        let each: Vec<f64> = (0..self.rows.len()).filter_map(|class| self.f1(class)).collect();
        Some(each.iter().sum::<f64>() / each.len() as f64).filter(|mean| mean.is_finite())
    }
}

/// The class of the largest logit; the first of several equal ones. `None` without a logit or where one is
/// not a number.
pub fn largest<T: PartialOrd + Copy>(logits: &[T]) -> Option<usize> {
    let mut best: Option<(usize, T)> = None;
    for (class, &logit) in logits.iter().enumerate() {
        // A number that is not equal to itself is none; it must not win, nor hide.
        logit.partial_cmp(&logit)?;
        if best.is_none_or(|(_, most)| logit > most) {
            best = Some((class, logit));
        }
    }
    best.map(|(class, _)| class)
}

/// Probabilities of logits, without overflow.
pub fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|v| (v - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|p| p / sum).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_and_do_not_overflow() {
        let even = softmax(&[3.0, 3.0]);
        assert_eq!(even, [0.5, 0.5]);
        let far = softmax(&[1e6, 0.0, 1e6 - 1.0]);
        assert!((far.iter().sum::<f64>() - 1.0).abs() < 1e-12 && far[1] == 0.0);
        assert!((far[0] / far[2] - std::f64::consts::E).abs() < 1e-9);
    }

    fn count(pairs: &[(usize, usize)], classes: usize) -> Confusion {
        let mut confusion = Confusion::new(classes);
        pairs.iter().for_each(|&(truth, predicted)| confusion.add(truth, predicted).unwrap());
        confusion
    }

    /// Truth 0 0 0 1 1 2, predicted 0 0 1 1 2 3 of five classes. By hand: F1 of 0 is 4/5, of 1 is 1/2, of 2
    /// and 3 is 0; class 4 does not occur.
    #[test]
    fn figures_are_those_worked_out_by_hand() {
        let confusion = count(&[(0, 0), (0, 0), (0, 1), (1, 1), (1, 2), (2, 3)], 5);
        assert_eq!(confusion.accuracy(), Some(0.5));
        assert!((confusion.macro_f1().unwrap() - (0.8 + 0.5) / 4.0).abs() < 1e-15);
        assert_eq!((confusion.f1(1), confusion.f1(3), confusion.f1(4)), (Some(0.5), Some(0.0), None));
        assert_eq!(confusion.total(), 6);
        assert_eq!(confusion.rows()[1], [0, 1, 1, 0, 0]);
        assert_eq!(serde_json::to_string(&count(&[(1, 0)], 2)).unwrap(), "[[0,0],[1,0]]");
    }

    #[test]
    fn all_right_is_one_and_nothing_is_none() {
        let right = count(&[(0, 0), (2, 2)], 4);
        assert_eq!((right.accuracy(), right.macro_f1()), (Some(1.0), Some(1.0)));
        assert_eq!((Confusion::new(3).accuracy(), Confusion::new(3).macro_f1()), (None, None));
    }

    #[test]
    fn classes_that_do_not_exist_are_refused() {
        let mut confusion = Confusion::new(2);
        assert!(matches!(confusion.add(2, 0), Err(ModelError::Label { label: 2, classes: 2 })));
        assert!(matches!(confusion.add(0, 7), Err(ModelError::Label { label: 7, classes: 2 })));
        assert_eq!(confusion.total(), 0);
    }

    #[test]
    fn the_largest_logit_is_the_first_of_equals() {
        assert_eq!(largest(&[1.0, 3.0, 3.0, -2.0]), Some(1));
        assert_eq!(largest(&[f32::NEG_INFINITY]), Some(0));
        assert_eq!(largest::<f32>(&[]), None);
        assert_eq!(largest(&[1.0, f64::NAN]), None);
        assert_eq!(largest(&[f64::NAN, 1.0]), None);
    }
}
