//! The paper's plan: what is under CKKS. Its scans are [`fesc_scan::Encrypted`]. Its polynomials and norms
//! are forms of the kernels on shares ([`super::fast`]).

mod projection;

pub use projection::CkksProjection;
pub(crate) use projection::check_weights;
