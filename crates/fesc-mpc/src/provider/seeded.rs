//! Both halves from one seed: for tests of the online protocols alone. Compiled only under `cfg(test)`.

use fesc_net::Channel;
use fesc_ring::Prg;

use super::Correlations;
use crate::Role;
use crate::correlation::{Material, Request};
use crate::error::MpcError;

/// Insecure by design: each party could compute the other's half.
pub(crate) struct Seeded {
    role: Role,
    prg: Prg,
    /// What was taken so far, to be compared with the declared demand.
    pub taken: std::sync::Arc<std::sync::Mutex<Vec<Request>>>,
}

impl Seeded {
    pub(crate) fn new(role: Role, seed: u8) -> Self {
        Self { role, prg: Prg::from_seed([seed; 16]), taken: Default::default() }
    }
}

impl Correlations for Seeded {
    fn take(&mut self, _channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        request.validate()?;
        let mut m0 = Material::sample(&request.layout(Role::P0), &mut self.prg);
        let mut m1 = Material::sample(&request.layout(Role::P1), &mut self.prg);
        request.complete(&mut m0, &mut m1);
        if let Ok(mut taken) = self.taken.lock() {
            taken.push(request.clone());
        }
        Ok(match self.role {
            Role::P0 => m0,
            Role::P1 => m1,
        })
    }
}
