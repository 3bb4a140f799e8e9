#![allow(clippy::unwrap_used)]

use super::*;

fn literal(log_n: u32, q: &[u32], p: &[u32], log_scale: u32) -> ParamsLiteral {
    ParamsLiteral { log_n, q_bits: q.to_vec(), p_bits: p.to_vec(), log_scale }
}

fn refused(l: &ParamsLiteral) -> CkksError {
    Params::new(l).map(|p| format!("{p:?}")).unwrap_err()
}
