//! Every kind of correlation from two parties, against the ideal functionality; declared bytes equal counted
//! ones.
#![allow(clippy::unwrap_used)]

use fesc_net::Tag;

use super::*;
use crate::correlation::{Bundle, DaBits, Leaves, Select, Transfers};
use crate::testing::{check_provider, ring, sample_requests};

fn make(role: Role, channel: &mut Channel, kind: CotKind) -> TwoParty {
    TwoParty::setup(role, channel, kind, Prg::from_seed([role.index() as u8 + 90; 16])).unwrap()
}

/// Selections of one bit (P1 corrects nothing), of one chunk, of several, and of more than a window of them.
fn selections() -> Vec<Request> {
    let shapes = [(1, 5, 1, 1), (34, 300, 1, 1), (48, 9000, 3, 1), (48, 130, 2, 2), (20, 70, 1, 2), (6, 4200, 64, 2)];
    let select = |(bits, count, thresholds, degree)| Select { ring: ring(bits), count, thresholds, degree };
    shapes.map(|shape| Request::Select(select(shape))).to_vec()
}

#[test]
fn all_kinds_fit_together() {
    let mut requests = sample_requests();
    requests.extend(selections());
    // Degenerate shapes and several chunks.
    requests.extend([
        Request::Bundle(Bundle::squares(ring(1), 3)),
        Request::Bundle(Bundle::squares(ring(48), 0)),
        Request::Bundle(Bundle::matmul(ring(20), 1, 2, 0, 3)),
        Request::Bundle(Bundle::matmul(ring(20), 1, 2, 3, 0)),
        Request::Bundle(Bundle::squares(ring(8), 5000)),
        Request::DaBits(DaBits { ring: ring(1), words: 1 }),
        Request::DaBits(DaBits { ring: ring(64), words: 300 }),
        Request::Leaves(Leaves { sender: Role::P0, count: 20_000, planes: 128 }),
        Request::Transfers(Transfers { ring: ring(1), words: 0 }),
        Request::Transfers(Transfers { ring: ring(64), words: 300 }),
    ]);
    check_provider(&requests, |role, channel| Box::new(make(role, channel, CotKind::Iknp)));
}

/// The silliest generator: P1 sends its masks in clear and P0 takes all cross terms. It takes bundles of 37
/// bits.
struct Clear;

impl CrossTerms for Clear {
    fn declared(&self, bundle: &Bundle) -> Option<(u64, u64)> {
        let sent = (0..bundle.masks.len()).map(|i| frame(bundle.ring.packed_len(bundle.mask_len(i)))).sum();
        (bundle.ring == ring(37)).then_some((0, sent))
    }

    fn run(
        &mut self,
        role: Role,
        channel: &mut Channel,
        bundle: &Bundle,
        masks: &mut [Vec<u64>],
    ) -> Result<Vec<Vec<u64>>, MpcError> {
        let mut theirs = Vec::new();
        // Mask 0 is chosen anew, as a generator may: what is used and what is kept must be the same.
        if let Some(mask) = masks.first_mut() {
            mask.iter_mut().for_each(|m| *m = bundle.ring.neg(*m ^ 1));
        }
        for mask in &*masks {
            match role {
                Role::P0 => {
                    let bytes = channel.recv(Tag(0x0412), bundle.ring.packed_len(mask.len()))?;
                    theirs.push(bundle.ring.unpack(&bytes, mask.len())?);
                }
                Role::P1 => channel.send(Tag(0x0412), bundle.ring.pack(mask))?,
            }
        }
        let cross = |p: &crate::correlation::Product| {
            let mut out = vec![0; p.out.len(&bundle.sizes)];
            if role == Role::P0 {
                let (l, r) = (p.left, p.right);
                let pairs = [(masks[l].as_slice(), theirs[r].as_slice()), (theirs[l].as_slice(), masks[r].as_slice())];
                bilinear::accumulate(bundle.ring, &ProductShape::new(bundle, p)?, &pairs, &mut out)?;
            }
            Ok(out)
        };
        bundle.products.iter().map(cross).collect()
    }
}

#[test]
fn a_generator_makes_what_it_takes() {
    check_provider(&sample_requests(), |role, channel| {
        Box::new(make(role, channel, CotKind::Iknp).with_products(Box::new(Clear)))
    });
    check_declared(|source| source.with_products(Box::new(Clear)));
}

#[test]
fn declared_bytes_are_the_counted_ones() {
    check_declared(|source| source);
}

/// Bits of corrections per element of a selection, and who sends them: no correction of `r` for the first
/// bit.
#[test]
fn the_mask_of_a_selection_is_not_sent() {
    let bytes = |bits, thresholds, degree| {
        let shape = Select { ring: ring(bits), count: 64, thresholds, degree };
        corrections(&Request::Select(shape))
    };
    let header = fesc_net::HEADER_BYTES as u64;
    // P1's transfers of a single bit define its mask; P0's still carry the daBit.
    assert_eq!(bytes(48, 1, 1), (8 * 47 + header, 0));
    assert_eq!(bytes(34, 5, 1), (8 * (5 * 33 + 4 * 34) + header, 8 * 4 * 34 + header));
    // Degree 2: squares for every bit, and one product of 48-bit numbers.
    assert_eq!(bytes(48, 3, 2), (8 * (3 * 47 + 5 * 48 + 48) + 2 * header, 8 * (5 * 48 + 48 * 49 / 2) + 2 * header));
}

fn check_declared(with: impl Fn(TwoParty) -> TwoParty + Sync) {
    let mut requests = sample_requests();
    requests.extend(selections());
    let (mut c0, mut c1) = Channel::memory_pair();
    let run = |role: Role, channel: &mut Channel| {
        let mut source = with(make(role, channel, CotKind::Silent));
        requests
            .iter()
            .map(|r| {
                let before = channel.stats().total;
                let declared = source.declared(r);
                source.take(channel, r).unwrap();
                let used = channel.stats().total.since(before);
                let counted = match role {
                    Role::P0 => (used.sent_bytes, used.received_bytes),
                    Role::P1 => (used.received_bytes, used.sent_bytes),
                };
                assert_eq!(declared, counted, "{r} at {role:?}");
            })
            .count()
    };
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| run(Role::P1, &mut c1));
        assert_eq!(run(Role::P0, &mut c0), requests.len());
        peer.join().unwrap();
    });
}
