//! The paper's plan: what is under CKKS. Its scans are [`fesc_scan::Encrypted`].

mod projection;

pub use projection::CkksProjection;
