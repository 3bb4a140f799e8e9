//! What no statistic of a transcript sees: that ciphertexts come back re-randomised.

use fesc_ckks::wire::inspect::Object;
use fesc_infer::Reveal;
use fesc_infer::audit::Cover;
use fesc_model::plan::Projection;
use fesc_model::twin::Plan;

use super::common::serving::fresh;
use super::statistic::encrypted;
use super::wire::{Frame, Mode, session_with};
use super::{DOWN, documents, known, model_of, way};

/// `c1` of every masked ciphertext, and the seed and header of everything encrypted that went up, in order.
fn halves(frames: &[Frame]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for frame in frames.iter().filter(|f| known(f).cover == Cover::Ciphertexts) {
        for Object { header, seed, residues } in encrypted(&frame.payload) {
            match way(frame) {
                DOWN => down.push(residues[residues.len() / 2..].to_vec()),
                _ => up.push([&header[..], &seed].concat()),
            }
        }
    }
    (down, up)
}

/// What a projection gives under encryption has a `c1` that follows from the weights and from what the client
/// drew, whatever was encrypted. With another generator of the server's and the same client every one is
/// another: each is re-randomised by the server. The statistics above would not see it missing, since
/// products of uniform polynomials are uniform too.
#[test]
fn what_comes_back_encrypted_is_rerandomised_by_the_server() {
    let (ids, plan) = (&documents()[0], Plan { projection: Projection::Ckks, ..Plan::FAST });
    let run = |server: u8| {
        let generators = [server, 9, 2].map(fresh);
        halves(&session_with(model_of(5, plan), ids, Reveal::Label, Mode::Dealer, false, &generators).frames)
    };
    let [(first, sent), (second, again)] = [1, 3].map(run);
    assert!(sent == again && sent.len() > 10, "control: the client drew the same for all {} objects", sent.len());
    assert!(first.len() == second.len() && !first.is_empty());
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    assert_eq!(same, 0, "of {} masked ciphertexts", first.len());
}
