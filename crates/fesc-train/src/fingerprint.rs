//! What a run was given, in 64 bits: a state is not resumed with other documents, another configuration or
//! another teacher.
//!
//! FNV-1a over words of 64 bits. It guards against mistakes, not against malice. The recipe is compared as a
//! whole elsewhere; first weights play no part after the first step.

use crate::data::Document;
use crate::run::Inputs;
use crate::{Result, TrainError};

struct Fnv(u64);

impl Fnv {
    fn take(&mut self, words: impl IntoIterator<Item = u64>) {
        words.into_iter().for_each(|word| self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3));
    }

    fn documents(&mut self, documents: &[Document]) {
        self.take([documents.len() as u64]);
        for (ids, label) in documents {
            self.take([ids.len() as u64, *label as u64]);
            self.take(ids.iter().map(|id| u64::from(*id)));
        }
    }

    fn config(&mut self, config: &fesc_model::Config) -> Result<()> {
        let text = serde_json::to_string(config);
        let text = text.map_err(|e| TrainError::Data { set: "configuration", reason: e.to_string() })?;
        self.take(text.bytes().map(u64::from));
        Ok(())
    }
}

/// The number of a run's inputs. Of a teacher the configuration, the final norm and the classifier count: no
/// two that were trained apart share them.
pub(crate) fn fingerprint(inputs: &Inputs<'_>) -> Result<u64> {
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    fnv.config(&inputs.config)?;
    fnv.documents(inputs.training);
    fnv.documents(inputs.validation);
    if let Some(teacher) = inputs.teacher {
        fnv.config(teacher.config())?;
        let weights = teacher.weights();
        let head = weights.head.iter().flat_map(|head| head.weight.iter().chain(&head.bias));
        fnv.take(weights.norm.iter().chain(head).map(|v| u64::from(v.to_bits())));
    }
    Ok(fnv.0)
}
