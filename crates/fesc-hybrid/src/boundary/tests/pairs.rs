//! Uploads made ahead come in pairs: what two halves of two pairs would do, and that they are refused.

use fesc_mpc::Shared;
use fesc_ring::Prg;

use super::back::{ENCODING, error, prepare, values};
use super::{both, keys, ring};
use crate::HybridError;
use crate::boundary::{Layout, ToCiphertexts};

/// A client that takes its second uploads and a server that takes its first.
#[test]
fn halves_of_two_pairs_are_refused_and_would_leave_every_bound() {
    let keys = keys();
    let layout = Layout::compact(&keys.params, 500).unwrap();
    let shape = ToCiphertexts::new(&keys.params, layout, values(16, 500), ENCODING).unwrap();
    let x: Vec<i64> = (0..500).map(|i| 37 * i - 9000).collect();
    let words: Vec<u64> = x.iter().map(|&v| ring(48).from_signed(v)).collect();
    let (a, b) = Shared::split(ring(48), &words, &mut Prg::from_seed([4; 16]));
    let [first, second] = [31, 32].map(|seed| prepare(&keys, &shape, seed));
    let declare = |ledger: &mut fesc_mpc::Ledger| shape.declare_ahead(ledger).unwrap();
    let mixed = both(
        declare,
        |party| shape.run_client_ahead(party, &a, second.0).unwrap(),
        |party| shape.run_server_ahead(party, &b, first.1).map(|_| ()).unwrap_err(),
    );
    assert!(matches!(mixed.server, HybridError::OtherUploads), "{}", mixed.server);
    // Control: with the check out of the way, most slots hold more than a mask is made for.
    let mixed = both(
        declare,
        |party| shape.run_client_ahead(party, &a, first.0.renamed()).unwrap(),
        |party| shape.run_server_ahead(party, &b, second.1.renamed()).unwrap(),
    );
    let carried = shape.carried() as f64 / 4096.0;
    let decrypted = keys.decrypt(&mixed.server[0]);
    let beyond = decrypted[..250].iter().filter(|z| z.re.abs() > 2f64.powi(30) * carried).count();
    assert!(beyond > 200, "{beyond} of 250 slots");
    // And halves of one pair are right.
    let (mine, theirs) = prepare(&keys, &shape, 33);
    let right = both(
        declare,
        |party| shape.run_client_ahead(party, &a, mine).unwrap(),
        |party| shape.run_server_ahead(party, &b, theirs).unwrap(),
    );
    assert!(error(&keys, &shape, &right.server, &x) <= shape.report().unwrap().log_error.exp2());
}
