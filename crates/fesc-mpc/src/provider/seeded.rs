//! Both halves from one seed: for tests of the online protocols alone. Compiled only under `cfg(test)`.

use std::sync::{Arc, Mutex};

use fesc_net::Channel;
use fesc_ring::Prg;

use super::Correlations;
use crate::Role;
use crate::correlation::{Field, Material, Request};
use crate::error::MpcError;

/// Says which fields of which half are set to zero: `(number of the request, role, field)`.
pub(crate) type Blank = Arc<dyn Fn(usize, Role, usize) -> bool + Send + Sync>;

/// Insecure: each party could compute the other's half.
pub(crate) struct Seeded {
    role: Role,
    prg: Prg,
    blank: Option<Blank>,
    /// What was taken so far, to be compared with the declared demand.
    pub taken: Arc<Mutex<Vec<Request>>>,
}

impl Seeded {
    pub(crate) fn new(role: Role, seed: u8) -> Self {
        Self { role, prg: Prg::from_seed([seed; 16]), blank: None, taken: Arc::default() }
    }

    /// The same with some masks removed: the control of a view test.
    pub(crate) fn without(role: Role, seed: u8, blank: Blank) -> Self {
        Self { blank: Some(blank), ..Self::new(role, seed) }
    }
}

impl Correlations for Seeded {
    fn take(&mut self, _channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        request.validate()?;
        let mut halves = [Role::P0, Role::P1].map(|r| Material::sample(&request.layout(r), &mut self.prg));
        if let (Some(blank), Ok(taken)) = (&self.blank, self.taken.lock()) {
            for role in [Role::P0, Role::P1] {
                for (f, field) in halves[role.index()].fields.iter_mut().enumerate() {
                    match field {
                        Field::Ring(v) if blank(taken.len(), role, f) => v.fill(0),
                        Field::Bytes(v) if blank(taken.len(), role, f) => v.fill(0),
                        _ => {}
                    }
                }
            }
        }
        let [m0, m1] = &mut halves;
        request.complete(m0, m1)?;
        if let Ok(mut taken) = self.taken.lock() {
            taken.push(request.clone());
        }
        let [m0, m1] = halves;
        Ok(match self.role {
            Role::P0 => m0,
            Role::P1 => m1,
        })
    }
}
