//! A circuit between shares and shares: values go up, something is computed under encryption, results come
//! down masked.
//!
//! ```text
//! both     shares of x_1 .. x_n  ->  Enc(x_1) .. Enc(x_n)     ToCiphertexts, one for each tensor
//! server   Enc(x)  ->  Enc(y)                                a kernel over a Backend
//! both     Enc(y)  ->  shares of y                           ToShares
//! ```
//!
//! Inputs of the kernel are numbered through all tensors, results through all ways down. Cost: the sum of its
//! conversions.

use fesc_ckks::Ciphertext;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use crate::backend::Ckks;
use crate::boundary::{Held, Lanes, ToCiphertexts, ToShares, log_together};
use crate::error::check_len;
use crate::keys::Keys;
use crate::{HybridError, Result};

/// The conversions around a circuit.
#[derive(Clone)]
pub struct Circuit {
    /// One for each tensor.
    pub up: Vec<ToCiphertexts>,
    /// One for each kind of results: those of the first come first.
    pub down: Vec<ToShares>,
}

/// The encrypted inputs of a circuit.
pub struct Inputs(Vec<Held>);

impl Inputs {
    /// Input `i`, expanded whenever it is asked for.
    ///
    /// # Errors
    /// [`HybridError::Length`] if there are fewer.
    pub fn get(&self, i: usize) -> Result<Ciphertext> {
        let mut at = i;
        for held in &self.0 {
            if at < held.len() {
                return held.get(at);
            }
            at -= held.len();
        }
        Err(HybridError::Length { what: "inputs of a circuit", expected: i + 1, got: i - at })
    }
}

impl Circuit {
    /// Writes the cost.
    ///
    /// # Errors
    /// None for shapes that were made.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.up.iter().try_for_each(|up| up.declare(ledger))?;
        self.down.iter().for_each(|down| down.declare(ledger));
        Ok(())
    }

    /// Logarithm of the statistical distance of one run, from both directions: masks that are bounded, and
    /// lifts that fail.
    ///
    /// # Errors
    /// None for shapes that were made.
    pub fn log_distance(&self) -> Result<f64> {
        let mut reports = self.up.iter().map(ToCiphertexts::report).collect::<Result<Vec<_>>>()?;
        reports.extend(self.down.iter().map(ToShares::report).collect::<Result<Vec<_>>>()?);
        Ok(log_together(reports.iter().map(|report| (report, 1))))
    }

    /// Shares of both lanes of all results. `evaluate` runs at the server. A party that keeps witnesses keeps
    /// all tensors and both lanes ([`Witness`](crate::verify::Witness)).
    ///
    /// # Errors
    /// Tensors or results that are not the shapes', what the kernel refuses, and those of channel and
    /// correlations.
    pub fn run(
        &self,
        party: &mut Party,
        keys: Keys<'_>,
        tensors: &[&Shared],
        evaluate: impl FnOnce(&Ckks, &Inputs) -> Result<Vec<Ciphertext>>,
    ) -> Result<Vec<Lanes>> {
        check_len("tensors of a circuit", self.up.len(), tensors.len())?;
        let shapes = self.up.iter().zip(tensors);
        let lanes = match keys {
            Keys::Client(keys) => {
                for (up, x) in shapes {
                    up.run_client(party, &keys.secret, x, &mut keys.prg)?;
                }
                self.down.iter().map(|down| down.run_client(party, &keys.secret)).collect::<Result<Vec<_>>>()?
            }
            Keys::Server(keys) => {
                let owner = keys.public.id();
                let held = shapes.map(|(up, x)| up.hold_server(party, owner, x)).collect::<Result<Vec<_>>>()?;
                let results = evaluate(&keys.backend, &Inputs(held))?;
                let count = self.down.iter().map(ToShares::ciphertexts).sum();
                check_len("results of a circuit", count, results.len())?;
                let mut rest = &results[..];
                let mut down = |down: &ToShares| {
                    let (own, after) = rest.split_at(down.ciphertexts());
                    rest = after;
                    down.run_server(party, keys.backend.evaluator(), &keys.public, own, &mut keys.fork())
                };
                self.down.iter().map(&mut down).collect::<Result<Vec<_>>>()?
            }
        };
        party.witness(tensors.iter().copied().chain(lanes.iter().flat_map(|l: &Lanes| [&l.real, &l.imaginary])));
        Ok(lanes)
    }
}

/// Values from the lanes of results: value `v` is the sum of all lanes that name it. Local.
///
/// # Errors
/// [`HybridError::Length`] for a name that is no value.
pub fn gather(
    ring: Ring,
    lanes: &Lanes,
    slots: usize,
    values: usize,
    names: impl Fn(usize) -> Vec<[Option<u32>; 2]>,
) -> Result<Shared> {
    let mut out = vec![0u64; values];
    let parts = lanes.real.values().chunks(slots.max(1)).zip(lanes.imaginary.values().chunks(slots.max(1)));
    for (i, (real, imaginary)) in parts.enumerate() {
        for ([re, im], (&x, &y)) in names(i).into_iter().zip(real.iter().zip(imaginary)) {
            for (name, part) in [(re, x), (im, y)] {
                let Some(name) = name else { continue };
                let missing =
                    HybridError::Length { what: "values of a circuit", expected: name as usize + 1, got: values };
                let value = out.get_mut(name as usize).ok_or(missing)?;
                *value = ring.add(*value, part);
            }
        }
    }
    Ok(Shared::new(ring, out))
}
